"""New points in a layout: each at the minimum of its own part of the objective, by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import heatsketch as hs
from heatsketch.layout import placement
from heatsketch.layout.similarities import neighbor_weights

HS = hs.HeatSketch
DIGITS, CLASSES = load_digits(return_X_y=True)
OLD, NEW = DIGITS[:500], DIGITS[500:560]
OPTIONS = [
    {},
    {"n_components": 4},
    {"power": 4},
    {"n_neighbors": None},
    {"objective": "log-stress"},
    {"bandwidth": 300},
]


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def model(request):
    return HS(random_state=0, **request.param).fit(OLD)


class TestEachRowAlone:
    def test_batches_do_not_matter(self, model):
        placed = model.transform(NEW)
        for some in (slice(0, 1), slice(7, 20), [30, 2, 2]):
            np.testing.assert_allclose(model.transform(NEW[some]), placed[some], atol=1e-6 * np.ptp(model.embedding_))

    def test_fitted_points_keep_their_places(self, model):
        np.testing.assert_array_equal(model.transform(OLD), model.embedding_)
        np.testing.assert_array_equal(model.transform(OLD[[5, 499]]), model.embedding_[[5, 499]])
        mixed = model.transform(np.vstack([NEW[:1], OLD[5:6]]))
        np.testing.assert_array_equal(mixed[1], model.embedding_[5])
        assert np.abs(mixed[0] - model.embedding_).max(axis=1).min() > 0

    def test_pickled(self, model):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(NEW), model.transform(NEW))

    def test_saved(self, model, tmp_path):
        hs.save_model(model, tmp_path / "model")
        np.testing.assert_array_equal(hs.load_model(tmp_path / "model").transform(NEW), model.transform(NEW))

    def test_among_their_own_kind(self, model):
        classes = KNeighborsClassifier(10).fit(model.embedding_, CLASSES[:500])
        share = classes.score(model.transform(NEW), CLASSES[500:560])
        assert share >= 0.75


@pytest.mark.parametrize("k", [2, 5])
def test_place_is_a_minimum(k):
    """By the formula, with all pairs in float64, and from many starts."""
    model = HS(k, random_state=0).fit(OLD)
    kernel, unit = model.kernel_, model._unit
    Y = model.embedding_ / unit
    s = np.sqrt(model.bandwidth_)
    s = np.clip(s / np.median(s), 0.25, 4.0)
    q = np.outer(s, s) / (np.outer(s, s) + squareform(pdist(Y)) ** 2)
    factor = len(Y) / (q.sum() - len(Y))
    P = neighbor_weights(kernel, kernel.affinity.rows(NEW)[0], np.arange(len(Y))).toarray()
    np.testing.assert_allclose(P.sum(axis=1), 1.0)

    def part(y, p, own):
        both, squared = own * s, np.square(Y - y).sum(axis=1)
        return p @ np.log(both + squared) + factor * (both / (both + squared)).sum()

    for p, found in zip(P[:12], model.transform(NEW[:12]) / unit, strict=True):
        own = np.exp(p @ np.log(s))
        starts = [p @ Y, *Y[np.argsort(-p)[:5]]]
        value = part(found, p, own)
        assert value <= min(part(start, p, own) for start in starts) + 1e-5
        reached = minimize(part, found, (p, own)).fun
        assert value < reached + 1e-3


def test_grid_and_all_pairs_agree(monkeypatch):
    model = HS(random_state=0).fit(OLD)
    expected = model.transform(NEW)
    monkeypatch.setattr(placement, "FEW_POINTS", 100)
    del model._layout
    moved = np.linalg.norm(model.transform(NEW) - expected, axis=1)
    assert np.median(moved) < 1e-3 * np.ptp(expected)
    assert (moved < 0.02 * np.ptp(expected)).mean() > 0.95


class TestPrecomputed:
    def test_distances(self):
        D = squareform(pdist(DIGITS[:200]))
        model = HS(metric="precomputed", random_state=0).fit(D[:150, :150])
        points = HS(random_state=0).fit(DIGITS[:150])
        np.testing.assert_allclose(model.transform(D[150:, :150]), points.transform(DIGITS[150:200]), atol=1e-3)
        np.testing.assert_array_equal(model.transform(D[:9, :150]), model.embedding_[:9])

    def test_graphs(self):
        W = sparse.csr_array(hs.heat_kernel(OLD[:200], n_neighbors=8).affinity.operator.toarray())
        W.setdiag(0.0)
        W.eliminate_zeros()
        model = HS(affinity="precomputed", random_state=0).fit(W)
        np.testing.assert_array_equal(model.transform(W), model.embedding_)
        np.testing.assert_array_equal(model.transform(W[[3, 50]]), model.embedding_[[3, 50]])
        new = W[[3]] + W[[4]]
        assert np.isfinite(model.transform(new)).all()

    def test_vertices_with_the_same_neighbours_are_placed_at_their_mean(self):
        star = np.zeros((12, 12))
        star[0, 1:] = star[1:, 0] = 1.0
        star[1, 2] = star[2, 1] = star[3, 4] = star[4, 3] = 1.0
        model = HS(affinity="precomputed", random_state=0).fit(star)
        np.testing.assert_allclose(model.transform(star[[7]])[0], model.embedding_[5:].mean(axis=0), atol=1e-6)
        np.testing.assert_array_equal(model.transform(star), model.embedding_)


def test_copies_of_fitted_points():
    twice = np.vstack([OLD[:150], OLD[:40]])
    model = HS(random_state=0).fit(twice)
    np.testing.assert_array_equal(model.embedding_[:40], model.embedding_[150:])
    np.testing.assert_array_equal(model.transform(twice), model.embedding_)
    once = HS(random_state=0).fit(OLD[:150], sample_weight=np.r_[np.full(40, 2.0), np.ones(110)])
    # Rounding differs, and grows in the search.
    assert procrustes(model.embedding_[:150], once.embedding_)[2] < 0.05
    assert procrustes(model.transform(NEW), once.transform(NEW))[2] < 0.1


def test_a_point_without_neighbours_raises():
    W = np.zeros((1, 60))
    model = HS(affinity="precomputed", random_state=0).fit(np.exp(-squareform(pdist(DIGITS[:60])) / 20))
    with pytest.raises(ValueError, match="no affinity"):
        model.transform(W)
