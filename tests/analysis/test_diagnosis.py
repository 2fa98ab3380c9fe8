"""Each finding on data that have the problem, and none on good data."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs

GP, DM = hs.GaussianProcessEmbedding, hs.DiffusionMaps
CIRCLE = hs.datasets.circle(300, random_state=0)


def found(model: hs.GaussianProcessEmbedding, X: object, name: str):
    """Fit, diagnose, and return the finding of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        diagnosis = model.fit(X).diagnose()
    assert name in diagnosis.names, str(diagnosis)
    finding = next(one for one in diagnosis if one.name == name)
    assert finding.message
    assert finding.remedy
    assert np.isfinite(finding.figure)
    return finding


def tripled_roll() -> np.ndarray:
    return make_swiss_roll(2000, random_state=0)[0] * [1.0, 3.0, 1.0]


def tree(n_features: int, noise: float) -> np.ndarray:
    """1,000 points around six branches of a tree, each a random walk of 150 steps."""
    rng = np.random.default_rng(0)
    places = np.zeros((1, n_features))
    for _ in range(6):
        steps = 0.3 * rng.normal(size=(150, n_features)) / np.sqrt(n_features)
        places = np.vstack([places, places[rng.integers(len(places))] + np.cumsum(steps, axis=0)])
    places = places[rng.integers(len(places), size=1000)]
    return places + noise * rng.normal(size=places.shape)


CLOUDS = np.vstack([np.random.default_rng(c).normal(loc=4.0 * c, size=(150, 5)) for c in range(3)])
PAPER = {"circle": (0.25, 8), "stretched_torus": (0.3, 10), "klein_bottle": (2.0, 4)}


@pytest.mark.parametrize("data", PAPER)
@pytest.mark.parametrize("kernel", ["default", "paper"])
def test_nothing_is_wrong_with_good_choices(data, kernel):
    X = getattr(hs.datasets, data)(500, random_state=0)
    bandwidth, power = PAPER[data] if kernel == "paper" else ("auto", "auto")
    assert not GP(3, bandwidth=bandwidth, power=power, random_state=0).fit(X).diagnose()


@pytest.mark.parametrize("X", [tripled_roll(), load_digits().data[:1000], CLOUDS], ids=["roll", "digits", "clouds"])
def test_default_kernel_neither_leaks_nor_is_noise(X):
    names = GP(8, random_state=0).fit(X).diagnose().names
    assert not {"leak", "noise", "narrow", "wide"} & set(names)


