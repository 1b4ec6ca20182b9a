"""A primal-dual interior-point method on the problem itself: an acceleration of Algorithm 1 for the large and the hard.

One factorisation a step, whatever the number of bounds that become active. `space` has the variables between their
sides, `newton` the linear systems, `filter` and `search` decide on step lengths, `restoration` returns to the
constraints, `method` is the loop. Problems with sparse matrices have a loop of their own, the package `large`, whose
steps are made of vector operations and one factorisation of a fixed pattern.
"""

from __future__ import annotations

from auglag.interior.method import Arrival, Barrier

__all__ = ["Arrival", "Barrier"]
