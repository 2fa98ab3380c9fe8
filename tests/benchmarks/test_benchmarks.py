"""The study at scale: exact distances, scores, recall, claims that false figures refute, and which contenders run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.data import make, swiss_roll, tree, tuning

import heatsketch as hs
from benchmarks import embedders, exactness, loops, scale, waits
from heatsketch_paper.harness.store import Store


@pytest.fixture(scope="module")
def tables():
    store = Store(Path(__file__).parents[2] / "docs" / "benchmarks")
    return {name: store.read(name) for name in store.names}


@pytest.mark.parametrize(("make_set", "d"), [(swiss_roll, 3), (tree, 50)])
def test_data_sets_are_deterministic(make_set, d):
    X = make_set(400, 3)
    assert X.shape == (400, d)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, make_set(400, 3))
    assert not np.array_equal(X, make_set(400, 4))
    assert tuning(100, d).shape == (100, d)


def test_exact_distances_agree_with_the_library():
    X = make("tree", 300).astype(float)
    A = hs.heat_kernel(X, n_neighbors=30, normalization="stochastic")
    for pairs in exactness.sample_pairs(X):
        assert len(pairs) > 100
        own = exactness.Own(A.symmetric, weight=A.row_weight)
        np.testing.assert_allclose(
            exactness.exact_distances(own, pairs), hs.diffusion_distances(A, 16, pairs), rtol=1e-6
        )


def test_all_eigenvectors_of_an_affinity_have_no_error():
    W = np.random.default_rng(0).random((40, 40))
    W += W.T
    d = W.sum(axis=1)
    values, V = np.linalg.eigh(W / np.sqrt(np.outer(d, d)))
    pairs = np.array([[0, 1], [2, 30], [7, 8]])
    weighted, plain = (exactness.Own.from_affinity(W, weighted=w) for w in (True, False))
    for own, Y in (
        (weighted, V[:, :-1] * values[:-1] ** 3 / np.sqrt(d)[:, None]),
        (plain, V[:, :-1] * values[:-1] ** 3),
        (exactness.Own(plain.T, heat=True), V * np.exp(3 * (values - 1))),
    ):
        assert exactness.score(7 * Y, pairs, exactness.exact_distances(own, pairs, 3))["error"] < 1e-6
    with pytest.raises(ValueError, match="NaN"):
        exactness.score(np.full((40, 2), np.nan), pairs, np.ones(3))


def test_recall_counts_neither_the_point_itself_nor_missing_entries():
    X = np.arange(20, dtype=np.float32)[:, None] ** 2  # no two distances alike
    nearest = np.argsort(np.abs(X - X.T), axis=1)
    assert loops.recall(X, nearest[:, 1:4], 3) == 1.0
    assert loops.recall(X, nearest[:, :4], 3) == 1.0
    lost = nearest[:, 1:4].copy()
    lost[:, 0] = -1
    assert loops.recall(X, lost, 3) == pytest.approx(2 / 3)


def test_an_embedding_is_measured_and_scored(tmp_path):
    path = str(tmp_path / "reference.npz")
    list(exactness.reference("", "tree", 300, path))
    cold, measured, scores = embedders.embeddings("heatsketch", "tree", 300, path)
    assert cold["cold_s"] > 0
    assert measured["status"] == "ok"
    assert measured["seconds"] > 0
    assert 0 < scores["own_random_error"] < 0.5
    assert {"own_near_spearman", "ref_near_error"} <= set(scores)


def test_the_committed_page_states_what_its_tables_say(tables):
    page = (Path(__file__).parents[2] / "docs" / "benchmarks" / "index.md").read_text(encoding="utf-8")
    found = list(scale.judged(tables))
    assert len(found) >= 15
    for statement, verdict in found:
        assert f"| {statement} | {verdict.measured} | **{verdict.word}** |" in page


def test_worse_figures_refute_claims(tables):
    worse = {name: table.copy() for name, table in tables.items()}
    for name, column in (
        ("first_use", "import_s"), ("first_use", "more_s"), ("first_use", "more_beside_s"),
        ("first_use", "ever_s"), ("first_use", "besides_s"), ("questions", "ratio"),
        ("page", "seconds"), ("graph_product", "of_limit"), ("embeddings", "peak_mb"),
    ):  # fmt: skip
        worse[name][column] *= 1e4
    for name in ("embeddings", "graph_product", "exact_product"):
        ours = scale.is_ours(worse[name]["method"])
        worse[name].loc[ours, "seconds"] *= 1e4
    worse["neighbours"]["recall"] -= 0.1
    assert {verdict.holds for _, verdict in scale.judged(worse)} == {False}


def test_nothing_is_claimed_about_sizes_that_were_not_measured(tables):
    few = tables["embeddings"].query("n < 50_000")
    assert len(list(scale.judged({"embeddings": few}))) == 1
    assert len(list(scale.judged({"page": tables["page"].query("n == 2_000")}))) == 1


def test_an_earlier_version_is_not_a_peer():
    columns = ["method", "seconds", "own_random_error", "own_random_spearman", "peak_mb"]
    rows = [("heatsketch", 1, 0.2, 0.8, 5.0), ("before heatsketch", 0.5, 0.2, 0.8, 5.0), ("eigsh", 2, 0.3, 0.7, 4.0)]
    table = pd.DataFrame(rows, columns=columns)
    table = table.assign(data="tree", n=500, own_near_error=0.1, own_near_spearman=0.9, trial=0)
    assert list(scale.at_par(scale.over_repeats(table))["method"]) == ["eigsh"]
    text = scale.STUDY.sections["Before and now"]({"embeddings": table})
    assert "| fit | heatsketch | tree | - | 500 | 0.5 | 1 | 0.5 |" in text
    assert "4 MB; heatsketch takes 5 MB" in scale.STUDY.sections["Where we lose"]({"embeddings": table})


def test_an_earlier_version_runs_from_its_checkout(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(
        scale, "run_apart", lambda function, job, **options: seen.append((function, job, options)) or []
    )
    race = scale.Race("neighbours", methods=("before heatsketch",), sizes=(10,), sets=("tree",))
    (case,) = race.cases()
    monkeypatch.delenv("HEATSKETCH_BEFORE", raising=False)
    assert race.race(case)[0]["status"] == "absent"
    monkeypatch.setenv("HEATSKETCH_BEFORE", str(tmp_path))
    race.race(case)
    ((function, job, options),) = seen
    assert (function, job["method"]) == ("benchmarks.loops:neighbours", "heatsketch")
    assert options["python"] == str(tmp_path / ".venv/bin/python")
    assert options["environment"]["PYTHONPATH"].startswith(str(tmp_path / "src"))


def test_waits_are_measured():
    (row,) = waits.first_use("GaussianProcessEmbedding", "swiss roll", 100)
    assert 0 < row["import_s"] < row["first_s"] + row["import_s"]
    rows = list(waits.questions("DiffusionMaps", "swiss roll", 150))
    assert [row["question"] for row in rows] == ["fit", *waits.QUESTIONS]
    assert all(row["ratio"] == pytest.approx(row["seconds"] / rows[0]["seconds"]) for row in rows[1:])


def test_matched_quality_takes_the_fastest_variant_that_is_no_worse():
    columns = ["method", "seconds", "own_random_error", "own_random_spearman"]
    rows = [("heatsketch", 1, 0.2, 0.8), ("heatsketch k=32", 2, 0.05, 0.99), ("heatsketch DiffusionMaps", 3, 0.0, 1.0)]
    table = pd.DataFrame([*rows, ("Palantir", 9, 0.1, 0.95), ("UMAP", 9, -1.0, 0.9)], columns=columns)
    table = table.assign(data="tree", n=50_000, own_near_error=0.1, own_near_spearman=0.9, trial=0)
    found = scale.at_par(scale.over_repeats(table)).set_index("method")
    assert found.loc["Palantir", "our_method"] == "heatsketch k=32"
    assert found.loc["Palantir", "times"] == 4.5
    assert pd.isna(found.loc["UMAP", "our_method"])


def test_late_contenders_are_neither_repeated_nor_tried_with_more_points(monkeypatch):
    def fake(function, job, **limits):
        late = job["method"] == "SciPy"
        return [{"status": "timeout", "reason": "late"} if late else {"status": "ok", "seconds": 100.0 * job["n"]}]

    monkeypatch.setattr(scale, "run_apart", fake)
    race = scale.Race("graph_product", n_trials=2, methods=("heatsketch", "SciPy"), sizes=(10, 20))
    done = []
    for case in race.cases():
        done += [case | row for row in race.measure(case, done)]
    assert [r["trial"] for r in done if r["method"] == "heatsketch"] == [0] * 4
    assert [(r["n"], r["status"]) for r in done if r["method"] == "SciPy" and r["data"] == "tree"] == [
        (10, "timeout"),
        (20, "skipped"),
    ]
    assert [r["n"] for r in done] == sorted(r["n"] for r in done)


def test_scores_that_fail_leave_the_measurement(monkeypatch):
    parts = [{"cold_s": 1.0}, {"status": "ok", "seconds": 2.0}, {"status": "failed", "reason": "no distances"}]
    monkeypatch.setattr(scale, "run_apart", lambda *_, **__: parts)
    (row,) = {e.name: e for e in scale.EXPERIMENTS}["embeddings"].race(
        {"trial": 1, "method": "UMAP", "data": "tree", "n": 10}
    )
    assert row == {"cold_s": 1.0, "status": "ok", "seconds": 2.0, "unscored": "no distances"}
