"""Studies on the harness: consistent declarations, toy runs, and claims that false figures refute."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from benchmarks.data import roll_with_geodesics, tree_with_geodesics
from benchmarks.measures import agreement, preserved

from benchmarks import cluster, defaults, gpu, labels, pipelines, scale, study, trust, units
from heatsketch_paper.harness.store import Store
from heatsketch_paper.harness.study import write_page

DOCS = Path(__file__).parents[2] / "docs"
STUDIES = {m.STUDY.name: m.STUDY for m in (cluster, defaults, gpu, labels, pipelines, scale, study, trust)}
AXES = [("nearest", ""), ("logistic", ""), ("logistic", "_rotated")]
# What the measures of 120 points are if an embedding has nothing to do with the data.
CHANCE = {"distance correlation": 0.0, "trustworthiness": 0.5, "common neighbours": 30 / 119}


@pytest.mark.parametrize("name", STUDIES)
def test_declarations_are_consistent(name):
    declared = STUDIES[name]
    names = [experiment.name for experiment in declared.experiments]
    assert len(set(names)) == len(names)
    quick = [small for experiment in declared.experiments if (small := declared.quick(experiment)) is not None]
    assert quick
    assert all(experiment.cases() for experiment in quick)


@pytest.mark.parametrize("name", STUDIES)
def test_claims_and_sections_need_no_table(name):
    assert list(STUDIES[name].claims({})) == []
    assert all(write({}) == "" for write in STUDIES[name].sections.values())


@pytest.mark.parametrize("name", STUDIES)
def test_claims_and_sections_read_the_committed_tables(name):
    declared = STUDIES[name]
    store = Store(DOCS / (declared.folder or name))
    tables = {table: store.read(table) for table in store.names}
    assert set(tables) == {experiment.name for experiment in declared.experiments}
    assert all(verdict.holds is not None for _, verdict in declared.claims(tables))
    assert all(write(tables) for write in declared.sections.values())


@pytest.mark.parametrize(
    "experiment",
    [
        replace(defaults.INTERVALS, n_samples=60, data=("Klein bottle",)),
        replace(study.CHARTS["circle"], n_samples=40, n_components=(2,)),
        replace(pipelines.EMBEDDINGS[0], data=("iris",), n_components=(2,), methods=("PCA", "HeatSketch")),
        replace(labels.FEW_LABELS[0], data=("iris",), n_components=(2,), methods=labels.EMBEDDINGS[:2]),
        replace(labels.INVERSE, n_samples=150, data=("swiss roll",), n_components=(2,), peers=False),
    ],
    ids=lambda experiment: experiment.name,
)
def test_experiments_run_at_toy_size(experiment):
    table = pd.DataFrame(experiment.measure(experiment.cases()[0]))
    assert len(table) > 1
    assert np.isfinite(table.select_dtypes("number")).any().all()  # some entries are empty, but no column


@pytest.mark.parametrize("shape", [roll_with_geodesics, tree_with_geodesics])
def test_geodesics_are_metrics_no_shorter_than_straight_lines(shape):
    X, d = shape(30, 10, 0.0, np.random.default_rng(0))
    straight = np.linalg.norm(X[:, None] - X[None], axis=2)
    assert (d >= straight - 1e-6).all()
    assert (d[:, :, None] <= d[:, None, :] + d.T[None] + 1e-6).all()


def test_agreement_of_proportional_distances_is_perfect():
    d = roll_with_geodesics(40, 3, 0.0, np.random.default_rng(0))[1]
    found = agreement(3.0 * d, d)
    assert found["spearman"] == pytest.approx(1.0)
    assert found["distortion"] == pytest.approx(0.0, abs=1e-12)
    assert agreement(100.0 - d, d)["spearman"] == pytest.approx(-1.0)


@pytest.mark.parametrize("gain", [0.2, -0.2])
def test_defaults_are_judged_by_labels(gain):
    methods = {defaults.COLUMNS: gain, defaults.UMAP: 0.0, "before: defaults": 0.0}
    rows = [
        {"trial": 0, "data": data, "method": m} | dict.fromkeys(defaults.SCORES, 0.5 + g)
        for data in defaults.HELD_OUT
        for m, g in methods.items()
    ]
    found = list(defaults.STUDY.claims({"labels": pd.DataFrame(rows)}))
    assert found
    assert {verdict.holds for _, verdict in found} == {gain > 0}


def test_pipelines_find_the_better_method():
    rng = np.random.default_rng(0)

    def table(gain):
        rows = []
        for data, method in product("abc", pipelines.METHODS):
            value = 0.9 + 0.001 * rng.normal() + (gain if method.startswith("HeatSketch") else 0.0)
            parts = product(("nearest", "logistic"), (2, 5), ("", "_rotated"), ("", "_unseen"))
            scores = {f"{c}_{n}{r}{u}": value for c, n, r, u in parts if c == "logistic" or not r}
            names = ("kmeans", "hdbscan", "trustworthiness", "data_rank", "multiscale_rank")
            rows.append({"trial": 0, "data": data, "method": method, "k": 10} | dict.fromkeys(names, value) | scores)
        return pd.DataFrame(rows)

    for gain, expected in ((0.05, True), (-0.2, False)):
        found = list(pipelines.STUDY.claims({"new": table(gain)}))
        assert len(found) == 9
        assert {verdict.holds for statement, verdict in found if "against UMAP" in statement} == {expected}


def test_rivals_count_with_their_better_axes():
    scores = {f"{c}_2{r}{u}": 0.5 for c, r in AXES for u in ("", "_unseen")}
    others = dict.fromkeys(("kmeans", "hdbscan", "trustworthiness", "data_rank", "multiscale_rank"), 0.5)
    row = {"trial": 0, "data": "a", "method": "UMAP", "k": 5} | others | scores | {"logistic_2_rotated": 0.7}
    found = pipelines.scored(pd.DataFrame([row])).iloc[0]
    assert found["labels"] == pytest.approx(0.6)
    assert found["unseen"] == pytest.approx(0.5)


def test_preserved_neighbours_and_distances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    same, other = preserved(X, 2.0 * X), preserved(X, rng.normal(size=(120, 2)))
    np.testing.assert_allclose(list(same.values()), 1.0, atol=1e-6)
    assert all(abs(other[name] - chance) < 0.1 for name, chance in CHANCE.items())


def test_worse_figures_refute_claims():
    store = Store(DOCS / "study")
    deflation, times = store.read("deflation"), store.read("times_500")
    worse = deflation.assign(error=deflation["error"].where(deflation["method"] != "auto", 10.0))
    for found, expected in ((deflation, True), (worse, False)):
        ((_, verdict),) = study.STUDY.claims({"deflation": found})
        assert verdict.holds is expected
    ((_, verdict),) = study.STUDY.claims({"times_500": times.assign(seconds=100.0)})
    assert verdict.holds is False


def test_page_is_written_from_any_of_the_tables(tmp_path):
    source, target = Store(DOCS / "defaults"), Store(tmp_path)
    target.prepare()
    for suffix in (".csv", ".json"):
        target.path("intervals", suffix).write_bytes(source.path("intervals", suffix).read_bytes())
    page = write_page(defaults.STUDY, target).read_text(encoding="utf-8")
    assert "## Intervals" in page
    assert "## Known geometry" not in page


def test_reports_of_tests_are_counted_by_file():
    report = ElementTree.fromstring(
        "<suite><testcase classname='tests.slow.test_a'><properties><property name='cases' value='7'/></properties>"
        "</testcase><testcase classname='tests.slow.test_a.TestClass'><failure/></testcase>"
        "<testcase classname='tests.slow.test_b'><skipped/></testcase></suite>"
    )
    output = "tests/slow/test_a.py::test_one:\n  - 12 passing examples, 0 failing\n"
    first, second = trust.by_file(output, report)
    assert first == {"file": "test_a", "tests": 2, "failed": 1, "cases": 19, "faults": 0}
    assert second["tests"] == 0
    assert trust.counts(report) == {"passed": 1, "failed": 1, "skipped": 1}


def test_outcomes_of_mutants_are_read(tmp_path):
    folder = tmp_path / "mutants" / "src" / "heatsketch" / "linalg"
    folder.mkdir(parents=True)
    codes = {"a": 1, "b": 0, "c": -24, "d": None}
    (folder / "sketch.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
    expected = {"module": "sketch", "mutants": 4, "killed": 1, "timed_out": 1, "survived": 1, "not_tested": 1}
    assert trust.outcomes(tmp_path) == [expected]


def test_units_are_judged_on_other_tables():
    assert not units.CHOOSING.keys() & units.JUDGING.keys()
    label = np.repeat([0, 1], 30)
    X = np.random.default_rng(0).normal(size=(60, 2)) + 50.0 * label[:, None]
    assert units.accuracy(X, label) == 1.0
    assert units.accuracy(X * [0.0, 1e-9], 1 - label) == 1.0
