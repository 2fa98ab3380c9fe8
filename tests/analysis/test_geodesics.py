"""Geodesic distances: closed forms on the circle, the law of the sketch, and what is infinite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import t as student
from sklearn.base import clone

import heatsketch as hs
from heatsketch.analysis.geodesics import cosine_interval, sketched_geodesics

EPSILON = 0.02
ANGLES = 2 * np.pi * np.arange(120) / 120
ARCS = pdist(ANGLES[:, None])
ARCS = np.minimum(ARCS, 2 * np.pi - ARCS)


def theta(arcs, width):
    """The heat kernel of the circle: a Gaussian wound around it."""
    return sum(np.exp(-np.square(arcs + 2 * np.pi * turn) / width) for turn in range(-4, 5))


def cosine(arcs, t):
    """The cosine of rows at time t; sampling is exact up to rounding, because the kernel is smooth."""
    return theta(arcs, 2 * t * EPSILON) / theta(0.0, 2 * t * EPSILON)


def circle_kernel():
    return hs.heat_kernel(theta(squareform(ARCS), EPSILON), affinity="precomputed")


@pytest.fixture(scope="module")
def torus():
    return hs.heat_kernel(hs.datasets.stretched_torus(200, random_state=0), n_neighbors=15, bandwidth="self-tuning")


class TestClosedForms:
    @pytest.mark.parametrize("t", [1, 2.5, 16])
    def test_circle(self, t):
        measured = hs.geodesic_distances(circle_kernel(), t)  # with epsilon 1, as for any affinity
        resolved = cosine(ARCS, t) > (0 if isinstance(t, int) else 1e-8)
        np.testing.assert_allclose(measured[resolved], np.sqrt(-2 * t * np.log(cosine(ARCS[resolved], t))), rtol=1e-6)

    def test_varadhan(self):
        """The shorter the time, the closer to the length of the arc, even on the far side."""
        lengths = [np.sqrt(EPSILON) * hs.geodesic_distances(circle_kernel(), t) for t in (16, 4, 1)]
        errors = [np.abs(d / ARCS - 1).max() for d in lengths]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 0.003

    def test_all_times_of_the_circle(self):
        measured = np.sqrt(EPSILON) * hs.geodesic_distances(circle_kernel(), "multiscale")
        last = hs.multiscale(circle_kernel()).times[-1]
        terms = [np.sqrt(t) * (1 - cosine(ARCS, t)) for t in 2.0 ** np.arange(np.log2(last) + 1)]
        shorter = [np.sqrt(t) * (1 - cosine(ARCS, 1.0) ** (1 / t)) for t in 2.0 ** -np.arange(1, 30)]
        longer = [np.sqrt(t) * (1 - cosine(ARCS, last) ** (last / t)) for t in last * 2.0 ** np.arange(1, 30)]
        expected = np.sqrt(2 * EPSILON) * np.log(2) / (2 * np.sqrt(np.pi)) * sum(terms + shorter + longer)
        np.testing.assert_allclose(measured, expected, rtol=2e-3)
        near = ARCS < 0.5
        np.testing.assert_allclose(measured[near], ARCS[near], rtol=0.15)

    def test_times_beyond_the_last(self):
        """On a line they are as in flat space, so lengths are right beyond the reach of the last time."""
        X = np.arange(400.0)[:, None]
        A = hs.heat_kernel(X, bandwidth=36.0)
        h = hs.MultiscaleFilter(tuple(2**n for n in range(8)), (1.0,) * 8)
        pairs = np.column_stack([np.full(12, 200), 200 + np.arange(10, 130, 10)])
        np.testing.assert_allclose(hs.geodesic_distances(A, h, pairs), np.ptp(pairs, axis=1), rtol=0.01)

    def test_half_a_step_is_the_distance_itself(self):
        X = np.random.default_rng(0).normal(size=(40, 3))
        A = hs.heat_kernel(X, bandwidth=4.0, n_neighbors=None)
        np.testing.assert_allclose(hs.geodesic_distances(A, 0.5), pdist(X), rtol=1e-6)

    def test_small_cosines_keep_their_digits(self):
        """Steps of a path meet after as many steps from each end as half of its length."""
        A = hs.heat_kernel(np.eye(60, k=1) + np.eye(60, k=-1) + np.eye(60), affinity="precomputed")
        d = squareform(hs.geodesic_distances(A, 25))[5]
        assert np.isfinite(d[:56]).all()
        assert np.isinf(d[56:]).all()
        assert (np.diff(d[5:56]) > 0).all()


@pytest.mark.parametrize("power", [3, 2.5, "multiscale"])
def test_pairs_are_those_of_all(power):
    every = squareform(hs.geodesic_distances(circle_kernel(), power))
    pairs = np.random.default_rng(0).integers(0, 120, (50, 2))
    pairs[0] = 7
    some = hs.geodesic_distances(circle_kernel(), power, pairs)
    assert some[0] == 0
    np.testing.assert_allclose(some, every[tuple(pairs.T)], rtol=1e-4)


def test_row_weights_change_nothing():
    X = hs.datasets.stretched_torus(120, random_state=0)
    A = hs.heat_kernel(X, bandwidth=0.5, normalization="stochastic")
    assert A.row_weight is not None
    rows = np.linalg.matrix_power(A.toarray(), 4)  # of the Markov matrix, compared with weights u^2
    rows = rows / A.trivial
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.sqrt(-2 * 0.5 * 4 * np.log((rows @ rows.T)[np.triu_indices(120, 1)]))
    np.testing.assert_allclose(hs.geodesic_distances(A, 4), expected, rtol=1e-6)


@pytest.mark.parametrize("power", [4, "multiscale"])
def test_in_the_unit_of_the_data(power):
    X = hs.datasets.stretched_torus(150, random_state=0)
    d, larger = (
        hs.geodesic_distances(hs.heat_kernel(c * X + c, n_neighbors=15, bandwidth="self-tuning"), power)
        for c in (1, 10)
    )
    np.testing.assert_allclose(larger[np.isfinite(d)], 10 * d[np.isfinite(d)], rtol=1e-5)


@pytest.mark.parametrize("power", [4, "multiscale"])
def test_components_are_infinitely_far(power):
    X = np.vstack([hs.datasets.circle(80, random_state=0), hs.datasets.circle(80, random_state=1) + 50])
    A = hs.heat_kernel(X, n_neighbors=15, bandwidth="self-tuning")
    apart = pdist((np.arange(160) < 80)[:, None].astype(float)) > 0
    pairs = np.column_stack(np.triu_indices(160, 1))
    power = hs.multiscale(A) if power == "multiscale" else power
    assert np.isinf(hs.geodesic_distances(A, power)[apart]).all()
    for found in (hs.geodesic_distances(A, power, pairs), *sketched_geodesics(A, power, pairs, 0.9)):
        assert np.isinf(found[apart]).all()
    assert np.isfinite(hs.geodesic_distances(A, "multiscale")[~apart]).all()


def test_components_of_data_with_duplicates():
    X = np.vstack([hs.datasets.circle(80, random_state=0), hs.datasets.circle(80, random_state=1) + 50])
    X[7] = X[3]
    model = hs.GaussianProcessEmbedding(4, power=8, n_neighbors=10, bandwidth="self-tuning", random_state=0).fit(X)
    pairs = np.column_stack([np.arange(80), np.arange(80, 160)])
    for found in (hs.geodesic_distances(model.kernel_, 8, pairs), model.geodesic_distances(pairs)):
        assert np.isinf(found).all()
    assert len(np.unique(model.kernel_.components())) == 2
    assert model.kernel_.components()[7] == model.kernel_.components()[3]


def test_far_pairs_of_a_sketch_are_bounded_and_told():
    A = hs.heat_kernel(hs.datasets.circle(1500, random_state=0))
    h = hs.MultiscaleFilter(tuple(2**n for n in range(6)), (1.0,) * 6)
    with pytest.warns(UserWarning, match="in 32 steps: their distances are lower bounds"):
        d, low, high = sketched_geodesics(A, h, [[0, 1], [0, 750]], 0.9)
    assert np.isfinite(d).all()
    assert np.isfinite(low).all()
    assert np.isinf(high[1])


class TestSketch:
    def test_converges_to_exact(self, torus):
        h = hs.multiscale(torus)
        exact = hs.geodesic_distances(torus, h)
        errors = [np.median(np.abs(sketched_geodesics(torus, h, n_columns=k) / exact - 1)) for k in (50, 800)]
        assert errors[0] < 0.1
        assert errors[1] == pytest.approx(errors[0] / 4, rel=0.5)

    @pytest.mark.filterwarnings("ignore:heat has not reached")
    @pytest.mark.parametrize("power", [16, "multiscale"])
    def test_intervals_hold_what_they_promise(self, power):
        A = hs.heat_kernel(hs.datasets.circle(60, random_state=0), n_neighbors=8, bandwidth="self-tuning")
        h = hs.multiscale(A) if power == "multiscale" else power
        pairs = np.random.default_rng(0).choice(60, (30, 2), replace=False)
        exact = hs.geodesic_distances(A, h, pairs)
        held = []
        for seed in range(100):
            d, low, high = sketched_geodesics(A, h, pairs, 0.9, seed=seed, n_columns=12)
            assert ((low <= d) & (d <= high)).all()
            held.append(np.mean((low <= exact) & (exact <= high)))
        share, deviation = np.mean(held), np.std(held) / 10  # of a mean over sketches, which are independent
        assert share > 0.9 - 3 * deviation
        assert share < 0.9 + 3 * deviation or power == "multiscale"

    def test_all_pairs(self, torus):
        pairs = np.column_stack(np.triu_indices(200, 1))
        for some, every in zip(
            sketched_geodesics(torus, 8, pairs, 0.5), sketched_geodesics(torus, 8, None, 0.5), strict=True
        ):
            np.testing.assert_allclose(some, every, rtol=1e-6)


class TestCosineInterval:
    @pytest.mark.parametrize("k", [2, 5, 200])
    def test_uncorrelated(self, k):
        """For rho = 0, sqrt(k - 1) r / sqrt(1 - r^2) follows Student's law: at its quantile the lower end leaves 0."""
        q = np.array([0.999, 1.001]) * student.ppf(0.975, k - 1) / np.sqrt(k - 1)
        low, high = cosine_interval(q / np.sqrt(1 + q * q), k)
        assert low[0] == 0 < low[1]
        assert (low < high).all()

    @pytest.mark.parametrize("rho", [0.3, 0.9, 0.9999])
    def test_coverage(self, rho):
        rng = np.random.default_rng(0)
        x, z = rng.normal(size=(2, 20000, 6))
        y = rho * x + np.sqrt(1 - rho**2) * z
        r = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
        low, high = cosine_interval(r, 6, 0.8)
        assert np.mean(rho < low) == pytest.approx(0.1, abs=0.009)  # four standard deviations
        assert np.mean(rho > high) == pytest.approx(0.1, abs=0.009)

    def test_many_columns(self):
        """Fisher's transformation: artanh r is nearly normal with variance 1 / (k - 2)."""
        low, high = cosine_interval([0.5], 2000)
        assert np.arctanh(high[0]) - np.arctanh(low[0]) == pytest.approx(2 * 1.95996 / np.sqrt(1998), rel=1e-3)

    def test_one_column_says_nothing(self):
        assert cosine_interval(0.5, 1) == (0.0, 1.0)


