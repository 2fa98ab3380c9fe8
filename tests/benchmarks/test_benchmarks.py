"""The benchmark harness: data, resuming, verdicts and the page; no peer needs to be installed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heatsketch as hs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.data import DATA, make, swiss_roll, tree, tuning  # noqa: E402
from benchmarks.scale import plan as planning  # noqa: E402
from benchmarks.scale.__main__ import _shown, main  # noqa: E402
from benchmarks.scale.accuracy import Own, build_reference, evaluate, exact_distances, sample_pairs, score  # noqa: E402
from benchmarks.scale.headline import headline  # noqa: E402
from benchmarks.scale.launch import run_job  # noqa: E402
from benchmarks.scale.losses import losses  # noqa: E402
from benchmarks.scale.machine import fingerprint, source_digest  # noqa: E402
from benchmarks.scale.methods import kernel_operator, registry  # noqa: E402
from benchmarks.scale.neighbours import Truth  # noqa: E402
from benchmarks.scale.page import page, write_page  # noqa: E402
from benchmarks.scale.results import Results, ResultsError, job_key, read  # noqa: E402
from benchmarks.scale.tables import Gathered  # noqa: E402
from benchmarks.scale.verdicts import TARGETS, judge, matched  # noqa: E402

LIMITS = {"gemm_gflops": 100.0, "exp_best": 1.0, "copy": 20.0}
MACHINE = {"processor": "one", "cores": 2, "versions": {"numpy": "2.0"}}


def embedding(method, data, n, seconds, *, error=0.2, rank=0.8, peak=100.0, repeat=0):
    job = {"kind": "embed", "method": method, "data": data, "n": n, "components": 10, "seed": 0, "repeat": repeat}
    scores = {
        f"{a}_{b}_{c}": v
        for a in ("own", "ref")
        for b in ("random", "near")
        for c, v in (("error", error), ("spearman", rank))
    }
    ours = registry()[method].family != "peer"
    return (
        job
        | scores
        | {
            "job": job_key(job),
            "status": "ok",
            "seconds": seconds,
            "peak_mb": peak,
            "ours": ours,
            "cold_s": 1.0,
            "source": "a",
        }
    )


def fake_rows(ours=1.0, recall=0.999, products=1.0):
    """A small results file: everybody else takes 30 s or 30 times a product, ours `ours` or `products`."""
    rows = [
        {"kind": "machine", "fingerprint": MACHINE},
        {"kind": "run", "command": "python -m benchmarks.scale --full", "started": "today", "timeout_s": 600.0},
        {"kind": "limits", "limits": LIMITS, "memory_gib": 16, "versions": {"numpy": "2.0"}, "status": "ok"},
        {
            "kind": "cold",
            "method": "heatsketch",
            "data": "tree",
            "n": 10_000,
            "repeat": 0,
            "status": "ok",
            "wall_s": 8.0 * ours,
        },
    ]
    for data in DATA:
        for n in (50_000, 200_000):
            rows += [
                embedding("heatsketch", data, n, ours),
                embedding("heatsketch", data, n, 1.2 * ours, repeat=1),
                embedding("heatsketch-symmetric-deflated", data, n, 5 * ours, error=0.05, rank=0.99),
                embedding("sklearn", data, n, 60.0, error=0.1, rank=0.95),
                embedding("palantir", data, n, 60.0, error=0.1, rank=0.95),
            ]
        rows.append(embedding("heatsketch", data, 1_000_000, 10 * ours, peak=1000.0))
        rows.append(
            {
                "kind": "neighbours",
                "method": "heatsketch",
                "data": data,
                "n": 50_000,
                "seconds": 1.0,
                "recall": recall,
                "setting": "default",
                "status": "ok",
                "job": "x",
            }
        )
        for order in ("as given", "reordered"):
            for method, seconds in (("heatsketch", products * 1e-2), ("scipy", 0.3)):
                rows.append(
                    {
                        "kind": "sparse",
                        "method": method,
                        "data": data,
                        "n": 50_000,
                        "order": order,
                        "stored": 10**7,
                        "reorder_s": 0.1,
                        "job": f"s{data}",
                        "status": "ok",
                        "setup_s": 0.1,
                        "seconds": seconds,
                        "fastest_s": seconds,
                        "repeats": 3,
                        "error": 1e-7,
                    }
                )
    for d in (3, 50):
        for method, seconds in (("heatsketch", products), ("keops", 30.0), ("torch", 30.0)):
            rows.append(
                {
                    "kind": "dense",
                    "method": method,
                    "n": 20_000,
                    "d": d,
                    "job": f"d{d}",
                    "status": "ok",
                    "seconds": seconds,
                    "fastest_s": seconds,
                    "repeats": 3,
                    "setup_s": 0.0,
                    "error": 1e-7,
                }
            )
    return rows


@pytest.mark.parametrize(("make_set", "d"), [(swiss_roll, 3), (tree, 50)])
def test_data_sets_are_deterministic(make_set, d):
    X = make_set(400, 3)
    assert X.shape == (400, d)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, make_set(400, 3))
    assert not np.array_equal(X, make_set(400, 4))
    assert tuning(100, d).shape == (100, d)


def test_exact_distances_are_the_librarys():
    X = make("tree", 300).astype(float)
    A = hs.heat_kernel(X, n_neighbors=30, normalization="stochastic")
    pairs = sample_pairs(X)
    assert all(len(found) > 100 for _, found in pairs)
    for _, some in pairs:
        expected = hs.diffusion_distances(A, 16, pairs=some)
        np.testing.assert_allclose(exact_distances(kernel_operator(A), some), expected, rtol=1e-6)


def test_all_eigenvectors_of_an_affinity_give_its_own_distances():
    """The two forms of a Markov operator, and exp(-t (1 - T)), against their spectra."""
    rng = np.random.default_rng(0)
    W = rng.random((40, 40))
    W += W.T
    d = W.sum(axis=1)
    values, V = np.linalg.eigh(W / np.sqrt(np.outer(d, d)))
    pairs = np.array([[0, 1], [2, 30], [7, 8]])
    weighted, plain = (Own.from_affinity(W, weighted=w) for w in (True, False))
    for own, Y in (
        (weighted, V[:, :-1] * values[:-1] ** 3 / np.sqrt(d)[:, None]),
        (plain, V[:, :-1] * values[:-1] ** 3),
        (Own(plain.columns, heat=True), V * np.exp(3 * (values - 1))),
    ):
        found = score(Y, pairs, exact_distances(own, pairs, 3))
        assert found["error"] < 1e-6
        assert found["factor"] == pytest.approx(1.0, rel=1e-6)


def test_score_does_not_depend_on_the_scale():
    rng = np.random.default_rng(0)
    Y, pairs = rng.normal(size=(50, 3)), rng.integers(0, 50, (200, 2))
    exact = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
    assert score(7 * Y, pairs, exact) == pytest.approx({"error": 0, "factor": 1 / 7, "spearman": 1, "pairs": 200})
    with pytest.raises(ValueError, match="NaN"):
        score(np.full_like(Y, np.nan), pairs, exact)


def test_recall_counts_neither_the_point_itself_nor_what_is_missing():
    X = np.arange(20, dtype=np.float32)[:, None] ** 2  # no two distances alike
    truth = Truth(X, most=3)
    nearest = np.argsort(np.abs(X - X.T), axis=1)
    assert truth.recall(nearest[:, 1:4]) == (1.0, 3)
    assert truth.recall(nearest[:, :4]) == (1.0, 3)
    lost = nearest[:, 1:4].copy()
    lost[:, 0] = -1
    assert truth.recall(lost) == (pytest.approx(2 / 3), 3)


def test_verdicts_in_both_directions():
    fast = judge(Gathered(fake_rows(ours=1.0, products=1.0)))
    assert len(fast) == len(TARGETS)
    by_figure = {line.figure.split(",")[0] + line.figure[-12:]: line.verdict for line in fast}
    assert "missed" not in {line.verdict for line in fast if line.must != "-"}, by_figure
    slow = judge(Gathered(fake_rows(ours=100.0, products=100.0)))
    must = [line for line in slow if line.must != "-" and "recall" not in line.figure]
    assert {line.verdict for line in must} == {"missed"}


def test_speed_without_recall_does_not_count():
    lines = judge(Gathered(fake_rows(recall=0.9)))
    assert lines[0].verdict == "missed: recall 0.900"
    assert next(line for line in lines if line.figure.startswith("recall")).verdict == "missed"


def test_what_was_not_measured_is_left_open():
    rows = [row for row in fake_rows() if not (row.get("method") == "palantir" or row.get("n") == 1_000_000)]
    lines = judge(
        Gathered(
            [
                *rows,
                {
                    "kind": "embed",
                    "method": "palantir",
                    "data": "tree",
                    "n": 50_000,
                    "status": "absent",
                    "reason": "ModuleNotFoundError: No module named 'palantir'",
                },
            ]
        )
    )
    assert [line.verdict for line in lines if line.figure.startswith("1,000,000")] == ["not measured"] * 2
    assert all(line.verdict == "not measured" for line in judge(Gathered([])))


def test_matched_quality_takes_the_fastest_variant_that_is_no_worse():
    found = Gathered(fake_rows())
    peer = found.case("palantir", "tree", 50_000)
    assert matched(found, peer).method == "heatsketch-symmetric-deflated"
    better = Gathered(
        [embedding("palantir", "tree", 50_000, 9.0, error=0.01), embedding("heatsketch", "tree", 50_000, 1)]
    )
    assert matched(better, better.case("palantir", "tree", 50_000)) is None


def test_losses_are_told():
    told = "\n".join(losses(Gathered(fake_rows(ours=100.0, products=100.0))))
    assert "faster than ours" in told
    assert "Target missed" in told
    assert "exact product, d = 3, 20,000 points: torch is faster" in told
    assert "better order of distances" in "\n".join(losses(Gathered(fake_rows())))


def test_page_reports_all_and_what_is_absent():
    absent = {
        "kind": "embed",
        "method": "umap",
        "data": "tree",
        "n": 50_000,
        "status": "absent",
        "reason": "ModuleNotFoundError: No module named 'umap'",
    }
    text = page([*fake_rows(), absent])
    for words in (
        "branching tree in R^50, 50,000 points",
        "| UMAP | absent |",
        "umap, tree, 50,000 points: absent: Mod",
        "python -m benchmarks.scale --full",
        "Where we lose",
        "100",
        "aim reached",
        "Palantir",
    ):
        assert words in text
    assert page([]).startswith("# heatsketch at scale")  # nothing yet is no error


def test_results_resume_and_refuse_other_machines(tmp_path):
    path = tmp_path / "results.jsonl"
    job = {"kind": "embed", "method": "sklearn", "data": "tree", "n": 10, "components": 10, "seed": 0, "repeat": 0}
    results = Results(path, MACHINE, "a")
    results.append([job | {"job": job_key(job), "status": "failed", "ours": False}])
    results.append([{"kind": "dense", "job": "ours", "ours": True, "status": "ok"}])
    with path.open("a") as file:
        file.write('{"kind": "emb')  # an interruption
    again = Results(path, MACHINE, "a")
    assert len(again.of(job)) == 1
    assert len(read(path)) == 3
    with pytest.raises(ResultsError, match="processor: 'one' there, 'two' here"):
        Results(path, MACHINE | {"processor": "two"}, "a")
    newer = Results(path, MACHINE, "b")  # heatsketch has changed: ours is measured again, the peer's stays
    assert [row.get("job") for row in newer.rows] == [None, job_key(job)]
    assert Results(path, MACHINE, "b", retry=True).of(job) == []
    assert len(Results(path, MACHINE, "b", fresh=True).rows) == 1


def test_plan_measures_only_what_is_missing(tmp_path, monkeypatch):
    ran = []

    def fake(job, **limits):
        ran.append(job_key(job))
        if job["kind"] == "reference":
            Path(job["path"]).parent.mkdir(exist_ok=True)
            Path(job["path"]).touch()
        slow = job.get("method") == "sklearn"
        return [{"status": "timeout", "reason": "late"} if slow else {"status": "ok", "seconds": 1.0, "peak_mb": 1.0}]

    monkeypatch.setattr(planning, "run_job", fake)
    plan = planning.Plan(
        parts=("embed",),
        methods=("heatsketch", "sklearn"),
        searches=(),
        sizes=(10, 20),
        dense_sizes=(),
        graph_sizes=(),
        repeats=2,
        cache=tmp_path / "cache",
    )
    results = Results(tmp_path / "results.jsonl", MACHINE, "a")
    planning.carry_out(plan, results)
    methods = [dict(part.split("=") for part in key.split("/")).get("method", "reference") for key in ran]
    # Interleaved; what ran out of time is neither repeated nor tried with more points.
    assert (
        methods
        == ["reference", "heatsketch", "sklearn", "heatsketch"] * 2 + ["reference", "heatsketch", "heatsketch"] * 2
    )
    assert [row["n"] for row in results.rows if row.get("status") == "skipped"] == [20, 20]
    ran.clear()
    planning.carry_out(plan, Results(tmp_path / "results.jsonl", MACHINE, "a"))
    assert ran == []
    edited = replace(plan, sizes=(30,), source=lambda: "b")
    with pytest.raises(ResultsError, match="was changed while"):
        planning.carry_out(edited, Results(tmp_path / "results.jsonl", MACHINE, "a"))


def test_a_real_worker(tmp_path):
    reference = tmp_path / "reference.npz"
    build_reference(make("tree", 300), reference)
    job = {"kind": "embed", "method": "heatsketch", "data": "tree", "n": 300, "components": 10, "seed": 0}
    [row] = run_job(job | {"reference": str(reference)}, timeout_s=60)
    assert row["status"] == "ok", row
    assert row["seconds"] > 0
    assert row["dimensions"] == 10
    assert 0 < row["own_random_error"] < 0.5
    assert {"peak_mb", "cold_s", "maxrss_mb", "version", "ref_near_spearman"} <= set(row)
    json.dumps(row)


def test_limits_end_a_worker_and_other_interpreters_may_be_absent():
    job = {"kind": "embed", "method": "heatsketch", "data": "tree", "n": 300, "components": 10, "seed": 0}
    assert run_job(job, timeout_s=0.05)[0]["status"] == "timeout"
    assert run_job(job, python="/nowhere/python")[0]["status"] == "absent"


def test_evaluate_without_a_reference_scores_nothing():
    assert evaluate(np.zeros((3, 2)), None, None) == {}


def test_the_command_writes_the_page(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in fake_rows()))
    assert main(["--page", "-o", str(tmp_path)]) == 0
    assert "What was to be reached" in (tmp_path / "index.md").read_text()
    assert main(["--quick", "-o", str(tmp_path)]) == 2  # made on another machine
    assert "--fresh" in capsys.readouterr().err
    assert _shown(["--quick", "-o", "/a", "--python", "umap=/b/python"]) == "--quick -o DIR --python umap=PYTHON"
    assert fingerprint()["cores"] >= 1
    assert len(source_digest()) == 12


def test_the_readme_shows_the_figures_of_the_results():
    rows = read(ROOT / "docs" / "benchmarks" / "results.jsonl")
    assert headline(Gathered(rows)) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_is_that_of_the_results(tmp_path):
    write_page(read(ROOT / "docs" / "benchmarks" / "results.jsonl"), tmp_path / "index.md")
    assert (tmp_path / "index.md").read_text() == (ROOT / "docs" / "benchmarks" / "index.md").read_text()


def test_the_headline_compares_with_the_fastest_peer():
    text = headline(Gathered(fake_rows(ours=2.0)))
    assert "| noisy swiss roll in R^3 | 50,000 | 2.2 s |" in text
    assert "Palantir: 60 s (27 times)" in text or "SpectralEmbedding: 60 s (27 times)" in text
    assert "10 exact + 10: 10 s (6 times)" in text
