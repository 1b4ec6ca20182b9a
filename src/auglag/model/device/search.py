"""The line search: a step and its lengths that the filter takes."""

from __future__ import annotations

from typing import Any

from auglag.model.device.newton import newton_step, post
from auglag.model.device.records import Facts, Iterate, Local, Right
from auglag.model.device.state import Run, Solved, System
from auglag.model.device.tuning import TUNING


def search(
    run: Run, it: Iterate, at: Local, values: Any, right: Right, facts: Facts
) -> tuple[Iterate, tuple[float, float]] | None:
    """A step and its lengths that the filter takes; None if there is none."""
    t = TUNING
    found, system = newton_step(run, it, at, values, right, facts)
    step, new = found.step, found.facts
    if run.mu != facts.mu:
        facts = facts._replace(phi=facts.value + run.mu / facts.mu * (facts.phi - facts.value), mu=run.mu)
    note = f"{'free' if run.free else 'fixed'} mu {run.mu:.0e} shift {system.shift:.0e} accuracy {new.accuracy:.0e}"
    length = new.longest
    run.tiny_steps = run.tiny_steps + 1 if new.move < t.tiny else 0
    if run.tiny_steps > t.tiny_steps and facts.primal > run.scaled_tol:
        run.times.log.append("no step is more than a rounding error")
        return None
    kind = "tiny" if new.move < t.tiny else run.filter.accepts(facts, new.phi, new.theta, new.slope, length)
    if not kind and new.theta >= facts.theta and run.program.m:
        corrected, kind = _corrected(run, found, system, facts)
        step, new = corrected.step, corrected.facts
        length = new.longest
    trials = 0
    while not kind and trials < t.trials and length > t.least_length:
        length, trials = 0.5 * length, trials + 1
        phi, theta, _ = run.program.trial(run.d, it, step, length, run.mu, run.elastic)
        kind = run.filter.accepts(facts, float(phi), float(theta), new.slope, length)
    run.times.trials += trials
    noise = new.phi - facts.phi <= t.noisy * max(1.0, abs(facts.phi))
    if not kind and noise and facts.theta < t.noisy and new.theta <= max(t.noisy_violation, 10.0 * facts.theta):
        length, kind = new.longest, "noise"
        run.filter.clear()
    run.times.log.append(f"{note} length {length:.1e} trials {trials} {kind or 'none'}")
    if kind == "violation":
        run.filter.remember(facts)
    if not kind:
        change = f"theta {facts.theta:.1e} to {new.theta:.1e}, phi {new.phi - facts.phi:+.1e}, slope {new.slope:.1e}"
        run.times.log.append(f"refused: {change}, error {facts.barrier_error:.1e}, dual move {new.dual_move:.1e}")
        run.refused = (step, (new.longest, new.longest_dual))
        return None
    run.soft_steps = 0
    return step, (length, new.longest_dual)


def _corrected(run: Run, found: Solved, system: System, facts: Facts) -> tuple[Solved, str]:
    """A second-order correction that the filter takes, and why; the step as it was and "" if there is none."""
    t, p, (it, at, *_) = TUNING, run.program, system
    total, last = run.rows(it, at), found
    for _ in range(t.corrections):
        total = p.longer(last.facts.longest, total, last.rows)
        right = p.right(run.d, it, at, total, run.mu, system.shift, run.elastic)
        theta = last.facts.theta
        last = post(run, run.solve(right.both[0]), system._replace(right=right))
        run.times.corrections += 1
        kind = run.filter.accepts(facts, last.facts.phi, last.facts.theta, found.facts.slope, last.facts.longest)
        if kind:
            return last, kind
        if not last.facts.theta <= t.correction_leaves * theta:
            break
    return found, ""


def softly(run: Run, it: Iterate, facts: Facts) -> tuple[Iterate, tuple[float, float]] | None:
    """The step that the filter refused, where it makes the error of the barrier problem smaller; None if not.

    IPOPT's soft restoration: near a solution a filter refuses good steps whose barrier value is rounding error.
    """
    t, refused, run.refused = TUNING, run.refused, None
    if refused is None or run.soft_steps >= t.soft_steps:
        return None
    run.soft_steps += 1
    after: Facts = run.advance(it, *refused)[-1]
    if not after.barrier_error <= t.soft_step_leaves * facts.barrier_error:
        return None
    run.filter.remember(facts)
    run.times.log.append(f"taken, error {facts.barrier_error:.1e} to {after.barrier_error:.1e}")
    return refused
