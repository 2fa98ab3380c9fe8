"""Damaged files and sparse matrices give a result or an error of a documented type, and never end the process."""

from __future__ import annotations

import numpy as np
import pytest

from budget import HUNT, rounds

pytest.importorskip("resource")  # limits memory; not on Windows
fuzz = pytest.importorskip("benchmarks.fuzz")


def test_damaged_input(record_property):
    """The same inputs in every run, and new ones in a hunt."""
    for library in ("anndata", "h5py", "zarr", "pyarrow"):
        pytest.importorskip(library)
    seed = 0 if HUNT == 1 else int(np.random.default_rng().integers(2**31))
    outcomes = fuzz.fuzz(rounds(300), seed, jobs=2)
    record_property("cases", len(outcomes))
    assert len(outcomes) == rounds(300)
    assert [one for one in outcomes if one.failed] == [], f"python -m benchmarks.fuzz --seed {seed} --only NUMBER"
    ends = {one.ended for one in outcomes}
    assert {"result", "rejected"} <= ends  # inputs are valid enough to be read, and damaged enough to be rejected


def test_dead_process_is_an_outcome(tmp_path):
    process = fuzz.Process(0, ("npy",), tmp_path / "worker")
    try:
        first = process.run(0)
        process._process.kill()
        assert process.run(1).ended == "killed"
        assert process.run(0) == first  # by a new process
    finally:
        process.close()
