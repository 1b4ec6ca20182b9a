"""Solvers that misbehave, each in its own way, and a slow one; for tests of the harness."""

import os
import signal
import sys
import time

import numpy as np

from auglag.bench.baselines import Answer, Baseline


class Still(Baseline):
    """Returns x0."""

    name, requires, defaults = "still", (), {"tol": 1e-6, "seconds": 0.0}

    def solve(self, problem, options, seed):
        time.sleep(options["seconds"])
        problem.f(problem.x0), problem.grad(problem.x0)
        return Answer(problem.x0, False, "did not move")


class Hangs(Still):
    name = "hangs"

    def solve(self, problem, options, seed):
        while True:
            time.sleep(1)


class Grows(Still):
    name = "grows"

    def solve(self, problem, options, seed):
        blocks = []
        while True:
            blocks.append(np.ones(10 * 2**17))
            time.sleep(0.005)


class Crashes(Still):
    name = "crashes"

    def solve(self, problem, options, seed):
        os.kill(os.getpid(), signal.SIGSEGV)


class Exits(Still):
    name = "exits"

    def solve(self, problem, options, seed):
        os._exit(3)


class Raises(Still):
    name = "raises"

    def solve(self, problem, options, seed):
        problem.grad(problem.x0 + 1.0)
        raise RuntimeError("roundoff-limited\nsecond line")


class Talks(Still):
    name = "talks"

    def solve(self, problem, options, seed):
        print("This is my banner")
        sys.stdout.flush()
        os.write(1, b"and this comes from C\n")
        return super().solve(problem, options, seed)


class Lies(Still):
    name = "lies"

    def solve(self, problem, options, seed):
        return Answer(problem.x0 + 1e3, True, "optimal", y=np.zeros(problem.m))


class Nans(Still):
    name = "nans"

    def solve(self, problem, options, seed):
        return Answer(np.full(problem.n, np.nan), True, "optimal")


class Greedy(Still):
    """Asks for gradients without end and swallows what it is told."""

    name = "greedy"

    def solve(self, problem, options, seed):
        x = problem.x0.copy()
        for k in range(10**6):
            try:
                problem.grad(x + 1e-9 * k)
            except Exception:
                if problem.gradients > 10**5:
                    raise
                break
        return Answer(x, False, "gave up")


class Nonsense(Still):
    """Returns what is no point."""

    name = "nonsense"

    def solve(self, problem, options, seed):
        return Answer("abc", True, "optimal")
