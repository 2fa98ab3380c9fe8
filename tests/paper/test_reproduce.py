"""Running, keeping and showing experiments: the store, the runner, pictures, the page and the command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import heatsketch
from counting import Counting
from heatsketch._utils.files import write_whole
from heatsketch.cli import app
from heatsketch_paper import reproduce
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.figures import FIGURES
from heatsketch_paper.page import render_html
from heatsketch_paper.pictures import FORMATS, save
from heatsketch_paper.pictures_theory import DRAWINGS, draw
from heatsketch_paper.runner import _interrupts_held, run
from heatsketch_paper.store import Store


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
def test_every_trial_runs_once_and_is_kept(counting, store, jobs):
    steps = []
    run([counting], store, jobs=jobs, report=steps.append)
    assert _marks(counting) == dict.fromkeys(range(6), 1)
    table = store.read("counting")
    assert list(table.columns) == ["figure", "trial", "k", "value"]
    assert table["trial"].tolist() == sorted([*range(6)] * 2)
    assert [step.done for step in steps] == list(range(7))
    run([counting], store, jobs=jobs)
    assert _marks(counting) == dict.fromkeys(range(6), 1)


def test_more_trials_are_added_to_those_that_are_there(counting, store):
    run([replace(counting, n_trials=2)], store, command="two")
    first = store.read("counting")
    run([counting], store, command="six")
    assert _marks(counting) == dict.fromkeys(range(6), 1)
    pd.testing.assert_frame_equal(store.read("counting").head(4), first)
    sessions = store.provenance("counting").sessions
    assert [(s["trials"], s["command"]) for s in sessions] == [(2, "two"), (4, "six")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_trial_is_named_and_the_others_are_kept(counting, store, jobs):
    with pytest.raises(ArithmeticError, match="told to fail") as failure:
        run([replace(counting, fails_at=4)], store, jobs=jobs)
    assert any("trial 4 of counting" in note for note in failure.value.__notes__)
    kept = set(store.read("counting")["trial"])
    assert {0, 1, 2, 3} <= kept  # also those that were at work when the fourth failed
    assert 4 not in kept


def test_a_process_that_dies_is_reported_and_finished_trials_are_kept(counting, store):
    with pytest.raises(ReproductionError, match=r"a process died during counting.*fewer processes"):
        run([replace(counting, dies_at=5)], store, jobs=2)
    assert set(_marks(counting)) - {4, 5} <= set(store.read("counting")["trial"])


def test_an_interrupt_between_a_table_and_its_record_loses_neither(counting, store, monkeypatch):
    describe = Store._describe

    def interrupted(self, name, provenance):
        if provenance.sessions:
            monkeypatch.setattr(Store, "_describe", describe)
            raise KeyboardInterrupt
        describe(self, name, provenance)

    monkeypatch.setattr(Store, "_describe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([counting], store)
    assert store.read("counting")["trial"].nunique() == 6
    assert [session["trials"] for session in store.provenance("counting").sessions] == [6]


def test_other_parameters_are_refused_unless_fresh(counting, store):
    run([counting], store)
    other = replace(counting, seed=9)
    with pytest.raises(
        ReproductionError, match=r"counting.csv holds results of other parameters: seed 0 \(now 9\).*--fresh"
    ):
        run([other], store)
    run([other], store, fresh=True)
    assert store.provenance("counting").parameters["seed"] == 9
    assert store.read("counting")["trial"].nunique() == 6


def test_results_of_another_version_are_refused(counting, store):
    run([counting], store)
    path = store.path("counting", ".json")
    path.write_text(path.read_text().replace(f'"version": "{heatsketch.__version__}"', '"version": "0.0.1"'))
    with pytest.raises(ReproductionError, match=r"heatsketch 0.0.1 \(now "):
        run([counting], store)


DAMAGE = {
    "bytes": lambda text: "\x00\n1,2,3",
    "cut in a row": lambda text: text[:-4],
    "cut between rows": lambda text: text[: text.rindex("\n", 0, -1) + 1],
    "rows twice": lambda text: text + text.partition("\n")[2],
    "another table": lambda text: text.replace("counting", "other"),
    "no column": lambda text: text.replace("figure", "figures"),
    "no numbers": lambda text: text.replace("counting,3", "counting,x"),
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_tables_are_refused_before_any_work(counting, store, damage):
    run([counting], store)
    path = store.path("counting")
    path.write_text(DAMAGE[damage](path.read_text()))
    before = path.read_text()
    with pytest.raises(ReproductionError, match=r"counting.csv is not a table of results, or not a whole one"):
        run([replace(counting, n_trials=9)], store)
    assert path.read_text() == before
    assert set(_marks(counting)) == set(range(6))


@pytest.mark.parametrize(
    "record",
    ["", "[]", "{}", '{"parameters": {}, "version": "1", "sessions": [{}]}', '{"parameters": null, "version": "1"}'],
)
def test_damaged_records_are_refused_before_any_work(counting, store, record):
    run([counting], store)
    store.path("counting", ".json").write_text(record)
    with pytest.raises(ReproductionError, match=r"counting.json is not a record of results.*--fresh"):
        run([counting], store)
    assert store.path("counting").exists()


def test_tables_without_a_record_are_not_thrown_away(counting, store):
    run([counting], store)
    store.path("counting", ".json").unlink()
    store.path("other", ".json").write_text("{}")
    with pytest.raises(ReproductionError, match=r"counting.csv has no record counting.json"):
        run([counting], store)
    assert store.path("counting").exists()


def test_directories_of_something_else_are_left_alone(counting, store):
    store.directory.mkdir()
    page = store.directory / "index.html"
    page.write_text("mine")
    with pytest.raises(ReproductionError, match="is not empty and holds no results of this command"):
        run([counting], store)
    assert [p.name for p in store.directory.iterdir()] == ["index.html"]
    assert page.read_text() == "mine"


def test_a_directory_in_use_is_refused(counting, store):
    with store.claimed(), pytest.raises(ReproductionError, match="another process is writing to"):
        run([counting], Store(store.directory))
    run([counting], store)


def test_what_killed_processes_left_is_cleared_away(counting, store):
    run([replace(counting, n_trials=1)], store)
    left = store.directory / "tables" / ".heatsketch-12345-ab12-counting.csv"
    left.write_text("half")
    run([counting], store)
    assert not left.exists()


def test_jobs_must_be_positive(counting, store):
    with pytest.raises(ReproductionError, match="jobs=0 was given"):
        run([counting], store, jobs=0)
    assert not store.directory.exists()


def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    tables = []
    for jobs in (1, 2):
        store = Store(tmp_path / str(jobs))
        run([replace(EXPERIMENTS["circle"], n_samples=60, n_trials=4)], store, jobs=jobs)
        tables.append(store.read("circle"))
    assert list(tables[0].columns) == [
        "figure", "trial", "method", "k", "p", "log_L", "contracted", "iterations", "seconds",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(*(table.drop(columns="seconds") for table in tables))


@pytest.mark.parametrize("content", ["after", b"after"])
def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch, content):
    target = tmp_path / "file.txt"
    write_whole(target, "before")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(target, content)
    monkeypatch.undo()
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]
    write_whole(target, content)
    assert target.read_text() == "after"


def test_provenance_tells_where_a_table_comes_from(counting, store):
    run([counting], store, jobs=2, command="a command")
    record = json.loads(store.path("counting", ".json").read_text())
    assert record["version"] == heatsketch.__version__
    assert record["parameters"] == {
        "kind": "Counting", "name": "counting", "n_samples": 5, "seed": 0, "marks": counting.marks, "fails_at": -1,
        "dies_at": -1,
    }  # fmt: skip
    (session,) = record["sessions"]
    assert (session["command"], session["trials"], session["jobs"]) == ("a command", 6, 2)
    assert session["seconds"] > 0
    assert {"processor", "cores", "python", "numpy", "scipy", "scikit-learn"} <= set(session["machine"])


@pytest.fixture(scope="module")
def toy_tables(toy, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("toy"))
    run([toy(experiment, 3) for experiment in EXPERIMENTS.values()], store)
    return {name: store.read(name) for name in EXPERIMENTS}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_its_tables_alone(name, toy_tables, tmp_path):
    figure = FIGURES[name]
    tables = {needed: toy_tables[needed] for needed in figure.experiments}
    formats = FORMATS if name in ("circle", "karhunen_loeve") else ("png",)  # the others differ in what is drawn alone
    written = save(draw(figure, tables), tmp_path / name, formats)
    assert [p.suffix for p in written] == [f".{one}" for one in formats]
    image = imread(tmp_path / f"{name}.png")
    assert min(image.shape[:2]) > 300
    colours = np.round(255 * image).astype(np.uint8).view(np.uint32)
    assert len(np.unique(colours)) > 10


@pytest.mark.parametrize("name", ["circle", "challenge"])
def test_the_same_table_gives_the_same_file(name, toy_tables, tmp_path):
    files = [save(draw(FIGURES[name], toy_tables), tmp_path / part / name) for part in ("a", "b")]
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_drawings_are_all_used():
    assert {figure.kind for figure in FIGURES.values()} == set(DRAWINGS)


def test_charts_show_means_and_standard_deviations(toy_tables):
    axes = draw(FIGURES["circle"], toy_tables).axes[0]
    table = toy_tables["circle"]
    values = table[(table["method"] == "GPS") & (table["k"] == 3)]["log_L"]
    container = axes.containers[1]
    assert container.get_label() == "GPS"
    line, _, (bars,) = container
    assert line.get_ydata()[1] == pytest.approx(values.mean())
    (low, high) = bars.get_segments()[1][:, 1]
    assert (high - low) / 2 == pytest.approx(values.std(ddof=0))


def test_our_methods_are_drawn_when_the_table_has_them(tmp_path):
    beyond = replace(EXPERIMENTS["circle"], n_samples=40, n_trials=2, methods=(*EXPERIMENTS["circle"].methods, "GPXS"))
    store = Store(tmp_path)
    run([beyond], store)
    table = store.read("circle")
    labels = [c.get_label() for c in draw(FIGURES["circle"], {"circle": table}).axes[0].containers]
    assert labels == ["DMS", "GPS", "GPXS"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    figures = ["circle_with_outliers", "outliers_gps"]
    return reproduce(figures, tmp_path_factory.mktemp("made"), n_trials=4, jobs=2, command="a & b")


def test_page_gathers_pictures_claims_and_provenance(made):
    page = (made.directory / "index.md").read_text(encoding="utf-8")
    assert "Made by `a & b` with" in page
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (made.directory / target).exists()
    for claim in made.claims.itertuples():
        assert page.count(claim.statement) == 2  # under its figure, and in the table of claims
        assert claim.measured.replace("|", "\\|") in page
    assert "| [circle_with_outliers](tables/circle_with_outliers.json) | 4 | 5 | 2 |" in page
    assert page.count("![") == 4  # the tables of outliers_gps serve two more figures
    assert {p.name for p in made.pictures} == {
        f"{name}.{suffix}" for name in ("circle_with_outliers", "outliers_gps") for suffix in ("svg", "png")
    }


def test_html_page_says_the_same(made):
    html = made.page.read_text(encoding="utf-8")
    assert "<code>a &amp; b</code>" in html
    assert html.count("<img") == 4
    assert '<h2 id="claims">' in html
    for claim in made.claims.itertuples():
        assert html.count(escape(claim.statement, quote=False)) == 2
    for target in re.findall(r'(?:src|href)="([^"#]+)"', html):
        assert (made.directory / target).exists()  # nothing from elsewhere


def test_page_covers_earlier_calls_too(made, tmp_path):
    directory = shutil.copytree(made.directory, tmp_path / "copy")
    again = reproduce("outliers_dms", directory, n_trials=2, jobs=1)
    page = (directory / "index.md").read_text(encoding="utf-8")
    assert {f"pictures/{name}.png" for name in ("circle_with_outliers", "outliers_gps", "outliers_dms")} <= set(
        re.findall(r"\(([^)]*png)\)", page)
    )
    assert set(made.claims["name"]) == set(again.claims["name"])
    assert {p.stem for p in again.pictures} == {"outliers_dms"}
    tables = [pd.read_csv(d / "tables" / "outlier_shapes.csv") for d in (made.directory, directory)]
    pd.testing.assert_frame_equal(*tables)  # four trials were there, and two were asked for


def test_the_record_tells_the_call(tmp_path):
    reproduce("kernel_columns", tmp_path / "out", n_trials=2, jobs=1)
    page = (tmp_path / "out" / "index.md").read_text(encoding="utf-8")
    assert f"Made by `reproduce(['kernel_columns'], '{tmp_path / 'out'}', n_trials=2)` with" in page


def test_html_shows_markup_as_text():
    html = render_html("# Title <b>\n\n<script>alert(1)</script>\n\n| a |\n|---|\n| <img src=x> |\n")
    assert "<script>" not in html
    assert "<img" not in html
    assert "<title>Title &lt;b&gt;</title>" in html


def test_unknown_formats_and_figures_are_refused_before_any_work(tmp_path):
    with pytest.raises(ReproductionError, match="format 'gif' is not known; use some of svg, png, pdf"):
        reproduce("circle", tmp_path / "out", formats="gif")
    with pytest.raises(ReproductionError, match="figure 'sphere' is not known"):
        reproduce(["sphere"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "heatsketch", *arguments], capture_output=True, text=True, check=False, **options
    )


def _started(*arguments):
    """The command as a terminal starts it: in a group of its own, which Ctrl-C interrupts as a whole."""
    command = [sys.executable, "-m", "heatsketch", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_command_reproduces_a_figure(tmp_path):
    result = _command("reproduce", "outliers_dms", "--trials", "3", "-j", "1", "-o", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert "holds" in result.stdout
    page = (tmp_path / "out" / "index.md").read_text(encoding="utf-8")
    assert f"Made by `heatsketch reproduce outliers_dms --trials 3 -j 1 -o {tmp_path / 'out'}`" in page
    assert (tmp_path / "out" / "pictures" / "outliers_dms.png").exists()
    assert pd.read_csv(tmp_path / "out" / "tables" / "outlier_shapes.csv")["trial"].nunique() == 3


def test_quiet_means_quiet(tmp_path):
    arguments = ["reproduce", "outliers_dms", "--trials", "2", "-j", "1", "-q", "--format", "pdf"]
    result = _command(*arguments, "-o", str(tmp_path / "out"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert {p.suffix for p in (tmp_path / "out" / "pictures").iterdir()} == {".pdf", ".png"}


def test_command_lists_figures():
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == list(FIGURES)
    some = CliRunner().invoke(app, ["reproduce", "section5", "cost", "--list"]).stdout.splitlines()
    assert len(some) == sum(figure.group == "section5" for figure in FIGURES.values()) + 1


def test_command_tells_its_version():
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == f"heatsketch {heatsketch.__version__}"


def test_command_explains_unknown_figures(tmp_path):
    result = _command("reproduce", "klien_bottle", "-o", str(tmp_path / "out"))
    assert result.returncode == 1
    assert "did you mean 'klein_bottle'?" in result.stderr
    assert "stretched_torus" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("library", ["pandas", "matplotlib"])
def test_missing_libraries_are_named_before_any_work(library, tmp_path):
    code = (
        f"import sys; sys.modules[{library!r}] = None; "
        f"sys.argv = ['heatsketch', 'reproduce', 'circle', '-o', {str(tmp_path / 'out')!r}]; "
        "from heatsketch.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"needs {library}" in result.stderr
    assert "pip install 'heatsketch[reproduce]'" in result.stderr.replace("\n", " ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("delay", [0.5, 1.5, 2.5])
def test_interrupting_early_does_not_hang(tmp_path, delay):
    process = _started("reproduce", "klein_bottle", "-j", "2", "-o", str(tmp_path / "out"))
    time.sleep(delay)  # while libraries are imported, or processes started
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:  # Python can lose an interrupt while it imports: a user interrupts again
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT, 1)
    assert process.returncode == 130 or not (tmp_path / "out").exists()


def test_an_interrupt_while_processes_start_is_neither_lost_nor_theirs():
    ask = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with _interrupts_held():
        inside = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    after = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert (inside.strip(), after.strip()) == ("True", "False")

    def interrupted():
        with _interrupts_held():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # another thread would not hold it back

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore interrupts
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def test_errors_on_the_command_line_are_not_tracebacks(tmp_path):
    (tmp_path / "file").write_text("")
    result = _command("reproduce", "circle", "-o", str(tmp_path / "file"))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert str(tmp_path / "file") in result.stderr.replace("\n", "")


def test_narrow_terminals_get_question_marks_not_errors(tmp_path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    arguments = ["reproduce", "distance_law", "--trials", "1", "-j", "1", "-o", str(tmp_path / "out")]
    result = _command(*arguments, env=environment)
    assert result.returncode == 0, result.stderr
    assert "Propositions 3.2" in result.stdout
    assert "y_j|? / d?" in result.stdout.replace("\n", "").replace("  ", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_keeps_finished_trials_and_running_again_goes_on(tmp_path, number):
    out = tmp_path / "out"
    process = _started("reproduce", "circle", "-j", "2", "-o", str(out))
    table = out / "tables" / "circle.csv"
    deadline = time.monotonic() + 60
    while not table.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    # As a terminal does it: the whole group gets the signal.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Finished trials are kept" in errors.replace("\n", " ")
    assert "Traceback" not in errors
    kept = pd.read_csv(table)
    finished = kept["trial"].nunique()
    assert 1 <= finished < 100
    assert (kept.groupby("trial").size() == 42).all()
    if number == signal.SIGTERM:
        return
    again = _command("reproduce", "circle", "-j", "1", "--trials", str(finished + 2), "-o", str(out))
    assert again.returncode == 0, again.stderr
    after = pd.read_csv(table)
    assert after["trial"].nunique() >= finished + 2
    merged = after[after["trial"].isin(kept["trial"].unique())].reset_index(drop=True)
    pd.testing.assert_frame_equal(merged, kept.sort_values("trial", kind="stable").reset_index(drop=True))
