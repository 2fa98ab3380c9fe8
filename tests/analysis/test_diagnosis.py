"""Each finding on data that have the problem, and none on good data."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
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


@pytest.mark.parametrize("data", ["circle", "stretched_torus", "klein_bottle"])
@pytest.mark.parametrize("power", ["auto", "entropy"])
def test_nothing_is_wrong_with_automatic_choices(data, power):
    X = getattr(hs.datasets, data)(400, random_state=0)
    assert not GP(3, power=power, random_state=0).fit(X).diagnose()


class TestFindings:
    def test_identity(self):
        model = GP(2, bandwidth=2e-5, n_neighbors=None)
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

    def test_outlier(self):
        X = np.vstack([CIRCLE, [[2.0, 2.0]]])
        finding = found(DM(2, bandwidth=0.2, power=4), X, "outlier")
        assert "row 300" in finding.message
        assert finding.figure > 0.9
        assert "the rule 'neighbor' gives" not in finding.remedy  # it would be smaller

    def test_narrow(self):
        X = np.random.default_rng(0).uniform(size=(400, 2))
        finding = found(
            GP(2, bandwidth=0.01 * hs.estimate_bandwidth(X, "neighbor").epsilon, n_neighbors=None), X, "narrow"
        )
        assert finding.figure < 0.5

    def test_wide(self):
        finding = found(GP(2, bandwidth=60.0, power=1), hs.datasets.stretched_torus(300, random_state=0), "wide")
        assert "Use a smaller bandwidth" in finding.remedy

    def test_late(self):
        X = np.random.default_rng(0).uniform(size=(300, 1))
        finding = found(GP(2, bandwidth=0.05, power=300), X, "late")
        assert finding.harmful
        assert finding.figure < 1.5
        angles = 2 * np.pi * np.arange(300) / 300
        even = np.column_stack([np.cos(angles), np.sin(angles)])
        past = found(GP(2, bandwidth=0.05, power=400), even, "late")
        assert not past.harmful  # two modes of a circle decay alike
        assert past.figure == pytest.approx(2, abs=0.75)  # three standard deviations of a trace over 64 columns

    def test_edge(self):
        model = GP(2, power="auto", n_neighbors=6, random_state=0)
        finding = found(model, hs.datasets.circle(1100, random_state=0), "edge")
        assert finding.figure == model.power_ == model.power_choice_.powers[-1]

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
