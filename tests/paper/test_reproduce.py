"""Reproducing the paper: pictures, the page and the command."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import heatsketch_paper
from heatsketch.cli import app
from heatsketch_paper import reproduce
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.figures import FIGURES
from heatsketch_paper.harness.runner import run
from heatsketch_paper.harness.store import Store
from heatsketch_paper.page import render_html
from heatsketch_paper.pictures import FORMATS, draw, save


def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    tables = []
    for jobs in (1, 2):
        store = Store(tmp_path / str(jobs))
        run([replace(EXPERIMENTS["circle"], n_samples=60, n_trials=4)], store, jobs=jobs)
        tables.append(store.read("circle"))
    pd.testing.assert_frame_equal(*tables)


@pytest.fixture(scope="module")
def toy_tables(toy, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("toy"))
    run([toy(experiment, 3) for experiment in EXPERIMENTS.values()], store)
    return {name: store.read(name) for name in EXPERIMENTS}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_its_tables(name, toy_tables, tmp_path):
    figure = FIGURES[name]
    tables = {needed: toy_tables[needed] for needed in figure.experiments}
    (written,) = save(draw(figure, tables), tmp_path / name, ("png",))
    assert min(imread(written).shape[:2]) > 300


def test_pictures_are_written_in_all_formats(toy_tables, tmp_path):
    written = save(draw(FIGURES["circle"], toy_tables), tmp_path / "circle")
    assert [p.suffix for p in written if p.exists()] == [f".{one}" for one in FORMATS]


def test_charts_show_means_and_standard_deviations(toy_tables):
    axes = draw(FIGURES["circle"], toy_tables).axes[0]
    table = toy_tables["circle"]
    values = table[(table["method"] == "GPS") & (table["k"] == 3)]["log_L"]
    line, _, (bars,) = axes.containers[1]
    assert line.get_ydata()[1] == pytest.approx(values.mean())
    (low, high) = bars.get_segments()[1][:, 1]
    assert (high - low) / 2 == pytest.approx(values.std(ddof=0))


def test_page_gathers_pictures_claims_and_earlier_calls(tmp_path):
    made = reproduce(["circle_with_outliers", "outliers_gps"], tmp_path, n_trials=4, jobs=1, command="a & b")
    page = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "`a & b`" in page
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (tmp_path / target).exists()
    assert all(page.count(claim.statement) == 2 for claim in made.claims.itertuples())
    assert {p.stem for p in made.pictures} == {"circle_with_outliers", "outliers_gps"}
    for target in re.findall(r'(?:src|href)="([^"#]+)"', made.page.read_text(encoding="utf-8")):
        assert (tmp_path / target).exists()
    again = reproduce("extreme_powers", tmp_path, n_trials=1, jobs=1)
    assert set(made.claims["name"]) < set(again.claims["name"])
    assert pd.read_csv(tmp_path / "tables" / "outlier_shapes.csv")["trial"].nunique() == 4


def test_html_escapes_markup():
    html = render_html("# Title <b>\n\n<script>alert(1)</script>\n\n| a |\n|---|\n| <img src=x> |\n")
    assert "<script>" not in html
    assert "<img" not in html


def test_unknown_formats_and_figures_raise_before_any_work(tmp_path):
    with pytest.raises(ReproductionError, match="gif"):
        reproduce("circle", tmp_path / "out", formats="gif")
    with pytest.raises(ReproductionError, match="sphere"):
        reproduce(["sphere"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"heatsketch\[reproduce\]"):
        assert heatsketch_paper.reproduce


def test_command_reproduces_a_figure(tmp_path):
    arguments = ["reproduce", "outliers_dms", "--trials", "3", "-j", "1", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "holds" in result.stdout
    assert (tmp_path / "out" / "pictures" / "outliers_dms.png").exists()
    assert pd.read_csv(tmp_path / "out" / "tables" / "outlier_shapes.csv")["trial"].nunique() == 3


def test_command_reports_an_interruption(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("heatsketch_paper.charts.NearCrossing.trial", interrupt)
    arguments = ["reproduce", "circle_with_outliers", "--trials", "2", "-j", "1", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130
    assert pd.read_csv(tmp_path / "out" / "tables" / "circle_with_outliers.csv")["trial"].nunique() == 2


def test_command_lists_figures():
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(FIGURES)
