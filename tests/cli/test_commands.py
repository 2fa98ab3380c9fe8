"""Every command in the README and the docs runs."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

import pytest

import heatsketch as hs
from heatsketch.cli import main
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.figures import FIGURES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```console\n(.*?)^ *```$", re.M | re.S)


def _commands(page):
    lines = (line.strip() for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


COMMANDS = {page.relative_to(ROOT).as_posix(): found for page in PAGES if (found := _commands(page))}


@pytest.fixture
def small(monkeypatch, toy):
    """A fifth of the digits, and two of the paper's figures in one small trial."""
    images, digits = hs.datasets.digits()
    monkeypatch.setattr(hs.datasets, "digits", lambda: (images[::5], digits[::5]))
    for name, experiment in EXPERIMENTS.items():
        monkeypatch.setitem(EXPERIMENTS, name, toy(experiment, 1))
    all_figures = dict(FIGURES)
    for name in set(FIGURES) - {"circle", "stretched_torus"}:
        del FIGURES[name]
    yield
    FIGURES.clear()
    FIGURES.update(all_figures)  # in their order


def _run(words):
    """Run a command of heatsketch with redirections; returns its exit code."""
    streams = {sign: words[words.index(sign) + 1] for sign in ("<", ">") if sign in words}
    words = words[: min([words.index(sign) for sign in streams], default=len(words))]
    if words[1] == "reproduce":
        words += ["-j", "1"]
        if "--trials" in words:
            words[words.index("--trials") + 1] = "1"
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", words)
        if "<" in streams:
            patch.setattr(sys, "stdin", stack.enter_context(Path(streams["<"]).open(encoding="utf-8")))
        out = stack.enter_context(Path(streams.get(">", "said.txt")).open("w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(out))
        stop = stack.enter_context(pytest.raises(SystemExit))
        main()
    return stop.value.code or 0


@pytest.mark.parametrize("page", COMMANDS)
@pytest.mark.usefixtures("small")
def test_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[page]:
        words = shlex.split(command, comments=True)
        if words[0] == "heatsketch":
            assert _run(words) == 0, command


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/report.md"])
def test_python_example_writes_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)
    (block,) = [one for one in blocks if "write_report" in one]
    images, digits = hs.datasets.digits()
    known = {"X": images[:80], "images": images[:80], "digits": digits[:80], "labels": digits[:80]}
    if "fit(" not in block:
        known |= {"hs": hs, "model": hs.HeatSketch(random_state=0).fit(images[:80])}
    exec(compile(block, page, "exec"), known)
    assert (tmp_path / "page.html").stat().st_size > 1e6
