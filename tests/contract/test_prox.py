"""What every prox term promises, checked on several instances of each registered class."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auglag import prox
from auglag.errors import InputError
from auglag.prox import (
    L1,
    TERMS,
    AffineSet,
    Box,
    Custom,
    ElasticNet,
    GroupL2,
    HalfSpace,
    L1Ball,
    L2Ball,
    L2Norm,
    LinfBall,
    LinfNorm,
    NonNegative,
    NuclearNorm,
    ProxTerm,
    Scaled,
    SeparableSum,
    SeparableTerm,
    Simplex,
    SquaredL2,
    TotalVariation1D,
    Translated,
    Zero,
    add_bounds,
    as_term,
)

N = 12  # the number of variables of every instance
RNG = np.random.default_rng(20240731)
OFFSET = RNG.normal(size=N)
LOWER = np.array([-1.0, 0.0, -np.inf, 2.0, -3.0, -np.inf, 0.5, -1e-3, -1e4, -1.0, 0.0, 1.0])
UPPER = np.array([1.0, 0.0, 5.0, 2.0, np.inf, np.inf, 0.75, 1e-3, 1e5, 0.0, 1.0, np.inf])
WIDE = RNG.normal(size=(4, N))
DEPENDENT = np.vstack([WIDE, WIDE[0] + 2.0 * WIDE[1], 1e5 * WIDE[2]])


def _log_value(x):
    return -float(np.sum(np.log(x))) if np.all(x > 0) else math.inf


def _log_prox(x, step):
    root = np.sqrt(x * x + 4.0 * step)
    return np.where(x >= 0, (x + root) / 2.0, 2.0 * step / (root - np.minimum(x, 0.0)))


CUSTOM_L1 = Custom(lambda x: float(np.abs(x).sum()), lambda x, t: np.sign(x) * np.maximum(np.abs(x) - t, 0.0))
CUSTOM_LOG = Custom(_log_value, _log_prox)
CUSTOM_BOX = Custom(
    lambda x: 0.0 if np.all(np.abs(x) <= 1) else math.inf, lambda x, t: np.clip(x, -1, 1), lambda x: np.clip(x, -1, 1)
)

INSTANCES: dict[str, ProxTerm] = {
    "zero": Zero(),
    "box": Box(LOWER, UPPER),
    "box-scalars": Box(-0.5, 2.0),
    "box-mixed": Box(-1.0, UPPER + 1.0),
    "nonnegative": NonNegative(),
    "linf-ball": LinfBall(0.7),
    "linf-ball-moved": LinfBall(0.7, OFFSET),
    "l1": L1(0.3),
    "l1-weights": L1(np.arange(N) / 3.0),
    "squared": SquaredL2(2.5),
    "squared-0": SquaredL2(0.0),
    "elastic": ElasticNet(0.5, 3.0),
    "l2": L2Norm(1.7),
    "l2-0": L2Norm(0.0),
    "groups": GroupL2([[0, 1, 2], [7], [11, 3, 5, 4]], 1.3),
    "groups-weights": GroupL2([np.arange(6), np.arange(6, 12)], [0.0, 2.0]),
    "linf": LinfNorm(2.0),
    "linf-0": LinfNorm(0.0),
    "nuclear": NuclearNorm((3, 4), 0.8),
    "nuclear-tall": NuclearNorm((6, 2), 2.0),
    "nuclear-row": NuclearNorm((1, 12), 1.0),
    "tv": TotalVariation1D(0.6),
    "tv-0": TotalVariation1D(0.0),
    "l1-ball": L1Ball(1.5),
    "l1-ball-large": L1Ball(1e5),
    "l2-ball": L2Ball(2.0),
    "l2-ball-moved": L2Ball(0.5, OFFSET),
    "simplex": Simplex(),
    "simplex-large": Simplex(1e4),
    "half-space": HalfSpace(OFFSET, 0.4),
    "half-space-0": HalfSpace(1e5 * OFFSET, 0.0),
    "affine": AffineSet(WIDE, np.ones(4)),
    "affine-dependent": AffineSet(DEPENDENT, DEPENDENT @ np.arange(N)),
    "sum": SeparableSum([(slice(0, 4), Simplex(2.0)), ([8, 5], L1(2.0)), (np.array([6, 10, 11]), TotalVariation1D())]),
    "sum-domain": SeparableSum([([0, 2], L2Ball(1.0)), ([1, 11], CUSTOM_LOG)]),
    "sum-separable": SeparableSum([([3, 1, 0], L1([1.0, 2.0, 0.0])), (slice(4, 8), Box(-1.0, [0.0, 1.0, 2.0, 3.0]))]),
    "sum-boxes": SeparableSum([([3, 1, 0], NonNegative()), (slice(4, 8), Box(-1.0, [0.0, 1.0, 2.0, 3.0]))]),
    "bounded-l1": add_bounds(L1(0.5), LOWER, UPPER),
    "bounded-elastic": add_bounds(ElasticNet(1.0, 1.0), -0.2, 0.4),
    "bounded-sum": add_bounds(SeparableSum([([3, 1, 0], L1(2.0)), ([4, 5], NonNegative())]), -0.5, 1.5),
    "bounded-boxes": add_bounds(SeparableSum([([3, 1, 0], NonNegative())]), -0.5, 1.5),
    "scaled-l2": Scaled(L2Norm(), 3.0),
    "scaled-linf": Scaled(LinfNorm(), 1e-2),
    "scaled-simplex": Scaled(Simplex(), 7.0),
    "scaled-l1": Scaled(L1(), 3.0),
    "scaled-box": Scaled(Box(-1.0, 1.0), 3.0),
    "moved-l1": Translated(L1(0.5), OFFSET),
    "moved-elastic": Translated(ElasticNet(), 2.0),
    "moved-l2": Translated(L2Norm(), OFFSET),
    "moved-groups": Translated(GroupL2([[0, 1, 2], [7, 8]]), OFFSET),
    "moved-linf": Translated(LinfNorm(), OFFSET),
    "moved-linf-far": Translated(LinfNorm(), 1e4 * OFFSET),
    "moved-nuclear": Translated(NuclearNorm((4, 3)), OFFSET),
    "moved-tv": Translated(TotalVariation1D(), OFFSET),
    "moved-l1-ball": Translated(L1Ball(), OFFSET),
    "moved-l2-ball": Translated(L2Ball(), OFFSET),
    "moved-simplex": Translated(Simplex(), OFFSET),
    "moved-half-space": Translated(HalfSpace(OFFSET, 1.0), 3.0),
    "moved-affine": Translated(AffineSet(DEPENDENT, np.zeros(6)), OFFSET),
    "moved-box": Translated(Box(LOWER, 1e6), OFFSET + 1.0),
    "moved-bounded": Translated(add_bounds(L1(0.5), LOWER, UPPER), OFFSET),
    "moved-sum": Translated(SeparableSum([([1, 2], L2Ball()), ([5, 4], L1(2.0))]), OFFSET),
    "moved-scaled": Translated(Scaled(LinfNorm(), 0.3), OFFSET),
    "moved-twice": Translated(Translated(L1Ball(2.0), OFFSET), 1.0),
    "moved-custom": Translated(CUSTOM_LOG, OFFSET),
    "custom-l1": CUSTOM_L1,
    "custom-log": CUSTOM_LOG,
    "custom-box": CUSTOM_BOX,
    "custom-domain": CUSTOM_LOG.domain(),
    "custom-domain-given": CUSTOM_BOX.domain(),
}
EXACT = {name: term for name, term in INSTANCES.items() if term.exact}
#: Without a given projection the domain of a custom term is only approached: its prox is not quite a projection.
TRUE_PROX = {name: term for name, term in INSTANCES.items() if name != "custom-domain"}
SEPARABLE = {name: term for name, term in INSTANCES.items() if isinstance(term, SeparableTerm)}
SCALES = [1e-6, 1e-3, 1.0, 1e3, 1e6]
STEPS = [1e-3, 0.1, 1.0, 30.0, 1e3]


def instances(terms=INSTANCES):
    return pytest.mark.parametrize("term", list(terms.values()), ids=list(terms))


def points(seed: int = 0):
    """(x, step): random, tied, sparse and constant vectors at all scales."""
    rng = np.random.default_rng(seed)
    for scale in SCALES:
        for step in STEPS:
            yield scale * rng.normal(size=N), step
            yield scale * rng.integers(-2, 3, size=N), step
            yield scale * (1.0 + 0.01 * rng.normal(size=N)), step
            yield scale * rng.normal(size=N) * (rng.random(N) < 0.3), step
    yield np.zeros(N), 1.0
    yield np.ones(N), 1.0


def norm(x):
    return float(np.linalg.norm(x))


def rounding_scale(term, x, p, step):
    """The size of the numbers that enter (x - p) / step and dg(p)."""
    return (norm(x) + norm(p) + norm(getattr(term, "offset", 0.0))) * (1.0 + 1.0 / step)


def directions(rng, p, size):
    """Vectors to project on the subdifferential: random ones, sparse ones and 0, at the scale `size`."""
    yield size * rng.normal(size=N)
    yield size * rng.integers(-1, 2, size=N)
    yield 1e-3 * size * rng.normal(size=N)
    yield np.zeros(N)


def random_domain_points(term, rng, p, scale):
    """Points of dom g near p and far from it."""
    domain = term.domain()
    for size in (1e-3 * scale, scale, 10.0 * scale):
        yield domain.prox(p + size * rng.normal(size=N), 1.0)


def test_every_registered_class_has_an_instance():
    assert set(TERMS) == {type(term) for term in INSTANCES.values()}


def test_every_concrete_term_is_registered():
    def leaves(cls):
        below = cls.__subclasses__()
        return {leaf for sub in below for leaf in leaves(sub)} if below else {cls}

    found = {cls for cls in leaves(ProxTerm) if cls.__module__.startswith("auglag.prox.")}
    own = {cls for cls in found if not inspect.isabstract(cls)}
    # A dataclass with slots is made twice; the first, unreachable, class has the same qualified name.
    assert {cls.__qualname__ for cls in own} == {cls.__qualname__ for cls in TERMS}
    assert all(getattr(prox, cls.__name__) is cls for cls in TERMS)


@instances(TRUE_PROX)
def test_the_prox_satisfies_its_optimality_condition(term):
    for x, step in points():
        p = term.prox(x, step)
        v = (x - p) / step
        scale = rounding_scale(term, x, p, step)
        assert term.subdiff_distance(p, v) <= 1e-10 * scale + 1e-12, (x, step)


@instances(EXACT)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    x=arrays(
        np.float64,
        N,
        elements=st.one_of(
            st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, 1e-6, -1e6]), st.floats(-1e6, 1e6, allow_subnormal=False)
        ),
    ),
    step=st.sampled_from(STEPS),
)
def test_the_prox_satisfies_its_optimality_condition_for_odd_points(term, x, step):
    p = term.prox(x, step)
    v = (x - p) / step
    scale = rounding_scale(term, x, p, step)
    assert term.value(p) < math.inf
    assert term.subdiff_distance(p, v) <= 1e-8 * scale + 1e-12


@instances(TRUE_PROX)
def test_the_prox_minimises_its_objective(term):
    rng = np.random.default_rng(1)
    for x, step in points(1):
        p = term.prox(x, step)
        value = term.value(p)
        assert math.isfinite(value)
        for z in random_domain_points(term, rng, p, norm(x) + 1e-9):
            gap = term.value(z) - value + (norm(z - x) ** 2 - norm(p - x) ** 2) / (2 * step)
            size = abs(value) + abs(term.value(z)) + (norm(z - x) ** 2 + norm(p - x) ** 2) / (2 * step)
            assert gap >= -1e-11 * size


@instances(TRUE_PROX)
def test_the_prox_is_firmly_nonexpansive(term):
    rng = np.random.default_rng(2)
    for x, step in points(2):
        y = x + norm(x) * 10.0 ** rng.uniform(-4, 1) * rng.normal(size=N)
        p, q = term.prox(x, step), term.prox(y, step)
        assert norm(p - q) ** 2 <= (p - q) @ (x - y) + 1e-12 * (norm(x) + norm(y) + norm(p)) * norm(x - y) + 1e-13


@instances(EXACT)
def test_projected_subgradients_satisfy_the_subgradient_inequality(term):
    rng = np.random.default_rng(3)
    for x, step in points(3):
        p = term.prox(x, step)
        for v in directions(rng, p, norm(x) / step):
            s = term.project_subdiff(p, v)
            for z in random_domain_points(term, rng, p, norm(x) + 1e-9):
                size = abs(term.value(z)) + abs(term.value(p)) + norm(s) * (norm(z) + norm(p))
                assert term.value(z) >= term.value(p) + s @ (z - p) - 1e-11 * size - 1e-13


@instances(EXACT)
def test_projected_subgradients_lead_back_by_the_prox(term):
    rng = np.random.default_rng(4)
    for x, step in points(4):
        p = term.prox(x, step)
        for v in directions(rng, p, norm(x) / step):
            s = term.project_subdiff(p, v)
            assert norm(term.prox(p + step * s, step) - p) <= 1e-11 * (norm(p) + step * norm(s)) + 1e-13


@instances(EXACT)
def test_the_projection_on_the_subdifferential_is_the_nearest_point(term):
    rng = np.random.default_rng(5)
    for x, step in points(5):
        p = term.prox(x, step)
        vs = list(directions(rng, p, norm(x) / step)) + [(x - p) / step]
        ss = [term.project_subdiff(p, v) for v in vs]
        for v, s in zip(vs, ss, strict=True):
            noise = 1e-11 * (norm(v) + norm(s) + norm(p)) + 1e-13
            assert norm(term.project_subdiff(p, s) - s) <= noise
            assert term.subdiff_distance(p, v) == pytest.approx(norm(v - s), rel=1e-9, abs=noise)
            for other in ss:
                assert norm(v - s) <= norm(v - other) * (1 + 1e-9) + noise
                # A convex set lies behind the hyperplane through the projection.
                assert (v - s) @ (other - s) <= noise * (norm(v - s) + norm(other - s)) + 1e-13


@instances()
def test_the_domain_is_a_projection_on_points_of_finite_value(term):
    domain = term.domain()
    assert type(domain.domain()) is type(domain)
    domain.check(N)
    for x, _ in points(6):
        p = domain.prox(x, 1.0)
        assert term.value(p) < math.inf
        assert domain.value(p) == 0.0
        np.testing.assert_allclose(domain.prox(p, 5.0), p, rtol=1e-13, atol=1e-13 * norm(x) * (not domain.exact))
        assert domain.value(term.prox(x, 1.0)) == 0.0


@instances()
def test_methods_neither_change_nor_return_their_arguments(term):
    for make in (term.domain().prox, term.prox):
        x = np.linspace(0.1, 0.2, N)
        x.flags.writeable = False
        for point in (x, make(x, 1.0)):
            point.flags.writeable = False
            p = make(point, 1.0)
            assert p.dtype == np.float64
            assert p.shape == (N,)
            assert not np.shares_memory(p, point)
            p[:] = 7.0  # and it is ours
    p = term.prox(x, 1.0)
    v = np.zeros(N)
    for arg in (p, v):
        arg.flags.writeable = False
    assert not np.shares_memory(term.project_subdiff(p, v), v)
    assert np.isfinite(term.subdiff_distance(p, v))


@instances()
def test_a_value_is_never_finite_where_the_point_is_not_a_number(term):
    assert not math.isfinite(term.value(np.full(N, math.nan))) or isinstance(term, Zero)


@instances(SEPARABLE)
def test_restriction_agrees_with_the_whole(term):
    rng = np.random.default_rng(7)
    order = rng.permutation(N)
    parts = [order[:5], order[5:6], order[6:]]
    for x, step in points(7):
        p = term.prox(x, step)
        restricted = [term.restrict(part) for part in parts]
        for part, piece in zip(parts, restricted, strict=True):
            piece.check(part.size)
            np.testing.assert_array_equal(piece.prox(x[part], step), p[part])
            for one, two in zip(piece.subdiff_interval(p[part]), term.subdiff_interval(p), strict=True):
                np.testing.assert_array_equal(one, two[part])
        total = sum(piece.value(p[part]) for part, piece in zip(parts, restricted, strict=True))
        assert total == pytest.approx(term.value(p), rel=1e-12)


@instances()
def test_a_box_clips(term):
    bounds = term.box(N)
    if bounds is None:
        assert not isinstance(term, Zero | Box)
        return
    for x, step in points(8):
        np.testing.assert_array_equal(term.prox(x, step), np.clip(x, *bounds))
        assert term.value(np.clip(x, *bounds)) == 0.0
        assert (term.value(x) == 0.0) == bool(np.all((x >= bounds[0]) & (x <= bounds[1])))


def test_the_instances_that_are_boxes():
    boxes = {name for name, term in INSTANCES.items() if term.box(N) is not None}
    assert boxes == {
        *("zero", "box", "box-scalars", "box-mixed", "nonnegative", "linf-ball", "linf-ball-moved", "sum-boxes"),
        *("scaled-box", "moved-box", "bounded-boxes"),
    }


def test_what_is_built_from_separable_terms_is_separable():
    for name in ("sum-separable", "bounded-l1", "scaled-l1", "moved-l1", "moved-bounded"):
        assert isinstance(INSTANCES[name], SeparableTerm)
    for name in ("sum", "scaled-l2", "moved-l2", "moved-custom"):
        assert not isinstance(INSTANCES[name], SeparableTerm)


def test_exactness_is_inherited():
    assert not Scaled(CUSTOM_L1, 2.0).exact
    assert not Translated(CUSTOM_L1, 2.0).exact
    assert not INSTANCES["sum-domain"].exact
    assert INSTANCES["sum"].exact


@instances()
def test_every_instance_fits_its_own_length(term):
    term.check(N)


MISFITS = {
    "box": (r"Box.lower must have 5 entries, one per variable, got 12", lambda: Box(LOWER)),
    "l1": (r"L1.weight must have 5 entries, one per variable, got 12", lambda: L1(np.ones(N))),
    "groups": (r"GroupL2.groups must have indices below 5.*got 7", lambda: GroupL2([[0, 7]])),
    "nuclear": (r"NuclearNorm.shape must have the product 5.*got \(3, 4\)", lambda: NuclearNorm((3, 4))),
    "l2-ball": (r"L2Ball.center must have 5 entries", lambda: L2Ball(1.0, OFFSET)),
    "half-space": (r"HalfSpace.a must have 5 entries", lambda: HalfSpace(OFFSET, 1.0)),
    "affine": (r"AffineSet.A must have 5 columns", lambda: AffineSet(WIDE, np.zeros(4))),
    "sum": (r"SeparableSum.blocks must have indices below 5.*got 6", lambda: SeparableSum([([6], L1())])),
    "sum-2": (r"SeparableSum.blocks must have indices below 5.*got 7", lambda: SeparableSum([(slice(0, 8), L2Norm())])),
    "bounded": (r"Box.upper must have 5 entries", lambda: add_bounds(L1(), 0.0, np.ones(N))),
    "scaled": (r"L1.weight must have 5 entries", lambda: Scaled(L1(np.ones(N)), 2.0)),
    "scaled-2": (r"NuclearNorm.shape", lambda: Scaled(NuclearNorm((3, 4)), 2.0)),
    "moved": (r"Translated.offset must have 5 entries, one per variable, got 12", lambda: Translated(L1(), OFFSET)),
    "moved-2": (r"Translated.offset must have 5 entries", lambda: Translated(L2Norm(), OFFSET)),
}


@pytest.mark.parametrize(("message", "make"), MISFITS.values(), ids=MISFITS)
def test_a_term_of_another_length_is_refused(message, make):
    with pytest.raises(InputError, match=message):
        make().check(5)


REFUSED = [
    (r"^L1.weight must be nonnegative and finite, got -1$", lambda: L1(-1)),
    (r"^L1.weight must be nonnegative and finite, got nan$", lambda: L1(math.nan)),
    (r"^L1.weight must be nonnegative and finite, got inf at index 1$", lambda: L1([1.0, math.inf])),
    (r"^L1.weight must be an array of numbers, got 'much'$", lambda: L1("much")),
    (r"^L1.weight must have 1 dimension\(s\), got shape \(2, 2\)$", lambda: L1(np.ones((2, 2)))),
    (r"^L2Norm.weight must be nonnegative and finite, got -0.5$", lambda: L2Norm(-0.5)),
    (r"^L2Norm.weight must be a number, got an array of shape \(2,\)$", lambda: L2Norm(np.ones(2))),
    (r"^SquaredL2.weight must be nonnegative", lambda: SquaredL2(math.inf)),
    (r"^ElasticNet.l1 must be nonnegative", lambda: ElasticNet(-1.0, 1.0)),
    (r"^ElasticNet.l2 must be nonnegative", lambda: ElasticNet(1.0, math.nan)),
    (r"^LinfNorm.weight must be nonnegative", lambda: LinfNorm(-1.0)),
    (r"^TotalVariation1D.weight must be nonnegative", lambda: TotalVariation1D(-1.0)),
    (r"^NuclearNorm.weight must be nonnegative", lambda: NuclearNorm((2, 2), -1.0)),
    (r"^NuclearNorm.shape must be a positive integer, got 0$", lambda: NuclearNorm((2, 0))),
    (r"^NuclearNorm.shape must be two positive integers, got \(2,\)$", lambda: NuclearNorm((2,))),
    (r"^GroupL2.groups must be disjoint, got index 1 more than once$", lambda: GroupL2([[0, 1], [1]])),
    (r"^GroupL2.groups\[0\] must have distinct nonnegative entries", lambda: GroupL2([[0, 0]])),
    (r"^GroupL2.groups\[1\] must be a nonempty vector of integer indices", lambda: GroupL2([[0], []])),
    (r"^GroupL2.groups must have at least one group, got none$", lambda: GroupL2([])),
    (r"^GroupL2.weight must have 2 entries, one per group, got 3$", lambda: GroupL2([[0], [1]], [1, 2, 3])),
    (r"^Box.lower must not exceed Box.upper, got 1 > 0$", lambda: Box(1, 0)),
    (r"^Box.lower must not exceed Box.upper, got 3 > 2.5$", lambda: Box([0, 3], 2.5)),
    (r"^Box.lower must be below \+inf, got nan$", lambda: Box(math.nan, 0)),
    (r"^Box.upper must be above -inf, got -inf at index 1$", lambda: Box(-math.inf, [0, -math.inf])),
    (r"^Box.lower must have 3 entries like Box.upper, got 2$", lambda: Box([0, 0], [1, 1, 1])),
    (r"^LinfBall.radius must be positive and finite, got 0$", lambda: LinfBall(0)),
    (r"^LinfBall.center must be finite, got inf$", lambda: LinfBall(1, math.inf)),
    (r"^L1Ball.radius must be positive and finite, got -2$", lambda: L1Ball(-2)),
    (r"^L2Ball.radius must be positive and finite, got nan$", lambda: L2Ball(math.nan)),
    (r"^L2Ball.center must be finite, got nan at index 0$", lambda: L2Ball(1, [math.nan])),
    (r"^Simplex.total must be positive and finite, got 0$", lambda: Simplex(0)),
    (r"^HalfSpace.a must be a vector other than 0, got", lambda: HalfSpace([0.0, 0.0], 1)),
    (r"^HalfSpace.a must be finite, got nan at index 1$", lambda: HalfSpace([0.0, math.nan], 1)),
    (r"^HalfSpace.b must be finite, got inf$", lambda: HalfSpace([1.0], math.inf)),
    (r"^AffineSet.b must make Ax = b consistent", lambda: AffineSet([[1, 1], [2, 2]], [1, 3])),
    (r"^AffineSet.b must make Ax = b consistent", lambda: AffineSet([[0, 0]], [1])),
    (r"^AffineSet.b must have one entry for each row", lambda: AffineSet([[1, 1]], [1, 2])),
    (r"^AffineSet.A must have 2 dimension\(s\), got shape \(2,\)$", lambda: AffineSet([1, 1], [1])),
    (r"^AffineSet.A must be finite, got nan at index 0, 1$", lambda: AffineSet([[1, math.nan]], [1])),
    (r"^SeparableSum.blocks must be disjoint, got index 2", lambda: SeparableSum([([2], L1()), (slice(0, 4), L1())])),
    (r"^SeparableSum.blocks must have at least one block", lambda: SeparableSum([])),
    (r"^SeparableSum.blocks\[0\] must be a pair \(index, term\)", lambda: SeparableSum([L1()])),
    (r"^SeparableSum.blocks\[0\] must be a prox term or have methods", lambda: SeparableSum([([0], 3)])),
    (r"^SeparableSum.blocks\[0\] must be a slice with nonnegative", lambda: SeparableSum([(slice(2, None), L1())])),
    (r"^Box.lower must have 2 entries, one per variable", lambda: SeparableSum([([0, 1], Box([1, 2, 3]))])),
    (r"^Scaled.factor must be positive and finite, got 0$", lambda: Scaled(L1(), 0)),
    (r"^Translated.offset must be finite, got nan$", lambda: Translated(L1(), math.nan)),
    (r"^Translated.offset must have 2 entries like Box.lower", lambda: Translated(Box([0, 0]), [1, 1, 1])),
    (r"^Translated.offset must have an entry for index 4", lambda: Translated(SeparableSum([([4], L1())]), [1, 1])),
    (r"^add_bounds.term must be separable .* got L2Norm\(weight=1.0\)$", lambda: add_bounds(L2Norm(), 0, 1)),
    (
        r"^add_bounds.lower and .upper must meet .* \[2, 3\] against \[-inf, 1\] at",
        lambda: add_bounds(Box(upper=1), 2, 3),
    ),
    (r"against \[0, inf\] at index 5", lambda: add_bounds(SeparableSum([([5], add_bounds(L1(), 0))]), -2, -1)),
    (r"^Box.lower must have 3 entries", lambda: add_bounds(Box(0, [1, 1, 1]), [0, 0])),
    (r"^L1.weight must have 2 entries", lambda: add_bounds(L1([1, 1, 1]), [0, 0])),
    (r"^Custom.value must be a function, got 3$", lambda: Custom(3, 4)),
    (r"^Custom.prox must be a function, got 4$", lambda: Custom(abs, 4)),
    (r"^Custom.domain must be a prox term, a projection or None, got 5$", lambda: Custom(abs, abs, 5)),
    (
        r"^Custom.prox must return an array of shape \(2,\), got shape \(\)$",
        lambda: Custom(sum, sum).prox(np.ones(2), 0),
    ),
    (r"^g must be a prox term or have methods value\(x\) and prox\(x, step\), got 'l1'$", lambda: as_term("l1")),
    (r"^g must be an instance of a prox term, got the class L1$", lambda: as_term(L1)),
]


@pytest.mark.parametrize(("message", "make"), REFUSED)
def test_a_bad_field_is_refused_at_construction(message, make):
    with pytest.raises(InputError, match=message):
        make()
