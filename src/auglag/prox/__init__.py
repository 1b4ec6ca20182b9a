"""Prox terms: the convex, possibly nonsmooth part g of the objective, and simple sets. `base` has the contract."""

from auglag.prox.base import ProxTerm, SeparableTerm, Zero
from auglag.prox.boxes import Box, LinfBall, NonNegative
from auglag.prox.custom import Custom, CustomDomain, as_term
from auglag.prox.norms import L1, ElasticNet, GroupL2, L2Norm, LinfNorm, SquaredL2
from auglag.prox.sets import AffineSet, HalfSpace, L1Ball, L2Ball, Simplex
from auglag.prox.structured import NuclearNorm, TotalVariation1D
from auglag.prox.sums import BlockSum, BlockSumSeparable, Bounded, SeparableSum, add_bounds
from auglag.prox.transforms import Scaled, ScaledSeparable, ScaledTerm, Translated, TranslatedSeparable, TranslatedTerm

#: Every concrete term; the contract tests demand an instance of each.
TERMS: tuple[type[ProxTerm], ...] = (
    *(Zero, Box, L1, SquaredL2, ElasticNet, L2Norm, GroupL2, LinfNorm, NuclearNorm, TotalVariation1D),
    *(L1Ball, L2Ball, Simplex, HalfSpace, AffineSet, BlockSum, BlockSumSeparable, Bounded),
    *(ScaledTerm, ScaledSeparable, TranslatedTerm, TranslatedSeparable, Custom, CustomDomain),
)

__all__ = [
    "L1",
    "TERMS",
    "AffineSet",
    "Box",
    "Custom",
    "ElasticNet",
    "GroupL2",
    "HalfSpace",
    "L1Ball",
    "L2Ball",
    "L2Norm",
    "LinfBall",
    "LinfNorm",
    "NonNegative",
    "NuclearNorm",
    "ProxTerm",
    "Scaled",
    "SeparableSum",
    "SeparableTerm",
    "Simplex",
    "SquaredL2",
    "TotalVariation1D",
    "Translated",
    "Zero",
    "add_bounds",
    "as_term",
]
