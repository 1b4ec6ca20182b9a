"""The numbers that steer how a problem is read, presolved and scaled.

The two of the scaling of f and c, `LARGEST_GRADIENT` and `SMALLEST_SCALE`, lie in `standard_form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """Chosen by trial, unless a source is named."""

    # ------------------------------------------------------------------------------- `base`, `functions`, `jacobians`
    #: Points whose values are kept, the last ones: enough for a step that looks at x and a few trial points.
    cached_points: int = 8
    #: Up to so many variables a Hessian that is given as an operator is made a matrix, by applying it to unit vectors.
    small_hessian: int = 500
    #: J'w of a sparse J with at most so many entries is summed up here: SciPy spends more time on making J'.
    few_entries: int = 2000

    # ------------------------------------------------------------------------------------------------- `constraints`
    #: Points tried near x0 where a function is not defined at x0 itself, ...
    nearby_points: int = 25
    #: ... of which so many lie at the same distance; then it grows by a factor of 10.
    nearby_per_distance: int = 4
    #: The first distance is 10 to this power, relative to max(1, |x0_j|).
    nearby_first_power: int = -4
    #: ... and at most this part of the room between two bounds: a normal number is beyond 4 once in 16,000 times, so
    #: that the point, reflected once, is inside.
    nearby_room: float = 0.25
    #: Before them x0 is tried this far from its bounds, relative to max(1, |x0_j|) and to the room between two
    #: (Waechter and Biegler 2006, section 3.6: kappa_1 and kappa_2, both 1e-2).
    nearby_push: float = 1e-2

    # ----------------------------------------------------------------------------------------------------- `thinning`
    #: Dense Jacobians of fewer variables, or with fewer entries, stay dense: with matrices of this size LAPACK takes
    #: milliseconds, about what the bookkeeping of sparse ones does.
    thin_columns: int = 500
    thin_entries: int = 100_000
    #: The most entries, as a part of all, that may differ from 0 for a dense matrix to be made sparse: a few in a row,
    #: so that factors, which have some ten times as many, still have few.
    thin_share: float = 0.01
    #: ... at so many points: the start alone is often special (all variables 0, or equal).
    thin_points: int = 2

    # ---------------------------------------------------------------------------------------------------- `presolve`
    #: Numbers whose relative difference is at most this are the same but for rounding: a few units in the last place.
    rounding: float = 4.0 * float(np.finfo(np.float64).eps)
    #: Rows that cannot hold together are called infeasible if one must be violated by more than this times tol.
    certain: float = 10.0
    #: Rows whose products with a random vector differ by no more than this, relatively, may be multiples of each
    #: other; whether they are is then looked at entry by entry.
    alike: float = 1e-13

    # ----------------------------------------------------------------------------------------------- `standard_form`
    #: Where feasibility alone is asked for, rows are scaled to gradients of size 1; the gradients are taken to be at
    #: least and at most so large, so that scale factors stay harmless.
    least_row_gradient: float = 1e-10
    largest_row_gradient: float = 1e10
    #: f and rows whose size at x0 (gradient in units of the variables' sizes, or value) is below this are scaled up to
    #: size 1; ...
    least_size: float = 1e-5
    #: ... or below this after a first attempt without a solution. Above it R <= 1e-6 means four digits at least, which
    #: is the scale-free tolerance of the certificate.
    least_size_closely: float = 1e-2
    #: Largest factor by which they are scaled up; beyond, a size is more likely an accident of x0.
    largest_scale: float = 1e12
    #: A size at x0 is one, too, where gradients a typical step away are larger than by this: over such a step they
    #: change by their own size or a few times that.
    accident: float = 1e3

    # ------------------------------------------------------------------------------------------------------- `units`
    #: Variables get units of their own where a size differs from 1 by more than this factor: the method is not that
    #: sensitive; ...
    far: float = 1e6
    #: ... or by more than this after a first attempt without a solution.
    far_closely: float = 1e3
    #: No size that was judged from derivatives is larger.
    farthest: float = 1e8
    #: A finite difference, of a step sqrt(eps) max(1, |x|), must change a value by 1 / `shown` = 10 units in its last
    #: place to count.
    shown: float = 0.1
    #: A start below this is small: it may as well be meant as 0.
    small_variable: float = 1e-3
    #: A variable between two bounds is taken to be at least this part as large as they are apart (or as 1, if that is
    #: less).
    bounded_share: float = 1e-3
    #: Off a bound at 0 by less than this, other solvers call it at the bound (IPOPT's bound_relax_factor).
    hair: float = 1e-8
    #: A start or a step below this is 0 but for rounding; one above its inverse is endless.
    zero: float = 1e-12
    #: A row nearer to its side than this, relative to its terms, is as good as at its side, and says nothing of sizes.
    at_side: float = 1e-6
    #: Derivatives this much larger than others hide errors of those where they are checked together.
    hides: float = 10.0
    #: A variable is taken to be at least this part as large as it was at the start.
    start_share: float = 0.1
    #: Sweeps that bring the largest entries of rows and columns near 1 (OSQP and PIQP take 10).
    equilibrations: int = 10
    #: Rows with more entries, zeros included, are not asked how large the variables may be.
    largest_sizing: int = 1_000_000


TUNING = Tuning()
