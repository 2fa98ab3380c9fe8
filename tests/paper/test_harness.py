"""The harness on toy experiments: running, resuming, judging, fresh processes, the page."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import heatsketch
from counting import Counting
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.evidence import above
from heatsketch_paper.harness.experiment import Experiment, rows_of
from heatsketch_paper.harness.process import failure_row, peak_memory, run_apart
from heatsketch_paper.harness.runner import run
from heatsketch_paper.harness.store import Store, records
from heatsketch_paper.harness.study import Study, frame_table, grid, main, number, section


@pytest.fixture
def counting(tmp_path):
    (tmp_path / "marks").mkdir()
    return Counting("counting", 5, 6, marks=str(tmp_path / "marks"))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "out")


def _marks(experiment):
    return {int(p.name): len(p.read_text()) for p in Path(experiment.marks).iterdir()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_trial_runs_once(counting, store, jobs):
    steps = []
    run([counting], store, jobs=jobs, command="a command", report=steps.append)
    run([counting], store, jobs=jobs)
    assert _marks(counting) == dict.fromkeys(range(6), 1)
    table = store.read("counting")
    assert list(table.columns) == ["figure", "trial", "k", "value"]
    assert table["trial"].tolist() == sorted([*range(6)] * 2)
    assert [step.done for step in steps] == list(range(7))
    record = store.provenance("counting")
    assert record.version == heatsketch.__version__
    assert [(s["command"], s["trials"], s["jobs"]) for s in record.sessions] == [("a command", 6, jobs)]


def test_more_trials_are_added(counting, store):
    run([replace(counting, n_trials=2)], store)
    first = store.path("counting").read_text()
    run([counting], store)
    assert store.path("counting").read_text().startswith(first)
    assert _marks(counting) == dict.fromkeys(range(6), 1)
    assert [s["trials"] for s in store.provenance("counting").sessions] == [2, 4]


@dataclass(frozen=True)
class Interrupted(Experiment):
    """Trials that can be interrupted from within."""

    marks: str = ""

    def trial(self, index):
        if index == 3 and not (Path(self.marks) / "interrupted").exists():
            (Path(self.marks) / "interrupted").touch()
            raise KeyboardInterrupt
        with (Path(self.marks) / str(index)).open("a") as file:
            file.write("x")
        return [{"value": index}]


def test_interrupting_keeps_finished_trials_and_running_again_goes_on(tmp_path):
    experiment, store = Interrupted("toy", n_trials=5, marks=str(tmp_path)), Store(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        run([experiment], store)
    assert store.read("toy")["trial"].tolist() == [0, 1, 2]
    run([experiment], store)
    assert store.read("toy")["trial"].tolist() == list(range(5))
    assert all((tmp_path / str(i)).read_text() == "x" for i in range(5))


@pytest.mark.parametrize("jobs", [1, 2])
def test_failing_trial_is_named_and_finished_ones_are_kept(counting, store, tmp_path, jobs):
    """A failure ends the run at once, so the last trial fails when the first has been reported."""
    reported = tmp_path / "reported"
    failing = replace(counting, fails_at=5, fails_after=str(reported))
    with pytest.raises(ArithmeticError) as failure:
        run([failing], store, jobs=jobs, report=lambda step: reported.touch() if step.done else None)
    assert any("trial 5 of counting" in note for note in failure.value.__notes__)
    kept = set(store.read("counting")["trial"])
    assert 0 in kept
    assert 5 not in kept


def test_dead_process_is_reported(counting, store):
    with pytest.raises(ReproductionError, match="process died"):
        run([replace(counting, dies_at=5)], store, jobs=2)


def test_other_parameters_and_versions_raise_unless_fresh(counting, store):
    run([counting], store)
    with pytest.raises(ReproductionError, match="seed"):
        run([replace(counting, seed=9)], store)
    run([replace(counting, seed=9)], store, fresh=True)
    path = store.path("counting", ".json")
    path.write_text(path.read_text().replace(f'"version": "{heatsketch.__version__}"', '"version": "0.0.1"'))
    with pytest.raises(ReproductionError, match=r"heatsketch 0\.0\.1"):
        run([replace(counting, seed=9)], store)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", ""),
        (".csv", "figure,trial\nother,1\n"),
        (".csv", "figure,trial\ncounting,x\n"),
        (".json", ""),
        (".json", '{"parameters": {}, "version": "1", "sessions": [{}]}'),
    ],
)
def test_damaged_files_raise_before_any_work(counting, store, suffix, content):
    run([counting], store)
    store.path("counting", suffix).write_text(content)
    with pytest.raises(ReproductionError, match="is not a"):
        run([replace(counting, n_trials=9)], store)
    assert set(_marks(counting)) == set(range(6))


def test_directories_of_something_else_are_left_alone(counting, store):
    store.directory.mkdir()
    (store.directory / "index.html").write_text("mine")
    with pytest.raises(ReproductionError, match="not empty"):
        run([counting], store)
    assert [p.name for p in store.directory.iterdir()] == ["index.html"]


@dataclass(frozen=True)
class Race(Experiment):
    """Cases named by contender and size; sizes can be added, and slow contenders give up."""

    alone = True
    keys = ("trial", "method", "n")
    free = (*Experiment.free, "sizes")
    sizes: tuple[int, ...] = (10,)

    def cases(self):
        return [{"trial": 0, "method": m, "n": n} for n in self.sizes for m in ("fast", "slow")]

    def measure(self, case, done=()):
        if any(r["method"] == case["method"] and r.get("status") == "timeout" for r in done):
            return [{"status": "skipped"}]
        return [{"status": "timeout"}] if case["method"] == "slow" else [{"status": "ok", "seconds": 0.5}]


def test_cases_are_added_by_key_and_see_earlier_rows(store):
    run([Race("race")], store)
    run([Race("race", sizes=(10, 20))], store)
    rows = records(store.read("race"))
    assert [(r["method"], r["n"], r["status"]) for r in rows] == [
        ("fast", 10, "ok"), ("slow", 10, "timeout"), ("fast", 20, "ok"), ("slow", 20, "skipped"),
    ]  # fmt: skip
    assert "seconds" not in rows[1]


def test_times_of_two_machines_are_not_mixed(store):
    run([Race("race")], store)
    path = store.path("race", ".json")
    record = json.loads(path.read_text())
    record["sessions"][0]["machine"]["processor"] = "another"
    path.write_text(json.dumps(record))
    run([Race("race")], store)  # nothing is missing
    with pytest.raises(ReproductionError, match="another machine"):
        run([Race("race", sizes=(30,))], store)


def test_fresh_processes_return_rows_and_failures(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[1])
    assert run_apart("counting:measured", {}) == [{"stage": 1}, {"status": "ok"}]
    first, last = run_apart("counting:measured", {"fail": True})
    assert (first, last["status"]) == ({"stage": 1}, "absent")
    assert run_apart("counting:measured", {}, python="/nowhere")[0]["status"] == "absent"
    assert run_apart("counting:endless", {}, timeout_s=1)[-1]["status"] == "timeout"
    assert run_apart("counting:endless", {}, memory_gib=1e-3)[-1]["status"] == "memory"
    assert failure_row(MemoryError())["status"] == "memory"
    assert failure_row(ModuleNotFoundError("moved", name="benchmarks.data"))["status"] == "failed"


def test_peak_memory_sees_what_is_freed_again():
    with peak_memory() as found:
        np.ones(20_000_000).sum()
    assert 150e6 < found["peak"] < 400e6


def _toy_study(marks):
    def claims(tables):
        values = tables["counting"]["value"].to_numpy()
        yield "The mean is above -9.", above({"value": values}, -9.0)
        yield "The mean is above 9.", above({"value": values}, 9.0)

    sections = {"Rows": lambda tables: f"{len(tables['counting'])} rows", "Empty": lambda _: ""}
    return Study("toy", "A toy", "About it.", (Counting("counting", 5, 6, marks=str(marks)),), claims, sections)


def test_study_runs_judges_and_writes_the_page(tmp_path, capsys):
    study = _toy_study(tmp_path)
    main(study, ["-o", str(tmp_path / "out"), "-j", "1", "--set", "seed=3"])
    page = (tmp_path / "out" / "index.md").read_text()
    assert page.startswith("# A toy\n")
    assert "**holds**" in page
    assert "**does not hold**" in page
    assert "12 rows" in page
    assert "Empty" not in page
    assert Store(tmp_path / "out").provenance("counting").parameters["seed"] == 3
    before = page
    main(study, ["-o", str(tmp_path / "out"), "--page"])
    assert (tmp_path / "out" / "index.md").read_text() == before
    assert f"heatsketch {heatsketch.__version__}" in page
    for wrong, word in ((["other"], "no such experiment"), (["--set", "sead=3"], "sead"), (["--set", "seed=x"], "'x'")):
        with pytest.raises(SystemExit, match=word):
            main(study, [*wrong, "-o", str(tmp_path / "out")])
    assert "Wrote" in capsys.readouterr().out


def test_sections_get_the_tables_that_are_there():
    written = section(("a", "b"), "{trials} trials.")(", ".join)
    table = pd.DataFrame({"trial": [0, 0, 1]})
    assert written({"b": table, "c": table}) == "2 trials.\n\nb"
    assert written({"c": table}) == ""


def test_formatting():
    assert grid(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert frame_table(pd.DataFrame({"a": ["x", "y"], "b": [0.123, np.nan]}), {"b": ".1f"}).splitlines()[2:] == [
        "| x | 0.1 |",
        "| y |  |",
    ]
    assert [number(v) for v in (None, 0.12345, 12.345, 12345.6)] == ["-", "0.123", "12.3", "12,346"]
    assert rows_of({"a": [1, 2]}, b=3) == [{"b": 3, "a": 1}, {"b": 3, "a": 2}]
    assert records(pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})) == [{"a": 1, "b": 0.5}, {"a": 2}]
