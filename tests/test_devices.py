"""Devices that are asked for and are not there, and machines that have little else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

import heatsketch as hs
from heatsketch.devices import has_cuda
from heatsketch.inputs import KernelOptions

torch = pytest.importorskip("torch")

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
X = hs.datasets.stretched_torus(50, random_state=0)


class _Absent(MetaPathFinder):
    """Finds no PyTorch."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


@pytest.fixture
def no_pytorch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])


class TestErrors:
    @pytest.mark.parametrize("estimator", [GP, DM, HS])
    def test_unknown(self, estimator):
        with pytest.raises(ValueError, match=r"device='tpu' was given; it must be one of .*'torch-cpu'.*'cuda:1'"):
            estimator(2, device="tpu").fit(X)
        with pytest.raises(ValueError, match="device=3 was given"):
            estimator(2, device=3).fit(X)
        with pytest.raises(ValueError, match="precision='double' is not known; use one of"):
            estimator(2, precision="double").fit(X)
        with pytest.raises(ValueError, match=r"device='cuda:99' was given, and PyTorch .* finds .* GPU"):
            estimator(2, device="cuda:99").fit(X)

    def test_no_gpu(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        for make in (lambda: GP(2, device="cuda").fit(X), lambda: hs.heat_kernel(X, device="cuda:0")):
            with pytest.raises(ValueError, match=r"finds no GPU here; use device='cpu' or 'auto', or install a build"):
                make()
        assert not has_cuda()
        assert GP(2, device="auto").fit(X).kernel_.device is None

    @pytest.mark.usefixtures("no_pytorch")
    def test_no_pytorch(self):
        for place in ("cuda", "cuda:1", "torch-cpu"):
            with pytest.raises(ModuleNotFoundError, match=r"pip install 'heatsketch\[gpu\]'"):
                GP(2, device=place).fit(X)
            with pytest.raises(ModuleNotFoundError, match=r"torch is needed to compute on a GPU"):
                hs.heat_kernel(X, device=place)
        assert not has_cuda()
        assert GP(2, device="auto").fit(X).kernel_.device is None

    @pytest.mark.usefixtures("no_pytorch")
    def test_options_are_checked_before_a_library_is_looked_for(self):
        assert KernelOptions(device="cuda:7").device == "cuda:7"
        with pytest.raises(ValueError, match="device='cuda:'"):
            KernelOptions(device="cuda:")


# Libraries that a machine with PyTorch need not have.
_ABSENT = (
    "pandas typer rich matplotlib plotly networkx igraph pyarrow anndata scanpy faiss pynndescent polars hatch_vcs "
    "triton markdown_it filelock"
)
_BARE = """
import importlib.metadata, importlib.abc, json, sys
absent = set(sys.argv[1].split())

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
version = importlib.metadata.version

def unknown(name):
    if name == "heatsketch":
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

importlib.metadata.version = unknown
import numpy as np
import heatsketch as hs
X = hs.datasets.stretched_torus(300, random_state=0).astype(np.float32)
found = {"version": hs.__version__}
for device in json.loads(sys.argv[2]):
    for make in (hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch):
        few = {"n_rounds": 1, "width": 24} if make is hs.HeatSketch else {}
        for n_neighbors in (None, 12) if make is hs.GaussianProcessEmbedding else (None,):
            model = make(3, power=4, device=device, verbose=True, n_neighbors=n_neighbors, **few).fit(X)
            shape = model.transform(X[:7]).shape
            found[f"{device} {make.__name__} {n_neighbors}"] = [list(shape), bool(np.isfinite(model.embedding_).all())]
print(json.dumps(found))
"""


def _run(code, *arguments):
    paths = [str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run


def test_a_machine_with_little_but_pytorch():
    """From the source tree, not installed, without what tables, pictures, graphs and the command line need."""
    devices = ["cpu", "torch-cpu", *(["cuda"] if has_cuda() else [])]
    run = _run(_BARE, _ABSENT, json.dumps(devices))
    found = json.loads(run.stdout)
    assert found.pop("version") == "0+unknown"
    assert len(found) == 4 * len(devices)
    assert all(result == [[7, 3], True] for result in found.values())
    assert run.stderr.count("[HeatSketch] 300 samples, float32") == len(devices)  # progress, in lines
