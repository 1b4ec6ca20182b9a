"""Interior points for large sparse problems: vector operations and one factorisation of a fixed pattern a step.

`loop` is the method, one step on a page. `start` says where it begins, `mu` how the barrier parameter falls,
`predictor` which directions there are, `search` how far they are followed, `damping` what follows where they were too
long, `ends` when a run is over. `sides`, `values` and `iterate` are what is known at a point; `directions` has the
linear systems, `limited_memory` curvature from gradients. Three ways out of the loop: `return_to_rows` where no step is
left, `onto_sides` close to a solution, and `quadratic` where derivatives turn out to be constant.
"""

from __future__ import annotations

from auglag.interior.large.loop import Large

__all__ = ["Large"]
