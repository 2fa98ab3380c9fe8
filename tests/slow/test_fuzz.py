"""Every reader on files that are nearly right: data that holds together, or one error in words.

Files of tests/corpus are changed by bytes and by the structure of their format, and read in a process that has little
memory and may start nothing (tests/reading.py). Hypothesis makes the changes: coverage-guided fuzzing by Atheris has no
wheel for arm64. ``HEATSKETCH_HUNT=100 pytest tests/test_fuzz.py`` tries a hundred times as many.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget import cases
from mutations import ARCHIVE, ARRAY, BYTES, COMPRESSED, CORPUS, DOCUMENT, changed, edits
from reading import Reader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and handles are read from /proc")

# Megabytes that reading one of these small files may take, and letters that an error may have.
MOST_MEGABYTES, LONGEST = 50, 1500
# Endings of each kind of file, and what is done to them.
KINDS = {
    "text": ((".csv", ".csv.gz", ".tsv"), (*BYTES, *COMPRESSED)),
    "array": ((".npy", ".npy.gz"), (*BYTES, *ARRAY, *ARRAY, *COMPRESSED)),
    "archive": ((".npz",), (*BYTES[:4], *ARCHIVE)),
    "matrix": ((".mtx", ".mtx.gz"), (*BYTES, "number", "number", *COMPRESSED)),
    "edges": ((".edges", ".edgelist"), BYTES),
    "graphml": ((".graphml", ".graphml.gz"), (*BYTES, *COMPRESSED)),
    "parquet": ((".parquet",), BYTES),
    "cells": ((".h5ad",), BYTES),
    "model": ((".heatsketch",), (*BYTES[:2], *ARCHIVE, *DOCUMENT * 6)),
    "results": ((".table", ".record"), (*BYTES, *DOCUMENT * 3)),
}
# Files of the corpus that are right; all others are to be refused.
RIGHT = {
    "bsr.npz", "coo.npz", "csc.npz", "csr.npz", "dense.h5ad", "dense.mtx", "dia.npz", "evil.csv", "far.edgelist",
    "float64.npy", "fortran32.npy", "general.mtx", "general.mtx.gz", "graph.heatsketch", "ids.tsv", "index.parquet",
    "neighbours.heatsketch", "nested.parquet", "numbers.csv", "packed.npz", "pattern.mtx", "pickle.npz", "plain.csv",
    "plain.csv.gz", "plain.graphml", "plain.graphml.gz", "plain.parquet", "points.heatsketch", "results.record",
    "results.table", "several.npz", "spaces.edges", "sparse.h5ad", "symmetric.mtx", "version2.npy", "weights.edges",
    "whole.npy.gz",
}  # fmt: skip


def _files(kind):
    return [path for path in sorted(CORPUS.iterdir()) if path.name.endswith(KINDS[kind][0])]


@pytest.fixture(scope="module")
def reader():
    process = Reader()
    yield process
    process.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def _check(reader, path, content):
    """What came of reading this content under the name of a file."""
    path.write_bytes(content)
    verdict = reader.judge(path)
    assert verdict["outcome"] in ("read", "refused"), verdict["detail"]
    assert verdict["warnings"] == []
    assert verdict["left_open"] == []
    assert verdict["events"] == []
    assert verdict["megabytes"] < MOST_MEGABYTES
    if verdict["outcome"] == "refused":
        assert path.name in verdict["detail"]
        assert len(path.name) + 10 < len(verdict["detail"]) < LONGEST
    return verdict


def test_the_corpus_is_small_and_of_every_kind():
    files = [path for path in CORPUS.iterdir() if path.is_file() and path.suffix not in (".py", ".md")]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert {path.name for kind in KINDS for path in _files(kind)} == {path.name for path in files}
    assert {path.name for path in files} > RIGHT
    assert all(f"`{path.name}`" in (CORPUS / "README.md").read_text() for path in files)


@pytest.mark.parametrize("kind", KINDS)
def test_the_corpus_is_read_or_refused(reader, place, kind, record_property):
    for path in _files(kind):
        verdict = _check(reader, place / path.name, path.read_bytes())
        assert verdict["outcome"] == ("read" if path.name in RIGHT else "refused"), (path.name, verdict["detail"])
    record_property("cases", len(_files(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused(reader, place, kind, record_property):
    files, names = _files(kind), KINDS[kind][1]
    others = [path.read_bytes() for path in files]
    tried = []

    @cases(100)
    @given(st.sampled_from(files), edits(names))
    def damage(path, made):
        tried.append(path)
        _check(reader, place / path.name, changed(path.read_bytes(), made, others))

    damage()
    record_property("cases", len(tried))


@pytest.mark.parametrize("kind", ["text", "array", "archive", "matrix", "edges", "graphml", "parquet", "cells"])
def test_files_with_the_ending_of_another_kind(reader, place, kind, record_property):
    strangers = [_files(other)[0] for other in KINDS if other != kind]
    for path in strangers:
        _check(reader, place / f"{path.stem}{KINDS[kind][0][0]}", path.read_bytes())
    record_property("cases", len(strangers))
