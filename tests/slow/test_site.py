"""The documentation: public names are listed, examples run, and the site builds without warnings."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import heatsketch

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
WRITTEN_BY_SPHINX = {"gallery", "generated"}


def _pages():
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]):
        inside = path.relative_to(DOCS)
        if not WRITTEN_BY_SPHINX & set(inside.parts) and not set(inside.parts[:1]) & {"_templates"}:
            yield inside


PAGES = [page for page in _pages() if page.name != "sg_execution_times.rst"]


def test_every_public_name_has_a_page_in_the_reference():
    reference = (DOCS / "api" / "index.rst").read_text()
    entries = re.findall(r"^   (\w[\w.]*)$", reference, re.M)
    assert len(entries) == len(set(entries))
    assert set(heatsketch.__all__) - {"__version__"} == {entry for entry in entries if entry in heatsketch.__all__}


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(path):
    plt.switch_backend("agg")
    runpy.run_path(str(path), run_name="__main__")
    drawn = plt.get_fignums()
    plt.close("all")
    assert drawn


def test_pictures_example(tmp_path):
    runpy.run_path(str(ROOT / "examples" / "pictures.py"))["main"](["--output", str(tmp_path), "--samples", "150"])
    assert (tmp_path / "pictures.png").stat().st_size > 20_000


def test_demo(tmp_path, monkeypatch):
    images, labels = heatsketch.datasets.digits()
    torus = heatsketch.datasets.stretched_torus
    # Fewer points than in the real demonstration, which takes a minute.
    monkeypatch.setattr(heatsketch.datasets, "digits", lambda: (images[::4], labels[::4]))
    monkeypatch.setattr(heatsketch.datasets, "stretched_torus", lambda n, **given: torus(min(n, 500), **given))
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", demo)  # its dataclasses look themselves up there
    spec.loader.exec_module(demo)
    rows = demo.main(["--output", str(tmp_path), "--trials", "1"])
    assert all(0 <= row.log_distortion < 20 for row in rows)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "stretched_torus.png",
        "circle_with_outliers.png",
        "digits.png",
    }


def test_site_builds_without_a_warning(tmp_path):
    # A copy, so that what Sphinx writes beside its sources stays out of the repository. Examples are not run again.
    ignore = shutil.ignore_patterns("gallery", "generated", "sg_execution_times.rst", "__pycache__")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=ignore)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignore)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-D", "plot_gallery=0"]
    command += ["-D", "nb_execution_mode=off"]  # test_notebooks.py runs them
    built = subprocess.run(
        [*command, tmp_path / "docs", tmp_path / "site"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    for name in heatsketch.__all__:
        if name not in ("__version__", "Estimate"):
            assert (tmp_path / "site" / "api" / "generated" / f"heatsketch.{name}.html").exists()
    for page in PAGES:
        html = (tmp_path / "site" / page).with_suffix(".html").read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="https?://[^"]*"', html)
