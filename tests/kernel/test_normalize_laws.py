"""Normalisations number by number: what is found, by which iteration, and what it is when rows lie in another order."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch._utils.progress import _display
from heatsketch.kernel import normalize as module
from heatsketch.kernel.normalize import LeftFactor, ScalingOptions, normalize, sinkhorn
from heatsketch.linalg.anderson import Anderson, combination
from heatsketch.linalg.operators import DenseOperator
from laws import Display, Shuffled, Watched


def _gaussian(n=12, seed=0, epsilon=2.0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return np.exp(-np.square(X[:, None] - X[None]).sum(axis=-1) / epsilon)


def _star(n=5):
    K = np.zeros((n, n))
    K[0, 1:] = K[1:, 0] = 1
    return K


def _iterates(K, w, start, *, tol, max_iter, largest):
    """The documented iteration, written without its shortcuts: all x whose product with K is taken."""
    x, xs, steps, window = np.log(start), [], [], []
    previous, extrapolated, visited = np.inf, False, []
    while len(visited) < max_iter and np.abs(x).max() < largest:
        visited.append(x)
        with np.errstate(all="ignore"):
            sums = np.exp(x) * (K @ (np.exp(x) * w))
        good = np.isfinite(sums).all() and (sums > 0).all()
        residual = np.abs(sums - 1).max() if good else np.inf
        if residual <= tol:
            break
        if extrapolated and residual > 2 * previous:
            x, xs, steps, window, extrapolated = xs[-1] + steps[-1], [], [], [], False
            continue
        if not good:
            break
        step, previous = -0.5 * np.log(sums), residual
        if xs:
            window = [*window, (x - xs[-1], step - steps[-1])][-5:]
        xs, steps, extrapolated = [*xs, x], [*steps, step], bool(window)
        ahead = x + step
        if window:
            dx, df = (np.array(part) for part in zip(*window, strict=True))
            gamma = np.linalg.lstsq(df @ df.T, df @ step, rcond=None)[0]
            ahead = ahead - gamma @ (dx + df)
            if np.abs(ahead).max() >= largest:
                ahead, xs, steps, window, extrapolated = x + step, [], [], [], False
        x = ahead
    return visited


PROBLEMS = {
    "gaussian": (_gaussian(), 1e-12, 100),
    "few steps": (_gaussian(), 1e-12, 3),
    "triangle": (np.array([[0, 1, 1e-4], [1, 0, 1e-2], [1e-4, 1e-2, 0]]), 1e-10, 200),
    "star": (_star(), 1e-8, 60),
    "wide": (np.triu(10.0 ** np.random.default_rng(3).integers(-6, 6, (9, 9))), 1e-9, 200),
}


@pytest.mark.parametrize("largest", [500.0, 9.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_iteration_is_the_one_that_is_documented(name, largest, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_LOG", largest)
    array, tol, max_iter = PROBLEMS[name]
    K = Watched(np.maximum(array, array.T))
    w = np.linspace(0.5, 2.0, len(array))
    start = (w * K.array.sum(axis=1)) ** -0.5
    s, sums, n_iter = sinkhorn(K, w, start=start, tol=tol, max_iter=max_iter)
    visited = _iterates(K.array, w, start, tol=tol, max_iter=max_iter, largest=largest)
    assert n_iter == len(K.seen) == len(visited)
    for seen, x in zip(K.seen, visited, strict=True):
        np.testing.assert_allclose(np.log(seen / w), x, rtol=1e-5, atol=1e-6)
    # The best of all that were visited is returned, with its own row sums.
    residuals = [np.abs(np.exp(x) * (K.array @ (np.exp(x) * w)) - 1).max() for x in visited]
    np.testing.assert_array_equal(sums, s * (K.array @ (s * w)))
    assert np.abs(sums - 1).max() == pytest.approx(min(residuals), rel=1e-4, abs=1e-13)


def test_what_leaves_the_range_of_numbers_ends_the_iteration():
    K, far = np.ones((2, 2)), np.exp([400.0, 300.0])
    s, sums, n_iter = sinkhorn(DenseOperator(K), np.ones(2), start=far, tol=1e-8, max_iter=10)
    np.testing.assert_allclose(s, far)
    assert n_iter == 1
    assert (sums == np.inf).all()
    # Where it begins beyond, nothing is multiplied at all.
    beyond = sinkhorn(DenseOperator(K), np.ones(2), start=np.exp([-501.0, 0.0]), tol=1e-8, max_iter=10)
    assert beyond[2] == 0
    # An empty row has no positive sum, however it is scaled.
    hole = sinkhorn(DenseOperator(np.diag([1.0, 0.0])), np.ones(2), start=np.ones(2), tol=1e-8, max_iter=10)
    assert hole[2] == 1
    assert sinkhorn(DenseOperator(K / 2), np.ones(2), start=np.ones(2), tol=0.0, max_iter=9)[2] == 1


def test_no_warning_leaks_out_whatever_the_numbers_do():
    for start, weight in (([-400.0, -400.0], 1.0), ([400.0, 0.0], 1e300)):
        with np.errstate(all="raise"):
            found = sinkhorn(DenseOperator(np.eye(2)), np.full(2, weight), start=np.exp(start), tol=1e-8, max_iter=9)
        assert found[2] == 1


@pytest.mark.parametrize(
    ("ahead", "plain"),
    [
        ([np.log(3.0), 0.0], [np.log(2.0)]),  # astray; the plain step is worse still, and is taken all the same
        ([600.0, 0.0], [np.log(2.0)]),  # beyond the numbers
        ([500.0, 0.0], [np.log(2.0)]),
        ([0.5 * np.log(2.0) - 1e-9, 0.0], []),  # no more than twice as far as the last: it is gone on from
    ],
)
def test_extrapolations_that_go_astray_are_taken_back_once(ahead, plain, monkeypatch):
    class Scripted:
        def __init__(self):
            self.ahead, self.behind = list(ahead), list(plain)

        def extrapolate(self, x, step):
            return np.array([self.ahead.pop(0)]), True

        def plain(self):
            return np.array([self.behind.pop(0)])

    made = []
    monkeypatch.setattr(module, "Anderson", lambda: made.append(Scripted()) or made[-1])
    start = np.array([np.sqrt(1.5)])  # a row sum of 1.5
    s, _, n_iter = sinkhorn(DenseOperator(np.eye(1)), np.ones(1), start=start, tol=1e-8, max_iter=20)
    assert s == 1.0
    assert not made[0].ahead
    assert not made[0].behind
    assert n_iter == (4 if ahead[0] == np.log(3.0) else 3)


def test_the_largest_logarithm_is_itself_too_large(monkeypatch):
    start = np.array([np.e, 1.0])
    monkeypatch.setattr(module, "_LARGEST_LOG", np.log(start)[0])
    assert sinkhorn(DenseOperator(np.ones((2, 2))), np.ones(2), start=start, tol=1e-8, max_iter=10)[2] == 0


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_every_number_that_is_found(name, alpha):
    K = Watched(_gaussian())
    found = normalize(K, name, alpha=alpha, tol=1e-13)
    degrees = K.array.sum(axis=1)
    q = degrees**-alpha
    S = np.outer(found.scale, found.scale) * K.array
    if name in ("symmetric", "stochastic"):
        v = q * (K.array @ q)
        np.testing.assert_allclose(found.scale, q / np.sqrt(v), rtol=1e-13)
        np.testing.assert_allclose(found.trivial, np.sqrt(v / v.sum()), rtol=1e-13)
        np.testing.assert_allclose(found.reference, q, rtol=1e-13)
        assert (found.n_iter, found.residual, found.converged) == (2, 0.0, True)
        markov = name == "stochastic"
        assert found.constant == pytest.approx(np.sqrt(v.sum()) if markov else 1.0, rel=1e-13)
        assert found.degree_exponent == (0.0 if markov else alpha / 2)
        assert found.reference_exponent == (1.0 if markov else 0.5)
    else:
        w = q if name == "bistochastic-weighted" else np.ones(12)
        np.testing.assert_allclose(found.trivial, np.sqrt(w / w.sum()), rtol=1e-12)
        np.testing.assert_allclose(S @ np.sqrt(w), np.sqrt(w), rtol=1e-12)
        np.testing.assert_allclose(found.reference, found.scale * np.sqrt(w), rtol=1e-12)
        assert found.constant == pytest.approx(np.sqrt(w.sum()) if name != "bistochastic" else 1.0, rel=1e-13)
        assert (found.reference_exponent, found.degree_exponent) == (1.0, 0.0)
        markov = name == "bistochastic-weighted"
        sums = found.scale / np.sqrt(w) * (K.array @ (found.scale * np.sqrt(w)))
        assert found.residual == pytest.approx(np.abs(sums - 1).max(), abs=1e-15)
        assert found.converged
    assert found.n_iter == len(K.seen)  # every product is counted, the one that gave the degrees too
    np.testing.assert_allclose(np.linalg.norm(found.trivial), 1.0, rtol=1e-13)
    if markov:
        np.testing.assert_allclose(found.row_weight, 1 / found.trivial, rtol=1e-13)
    else:
        assert found.row_weight is None
    # The left factors of the training points are those that new points in their places would have, whose kernel rows
    # may be given with a factor taken out.
    weight = found.row_weight if markov else 1.0
    np.testing.assert_allclose(found.left, found.scale * weight, rtol=1e-12)
    extended = found.extend(degrees / 8, K.array @ found.reference / 8, np.full(12, np.log(8.0)))
    np.testing.assert_allclose(extended, 8 * found.left, rtol=1e-12)


def test_left_factors_by_their_formula():
    left = LeftFactor(3.0, 0.25, 0.5)
    found = left(np.array([16.0, 1.0]), np.array([4.0, 9.0]), np.array([0.0, 4.0]))
    np.testing.assert_allclose(found, [3 / 2 / 2, 3 * np.e ** (4 * 0.25) / 3])


def test_what_is_known_is_not_computed_again():
    K = Watched(_gaussian())
    plain = normalize(K)
    count, K.seen = len(K.seen), []
    given = normalize(K, degrees=K.array.sum(axis=1))
    assert len(K.seen) == count - 1
    assert given.n_iter == plain.n_iter
    np.testing.assert_allclose(given.scale, plain.scale, rtol=1e-12)


def test_defaults_are_those_of_the_options():
    K = DenseOperator(_gaussian())
    options = ScalingOptions()
    assert options == ScalingOptions(alpha=1.0, tol=1e-8, max_iter=1000)
    found = normalize(K)
    expected = module.bistochastic(K, K.array.sum(axis=1), options)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)
    weighted = normalize(K, "bistochastic-weighted")
    expected = module.bistochastic_weighted(K, K.array.sum(axis=1), options)
    np.testing.assert_allclose(weighted.scale, expected.scale, rtol=1e-12)
    with pytest.warns(ConvergenceWarning, match="after 1001 products"):
        normalize(DenseOperator(_star()))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_the_order_of_rows_does_not_matter(name):
    array = _gaussian()
    order = np.random.default_rng(1).permutation(12)
    plain, shuffled = (normalize(K, name, tol=1e-13) for K in (DenseOperator(array), Shuffled(array, order)))
    for field in fields(plain):
        a, b = (getattr(found, field.name) for found in (plain, shuffled))
        if a is None:
            assert b is None
        else:
            np.testing.assert_allclose(
                b, a, rtol=1e-11, atol=1e-12 if field.name == "residual" else 0, err_msg=field.name
            )


def test_tolerances_are_no_smaller_than_rounding():
    for dtype, ulps in ((np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        K = DenseOperator(_gaussian().astype(dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exact = normalize(K, tol=0.0)
        assert exact.converged
        assert exact.residual <= 64 * ulps
    loose = normalize(DenseOperator(_gaussian()), tol=0.1)
    assert 1e-3 < loose.residual <= 0.1
    assert loose.converged
    # However loose: a new point in the place of a training point lands on it.
    K = _gaussian()
    extended = loose.extend(K.sum(axis=1), K @ loose.reference, np.zeros(12))
    np.testing.assert_allclose(extended, loose.left, rtol=1e-12)


def test_not_converging_is_said():
    K = DenseOperator(_gaussian())
    steps = [sinkhorn(K, np.ones(12), start=K.array.sum(axis=1) ** -0.5, tol=0.0, max_iter=n) for n in (1, 2)]
    residual = np.abs(steps[1][1] - 1).max()
    with pytest.warns(
        ConvergenceWarning, match=rf"within {residual:.1e} of 1 after 3 products, not within tol=1.0e-10"
    ):
        found = normalize(K, tol=1e-10, max_iter=2)
    assert not found.converged
    assert (found.residual, found.n_iter) == (pytest.approx(residual, rel=1e-12), 3)
    at_once = normalize(K, tol=found.residual, max_iter=2)  # within the tolerance means no further than it
    assert at_once.converged


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_rows_without_affinity_are_counted_and_the_first_is_named(bad):
    degrees = np.array([1.0, 2.0, bad, 3.0, bad])
    with pytest.raises(ValueError, match=r"2 rows of the affinity are zero \(the first is row 2\)"):
        normalize(DenseOperator(np.eye(5)), degrees=degrees)


def test_factors_at_the_end_of_the_range_are_taken():
    K = DenseOperator(np.eye(2, dtype=np.float32))
    most = float(np.finfo(np.float32).max / 1e6)  # products have room
    module._require_range(K.dtype, np.array([1.0, -most]))
    for bad in (-1.001 * most, np.nan, np.inf):
        with pytest.raises(ValueError, match="within the range of float32"):
            module._require_range(K.dtype, np.ones(2), np.array([1.0, bad]))


def test_a_scale_beyond_the_range_is_refused_before_anything_is_said_of_convergence(monkeypatch):
    far = np.array([1.0, 1e300]), np.array([1.0, 1.1]), 1
    monkeypatch.setattr(module, "sinkhorn", lambda *_, **__: far)
    with pytest.raises(ValueError, match="within the range of float64"):
        module._balanced(DenseOperator(np.eye(2)), np.ones(2), np.array([1.0, 1e10]), ScalingOptions())


@pytest.mark.parametrize("field", ["scale", "left"])
def test_whatever_a_normalisation_finds_must_be_in_range(field, monkeypatch):
    K = DenseOperator(np.ones((3, 3), dtype=np.float32))
    far = replace(normalize(K, "symmetric"), **{field: np.array([1.0, 1e39, 1.0])})
    monkeypatch.setitem(module.NORMALIZATIONS, "symmetric", lambda *_: far)
    with pytest.raises(ValueError, match="within the range of float32"):
        normalize(K, "symmetric")


@pytest.mark.parametrize(("s", "sums"), [(1.0, np.inf), (1e38, 1e10), (1e30, 1e-10)])
def test_scalings_out_of_range_are_refused_before_they_are_said_not_to_converge(s, sums, monkeypatch):
    # The weights are 100: it is the scaling with their roots that must be a number of float32.
    K = DenseOperator(np.full((2, 2), 0.005, dtype=np.float32))
    found = np.full(2, s), np.full(2, sums), 7
    monkeypatch.setattr(module, "sinkhorn", lambda *_, **__: found)
    with pytest.raises(ValueError, match="within the range of float32"):
        normalize(K, "bistochastic-weighted")


class TestAnderson:
    def test_linear_iterations_end_in_as_many_steps_as_they_have_modes(self):
        rng = np.random.default_rng(0)
        A = np.diag([0.9, 0.5, -0.3, 0.1])
        b, x, solver = rng.normal(size=4), np.zeros(4), Anderson()
        for step in range(6):
            x, several = solver.extrapolate(x, A @ x + b - x)
            assert several == (step > 0)
        np.testing.assert_allclose(x, np.linalg.solve(np.eye(4) - A, b), rtol=1e-8)

    def test_only_the_latest_five_steps_are_looked_back_at(self):
        rng = np.random.default_rng(0)
        xs, steps = rng.normal(size=(2, 9, 20))
        solver = Anderson()
        for x, step in zip(xs, steps, strict=True):
            following, several = solver.extrapolate(x, step)
        dx, df = np.diff(xs, axis=0)[-5:], np.diff(steps, axis=0)[-5:]
        gamma = np.linalg.lstsq(df.T, steps[-1], rcond=None)[0]
        assert several
        np.testing.assert_allclose(following, xs[-1] + steps[-1] - gamma @ (dx + df), rtol=1e-8)
        np.testing.assert_array_equal(solver.plain(), xs[-1] + steps[-1])
        # All is forgotten: the next step is taken as it comes.
        following, several = solver.extrapolate(xs[0], steps[0])
        assert not several
        np.testing.assert_array_equal(following, xs[0] + steps[0])

    def test_combinations_are_least_squares_even_where_steps_repeat(self):
        df = np.random.default_rng(0).normal(size=(3, 8))
        df = np.vstack([df, df[:1]])
        step = np.random.default_rng(1).normal(size=8)
        gamma = combination(df @ df.T, df @ step)
        assert np.linalg.norm(step - gamma @ df) == pytest.approx(
            np.sqrt(np.linalg.lstsq(df[:3].T, step, rcond=None)[1][0])
        )
        assert gamma[0] == pytest.approx(gamma[3])  # the smallest of all


def test_balancing_reports_its_products():
    display = Display()
    token = _display.set(display)
    try:
        n_iter = normalize(DenseOperator(_gaussian())).n_iter
    finally:
        _display.reset(token)
    assert display.reports == [("balancing the kernel", n + 1, 0) for n in range(n_iter - 1)]


@pytest.mark.parametrize("name", ["stochastic", "bistochastic-weighted"])
def test_dask_arrays_give_the_same(name, one_thread, monkeypatch):
    da = one_thread
    monkeypatch.setattr("heatsketch.backends.dask.layout.BAND", 20)
    X = np.random.default_rng(0).normal(size=(45, 2))
    options = {"bandwidth": 2.0, "normalization": name, "n_neighbors": None, "tol": 1e-12}
    here, there = (hs.heat_kernel(points, **options).scaling for points in (X, da.from_array(X, chunks=(30, 2))))
    for field in fields(here):
        a, b = (getattr(found, field.name) for found in (here, there))
        if a is None:
            assert b is None
        else:
            b = b[np.arange(len(X))] if np.ndim(a) else b
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11, err_msg=field.name)
