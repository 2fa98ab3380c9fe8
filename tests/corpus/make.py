"""Make the files of this folder again: ``python tests/corpus/make.py`` (see README.md).

They are what the fuzzer of tests/test_fuzz.py begins with: small and valid ones of every format, and hostile ones.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from dataclasses import asdict
from pathlib import Path

import anndata
import h5py
import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.io import mmwrite

import heatsketch as hs
from heatsketch_paper.harness.store import _SESSION_KEYS, Provenance

FOLDER = Path(__file__).parent
X = np.random.default_rng(0).standard_normal((12, 3)).round(3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=list("uvwuvwuvwuvw"), age=range(12))
EVIL = ["<script>alert(1)</script>", "=1+1", "[red]x[/]", "\x1b[31mx", "$\\frac$", "_hidden", "../../x", "\u2028"]


class Call:
    """What a pickle of it would call."""

    def __reduce__(self):
        return os.system, ("true",)


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def npy_header(text: str, content: bytes = b"") -> bytes:
    """A file of this header, which may be anything."""
    header = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def tables() -> dict[str, bytes]:
    plain = FRAME.to_csv(index=False).encode()
    return {
        "plain.csv": plain,
        "plain.csv.gz": _gzip(plain),
        "ids.tsv": FRAME.rename(index="row {}".format).to_csv(sep="\t").encode(),
        "numbers.csv": FRAME[["a", "b"]].to_csv(index=False, header=False).encode(),
        "evil.csv": FRAME.assign(kind=(EVIL * 2)[:12]).rename(columns={"kind": EVIL[0]}).to_csv(index=False).encode(),
        "unclosed.csv": b'a,b,kind\n1,2,"u\n3,4,v\n5,6,w\n',
        "nul.csv": b"a,b\n1,2\n\x003,4\n",
        "ragged.csv": b"a,b\n1,2\n3,4,5\n",
        "utf16.csv": plain.decode().encode("utf-16"),
    }


def arrays() -> dict[str, bytes]:
    return {
        "float64.npy": _npy(X),
        "fortran32.npy": _npy(np.asfortranarray(X.astype("f4"))),
        "whole.npy.gz": _gzip(_npy(np.arange(12).reshape(4, 3))),
        "version2.npy": _npy(X > 0, (2, 0)),
        "pickle.npy": _npy(np.array([[Call()]], dtype=object)),
        "huge.npy": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 10**9)}"),
        "huge_digits.npy": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000, 100000000)}\n"),
        "negative.npy": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -3)}\n", b"\0" * 64),
        "record.npy": _npy(np.zeros(3, dtype=[("a", "f8"), ("b", "f8", (2,))])),
        "code.npy": npy_header("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1,)}\n"),
    }


def archives() -> dict[str, bytes]:
    made: dict[str, bytes] = {}

    def archive(name: str, **members: np.ndarray) -> None:
        file = io.BytesIO()
        (np.savez_compressed if "packed" in name else np.savez)(file, **members)
        made[name] = file.getvalue()

    archive("several.npz", X=X, labels=np.array(list("uvwuvwuvwuvw")), Z=X[:, :2], age=np.arange(12))
    archive("packed.npz", X=X)
    archive("pickle.npz", X=X, objects=np.array([Call()], dtype=object))
    archive("names.npz", **{"../../x": X, "/etc/x": X, "C:\\x": X})
    for kind in ("csr", "csc", "bsr", "coo", "dia"):
        file = io.BytesIO()
        sparse.save_npz(file, sparse.random_array((8, 6), density=0.3, format=kind, rng=1), compressed=kind == "csr")
        made[f"{kind}.npz"] = file.getvalue()
    rows = sparse.csr_array(np.eye(4))
    archive(
        "outside.npz",
        data=rows.data,
        indices=np.array([0, 1, 2, 2**30], "i4"),
        indptr=rows.indptr,
        shape=np.array([4, 4]),
        format=np.array(b"csr"),
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as twice:
        twice.writestr("X.npy", _npy(X))
        twice.writestr("X .npy", _npy(X * 2))
        twice.writestr("readme.txt", "no array")
    made["strangers.npz"] = file.getvalue().replace(b"X .npy", b"X.npy\0")
    return made


def matrices() -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    for name, matrix, options in (
        ("general.mtx", sparse.random_array((8, 5), density=0.4, rng=2), {}),
        ("symmetric.mtx", sparse.coo_array(np.ones((4, 4))), {"symmetry": "symmetric"}),
        ("pattern.mtx", sparse.coo_array(np.eye(4)), {"field": "pattern"}),
        ("dense.mtx", X, {}),
    ):
        file = io.BytesIO()
        mmwrite(file, matrix, **options)
        made[name] = file.getvalue()
    made["general.mtx.gz"] = _gzip(made["general.mtx"])
    start = b"%%MatrixMarket matrix coordinate real general\n"
    made["wide.mtx"] = start + b"1000000000000 1000000000000 3\n1 1 1\n2 2 1\n3 3 1\n"
    made["long.mtx"] = start + b"3 3 1000000000000\n1 1 1\n2 2 1\n3 3 1\n"
    made["outside.mtx"] = start + b"3 3 3\n1 1 1\n2 7 1\n0 3 1\n"
    made["huge_dense.mtx"] = b"%%MatrixMarket matrix array real general\n1000000 1000000\n1\n2\n"
    return made


def graphs() -> dict[str, bytes]:
    graph = nx.path_graph(5)
    nx.set_edge_attributes(graph, 1.5, "weight")
    nx.set_node_attributes(graph, {n: f"v{n}" for n in graph}, "kind")
    plain = "\n".join(nx.generate_graphml(graph)).encode()
    entities = b"".join(b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 10))
    body = plain[plain.index(b"<graphml") :]
    return {
        "plain.graphml": plain,
        "plain.graphml.gz": _gzip(plain),
        "laughs.graphml": b'<!DOCTYPE g [<!ENTITY e0 "ha">' + entities + b"]>" + body.replace(b"v0", b"&e9;"),
        "outside.graphml": b'<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + body.replace(b"v0", b"&x;"),
        "spaces.edges": b"# a comment\n0 1\n1 2\n2 3\n",
        "weights.edges": b"source,target,weight\na,b,1.5\nb,c,2\nc,a,0.5\n",
        "far.edgelist": b"1000000000000000\t1\n1\t2\n",
    }


def columns() -> dict[str, bytes]:
    made = {}
    for name, frame, options in (
        ("plain.parquet", FRAME, {"index": False}),
        ("index.parquet", FRAME.set_index("kind"), {"compression": "zstd"}),
        ("nested.parquet", pd.DataFrame({"a": [1.0, 2.0], "b": [[1, 2], [3]]}), {}),
    ):
        file = io.BytesIO()
        frame.to_parquet(file, **options)
        made[name] = file.getvalue()
    levels = bytearray(made["nested.parquet"])
    levels[280] ^= 1  # as pyarrow 26 writes it: one level more than there are
    return {**made, "levels.parquet": bytes(levels)}


def cells() -> dict[str, bytes]:
    made = {}
    for name, matrix in (("dense.h5ad", X.astype("f4")), ("sparse.h5ad", sparse.csr_matrix(np.round(abs(X))))):
        adata = anndata.AnnData(matrix, obs=FRAME[["kind"]].rename(index=str), obsm={"X_pca": X[:, :2]})
        adata.write_h5ad(FOLDER / name)
        made[name] = (FOLDER / name).read_bytes()
    for name in ("absurd.h5ad", "link.h5ad", "circle.h5ad", "elsewhere.h5ad"):
        path = FOLDER / name
        path.write_bytes(made["dense.h5ad"])
        with h5py.File(path, "r+") as file:
            if name == "circle.h5ad":
                file["uns/again"] = file["uns"]
            elif name == "link.h5ad":
                file["obsm/X_pca2"] = h5py.ExternalLink("other.h5ad", "/X")
            else:
                del file["X"]
                absurd = {"shape": (12, 10**14), "chunks": (1, 1024)} if name == "absurd.h5ad" else {"shape": (12, 3)}
                outside = {"external": [("/etc/passwd", 0, 144)]} if name == "elsewhere.h5ad" else {}
                made_of = file.create_dataset("X", dtype="f4", **absurd, **outside)
                made_of.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        made[name] = path.read_bytes()
    looping = bytearray(made["dense.h5ad"])
    at = looping.index(b"GCOL") + 16
    looping[at : at + 16] = bytes(16)  # an entry of its heap that has no length
    return {**made, "looping.h5ad": bytes(looping)}


def models() -> dict[str, bytes]:
    made = {}
    ring = nx.to_scipy_sparse_array(nx.cycle_graph(8), dtype=float)
    for name, model, data in (
        ("points.heatsketch", hs.GaussianProcessEmbedding(2, power=2, bandwidth=1.0, random_state=0), X),
        ("graph.heatsketch", hs.DiffusionMaps(2, power=2, affinity="precomputed"), ring),
        ("neighbours.heatsketch", hs.HeatSketch(2, power=2, n_neighbors=5, n_rounds=1, random_state=0), X),
    ):
        hs.save_model(model.fit(data), FOLDER / name)
        made[name] = (FOLDER / name).read_bytes()
    return made


def results() -> dict[str, bytes]:
    table = pd.DataFrame({"figure": "circle", "trial": [0, 0, 1, 1], "k": [2, 3, 2, 3], "L": [1.5, 1.2, 1.6, 1.1]})
    session = dict.fromkeys(sorted(_SESSION_KEYS), 1.0) | {"machine": {"cores": 2}, "started": "2026-01-01"}
    about = Provenance({"seed": 0}, "0.1", [session])
    return {"results.table": table.to_csv(index=False).encode(), "results.record": json.dumps(asdict(about)).encode()}


def main() -> None:
    kinds = (tables, arrays, archives, matrices, graphs, columns, cells, models, results)
    for name, content in {name: content for make in kinds for name, content in make().items()}.items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
