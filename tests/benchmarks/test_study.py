"""The study of HeatSketch: its measures, its trials, and that the page says what the tables hold."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.scale.data import make
from benchmarks.study import times
from benchmarks.study.charts import CHARTS
from benchmarks.study.deflation import DEFLATION
from benchmarks.study.further import FURTHER, METHODS
from benchmarks.study.gap import GAP
from benchmarks.study.measures import measured
from benchmarks.study.page import write_page
from benchmarks.study.shapes import SHAPES, halves
from benchmarks.study.verdicts import cells, judged
from scipy.spatial.distance import pdist
from sklearn.manifold import MDS

import heatsketch as hs
from heatsketch.datasets import PAPER
from heatsketch_paper.store import Store

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


STUDY = ROOT / "docs" / "study"


class TestMeasures:
    def test_a_similarity_is_perfect(self):
        X = np.random.default_rng(0).normal(size=(60, 3))
        found = measured(3.0 * X[:, [2, 0, 1]], pdist(X))
        assert found["log_L"] == pytest.approx(0.0, abs=1e-9)
        assert found["stress"] == pytest.approx(0.0, abs=1e-9)
        assert [found[m] for m in ("spearman", "trust", "kept")] == pytest.approx([1.0, 1.0, 1.0])

    def test_noise_is_not(self):
        rng = np.random.default_rng(0)
        found = measured(rng.normal(size=(100, 3)), pdist(rng.normal(size=(100, 3))))
        assert found["log_L"] > 2
        assert abs(found["spearman"]) < 0.1
        assert found["kept"] < 0.3


class TestTrials:
    def test_charts(self):
        chart = replace(CHARTS["circle"], n_samples=80, n_components=(2, 3))
        table = pd.DataFrame(chart.trial(0))
        assert set(table["method"]) == {a + b for a in ("DM", "GP", "HS") for b in "SB"}
        means = table.pivot_table(index=["k"], columns="method", values="log_L")
        assert (means["HSB"] <= means["DMB"]).all()
        stage = chart.stage(0, "bistochastic")
        options = {"power": chart.power, "bandwidth": chart.bandwidth}
        model = hs.DiffusionMaps(2, **options).fit(stage.scene.X)
        row = table[(table["method"] == "DMB") & (table["k"] == 2)].iloc[0]
        assert row["log_L"] == pytest.approx(model.distortion().log)
        assert row["log_L_unseen"] == pytest.approx(model.distortion(stage.unseen).log)

    def test_the_estimator_is_what_is_measured(self):
        stage = replace(CHARTS["circle_with_outliers"], n_samples=80).stage(0, "bistochastic")
        Y, unseen = stage.optimised(2)
        setting = PAPER["circle_with_outliers"]
        model = hs.HeatSketch(2, power=setting.power, bandwidth=setting.bandwidth, random_state=stage.scene.seed).fit(
            stage.scene.X
        )
        np.testing.assert_allclose(pdist(Y), model.diffusion_distances(), rtol=1e-6)
        np.testing.assert_allclose(pdist(unseen), pdist(model.transform(stage.unseen)), rtol=1e-6)

    @pytest.mark.parametrize("name", SHAPES)
    def test_shapes(self, name):
        X, unseen = halves(name, 50, np.random.default_rng(0))
        assert len(X) == len(unseen) == 50
        assert X.shape == unseen.shape
        assert np.isfinite(X).all()
        assert not (X[:, None] == unseen[None]).all(axis=-1).any()

    @pytest.mark.skipif("init" not in signature(MDS).parameters, reason="this scikit-learn starts MDS at random alone")
    def test_further(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "umap", None)  # where it is there, it compiles for half a minute
        table = pd.DataFrame(replace(FURTHER["sphere"], n_samples=60, n_components=(2,)).trial(0))
        assert {*METHODS, "MDS", "Isomap"} <= set(table["method"])
        ours = table.set_index("method")["log_L"]
        assert ours["HS"] < ours[["DM", "GP"]].min()

    def test_times(self, monkeypatch):
        monkeypatch.setattr(times, "make", lambda data, n, seed: make(data, min(n, 200), seed))  # to warm up on as well
        row = times.fit("HeatSketch", "swiss roll", 200, 2, 0)
        assert 0 < row["optimising"] < row["seconds"] < 60
        assert 0.05 < row["gib"] < 8


class TestPage:
    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls):
        store = Store(STUDY)
        return {name: store.read(name) for name in store.names}

    def test_everything_is_there(self, tables):
        assert set(tables) >= {*CHARTS, *DEFLATION, *GAP, *FURTHER, "times_500", "times_20000", "times_100000"}
        for name, setting in PAPER.items():
            assert tables[name]["trial"].nunique() == setting.n_trials

    def test_it_says_what_the_tables_hold(self, tmp_path):
        shutil.copytree(STUDY / "tables", tmp_path / "tables")
        (tmp_path / "pictures").mkdir()
        assert write_page(tmp_path).read_text(encoding="utf-8") == (STUDY / "index.md").read_text(encoding="utf-8")

    def test_promises(self, tables):
        """All are kept but one, which the page says: clouds in the plane, unseen."""
        broken = [verdict for verdict in judged(tables) if not verdict.kept]
        assert [verdict.promise for verdict in broken] == ["On unseen points below both, in every single setting."]
        unseen = cells(tables, "log_L_unseen")
        lost = unseen[unseen["share"] >= 1]
        assert set(zip(lost["data"], lost["k"], strict=True)) == {("gaussian_clouds", 2)}

    def test_the_readme_tells_them(self, tables):
        charts = judged(tables)[:5]
        readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        above, plane = (verdict.measured.partition(" in ")[0] for verdict in charts[1:3])
        assert f"its log L is {above} of that of the better" in readme
        assert f"{plane} of it in the plane" in readme
        assert f"below both {charts[4].measured.partition(';')[0]} settings" in readme

    def test_the_papers_methods_are_those_of_the_reproduction(self, tables):
        """The same trials, points and random matrices: means of diffusion maps and sketches agree."""
        for name in CHARTS:
            if name == "gaussian_clouds":  # there against the Euclidean distance
                continue
            there = pd.read_csv(STUDY.parent / "reproduction" / "tables" / f"{name}.csv")
            a, b = (t.groupby(["method", "k"])["log_L"].mean() for t in (tables[name], there))
            shared = a.index.intersection(b.index)
            assert len(shared) >= 16
            close = np.isclose(a[shared], b[shared], rtol=0.01, atol=1e-4)
            assert close.mean() > 0.95
