"""Structure of the package: dependencies point down, importing is light, public names are documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import heatsketch

ROOT = Path(heatsketch.__file__).parent

# Each package or root module imports only those before it.
LAYERS = [
    "_version",
    "_utils",
    "reference",
    "compiled",
    "datasets",
    "linalg",
    "neighbors",
    "kernel",
    "optimize",
    "layout",
    "analysis",
    "estimators",
    "backends",
    "plotting",
    "compare",
    "tables",
    "io",
    "report",
    "scanpy",
    "cli",
]
OPTIONAL = {"torch", "triton", "dask", "distributed", "matplotlib", "plotly", "networkx", "igraph", "anndata", "scanpy"}


def imported_layers(path: Path) -> set[str]:
    """Layers that a file imports."""
    package = path.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            parts = (*base, *(node.module or "").split("."))
            found |= {parts[0]} if parts[0] else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_dependencies_point_down(layer):
    place = ROOT / layer
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = {str(path.relative_to(ROOT)): sorted(up) for path in files if (up := imported_layers(path) & above)}
    assert not wrong


@pytest.mark.parametrize(("library", "home"), [("torch", "torch"), ("triton", "torch"), ("dask", "dask")])
def test_backend_libraries_are_imported_in_their_backend(library, home):
    elsewhere = [path for path in ROOT.rglob("*.py") if ROOT / "backends" / home not in path.parents]
    named = rf"^\s*(import|from) {library}\b|optional\(\"{library}\b|modules\.get\(\"{library}\b"
    assert not [str(path.relative_to(ROOT)) for path in elsewhere if re.search(named, path.read_text(), re.MULTILINE)]


def test_every_package_has_a_layer():
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found == {*LAYERS, "__init__", "__main__"}


def test_import_is_light():
    code = f"import sys, heatsketch; print(*sorted({OPTIONAL | {'sklearn', 'scipy'}!r} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []


ABSENT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def test_optional_libraries_may_be_absent():
    code = f"{ABSENT}\nimport heatsketch.cli, heatsketch.estimators, heatsketch.scanpy, heatsketch_paper"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_public_names_are_documented():
    assert set(heatsketch.__all__) == {*heatsketch._HOMES, "__version__"}
    for name in heatsketch.__all__:
        assert getattr(heatsketch, name).__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        heatsketch.nonsense  # noqa: B018