class TestFindings:
    def test_identity(self):
        model = GP(2, bandwidth=2e-5, n_neighbors=None, power=8)
        finding = found(model, CIRCLE, "identity")
        assert finding.harmful
        assert finding.figure == pytest.approx(np.trace(model.kernel_.toarray()) / 300, rel=0.05)
        assert "the rule 'neighbor' gives 0.01" in finding.remedy

    def test_constant(self):
        finding = found(GP(2, bandwidth=500.0, power=1), CIRCLE, "constant")
        assert finding.harmful
        assert finding.figure < 0.05

    def test_components(self):
        parts = np.vstack([CIRCLE + 1e3 * s for s in range(3)])
        finding = found(GP(3, bandwidth=0.2), parts, "components")
        assert finding.figure == 3
        assert not finding.harmful

    def test_components_of_a_graph(self):
        graph = nx.disjoint_union_all([nx.complete_graph(6)] * 4)
        finding = found(GP(2, affinity="precomputed"), graph, "components")
        assert finding.figure == 4
        assert "bandwidth" not in finding.remedy

    def test_slow_modes_are_not_components(self):
        for X in (hs.datasets.circle(500, random_state=0), np.random.default_rng(0).uniform(size=(500, 1))):
            assert "components" not in GP(3, random_state=0).fit(X).diagnose().names

    def test_hub(self):
        graph = nx.random_regular_graph(4, 200, seed=0)
        graph.add_edges_from((0, v) for v in range(1, 150))
        finding = found(GP(2, affinity="precomputed", power=2), graph, "hub")
        assert f"Row {list(graph).index(0)} is a hub" in finding.message
        assert finding.figure > 20

    def test_units(self):
        X = load_digits().data[:600] * np.where(np.arange(64) == 20, 1000.0, 1.0)
        model = GP(2, random_state=0)
        finding = found(model, X, "units")
        assert "column 20" in finding.message
        assert finding.figure > 0.99
        assert "outlier" not in model.diagnose().names
        frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(64)])
        assert "'pixel 20'" in found(model, frame, "units").message

    @pytest.mark.parametrize("n_large", [1, 2, 3])
    def test_any_number_of_columns_in_a_larger_unit(self, n_large):
        X = np.random.default_rng(0).uniform(size=(300, 4)) * np.where(np.arange(4) < n_large, 1e4, 1.0)
        assert found(GP(2, random_state=0), X, "units").figure > 0.99

    @pytest.mark.parametrize("kind", ["digits", "sparse", "components", "roll", "counts", "cosine"])
    def test_one_unit(self, kind):
        X, metric = load_digits().data[:400], "euclidean"
        if kind == "sparse":
            X = sparse.csr_array(X)
        elif kind == "components":
            X = PCA(50).fit_transform(X)
        elif kind == "roll":
            X = make_swiss_roll(400, random_state=0)[0]
        elif kind == "counts":
            X = np.random.default_rng(0).poisson(np.geomspace(0.01, 5.0, 40), size=(400, 40)).astype(float)
        elif kind == "cosine":
            X, metric = X * np.where(np.arange(64) == 20, 1000.0, 1.0), "cosine"
        assert "units" not in DM(2, metric=metric).fit(X).diagnose().names

    def test_outlier(self):
        X = np.vstack([CIRCLE, [[2.0, 2.0]]])
        finding = found(DM(2, bandwidth=0.2, power=4), X, "outlier")
        assert "row 300" in finding.message
        assert finding.figure > 0.9
        assert "the rule 'neighbor' gives" not in finding.remedy  # it would be smaller

    def test_narrow(self):
        X = np.random.default_rng(0).uniform(size=(400, 2))
        model = GP(2, n_neighbors=15, bandwidth="self-tuning", kernel_params={"bandwidth_neighbor": 1})
        finding = found(model, X, "narrow")
        rows = model.kernel_.toarray()
        assert finding.figure == pytest.approx(400 / np.square(rows).sum(), rel=0.05)
        assert "bandwidth_neighbor" in finding.remedy

    def test_wide(self):
        finding = found(GP(2, bandwidth=60.0, power=1), hs.datasets.stretched_torus(300, random_state=0), "wide")
        assert finding.figure > 150
        assert "Use a smaller bandwidth (the rule 'neighbor' gives" in finding.remedy

    def test_leak(self):
        X, model = tripled_roll(), GP(2, bandwidth=226.0, power=1, n_neighbors=None, random_state=0)
        finding = found(model, X, "leak")
        assert finding.harmful
        angle = np.hypot(X[:, 0], X[:, 2])  # the radius of the spiral is its angle
        arc = np.abs(np.square(angle[:, None]) - np.square(angle)) / 2
        crossing = np.hypot(arc, X[:, None, 1] - X[:, 1]) > 2.5 * np.linalg.norm(X[:, None] - X, axis=2)
        assert finding.figure == pytest.approx(model.kernel_.toarray()[crossing].sum() / 2000, abs=0.08)
        assert "smaller bandwidth" in finding.remedy

    def test_noise(self):
        assert found(GP(8, random_state=0), tree(50, 1.0), "noise").figure > 0.7
        assert "noise" not in GP(8, random_state=0).fit(tree(50, 0.02)).diagnose().names

    def test_late(self):
        X = np.random.default_rng(0).uniform(size=(300, 1))
        finding = found(GP(2, bandwidth=0.05, power=300), X, "late")
        assert finding.harmful
        assert finding.figure < 1.5

    def test_no_time_is_late_if_all_are_kept(self):
        X = np.random.default_rng(0).uniform(size=(300, 1))
        assert "late" not in GP(2, bandwidth=0.05, power="multiscale").fit(X).diagnose().names

    def test_dimension(self):
        X = np.random.default_rng(0).normal(size=(400, 8))
        finding = found(GP(2), X, "dimension")
        assert finding.figure > 4
        assert "n_components=" in finding.remedy

    def test_scaling(self):
        X = np.vstack([CIRCLE, [[30.0, 30.0]]])
        finding = found(GP(2, bandwidth=1.0, kernel_params={"max_iter": 2}), X, "scaling")
        assert finding.harmful

    def test_recall(self, monkeypatch):
        model = GP(2, n_neighbors=10, random_state=0).fit(CIRCLE)
        monkeypatch.setattr(type(model.kernel_.affinity), "recall", 0.8)
        assert "recall" in model.diagnose().names

    def test_harmful_findings_come_first(self):
        diagnosis = GP(1, bandwidth=500.0, power=1).fit(hs.datasets.stretched_torus(200, random_state=0)).diagnose()
        harmful = [one.harmful for one in diagnosis]
        assert len(harmful) > 1
        assert harmful == sorted(harmful, reverse=True)


@pytest.mark.parametrize("n", [2, 4])
def test_few_points(n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        diagnosis = GP(1, random_state=0).fit(np.random.default_rng(0).normal(size=(n, 2))).diagnose()
    assert all(np.isfinite(one.figure) for one in diagnosis)


@pytest.mark.parametrize("kind", ["parts", "hub", "loops"])
def test_remedies_of_graphs_name_what_graphs_have(kind):
    """A graph has no bandwidth, no columns and no number of neighbours that could be changed."""
    graph = nx.disjoint_union_all([nx.random_regular_graph(4, 100, seed=0)] * (2 if kind == "parts" else 1))
    if kind == "hub":
        graph.add_edges_from((0, v) for v in range(1, 90))
    if kind == "loops":
        graph.add_edges_from(((v, v) for v in range(100)), weight=1e4)
    findings = GP(2, affinity="precomputed", power=2).fit(graph).diagnose()
    assert findings
    for finding in findings:
        assert not {"bandwidth", "n_neighbors", "standardise", "metric"} & set(finding.remedy.replace(",", "").split())
