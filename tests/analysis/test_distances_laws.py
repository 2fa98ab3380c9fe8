"""Distances number by number: every form against its definition, intervals and sizes against the chi-square law."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch.analysis import distances
from heatsketch.analysis.distances import (
    _miss,
    _pairs_of_few,
    check_level,
    columns_for,
    distance_interval,
    distances_among,
    embedded_distances,
    error_of,
    sketch_interval,
)
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.operators import DenseOperator
from laws import symmetric

N = 24
X = np.random.default_rng(0).normal(size=(N, 2))
PAIRS = np.array([[0, 1], [5, 2], [23, 7], [3, 3], [1, 0]])
FORMS = ("rows", "spectrum", "covariance")


@cache
def _kernel(normalization="bistochastic"):
    """Cached, since building kernels is not tested here."""
    return hs.heat_kernel(X, bandwidth=2.0, tol=1e-14, normalization=normalization)


def _coordinates(kernel, t):
    """Rows whose distances are the diffusion distances, by an eigendecomposition of their own."""
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values = np.where(values > 1e-13, values, 0.0)
    weight = 1.0 if kernel.row_weight is None else kernel.row_weight[:, None]
    return weight * vectors * values**t


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalization", ["bistochastic", "symmetric", "stochastic"])
@pytest.mark.parametrize("t", [1, 2.5])
def test_all_forms_match_the_definition(form, normalization, t, monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.diffusion._MOST_DEGREE", 60)
    kernel = _kernel(normalization)
    expected = pdist(_coordinates(kernel, t))
    tolerance = 1e-6 if form == "covariance" else 1e-9
    found = hs.diffusion_distances(kernel, t, form=form)
    np.testing.assert_allclose(found, expected, atol=tolerance * expected.max())
    some = hs.diffusion_distances(kernel, t, PAIRS, form=form)
    np.testing.assert_allclose(some, squareform(expected)[tuple(PAIRS.T)], atol=tolerance * expected.max())
    assert some.shape == (5,)


@pytest.mark.parametrize("form", FORMS)
def test_matrix_without_trivial_mode(form):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    values = np.array([2.0, 0.5, 0.4, 0.3, 0.2, 0.1])
    A = (Q * values) @ Q.T
    for t in (1, 3):
        np.testing.assert_allclose(hs.diffusion_distances(A, t, form=form), pdist(Q * values**t), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_all_modes_contribute(form):
    values = np.array([1.0, 0.6, 0.5, 0.4, 0.3, 0.25])
    A, Q = symmetric(values)
    kernel = hs.HeatKernel(DenseOperator(A), trivial=Q[:, 0])
    assert not kernel.trivial_is_constant
    np.testing.assert_allclose(hs.diffusion_distances(kernel, 1, form=form), pdist(Q * values), atol=1e-9)


def test_tiny_distances_keep_their_digits():
    kernel = _kernel()
    second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
    t = round(-12 / np.log10(second))
    rows, covariance = (hs.diffusion_distances(kernel, t, form=form) for form in ("rows", "covariance"))
    np.testing.assert_allclose(covariance, rows, atol=1e-4 * rows.max())
    t = round(-200 / np.log10(second))
    whole = squareform(hs.diffusion_distances(kernel, t))
    assert 0 < whole.max() < 1e-190
    pairs = hs.diffusion_distances(kernel, t, PAIRS)
    np.testing.assert_allclose(pairs, whole[tuple(PAIRS.T)], rtol=1e-4)
    Y = 1e-200 * X
    np.testing.assert_allclose(embedded_distances(Y, None), 1e-200 * pdist(X), rtol=1e-12)
    np.testing.assert_allclose(embedded_distances(Y, PAIRS), 1e-200 * squareform(pdist(X))[tuple(PAIRS.T)], rtol=1e-12)
    assert not embedded_distances(np.zeros((3, 2)), None).any()


def test_single_precision_is_converted_to_double():
    Y = X.astype(np.float32)
    for pairs in (None, PAIRS):
        found = embedded_distances(Y, pairs)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, embedded_distances(Y.astype(np.float64), pairs), rtol=1e-15)


@pytest.mark.parametrize("power", [0, -1.0, "2", True])
def test_bad_powers(power):
    with pytest.raises(ValueError, match="positive, finite"):
        hs.diffusion_distances(None, power)


def test_bad_forms_and_pairs():
    kernel = _kernel()
    for form in ("Rows", "", "angles"):
        with pytest.raises(ValueError, match="is not known"):
            hs.diffusion_distances(kernel, 1, form=form)
    for form in FORMS:
        with pytest.raises(ValueError, match="between 0 and 23"):
            hs.diffusion_distances(kernel, 1, [[0, 24]], form=form)
    indefinite = as_heat_kernel(np.diag([1.0, -0.5]))
    with pytest.raises(ValueError, match="use a whole power"):
        hs.diffusion_distances(indefinite, 1.5)


class TestChunks:
    @pytest.mark.parametrize(("entries", "most"), [(1, 2), (3 * N - 1, 2), (5 * N, 5), (1 << 25, N)])
    def test_rows_fit_in_memory(self, entries, most, monkeypatch):
        kernel = _kernel()
        pairs = np.random.default_rng(0).integers(0, N, (200, 2))
        expected = squareform(pdist(_coordinates(kernel, 2)))[tuple(pairs.T)]
        asked, plain = [], distances.column_distances
        monkeypatch.setattr(distances, "column_distances", lambda *a: asked.append(a[0].shape[1]) or plain(*a))
        monkeypatch.setattr(distances, "_ROW_ENTRIES", entries)
        np.testing.assert_allclose(hs.diffusion_distances(kernel, 2, pairs), expected, atol=1e-12)
        assert max(asked) == most

    @pytest.mark.parametrize("most", [2, 3, 7, 20])
    def test_pairs_are_grouped_by_tiles(self, most):
        pairs = np.random.default_rng(most).integers(0, 40, (150, 2)) * 1000
        groups = list(_pairs_of_few(pairs, most))
        np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(150))
        # As they lie in tiles of half as many points on a side, rows of tiles first, earlier pairs first.
        _, ranks = np.unique(np.sort(pairs, axis=1), return_inverse=True)
        tiles = ranks.reshape(-1, 2) // (most // 2)
        order = sorted(range(150), key=lambda p: (*tiles[p], p))
        assert np.concatenate(groups).tolist() == order
        # Each group is as long as it can be.
        for group, following in pairwise(groups):
            assert len(np.unique(pairs[group])) <= most
            assert len(np.unique(pairs[np.append(group, following[0])])) > most


@pytest.mark.parametrize("normalization", ["stochastic", "symmetric"])
def test_dask_kernel_is_measured_by_columns(normalization, one_thread, monkeypatch):
    monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 10)
    here, there = (
        hs.heat_kernel(points, bandwidth=2.0, normalization=normalization, n_neighbors=None)
        for points in (X, one_thread.from_array(X, chunks=(12, 2)))
    )
    assert not there.in_memory
    expected = hs.diffusion_distances(here, 2, PAIRS)
    asked, plain = [], distances.column_distances
    monkeypatch.setattr(distances, "column_distances", lambda *a: asked.append(a[0].shape[1]) or plain(*a))
    modes, diffuse = [], distances.diffuse
    monkeypatch.setattr(distances, "diffuse", lambda *a, trivial: modes.append(trivial) or diffuse(*a, trivial=trivial))
    monkeypatch.setattr(distances, "_MOST_COLUMNS", 6)
    np.testing.assert_allclose(hs.diffusion_distances(there, 2, PAIRS), expected, atol=1e-12)
    assert modes == [normalization == "symmetric"] * 2  # a constant mode is left out, for it would cost digits
    assert max(asked) <= 6
    assert len(asked) == 2
    points = np.array([4, 0, 17])
    pair = [distances_among(kernel, points, [1, 3]) for kernel in (here, there)]
    np.testing.assert_allclose(pair[1], pair[0], atol=1e-12)
    assert modes[2:] == [normalization == "symmetric"] * 2
    for options in ({}, {"pairs": PAIRS, "form": "spectrum"}, {"pairs": PAIRS, "form": "covariance"}):
        with pytest.raises(ValueError, match="pairs"):
            hs.diffusion_distances(there, 2, **options)


@pytest.mark.parametrize("normalization", ["bistochastic", "symmetric", "stochastic"])
def test_among_some_points(normalization):
    kernel = _kernel(normalization)
    points = np.array([4, 0, 17, 9])
    for found, t in zip(distances_among(kernel, points, [1, 3]), (1, 3), strict=True):
        np.testing.assert_allclose(found, pdist(_coordinates(kernel, t)[points]), atol=1e-12)


class TestIntervals:
    @pytest.mark.parametrize("level", [0.5, 0.95])
    @pytest.mark.parametrize("k", [1, 7])
    def test_by_the_chi_square_law(self, k, level):
        d = np.array([0.0, 0.5, 2.0])
        low, high = distance_interval(d, k, level, exact_part=[3.0, 0.0, 1.0])
        law = stats.chi2(k)
        tail = (1 - level) / 2
        np.testing.assert_allclose(low, np.sqrt(np.square([3.0, 0.0, 1.0]) + k * d**2 / law.isf(tail)))
        np.testing.assert_allclose(high, np.sqrt(np.square([3.0, 0.0, 1.0]) + k * d**2 / law.ppf(tail)))
        # Exactly so often it covers.
        values = law.rvs(20_000, random_state=0)
        bounds = distance_interval(np.sqrt(values / k), k, level)
        assert np.mean((bounds[0] < 1) & (bounds[1] > 1)) == pytest.approx(level, abs=0.02)

    def test_squares_of_single_precision_do_not_underflow(self):
        small = np.float32(1e-30)
        np.testing.assert_allclose(distance_interval(small, 3), np.array(distance_interval(1.0, 3)) * 1e-30, rtol=1e-6)
        np.testing.assert_allclose(distance_interval(0.0, 3, exact_part=small), 1e-30, rtol=1e-6)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_infinite_distances(self, bad):
        with pytest.raises(ValueError, match="NaN or infinity"):
            distance_interval([1.0, bad], 3)
        with pytest.raises(ValueError, match="NaN or infinity"):
            distance_interval([1.0, 2.0], 3, exact_part=[1.0, bad])

    def test_bad_levels_and_sizes(self):
        with pytest.raises(ValueError, match=r"^level=1\.5 was given"):
            distance_interval(1.0, 3, 1.5)
        for bad in (0, 2.5, None):
            with pytest.raises(ValueError, match=r"^n_components="):
                distance_interval(1.0, bad)

    @pytest.mark.parametrize("pairs", [None, PAIRS])
    def test_of_a_sketch(self, pairs):
        kernel = _kernel()
        Y = np.random.default_rng(0).normal(size=(N, 5))
        plain = sketch_interval(Y, pairs, 0.9, n_exact=0, kernel=kernel, power=4)
        np.testing.assert_array_equal(plain, distance_interval(embedded_distances(Y, pairs), 5, 0.9))
        found = sketch_interval(Y, pairs, 0.9, n_exact=2, kernel=kernel, power=4)
        exact, sketched = (embedded_distances(part, pairs) for part in (Y[:, :2], Y[:, 2:]))
        low, high = distance_interval(sketched, 3, 0.9, exact_part=exact)
        slack = distances._rounding(Y, pairs, kernel, 4)
        np.testing.assert_allclose(found[0], np.maximum(low - slack, 0.0), rtol=1e-14)
        np.testing.assert_allclose(found[1], high + slack, rtol=1e-14)
        assert (slack > 0).all()

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_no_narrower_than_rounding(self, dtype):
        kernel = hs.heat_kernel(X.astype(dtype), bandwidth=2.0)
        kernel.scaling = replace(kernel.scaling, residual=3e-9)
        Y = np.random.default_rng(0).normal(size=(N, 5))
        norms = np.linalg.norm(Y, axis=1)
        eps, relative = {np.float64: (2.0**-52, 1e-10), np.float32: (2.0**-23, 1e-6)}[dtype]
        for t in (0.5, 1, 1e6):
            unit = 4 * (eps * max(t, 1) + relative + 3e-9)
            found = distances._rounding(Y, None, kernel, t)
            larger = np.maximum(norms[:, None], norms[None])[np.triu_indices(N, 1)]
            np.testing.assert_allclose(found, unit * larger, rtol=1e-12)
            some = distances._rounding(Y.astype(np.float32), PAIRS, kernel, t)
            np.testing.assert_allclose(some, unit * norms[PAIRS].max(axis=1), rtol=1e-6)
        given = as_heat_kernel(np.eye(3))  # scaled by nobody
        np.testing.assert_allclose(distances._rounding(np.eye(3), None, given, 1), 4 * (2.0**-52 + 1e-10), rtol=1e-12)


def _failure(e, k, share):
    """A squared distance, of which a share is sketched by k columns, leaves [(1 - e)^2, (1 + e)^2]."""
    law = stats.chi2(k)
    below = max(1 - (1 - (1 - e) ** 2) / share, 0.0)
    return law.cdf(k * below) + law.sf(k * (1 + ((1 + e) ** 2 - 1) / share))


class TestSizes:
    @pytest.mark.parametrize("shares", [np.ones(1), np.array([0.5]), np.array([1.0, 0.2, 0.6])])
    @pytest.mark.parametrize("e", [0.1, 0.4])
    def test_probabilities(self, e, shares):
        for k in (1, 5, 40):
            assert _miss(e, k, shares) == pytest.approx(np.mean([_failure(e, k, s) for s in shares]), rel=1e-12)
        assert _miss(e, 3, np.array([0.0, 1e-9])) == _miss(e, 3, np.full(2, 1e-6)) == 0.0

    @pytest.mark.parametrize(
        ("e", "n", "confidence"), [(0.2, None, 0.95), (0.5, 2, 0.9), (0.3, 50, 0.99), (0.9, None, 0.3)]
    )
    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_fewest_columns_that_suffice(self, e, n, confidence, share):
        found = columns_for(e, np.array([share]), n, confidence=confidence)
        allowed = (1 - confidence) / (1 if n is None else n * (n - 1) / 2)
        assert isinstance(found, int)
        assert _failure(e, found, share) <= allowed
        if found > 1:
            assert _failure(e, found - 1, share) > allowed
        if share == 1.0:
            assert hs.components_for(e, n, confidence=confidence) == found

    @pytest.mark.parametrize("n", [None, 2, 30])
    @pytest.mark.parametrize("confidence", [0.5, 0.95])
    def test_error_of_inverts_columns_for(self, n, confidence):
        for k in (20, 101):
            e = error_of(k, np.ones(1), n, confidence=confidence)
            assert columns_for(e, np.ones(1), n, confidence=confidence) <= k
            assert columns_for(e - 3e-6, np.ones(1), n, confidence=confidence) > k
        assert error_of(1, np.ones(1), confidence=0.999) == 1.0  # no error below 1 is reached

    def test_bad_requests(self):
        for bad in (0.0, 1.0, 1e-7):
            with pytest.raises(ValueError, match=r"^distance_error="):
                hs.components_for(bad)
        with pytest.raises(ValueError, match=r"^confidence=1"):
            hs.components_for(0.1, confidence=1)
        for bad in (1, 0, 2.5):
            with pytest.raises(ValueError, match=r"^n_samples="):
                hs.components_for(0.5, bad)

    def test_check_level(self):
        for good in (0.5, np.float32(0.25), 1e-300):
            assert check_level(good, "share") == float(good)
            assert type(check_level(good, "share")) is float
        for bad in (0, 1, -0.5, 2.0, np.nan, "0.5", None, True, [0.5]):
            with pytest.raises(ValueError, match="share="):
                check_level(bad, "share")