class TestModels:
    PAIRS = np.random.default_rng(0).choice(200, (60, 2), replace=False)

    @pytest.mark.parametrize("power", [16, "auto"])
    @pytest.mark.parametrize(
        "model",
        [hs.GaussianProcessEmbedding(16, n_exact=4, random_state=0), hs.DiffusionMaps(2)],
        ids=["sketch", "diffusion maps"],
    )
    def test_intervals_hold_exact_distances(self, model, power):
        X = hs.datasets.stretched_torus(200, random_state=0)
        fitted = clone(model).set_params(power=power).fit(X)
        exact = hs.geodesic_distances(fitted.kernel_, fitted.power_, self.PAIRS)
        d, low, high = fitted.geodesic_distances(self.PAIRS, interval=0.99)
        np.testing.assert_array_equal(d, fitted.geodesic_distances(self.PAIRS))
        assert np.mean((low <= exact) & (exact <= high)) > 0.9

    def test_more_components_are_more_exact(self):
        model = hs.GaussianProcessEmbedding(128, random_state=0).fit(hs.datasets.stretched_torus(200, random_state=0))
        widths = []
        for _ in range(2):
            _, low, high = model.geodesic_distances(self.PAIRS, interval=0.9)
            widths.append(np.median(high - low))
            model.add_components(3 * 128)
        assert widths[1] == pytest.approx(widths[0] / 2, rel=0.2)

    def test_interval_is_checked(self):
        model = hs.DiffusionMaps(2).fit(hs.datasets.circle(50, random_state=0))
        with pytest.raises(ValueError, match="interval=2"):
            model.geodesic_distances(interval=2)


def test_errors(torus):
    with pytest.raises(ValueError, match="power='entropy'"):
        hs.geodesic_distances(torus, "entropy")
    with pytest.raises(ValueError, match="indices from 0 to 200"):
        hs.geodesic_distances(torus, 2, [[0, 200]])
    with pytest.raises(ValueError, match="level"):
        sketched_geodesics(torus, 2, level=1.5)
    with pytest.raises(ValueError, match="negative"):
        hs.geodesic_distances(torus, 2.5)
