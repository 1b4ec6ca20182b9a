"""A worker process as its parent sees it: given a run, it answers with a record, whatever happens inside."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import IO, Any, final

from auglag.bench.record import Ending, Record
from auglag.bench.spec import Run
from auglag.errors import AuglagError, MissingExtra

#: Seconds between two checks of the time and the memory that a worker has used.
LOOK = 0.05
#: Seconds a worker may take to start.
START = 120.0
#: One thread each: workers share the cores.
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class RunError(AuglagError):
    """A run could not be set up: an unknown problem, a wrong option, a missing package."""


class Stopped(AuglagError):
    """The worker was told to stop in the middle of a run; there is no record."""


@final
class Worker:
    """One process that runs solvers, started when needed, and again after it had to be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None
        self._stop = threading.Event()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def run(self, run: Run) -> Record:
        """The record of the run; a kill, a crash or a hang is one, too. A run that cannot be set up raises."""
        process = self._ready()
        blank = Record(run=run, ending=Ending.CRASH)
        started = time.monotonic()
        try:
            print(json.dumps(run.as_dict()), file=process.stdin, flush=True)
        except OSError:
            self.kill()
            return replace(blank, message="the worker died before the run")
        while True:
            try:
                line = self._lines.get(timeout=LOOK)
            except queue.Empty:
                spent = time.monotonic() - started
                if self._stop.is_set():
                    self.kill()
                    raise Stopped("the worker was told to stop") from None
                if spent > run.limits.wall:
                    self.kill()
                    text = f"killed after {run.limits.wall:g} s"
                    return replace(blank, ending=Ending.TIMEOUT, seconds=spent, message=text)
                used = resident(process.pid)
                if used > run.limits.memory:
                    self.kill()
                    text = f"killed at {used:.0f} MiB of {run.limits.memory:g}"
                    return replace(blank, ending=Ending.MEMORY, seconds=spent, message=text)
                continue
            if line is None:  # the process ended by itself
                code = process.wait()
                text = f"the worker died with exit status {code}{self._end_of_stderr()}"
                self.kill()
                return replace(blank, seconds=time.monotonic() - started, message=text)
            answer = json.loads(line)
            if "error" in answer:
                raise RunError(f"{run.solver} on {run.problem}: {answer['error']}")
            return Record.from_dict(answer["record"])

    def stop(self) -> None:
        """End a run that goes on in another thread; it raises `Stopped` there."""
        self._stop.set()

    def kill(self) -> None:
        """End the process, now."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _ready(self) -> subprocess.Popen[str]:
        """The process, started and waiting."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.kill()
        self._lines = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        process = subprocess.Popen(
            [sys.executable, "-m", "auglag.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **THREADS},
        )
        self._process = process
        threading.Thread(target=_read, args=(process.stdout, self._lines), daemon=True).start()
        try:
            hello = self._lines.get(timeout=START)
        except queue.Empty:
            hello = None
        if hello is None:
            text = self._end_of_stderr()
            self.kill()
            raise RunError(f"a worker process could not be started{text}")
        return process

    def _end_of_stderr(self) -> str:
        """The last two lines that the process wrote to stderr."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f": {' / '.join(lines[-2:])[-300:]}" if lines else ""


def _read(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    """Hand the lines over; None at the end."""
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            lines.put(line)
    lines.put(None)


def resident(pid: int) -> float:
    """The memory of a process in MiB; 0 if it is gone."""
    psutil = require_psutil()
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


def require_psutil() -> Any:
    """psutil, or what to install."""
    try:
        import psutil
    except ImportError:
        raise MissingExtra("the benchmark harness needs psutil: pip install 'auglag[bench]'") from None
    return psutil
