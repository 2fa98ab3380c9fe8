"""The shape of the package: imports that only point down, a light import, public names that are there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import heatsketch

ROOT = Path(heatsketch.__file__).parent

# A module may import modules that stand before it, never after.
ORDER = [
    "_version",
    "_typing",
    "extras",
    "texts",
    "display",
    "chunks",
    "crew",
    "resources",
    "threads",
    "progress",
    "untrusted",
    "fused",
    "fused.precision",
    "devices",
    "bands",
    "bands.tasks",
    "blocks",
    "compiled",
    "compiled.vectors",
    "compiled.loops",
    "compiled.products",
    "compiled.search",
    "compiled.trees",
    "compiled.nearest",
    "compiled.pairs",
    "fused.words",
    "fused.points",
    "outputs",
    "coloring",
    "drawing",
    "draws",
    "sketch",
    "kernels",
    "fused.nearest",
    "fused.chunked",
    "fused.halves",
    "fused.programs",
    "fused.tiles",
    "fused.products",
    "fused.locality",
    "fused.gaussian",
    "datasets",
    "operators.base",
    "operators.dense",
    "operators.sparse",
    "operators.tiled",
    "operators.device",
    "operators.composed",
    "operators",
    "tables",
    "graphs",
    "files",
    "storage",
    "kmeans",
    "candidates",
    "clusters",
    "trees",
    "neighbors",
    "neighborhoods",
    "bandwidth",
    "affinity",
    "precomputed",
    "radius",
    "anderson",
    "bands.acceleration",
    "normalize",
    "heat_operator",
    "rounding",
    "inputs",
    "choice",
    "foresight",
    "costs",
    "bands.layout",
    "bands.inputs",
    "bands.operator",
    "bands.columns",
    "bands.pairs",
    "bands.gaussian",
    "bands.affinity",
    "bands.placement",
    "bands.shards",
    "bands.neighbors",
    "bands.graph",
    "bands.neighbor_affinity",
    "bands.kernel",
    "bands.heat",
    "heat",
    "ritz",
    "spectrum",
    "directions",
    "krylov",
    "density",
    "paths",
    "tuning",
    "diffusion",
    "processes",
    "distances",
    "comparison",
    "pairs",
    "distortion",
    "wide",
    "deflation",
    "objectives",
    "optimize",
    "starts",
    "witness",
    "support",
    "stability",
    "scales",
    "diagnosis",
    "embeddings._names",
    "embeddings._summary",
    "embeddings._answers",
    "embeddings._bands",
    "embeddings._wholly",
    "embeddings._base",
    "embeddings.gaussian_process",
    "embeddings.diffusion_maps",
    "embeddings.heat_sketch",
    "embeddings",
    "models",
    "readers.data",
    "readers.frames",
    "readers.arrays",
    "readers.graphs",
    "readers.cells",
    "readers",
    "writers",
    "plotting",
    "lineup",
    "reports.columns",
    "reports.pictures",
    "reports.contents",
    "reports.packing",
    "reports.page",
    "reports",
    "cells",
    "scanpy",
    "experiments.errors",
    "experiments.experiment",
    "experiments.methods",
    "experiments.charts",
    "experiments.plane",
    "experiments.laws",
    "experiments.obstacles",
    "experiments.cost",
    "experiments.catalogue",
    "experiments.figures",
    "experiments.store",
    "experiments.runner",
    "experiments.claims.evidence",
    "experiments.claims.judges",
    "experiments.claims.judges_theory",
    "experiments.claims.manifolds",
    "experiments.claims.outliers",
    "experiments.claims.signs",
    "experiments.claims.multiscale",
    "experiments.claims.theory",
    "experiments.claims.further",
    "experiments.claims",
    "experiments.pictures",
    "experiments.pictures_theory",
    "experiments.page",
    "experiments.reproduction",
    "experiments",
    "cli.console",
    "cli.options",
    "cli.embed",
    "cli.ask",
    "cli.datasets",
    "cli.reproduce",
    "cli",
    "__main__",
]
# Modules that are imported only when the paper is reproduced, and the libraries of the extra that they need.
REPRODUCTION = ORDER[ORDER.index("experiments.store") : ORDER.index("experiments")]
OPTIONAL = {
    "matplotlib",
    "pandas",
    "polars",
    "networkx",
    "igraph",
    "torch",
    "triton",
    "dask",
    "plotly",
    "anndata",
    "scanpy",
    "pyarrow",
}


def _modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


MODULES = {name: path for name, path in _modules() if name != "__init__"}


def test_every_module_has_its_place():
    assert set(MODULES) == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_down(name):
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package.split(".") if package else []
        base = base[: len(base) - node.level + 1]
        target = ".".join([*base, node.module or ""]).strip(".")
        targets = [target] if target in ORDER else [f"{target}.{a.name}".strip(".") for a in node.names]
        for imported in targets:
            assert imported in ORDER, f"{name} imports {imported}, which is not a module"
            assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}, which stands above it"


@pytest.mark.parametrize("name", ORDER)
def test_files_and_functions_stay_readable(name):
    text = MODULES[name].read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 60, f"{name}.{node.name} has {length} lines"


@pytest.mark.parametrize("name", ORDER)
def test_optional_libraries_are_not_imported_at_the_top(name):
    for node in ast.parse(MODULES[name].read_text()).body:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        allowed = {"matplotlib", "pandas"} if name in REPRODUCTION else set()
        allowed |= {"torch", "triton"} if name.startswith("fused") else set()
        assert not (OPTIONAL - allowed) & {n.split(".")[0] for n in names}


def test_import_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import heatsketch; t = time.perf_counter() - t; "
        f"print(t, *sorted({OPTIONAL | {'sklearn', 'scipy'}!r} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert float(out[0]) < 0.5
    assert out[1:] == []


ABSENT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize("module", ["cli", "embeddings", "scanpy", "experiments", "experiments.figures"])
def test_optional_libraries_may_be_absent(module):
    code = f"{ABSENT}\nimport heatsketch.{module}\nprint(heatsketch.{module}.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, f"heatsketch.{module}"), ran.stderr


def test_public_names_are_there_and_documented():
    assert set(heatsketch.__all__) == {*heatsketch._HOMES, "__version__"}
    assert set(heatsketch.__all__) <= set(dir(heatsketch))
    for name in heatsketch.__all__:
        value = getattr(heatsketch, name)
        if name != "__version__":
            assert value.__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        heatsketch.nonsense  # noqa: B018


def test_names_stay_functions_whatever_is_imported_first():
    code = (
        "import heatsketch as hs; hs.DiffusionMaps; print(callable(hs.heat_kernel), callable(hs.diffusion_distances))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "True"]
