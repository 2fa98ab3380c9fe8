"""The fused Triton programs without a GPU: interpreted, and compiled for several GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import heatsketch as hs

pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402

from heatsketch.backends.torch.force_programs import (  # noqa: E402
    attraction_kernel,
    repulsion_kernel,
    stretching_kernel,
)
from heatsketch.backends.torch.products import Tile, differences_tiles, halves_tiles, symmetric_tiles  # noqa: E402
from heatsketch.backends.torch.programs import (  # noqa: E402
    LARGEST,
    SINGLE,
    VALUES,
    differences_kernel,
    halves_kernel,
    symmetric_kernel,
)
from heatsketch.backends.torch.search_programs import candidates_kernel, minima_kernel  # noqa: E402
from heatsketch.backends.torch.sparse_programs import sparse_kernel  # noqa: E402

TENSORS = {"V": "*fp16", "Out": "*fp32", "starts": "*i64", "groups": "*i32"}
SIZES = {"n_rows": "i32", "n_columns": "i32", "n_groups": "i32"}
HALVES = {"L": "*fp16", "R": "*fp16", "L8": "*fp16", "R8": "*fp16", **TENSORS, **SIZES}
POINTS = ("X", "Y", "x_scale", "y_scale", "shift")
DIFFERENCES = {**dict.fromkeys(POINTS, "*fp32"), **TENSORS, **SIZES, "x_stride": "i32", "y_stride": "i32"}
SPLIT = {"K": 48, "K1": 32, "E": 0, "PIECE": 0}
DEEP = {"K": 320, "K1": 256, "E": 0, "PIECE": 64}
MIXED = {"K": 64, "K1": 64, "E": 128, "PIECE": 0}
SYMMETRIC = {
    **{name: HALVES[name] for name in ("L", "R", "L8", "R8")},
    **{"V": "*fp32", "Out": "*fp64"},
    **dict.fromkeys(("turn", "n_blocks", "size", "n_padded"), "i32"),
}
SEARCHED = {"K": 160, "K1": 128, "PIECE": 0}
SEARCHED_DEEP = {"K": 320, "K1": 256, "PIECE": 64}
EIGHT_BITS = {"L8": "*fp8e4nv", "R8": "*fp8e4nv"}


def test_interpreted_programs():
    """The tests of fused programs on the CPU, in a process in which Triton interprets them."""
    root = Path(__file__).parents[2]
    tests = [f"tests/backends/test_device_{name}.py" for name in ("gaussian", "neighbors", "forces")]
    paths = [str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *("-k", "TestFused and not cuda"), *tests],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if "only 0-dimensional arrays can be converted" in run.stdout:
        pytest.skip("this version of Triton's interpreter does not work with this version of NumPy")
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout.splitlines()[-1]


def _compiled(kernel, signature, constants, tile, capability):
    constants = constants | {"BM": tile.rows, "BN": tile.columns, "STAGES": tile.stages}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = triton.compiler.ASTSource(
        fn=kernel,
        signature={name: signature.get(name, "constexpr") for name in kernel.arg_names},
        constexprs={(kernel.arg_names.index(name),): value for name, value in constants.items()},
    )
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.parametrize(
    ("capability", "depths", "mode", "skip"),
    [(80, SPLIT, VALUES, True), (86, DEEP, VALUES, False), (89, MIXED, SINGLE, False), (120, MIXED, LARGEST, False)],
)
@pytest.mark.parametrize("rough", [False, True])
def test_products_of_halves_compile(capability, depths, mode, skip, rough):
    tile = halves_tiles(mode, 2 * depths["K"] + depths["E"], 32)[0]
    constants = {**depths, "C": 32 if mode == VALUES else 1, "MODE": mode, "ZERO": mode == LARGEST, "SKIP": skip}
    constants["ROUGH"] = rough
    signature = HALVES | (EIGHT_BITS if depths["E"] else {}) | ({"V": "*fp32"} if mode != VALUES else {})
    compiled = _compiled(halves_kernel, signature, constants, tile, capability)
    assert "mma" in compiled.asm["ptx"]  # tensor cores are used


@pytest.mark.parametrize(("capability", "depths"), [(80, SEARCHED), (90, SEARCHED), (86, SEARCHED_DEEP)])
def test_searches_compile(capability, depths):
    sizes = dict.fromkeys(("n_rows", "n_sheets", "row_stride"), "i32")
    signature = {"L": "*fp16", "R": "*fp16", "Out": "*fp32", **sizes}
    compiled = _compiled(minima_kernel, signature, depths, Tile(128, 64, 4, 3), capability)
    assert "mma" in compiled.asm["ptx"]


@pytest.mark.parametrize("capability", [80, 90])
def test_products_of_differences_compile(capability):
    constants = {"D": 5, "C": 32, "MODE": VALUES, "ROUGH": False, "ZERO": False, "SKIP": False}
    compiled = _compiled(differences_kernel, DIFFERENCES, constants, differences_tiles(VALUES)[0], capability)
    assert "ex2.approx" in compiled.asm["ptx"]


@pytest.mark.parametrize(("capability", "depths"), [(80, SPLIT), (90, MIXED)])
def test_symmetric_products_compile(capability, depths):
    constants = {name: depths[name] for name in ("K", "K1", "E")} | {"PAIRS": True}
    tile = symmetric_tiles(2 * depths["K"] + depths["E"])[0]
    signature = SYMMETRIC | (EIGHT_BITS if depths["E"] else {})
    compiled = _compiled(symmetric_kernel, signature, constants, tile, capability)
    assert "mma" in compiled.asm["ptx"]


def _types(kernel, constants, **types):
    """Types of the arguments: pointers to float32 and 32 bit integers, unless given."""
    return {name: types.get(name, "*fp32") for name in kernel.arg_names if name not in constants}


COUNTS = dict.fromkeys(("n", "m", "width", "n_points", "n_groups"), "i32")
GRAPH = {"starts": "*i64", "columns": "*i32"}


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    ("kernel", "constants", "types"),
    [
        (candidates_kernel, {"D": 64}, {"groups": "*i32", "own": "*i64"}),
        (sparse_kernel, {"BC": 32}, GRAPH),
        (sparse_kernel, {"BC": 4}, GRAPH | dict.fromkeys(("values", "V", "Out"), "*fp64")),
        (attraction_kernel, {"K": 3, "KP": 4}, GRAPH),
        (repulsion_kernel, {"K": 2, "KP": 2}, {}),
        (stretching_kernel, {"K": 2, "KP": 2}, {"least": "fp32", "mean": "fp32"}),
    ],
)
def test_programs_without_tensor_cores_compile(kernel, constants, types, capability):
    tile = Tile(8, 16, 1, 1)
    blocks = {"BM": tile.rows, "BN": tile.columns}
    signature = _types(kernel, constants | blocks, **COUNTS | types)
    assert "st.global" in _compiled(kernel, signature, constants, tile, capability).asm["ptx"]
