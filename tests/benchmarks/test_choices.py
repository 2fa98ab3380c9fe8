"""The study of automatic choices: its data, its trials, and that the page says what the tables hold."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.choices.against_grid import AGAINST_GRID, Spectrum, distortions
from benchmarks.choices.coverage import COVERAGE
from benchmarks.choices.geometry import GEOMETRY, UNSEEN
from benchmarks.choices.held_out import HELD_OUT
from benchmarks.choices.page import write_page
from benchmarks.choices.rules import RULES, knee_of_phate
from benchmarks.choices.times import CHOICE_TIMES
from benchmarks.choices.verdicts import held_out, judged, ratios
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch_paper.store import Store

STUDY = Path(__file__).parents[2] / "docs" / "choices"


class TestGeometry:
    @pytest.mark.parametrize("name", GEOMETRY)
    def test_geodesics_are_metrics_no_shorter_than_lines(self, name):
        X, geodesic = GEOMETRY[name](40, np.random.default_rng(0))
        np.testing.assert_allclose(geodesic, geodesic.T, atol=1e-9)
        np.testing.assert_allclose(np.diagonal(geodesic), 0, atol=1e-7)
        # the way through any third point is no shorter; outliers, put in by hand, are no part of the circle's metric
        if name != "circle with outliers":
            through = (geodesic[:, :, None] + geodesic[None, :, :]).min(axis=1)
            assert (geodesic <= through + 1e-9).all()
        if name not in ("noisy circle", "Klein bottle", "trefoil knot"):  # a unit of its own for the last
            straight = squareform(pdist(X))
            assert (geodesic >= straight * (1 - 1e-9)).all()

    def test_close_points_are_as_far_as_they_look(self):
        for name in ("circle", "swiss roll", "S curve", "tree", "flat torus", "sphere"):
            X, geodesic = GEOMETRY[name](800, np.random.default_rng(1))
            straight = squareform(pdist(X))
            near = (geodesic > 1e-6) & (geodesic < 0.02 * geodesic.max())
            assert np.median(geodesic[near] / straight[near]) == pytest.approx(1.0, abs=0.05), name


class TestTrials:
    def test_against_the_grid(self):
        trial = replace(AGAINST_GRID["circle"], n_samples=80).trial(0)
        table = pd.DataFrame(trial).set_index("rule")
        assert list(table.index) == ["best on the grid", *RULES]
        columns = [c for c in table if c.startswith(("exact", "sketched"))]
        assert (table.loc["neighbor, best time", columns] <= table.loc["neighbor, power 8", columns] + 1e-12).all()
        assert table.loc["auto", "exact_central"] < 1.5 * table.loc["best on the grid", "exact_central"]

    def test_distances_are_those_of_the_library(self):
        X, geodesic = GEOMETRY["sphere"](60, np.random.default_rng(0))
        kernel = hs.heat_kernel(X, bandwidth=0.5)
        row = distortions(Spectrum(kernel, 0), 3.0, geodesic)
        exact = np.log(hs.diffusion_distances(kernel, 3) / squareform(geodesic, checks=False))
        assert row["exact_log_L"] == pytest.approx(np.ptp(exact), rel=1e-5)

    def test_held_out(self):
        table = pd.DataFrame(replace(HELD_OUT["wine"], n_samples=90).trial(0))
        assert set(table["rule"]) == {"grid", "neighbor, power 8", "auto"}
        assert (table["held_out"] > 0).all()
        assert table["labels"].between(0, 1).all()

    def test_coverage(self):
        table = pd.DataFrame(replace(COVERAGE["coverage"], n_samples=60, data=("circle",)).trial(0))
        assert (table["covered"] > 0.5).all()
        assert (table["width"] >= 1).all()

    def test_times(self):
        experiment = replace(CHOICE_TIMES["choice_times_500"], n_samples=120, data=("torus",))
        table = pd.DataFrame(experiment.trial(0))
        assert set(table["method"]) == {"GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch"}
        np.testing.assert_allclose(table["extra"], table["automatic"] / table["given"] - 1)

    def test_the_knee_of_phate_is_where_two_lines_meet(self):
        kernel = hs.heat_kernel(hs.datasets.circle(100, random_state=0), bandwidth=0.2)
        assert 3 < knee_of_phate(kernel) < 97


@pytest.fixture(scope="module")
def tables():
    store = Store(STUDY)
    return {name: store.read(name) for name in store.names}


class TestCommitted:
    def test_everything_is_there(self, tables):
        declared = {**AGAINST_GRID, **HELD_OUT, **COVERAGE, **CHOICE_TIMES}.values()
        assert set(tables) == {experiment.name for experiment in declared}
        for experiment in declared:
            assert tables[experiment.name]["trial"].nunique() == experiment.n_trials

    def test_the_page_is_made_from_the_tables(self, tmp_path):
        shutil.copytree(STUDY, tmp_path / "study")
        (tmp_path / "study" / "index.md").unlink()
        assert write_page(tmp_path / "study").read_text() == (STUDY / "index.md").read_text()

    def test_a_trial_comes_out_as_committed(self, tables):
        experiment = AGAINST_GRID["circle"]
        found = pd.DataFrame(experiment.trial(3)).set_index("rule")
        kept = tables[experiment.name].query("trial == 3").set_index("rule")
        columns = ["exact_central", "exact_log_L", "sketched_central"]
        np.testing.assert_allclose(found[columns], kept[columns], rtol=1e-3)

    def test_other_rules_are_no_better(self, tables):
        auto, *others = (ratios(tables, rule)["exact_central"] for rule in RULES)
        assert all(auto.mean() < other.mean() for other in others)
        assert set(UNSEEN) <= set(auto.index)

    def test_labels_are_kept(self, tables):
        real = held_out(tables)
        assert (real["auto labels"] >= real["default labels"] - 0.02).all()

    def test_what_is_promised(self, tables):
        verdicts = judged(tables)
        page = (STUDY / "index.md").read_text()
        for verdict in verdicts:
            line = f"| {verdict.promise} | {verdict.measured} | **{'kept' if verdict.kept else 'not kept'}** |"
            assert line in page
