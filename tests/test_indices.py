"""Sparse matrices with invalid indices raise ValueError wherever they come in, before SciPy reads beyond their end."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pytest
from scipy import sparse

import heatsketch as hs
import heatsketch.scanpy
from conftest import run_code
from heatsketch._utils.indices import check_indices
from heatsketch.io import Reading, read
from heatsketch.linalg.operators import SparseOperator

N, ENTRIES = 60, 5
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def ring(kind="csr", *, symmetric=True, matrix=False):
    """A ring of N vertices, each with itself and four neighbours: entry 17 of CSR, CSC, COO and BSR is in row 3."""
    columns = np.sort((np.arange(N)[:, None] + np.arange(-2, 3)) % N, axis=1).ravel()
    values = np.ones(N * ENTRIES) if symmetric else np.random.default_rng(0).random(N * ENTRIES)
    W = sparse.csr_array((values, columns, np.arange(0, N * ENTRIES + 1, ENTRIES)), shape=(N, N))
    W = sparse.bsr_array(W, blocksize=(1, 1)) if kind == "bsr" else W.asformat(kind)
    if matrix:
        W = getattr(sparse, f"{kind}_matrix")(W)
    return W.copy()


def put(name, place, value):
    """A change of one entry of an array of the matrix, which is copied to a dtype that holds it."""

    def change(W):
        array = getattr(W, name)
        array = array.astype(np.int64) if name != "data" and abs(value) > np.iinfo(np.int32).max else array
        array[place] = value
        setattr(W, name, array)

    return change


def replace(name, function):
    return lambda W: setattr(W, name, function(getattr(W, name)))


COMPRESSED = {
    "index too large": (put("indices", 17, N), r" 3 .*index 60 at entry 17\b"),
    "index huge": (put("indices", 17, 2**31 - 1), r" 3 .*index 2147483647 at entry 17\b"),
    "index of 64 bits": (put("indices", 17, 2**60), r" 3 .*index 1152921504606846976 at entry 17\b"),
    "index negative": (put("indices", 17, -1), r" 3 .*index -1 at entry 17\b"),
    "float indices": (replace("indices", lambda a: a.astype(float)), "`indices`.*float64.*integers"),
    "list of indices": (replace("indices", list), "`indices`.*list.*integers"),
    "square indices": (replace("indices", lambda a: a[:, None]), r"`indices`.*\(300, 1\).*integers"),
    "fewer indices": (replace("indices", lambda a: a[:-7]), "293 entries and `data` 300"),
    "fewer values": (replace("data", lambda a: a[:-7]), "300 entries and `data` 293"),
    "row beyond the end": (put("indptr", 5, 10**6), r" 4 ends at entry 1000000 .*`indptr\[5\]`"),
    "row beyond 32 bits": (put("indptr", 5, 2**40), r" 4 ends at entry 1099511627776 .*`indptr\[5\]`"),
    "last row beyond the end": (put("indptr", N, 301), r" 59 ends at entry 301 .*between 295 and 300"),
    "row before the start": (put("indptr", 5, -1), r" 4 ends at entry -1 .*`indptr\[5\]`"),
    "rows that go back": (put("indptr", 5, 3), r" 4 ends at entry 3 .*between 20 and 300"),
    "no entries at the end": (put("indptr", N, 0), r" 59 ends at entry 0 .*between 295 and 300"),
    "first row": (put("indptr", 0, 2), r" 0 starts at entry 2 .*`indptr\[0\]`"),
    "fewer rows": (replace("indptr", lambda a: a[:-1]), "60 entries.*61"),
    "more rows": (replace("indptr", lambda a: np.append(a, a[-1])), "62 entries.*61"),
}
COORDINATES = {
    "column too large": (put("col", 17, N), r"entry 17 of row 3 .*column index 60\b"),
    "column negative": (put("col", 17, -(2**31)), "entry 17 of row 3 .*column index -2147483648"),
    "row too large": (put("row", 17, 10**6), "entry 17 has the row index 1000000"),
    "fewer columns": (replace("col", lambda a: a[:-7]), "300 row indices, 293 column indices and 300 values"),
    "fewer values": (replace("data", lambda a: a[:-7]), "300 column indices and 293 values"),
}
DIAGONALS = {
    "float offsets": (replace("offsets", lambda a: a.astype(float)), "`offsets`.*integers"),
    "fewer offsets": (replace("offsets", lambda a: a[:-1]), "8 `offsets` and 9 rows"),
    "equal offsets": (put("offsets", 1, -59), "-59 more than once"),
    "offset of 64 bits": (put("offsets", 1, 2**40), "`offsets` has 1099511627776"),
    "vector of values": (replace("data", np.ravel), "`data`.*2 dimension"),
}
LISTS = {
    "column too large": (lambda W: W.rows[3].__setitem__(2, N), r"entry 17 of row 3 .*column index 60\b"),
    "column huge": (lambda W: W.rows[3].__setitem__(2, 2**70), "`col`.*integers"),
    "fewer values": (lambda W: W.data[3].pop(), "row 3 has 5 columns and 4 values"),
    "fewer rows": (replace("rows", lambda a: a[:-1]), "59 and 60 lists"),
}
KEYS = {"column too large": (lambda W: W._dict.__setitem__((3, N), 1.0), r"entry 300 of row 3 .*column index 60\b")}
BLOCKS = {"shape of blocks": (replace("data", lambda a: np.ones((300, 7, 1))), r"shape \(7, 1\)")}
BROKEN = (
    {(kind, name): case for kind in ("csr", "csc", "bsr") for name, case in COMPRESSED.items()}
    | {("coo", name): case for name, case in COORDINATES.items()}
    | {("dia", name): case for name, case in DIAGONALS.items()}
    | {("lil", name): case for name, case in LISTS.items()}
    | {("dok", name): case for name, case in KEYS.items()}
    | {("bsr", name): case for name, case in BLOCKS.items()}
)


def broken(kind, name, **options):
    W = ring(kind, **options)
    BROKEN[kind, name][0](W)
    return W


@pytest.mark.parametrize(("dtype", "n"), [(np.int8, 300), (np.int8, 100), (np.int16, 70_000), (np.int64, 300)])
def test_negative_indices_of_any_width(dtype, n):
    W = sparse.csr_array((np.ones(6), np.arange(6), np.arange(7)), shape=(6, n))
    W.indices = W.indices.astype(dtype)
    check_indices(W)
    for index in (-1, np.iinfo(dtype).min):
        W.indices[4] = index
        with pytest.raises(ValueError, match=rf"row 4 .*index {index} at entry 4\b"):
            check_indices(W)


@pytest.mark.parametrize(("kind", "name"), BROKEN)
def test_invalid_indices_are_located(kind, name):
    for matrix in (False, True):
        W = broken(kind, name, matrix=matrix)
        with pytest.raises(ValueError, match=BROKEN[kind, name][1]) as caught:
            check_indices(W, "A")
        assert str(caught.value).startswith("A ")


def slack(W):
    """Arrays that are longer than their last row, with indices that no row has."""
    W.indices, W.data = np.append(W.indices, [N, -1]), np.append(W.data, [[1.0]] * 2 if W.data.ndim == 3 else [1.0] * 2)
    return W


def repeated(W):
    """Half of every entry, twice, in falling order; the flags of the matrix say otherwise."""
    assert W.has_canonical_format
    rows = W.indices.reshape(N, ENTRIES)[:, ::-1]
    values = W.data.reshape(N, ENTRIES)[:, ::-1] / 2
    W.indices, W.data = np.hstack([rows, rows]).ravel(), np.hstack([values, values]).ravel()
    W.indptr *= 2
    return W


VALID = {
    f"{kind} {'matrix' if matrix else 'array'}": ring(kind, matrix=matrix) for kind in FORMATS for matrix in (0, 1)
}
VALID |= {
    "unused entries": slack(ring()),
    "unsorted and repeated": repeated(ring()),
    "64 bits": sparse.csr_array(ring("csr").astype(float)),
    "no entries": sparse.csr_array((5, 3)),
    "no rows": sparse.csr_array((0, 3)),
    "no columns": sparse.coo_array((3, 0)),
    "blocks": sparse.bsr_array(ring(), blocksize=(2, 3)),
    "diagonals outside": sparse.dia_array((np.ones((1, 5)), [7]), shape=(4, 4)),
    "dense": np.eye(3),
    "not an array": None,
}
VALID["64 bits"].indices = VALID["64 bits"].indices.astype(np.int64)


@pytest.mark.parametrize("name", VALID)
def test_valid_matrices_are_accepted(name):
    check_indices(VALID[name])


@pytest.mark.parametrize("options", [{}, {"n_neighbors": None}, {"affinity": "precomputed"}])
def test_flags_of_a_matrix_are_not_trusted(options):
    """A matrix whose indices were changed after SciPy had remembered that they are sorted; it is not modified."""
    W = repeated(ring())
    before = W.indices.copy(), W.data.copy()
    model = hs.GaussianProcessEmbedding(2, random_state=0, device="cpu", **options)
    with warnings.catch_warnings(action="ignore"):  # points that look like a graph
        expected = model.fit(ring()).embedding_
        found = model.fit(W)
        np.testing.assert_allclose(found.embedding_, expected, atol=1e-12)
        np.testing.assert_allclose(found.transform(W), expected, atol=1e-12)
    assert (W.indices == before[0]).all()
    assert (W.data == before[1]).all()


# Every way in, in a process of its own, which a defect may kill.


def ways():
    """Functions that take a sparse matrix of shape (N, N)."""
    P = {"affinity": "precomputed"}
    options = {"random_state": 0, "device": "cpu"}
    X = ring(symmetric=False)
    points = hs.GaussianProcessEmbedding(2, **options).fit(X)
    graph = hs.GaussianProcessEmbedding(2, **options, **P).fit(ring())
    kernel = points.kernel_
    reference = anndata.AnnData(X)
    hs.scanpy.heat_sketch(reference, use_rep="X", diagnose=False)
    found = {
        "inverse_transform": points.inverse_transform,
        "heat_kernel": hs.heat_kernel,
        "heat_kernel of a graph": lambda W: hs.heat_kernel(W, **P),
        "estimate_bandwidth": hs.estimate_bandwidth,
        "at_new_points": lambda W: kernel.at_new_points(W, np.ones((N, 1))),
        "rows_at_new_points": kernel.rows_at_new_points,
        "SparseOperator": SparseOperator,
        "geodesic_distances": lambda W: hs.geodesic_distances(W, 2),
        "diffusion_distances": lambda W: hs.diffusion_distances(W, 2),
        "pseudotime": lambda W: hs.pseudotime(W, [0]),
        "spectral_density": hs.spectral_density,
        "multiscale": hs.multiscale,
        "compare_kernels": lambda W: hs.compare_kernels(kernel, W),
        "global_diffusion_distance": lambda W: hs.global_diffusion_distance(W, kernel),
        "secant_products": lambda W: hs.secant_products(W, 2, [[0, 1, 2]]),
        "gaussian_process": hs.gaussian_process,
        "fit_aligned": lambda W: hs.fit_aligned(hs.GaussianProcessEmbedding(2, n_exact=0), [X, W]),
        "compare_embeddings": lambda W: hs.compare_embeddings(W, 2),
        "plot_embedding": hs.plot_embedding,
        "place_cells": lambda W: hs.scanpy.place_cells(anndata.AnnData(W), reference),
        "neighbors": lambda W: hs.scanpy.neighbors(anndata.AnnData(W), use_rep="X"),
    }
    for name, model in {"points": points, "graph": graph}.items():
        for method in ("fit", "fit_transform", "transform", "extend"):
            found[f"{method} of {name}"] = getattr(model, method)
    for name, source in SOURCES.items():
        found[f"heat_sketch of {name}"] = lambda W, source=source: hs.scanpy.heat_sketch(**source(W))
    return found


def cells_with(where, W):
    """Cells with the matrix in the given slot."""
    cells = anndata.AnnData(W if where == "X" else np.ones((N, 2)))
    if where == "obsm":
        cells.obsm["R"] = W
    if where == "obsp":
        cells.obsp["connectivities"], cells.uns["neighbors"] = W, {"params": {"method": "of another tool"}}
    return cells


SOURCES = {
    "X": lambda W: {"adata": cells_with("X", W), "use_rep": "X"},
    "obsm": lambda W: {"adata": cells_with("obsm", W), "use_rep": "R", "n_pcs": 3},
    "obsp": lambda W: {"adata": cells_with("obsp", W), "neighbors_key": "neighbors"},
}


def files(folder):
    """Files with a sparse matrix, and how to read them: a writer for each."""

    def npz(W):
        sparse.save_npz(folder / "w.npz", W)
        read(folder / "w.npz")

    def model(W):
        path = folder / "m"
        fitted = hs.GaussianProcessEmbedding(2, affinity="precomputed", random_state=0).fit(ring())
        fitted.kernel_.affinity.given = W
        hs.save_model(fitted, path)
        hs.load_model(path)

    found = {"npz": npz, "model": model}
    for where, key in {"X": "X", "obsm": "R", "obsp": None}.items():

        def h5ad(W, where=where, key=key):
            path = folder / "c.h5ad"
            cells_with(where, ring(W.format)).write_h5ad(path)
            with h5py.File(path, "r+") as file:
                group = file[{"X": "X", "obsm": "obsm/R", "obsp": "obsp/connectivities"}[where]]
                for name in ("data", "indices", "indptr"):
                    del group[name]
                    group[name] = getattr(W, name)
            read(path, Reading(key=key))

        found[f"h5ad {where}"] = h5ad
    return found


# What an AnnData cannot hold, and what readers of files convert.
_NOT_HELD = ("list of indices", "square indices", "float indices")


def report():
    """Print how each way in ends for each broken matrix."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        from_files, of_cells = files(Path(folder)), ("heat_sketch", "place_cells", "neighbors")
        for way, use in (ways() | from_files).items():
            for kind, name in BROKEN:
                held = ("csr",) if way == "model" else ("csr", "csc")
                if (way.startswith(of_cells) or way in from_files) and (kind not in held or name in _NOT_HELD):
                    continue
                case = f"{way}, {kind}, {name}"
                sys.stderr.write(f"{case}\n")  # the last one is shown if the process dies
                try:
                    use(broken(kind, name))
                    outcomes[case] = "result"
                except Exception as error:
                    outcomes[case] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(outcomes))


def test_every_way_in_raises():
    run = run_code(
        "import sys; sys.path.insert(0, sys.argv[1]); import test_indices; test_indices.report()", Path(__file__).parent
    )
    outcomes = json.loads(run.stdout.splitlines()[-1])
    assert len(outcomes) > 1000
    for case, ended in outcomes.items():
        # SciPy checks sizes, but not indices, when it makes a matrix of the arrays in a file.
        from_file = case.startswith(("npz", "model", "h5ad"))
        accepted = "ValueError: .*ind(ex|ices)" if from_file else "ValueError: .*indices are invalid"
        assert re.match(accepted, ended), f"{case}: {ended}"
