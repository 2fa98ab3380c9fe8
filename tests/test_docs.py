"""The demonstration runs, and numbers in the documentation are those of committed output."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import heatsketch as hs
from heatsketch_paper.page import summary

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
LINE = re.compile(r"(\S.*?)\s{2,}(\S.*?)\s{2,}(\d+)\s{2,}(\S.*?)\s{2,}([\d.]+)")


def _table(text):
    found = (LINE.fullmatch(line.rstrip()) for line in text.splitlines())
    return {(m[1], m[2], int(m[3])): m[4] for m in found if m and m[1] != "data"}


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = sys.modules["demo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_prints_a_table_and_draws_pictures(demo, tmp_path, capsys, monkeypatch):
    images, labels = hs.datasets.digits()
    torus = hs.datasets.stretched_torus
    # Fewer points than people see, and a shorter search: as it is, the demonstration takes a minute.
    monkeypatch.setattr(hs, "HeatSketch", partial(hs.HeatSketch, n_rounds=2))
    monkeypatch.setattr(hs.datasets, "digits", lambda: (images[::4], labels[::4]))
    monkeypatch.setattr(hs.datasets, "stretched_torus", lambda n, **given: torus(min(n, 500), **given))
    rows = demo.main(["--output", str(tmp_path / "out"), "--trials", "1"])
    printed = _table(capsys.readouterr().out)
    assert {data for data, _, _ in printed} == {"stretched torus", "circle + outliers", "digits"}
    assert {method for _, method, _ in printed} == set(demo.METHODS)
    for row in rows:
        assert 0 <= row.log_distortion < 20
        assert row.seconds < 30
    pictures = {p.name: p.stat().st_size for p in (tmp_path / "out").glob("*.png")}
    assert set(pictures) == {"stretched_torus.png", "circle_with_outliers.png", "digits.png"}
    assert min(pictures.values()) > 20_000


def test_readme_shows_the_committed_output_of_the_demo():
    printed = _table((ROOT / "docs" / "demo.txt").read_text())
    row = re.compile(r"^\| ([^|]+) \| (\d+)" + r" \| ([\d.± ]+)" * 3 + r" \|$", re.M)
    shown = row.findall((ROOT / "README.md").read_text())
    assert len(shown) == 9
    for data, k, *values in shown:
        methods = ("diffusion maps", "Gaussian process", "HeatSketch")
        assert [printed[data, method, int(k)] for method in methods] == values


def test_default_bandwidths_are_those_with_the_best_worst_case():
    page = (ROOT / "docs" / "bandwidth.md").read_text()
    rules = re.search(r"^\| data \| (.*) \|$", page, re.M)[1].split(" | ")
    worst = [float(x) for x in re.findall(r"\*\*([\d.]+)\*\*", page.split("**worst**")[1].split("\n")[0])]
    found = dict(zip(rules, worst, strict=True))
    assert max(found, key=found.get) == "with the time (auto)"
    # for a given power, of the rules that give one number
    one_number = {rule: value for rule, value in found.items() if not rule.startswith(("with", "self"))}
    assert max(one_number, key=one_number.get) == "neighbor, k = 10"


def test_pages_tell_the_verdicts_of_the_committed_claims():
    lines = summary(pd.read_csv(ROOT / "docs" / "reproduction" / "claims.csv"))
    names = ("README.md", "docs/reproduce.md")
    readme, page = (" ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in names)
    assert lines[0] in readme
    assert all(line in page for line in lines)
    written = (ROOT / "docs" / "reproduction" / "index.md").read_text(encoding="utf-8")
    assert all(line.partition(": ")[2] in written for line in lines)


def test_section_5_is_reproduced_within_fifteen_minutes():
    total = re.search(r"\| \*\*Section 5.*\*\*(\d+)\*\* \|", (ROOT / "docs" / "reproduction" / "index.md").read_text())
    assert int(total[1]) < 15 * 60
    assert int(total[1]) < 120  # as docs/reproduce.md says


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", path.read_text())
    missing = [t for t in targets if not (path.parent / t).exists()]
    assert missing == []
