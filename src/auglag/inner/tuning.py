"""Every number that steers the inner solvers.

"By trial" means: chosen by trial; to be re-examined in benchmarks/ablation.py. Code reads `tuning.TUNING.name` when it
runs, so that an ablation can put another instance in its place:

    tuning.TUNING = dataclasses.replace(tuning.TUNING, qp_patience=2)

What users may want to set is not here but a field of the solver (`LBFGSB.memory`, `Panoc.memory`, ...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The numbers of `auglag.inner`, by solver. phi is the smooth part of the subproblem, |.| the 2-norm."""

    # When a solve ends, whatever the solver (`base`)

    #: A value below -`unbounded` max(1, |value at the start|) means that the subproblem has no lower bound. A
    #: subproblem that may really go that low has an attribute `unbounded` with a larger number. By trial.
    unbounded: float = 1e10
    #: So do more than `singular_points` points below the start whose residual is `singular_growth` max(1, that of the
    #: start): the solve runs into a singularity, as log(x) at 0. By trial.
    singular_growth: float = 1e9
    singular_points: int = 20
    #: A solve with at least this many points at which phi is not defined, more than half of all, has come to the edge
    #: of where it is defined. By trial.
    undefined_points: int = 50
    #: Most evaluations of a solve: `evaluations_per_iteration` per iteration it may take, plus `evaluations_extra`. No
    #: solver needs so many on average unless its line searches fail. By trial.
    evaluations_per_iteration: int = 5
    evaluations_extra: int = 100
    #: Rounding error of phi + g at the start, relative to max(1, |value|), up to which a point counts as not above it.
    start_noise: float = 1e-13
    #: A solve that stalls hands back its lowest point instead of the most stationary one if that has come down by less
    #: than this part of the way: it is the start then, or as good as that.
    near_start: float = 1e-2
    #: ... and values fell by more than this, relative to max(1, |value|) at the start.
    clear_fall: float = 1e-3
    #: A look far ahead goes in at most so many strides, each this many times as long as the one before: 4^60 = 1e36.
    probe_strides: int = 60
    probe_growth: float = 4.0

    # Which solver `inner="auto"` takes (package `inner`)

    #: Most variables up to which models with a Hessian learnt from first derivatives are used whatever the rows: few
    #: pairs know little of what many variables do. By trial.
    largest_learnt_alone: int = 100
    #: Fewer rows than this part of the variables are few: they determine next to nothing. By trial.
    few_rows: float = 0.1
    #: Most variables with a learnt Hessian beside a dense Jacobian: it is a dense matrix then. By trial.
    largest_learnt: int = 1500

    # Newton's method on models (`qp`)

    #: Matrices are dense up to n + m = `dense_size`, whatever the problem returns; and with at most `dense_variables`
    #: variables up to n m = `dense_entries`, since only a matrix of the size of the variables is factorised. By trial.
    dense_size: int = 450
    dense_variables: int = 150
    dense_entries: int = 100_000
    #: Iterations in a row that lower neither the value beyond rounding errors nor the residual to `qp_less` times the
    #: best, after which the solve has stalled. By trial.
    qp_patience: int = 4
    qp_less: float = 0.7
    #: First radius of the trust region, in units of max(1, largest |x_i|); far, so that it hardly matters. By trial.
    qp_first_radius: float = 10.0
    #: How often one solve may reduce the radius because no step was found, to `qp_cut` of the step; not below
    #: `qp_least_radius` max(1, largest |x_i|), nor for steps below `qp_least_step`. By trial.
    qp_cuts: int = 10
    qp_cut: float = 0.1
    qp_least_radius: float = 1e-6
    qp_least_step: float = 1e-8
    #: Steps shorter than this multiple of max(1, largest |x_i|) are rounding errors.
    qp_no_step: float = 1e-15
    #: After a line search below `qp_short` the radius is `qp_after_short` times the step taken, at least
    #: `qp_radius_floor`; after a full step that reached `qp_at_edge` of it, `qp_grow` times as large; after another
    #: full step at least `qp_after_full` times the step. By trial.
    qp_short: float = 0.2
    qp_after_short: float = 2.0
    qp_radius_floor: float = 1e-8
    qp_at_edge: float = 0.99
    qp_grow: float = 4.0
    qp_after_full: float = 10.0
    #: The line search asks for this part of the decrease that the slope promises (Nocedal and Wright, Numerical
    #: Optimization, 2nd ed., section 3.1: c_1 = 1e-4).
    qp_decrease: float = 1e-4
    #: Most step lengths tried; the first `qp_halvings` reductions halve it, later ones divide it by four. By trial.
    qp_trials: int = 30
    qp_halvings: int = 3
    #: Rounding error of phi, relative to max(1, |phi|), in line searches and the test for a stall.
    qp_noise: float = 1e-14
    #: Added to the absolute diagonal of the Hessian where nothing but a diagonal model has a step. By trial.
    qp_diagonal: float = 1e-3

    # L-BFGS-B (`lbfgsb`, `_setulb`)

    #: Restarts in a row without a residual below `lbfgsb_less` times the best, or a lower value, after which the solve
    #: has stalled. By trial.
    lbfgsb_patience: int = 3
    lbfgsb_less: float = 0.5
    #: Iterations between two looks far ahead for a subproblem without a lower bound. By trial.
    lbfgsb_probe_every: int = 20
    #: Where phi is not defined SciPy is given a value above the base by the slope and this multiple of max(1, |base|).
    lbfgsb_above: float = 1e-3
    #: Variables within this multiple of max(1, |x_i|) of a bound that the gradient pushes them against are moved onto
    #: it.
    lbfgsb_snap: float = 1e-8
    #: Most evaluations of one line search of SciPy's routine (its default is 20). By trial.
    lbfgsb_line_search: int = 30

    # Newton's method with conjugate gradients (`newton`; Lin and More 1999, SIAM J. Optim. 9)

    #: Iterations in a row that lower neither the value beyond rounding errors nor the residual to `cg_less` times the
    #: best, after which the solve has stalled. By trial.
    cg_patience: int = 4
    cg_less: float = 0.9
    #: CG solves the Newton system to min(`cg_forcing`, |gradient|) times |gradient|: quadratic convergence (Nocedal and
    #: Wright, section 7.1, has min(0.5, ...); the value by trial), in at most 2 n + `cg_extra` iterations (n +
    #: rounding).
    cg_forcing: float = 1e-4
    cg_extra: int = 10
    #: Curvature below this multiple of the direction's square counts as not positive.
    cg_flat: float = 1e-14
    #: Radius of the trust region: times `cg_cut` of the step if none was found, until below `cg_least_radius` max(1,
    #: |x|); times `cg_grow` after a full step to its edge; `cg_after_short` times the step taken, at least
    #: `cg_radius_floor`, if that was shorter than `cg_short`. By trial.
    cg_cut: float = 0.1
    cg_least_radius: float = 1e-15
    cg_grow: float = 4.0
    cg_short: float = 0.25
    cg_after_short: float = 2.0
    cg_radius_floor: float = 1e-14
    #: Sufficient decrease (Nocedal and Wright, section 3.1) and most step lengths tried; they are halved while above
    #: `cg_halve_above` and divided by four from there on. By trial.
    cg_decrease: float = 1e-4
    cg_trials: int = 40
    cg_halve_above: float = 0.1
    #: Rounding error of phi, relative to max(1, |phi|); an increase of `cg_tolerated` times that is no increase, and a
    #: decrease of less than `cg_doubtful` times that is decided by the residual. By trial.
    cg_noise: float = 1e-15
    cg_tolerated: int = 10
    cg_doubtful: int = 100

    # What first-order methods share (`first_order`)

    #: Rounding error assumed in a computed value of phi, relative to max(1, |phi|). By trial.
    round_off: float = 1e-13
    #: Differences of phi below this, relative to max(1, |phi|), are believed only as far as gradients confirm them. By
    #: trial.
    doubt: float = 1e-11
    #: Most reductions of the step within one iteration: 2^60 = 1e18.
    shrinks: int = 60
    #: The first estimate of the Lipschitz constant L of grad phi is a second difference over `lipschitz_length` max(1,
    #: |x|), at most `lipschitz_trials` lengths, each `lipschitz_shorter` times the one before, until phi is defined; at
    #: least `lipschitz_least` |grad phi| / max(1, |x|), so that no step is beyond all scales. By trial.
    lipschitz_length: float = 1e-3
    lipschitz_trials: int = 8
    lipschitz_shorter: float = 0.1
    lipschitz_least: float = 1e-6
    #: An L that is too small is raised to `raise_margin` times the curvature met, but at least `raise_least` and at
    #: most `raise_most` times; `raise_undefined` times where phi is not defined. By trial.
    raise_margin: float = 1.05
    raise_least: float = 2.0
    raise_most: float = 10.0
    raise_undefined: float = 4.0
    #: Iterations in a row without a residual below `rest_less` times the best, or a lower value, after which a solve
    #: has come to rest. By trial.
    rest_patience: int = 200
    rest_less: float = 0.999

    # Proximal gradient methods (`proximal_gradient`)

    #: L is halved after `calm_steps` steps with a curvature below `calm` L. By trial.
    calm: float = 0.25
    calm_steps: int = 5
    calm_factor: float = 0.5
    #: Relative rounding error up to which the curvature may exceed L.
    bound_noise: float = 1e-10
    #: Spectral steps stay between these multiples of the first step (Birgin, Martinez and Raydan 2000 have 1e-30 and
    #: 1e30). By trial.
    spectral_least: float = 1e-12
    spectral_largest: float = 1e12
    #: A spectral step that fails is reduced to the minimiser of the quadratic it met, within these multiples of it
    #: (Birgin, Martinez and Raydan 2000: sigma_1 = 0.1, sigma_2 = 0.9; the second by trial).
    spectral_least_cut: float = 0.1
    spectral_most_cut: float = 0.5
    #: Without positive curvature the next step is this many times as long. By trial.
    spectral_growth: float = 10.0
    #: The short step is taken where it is below this multiple of the long one (Frassoldati, Zanghirati and Zanni 2008,
    #: ABBmin: tau = 0.8).
    spectral_short: float = 0.8
    #: s'r below this multiple of |s| |r| counts as not positive.
    spectral_flat: float = 1e-16

    # PANOC (`panoc`)

    #: gamma L, the part of the step 1/L that is taken; below 1, so that a forward-backward step decreases the envelope
    #: (alpha of Stella, Themelis, Sopasakis and Patrinos 2017; the value is alpaqa's and OpEn's).
    panoc_fraction: float = 0.95
    #: Decrease asked of the line search, in units of |x - xbar|^2 / gamma; less than (1 - `panoc_fraction`) / 2. By
    #: trial.
    panoc_decrease: float = 0.01
    #: The line search tries t = 1, 1/2, ..., 1 / 2^`panoc_halvings`, then the plain forward-backward step. By trial.
    panoc_halvings: int = 6
    #: Most times that the equations of the direction are solved with another guess of the kinks, whose place has
    #: settled when it moves by less than `panoc_settled` relatively. By trial.
    panoc_rounds: int = 5
    panoc_settled: float = 1e-9
    #: A pair with s'r below this multiple of |s| |r| is not taken (cautious update of Li and Fukushima 2001; the value
    #: by trial).
    panoc_cautious: float = 1e-10
    #: Relative error of the secant equation of the newest pair above which old pairs are dropped. By trial.
    panoc_secant_error: float = 1e-6
    #: g'' is measured by a difference of the prox over this length, relative to 1 + |u_i|; slopes of the prox are taken
    #: to lie between `panoc_least_slope` and 1, and to be 1 within that. By trial.
    panoc_bend_length: float = 1e-6
    panoc_least_slope: float = 1e-8
    #: gamma is doubled when the last `panoc_calm_steps` curvatures were below `panoc_calm` L, or the last one below
    #: `panoc_flat` L. By trial.
    panoc_calm_steps: int = 10
    panoc_calm: float = 0.25
    panoc_flat: float = 1e-6
    panoc_growth: float = 2.0
    #: xbar is offered as a solution when |R| is at most tol, then, if it was none, at most this multiple of tol. By
    #: trial.
    panoc_gate: float = 0.5
    #: Where values do not tell points apart, the residual must fall to this part. By trial.
    panoc_nearer: float = 0.9

    # The proximal point method (`proximal_point`)

    #: First modulus of weak convexity tried, and the least one, relative to the Lipschitz estimate. By trial.
    rho_first: float = 1e-2
    rho_least: float = 1e-6
    #: rho is raised to `rho_margin` times the concavity met, at least times `rho_growth`; else times `rho_fall`. By
    #: trial.
    rho_margin: float = 1.1
    rho_growth: float = 2.0
    rho_fall: float = 0.5
    #: L of the next proximal subproblem, relative to that of the last. By trial.
    lipschitz_again: float = 0.5
    #: As `rest_patience`, in accelerated gradient steps, which do not go down every time. By trial.
    proximal_point_patience: int = 1000


TUNING = Tuning()
