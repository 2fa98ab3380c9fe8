"""The notebooks of the documentation run without an error or a warning, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import run_code

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))

# Runs the cells as a notebook does, with what the last line of a cell shows. Warnings of heatsketch name the line of
# its caller, here the notebook.
RUN = """
import ast, json, os, sys, warnings
import matplotlib

path = sys.argv[1]
os.chdir(os.path.dirname(path))
matplotlib.use("agg")
warnings.filterwarnings("error", category=UserWarning, module="__main__")
warnings.filterwarnings("error", module="heatsketch")
with open(path, encoding="utf-8") as file:
    cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
names = {"__name__": "__main__"}
for number, cell in enumerate(cells):
    tree = ast.parse("".join(cell["source"]))
    shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if shown is not None:
        value = eval(compile(ast.Expression(shown.value), f"cell {number}", "eval"), names)
        getattr(value, "_repr_html_", value.__repr__)()
    matplotlib.pyplot.close("all")
"""


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_warning(path):
    run_code(RUN, path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
