"""Read damaged files and sparse matrices: each must give a result, or an error of a documented type.

    python -m benchmarks.fuzz 2000 --seed 1         2,000 inputs; a table by format, mutation and outcome
    python -m benchmarks.fuzz --seed 1 --only 17    one of them again, in this process, with its traceback
    python -m benchmarks.fuzz --formats mtx,memory  inputs of these formats alone, in other numbers

Each input is a valid file or matrix with one mutation, and follows from the seed and its number. Worker processes read
them, so that one that dies or hangs is an outcome. They inherit the environment, such as a preloaded sanitizer. That of
addresses needs ``ASAN_OPTIONS=allocator_may_return_null=1``: libraries ask for the absurd sizes in damaged files.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# A worker that needs longer for one input hangs.
SECONDS = 120.0
# Inputs that are larger after a mutation are read, but not fitted.
_LARGEST = 3000
# Libraries that open these formats in C and C++ before heatsketch sees any of it, and that may die (SECURITY.md).
NATIVE = ("h5ad", "zarr", "parquet")
# Address space of a worker, so that absurd sizes end in MemoryError. Sanitizers reserve more than any limit.
_ADDRESS_SPACE = 16 << 30
FAILURES = ("undocumented", "not finite", "killed", "timeout")


@dataclass(frozen=True)
class Outcome:
    """How an input ended.

    Attributes
    ----------
    ended : {"result", "rejected", "rejected by library", "undocumented", "not finite", "killed", "timeout"}
    stage : {"making", "reading", "fitting"}
    detail : str
        The error or warning, or what a dead process wrote last.
    """

    number: int
    format: str
    mutation: str
    ended: str
    stage: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is a defect of heatsketch, as far as can be told."""
        return self.ended in FAILURES and not (
            self.stage == "reading" and self.format in NATIVE and self.ended in ("killed", "timeout")
        )


# Mutations of bytes and text.

_HOSTILE_NUMBERS = (0, -1, 1, 59, 60, 61, 127, 255, 10**6, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63, -(2**63))
_HOSTILE_VALUES = (np.nan, np.inf, 1e300, -1.0, 0.0)
_HOSTILE_TEXT = (
    "",
    "nan",
    "-inf",
    "1e999",
    "1e-400",
    "x",
    "\x00",
    "é",
    '"',
    "<",
    "{",
    "9" * 400,
    "0x10",
    "true",
    "null",
)


def pick(rng: np.random.Generator, values: Any) -> Any:
    """One of the values."""
    return values[int(rng.integers(len(values)))]


def flip(content: bytes, rng: np.random.Generator) -> bytes:
    """Change up to eight bytes; half of the time near the start, where headers are."""
    changed = bytearray(content)
    stop = len(changed) if rng.random() < 0.5 else min(512, len(changed))
    for place in rng.integers(0, stop, int(rng.integers(1, 9))):
        changed[place] = int(rng.integers(256)) if rng.random() < 0.5 else changed[place] ^ (1 << int(rng.integers(8)))
    return bytes(changed)


def truncate(content: bytes, rng: np.random.Generator) -> bytes:
    """Leave out the end."""
    return content[: int(rng.integers(len(content)))]


def splice(content: bytes, rng: np.random.Generator) -> bytes:
    """Put a part of the content at another place, over what is there or between."""
    first, place = rng.integers(0, len(content), 2)
    part = content[first : first + int(rng.integers(1, 1 + min(256, len(content))))]
    return content[:place] + part + content[place + len(part) * int(rng.integers(2)) :]


def retype(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number in text by a hostile number or text."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not numbers:
        return content
    # Half of the time one of the first, such as the sizes in a header.
    found = pick(rng, numbers[:8] if rng.random() < 0.5 else numbers)
    put = str(pick(rng, _HOSTILE_NUMBERS)) if rng.random() < 0.6 else pick(rng, _HOSTILE_TEXT)
    return content[: found.start()] + put.encode() + content[found.end() :]


BYTES = {"flip": flip, "truncate": truncate, "splice": splice}
TEXT = BYTES | {"structure": retype}


# Mutations of arrays and documents in a valid container.


def hostile_array(array: Any, rng: np.random.Generator) -> Any:
    """An array with other entries, another length, shape or dtype."""
    array = np.array(array)
    if array.dtype.kind not in "biufc":
        return np.zeros(int(rng.integers(3)))
    return pick(rng, (_with_entry, _with_entry, _with_entry, *_ARRAY_CHANGES))(array, rng)


def _with_entry(array: Any, rng: np.random.Generator) -> Any:
    """The array with one entry changed, in a dtype that holds it."""
    if not array.size:
        return array
    is_whole = array.dtype.kind in "iu"
    place, value = int(rng.integers(array.size)), pick(rng, _HOSTILE_NUMBERS if is_whole else _HOSTILE_VALUES)
    if is_whole and abs(value) > np.iinfo(array.dtype).max:
        array = array.astype(np.uint64 if value >= 2**63 else np.int64)
    changed = array.ravel().copy()
    changed[place] = value
    return changed.reshape(array.shape)


def _in_another_shape(array: Any, rng: np.random.Generator) -> Any:
    if array.ndim == 1:
        return array[:, None]
    return array.T if rng.random() < 0.5 else array.ravel()


def _in_another_dtype(array: Any, rng: np.random.Generator) -> Any:
    with np.errstate(all="ignore"):
        return array.astype(pick(rng, ("f8", "f2", "i1", "u8", ">i8", ">f8", "i8", "?", "c16", "U8", "S3", "g")))


_ARRAY_CHANGES: tuple[Callable[[Any, np.random.Generator], Any], ...] = (
    lambda array, rng: array[: int(rng.integers(len(array) + 1))] if array.ndim else array[None],
    lambda array, _: np.append(array, array.ravel()[:1]),
    lambda array, rng: rng.permutation(array) if array.ndim else array,
    lambda array, rng: np.full_like(array, pick(rng, (0, 1, 100))),
    _in_another_shape,
    _in_another_dtype,
)


def hostile_json(document: Any, rng: np.random.Generator) -> Any:
    """A JSON document with one value changed or left out."""
    places = list(_places(document))
    *path, last = pick(rng, places)
    parent = document
    for key in path:
        parent = parent[key]
    if rng.random() < 0.2:
        del parent[last]
    else:
        others = (*_HOSTILE_NUMBERS, *_HOSTILE_TEXT, None, [], {}, [1, 2], {"$array": "arrays/0.npy"}, True, 0.5)
        parent[last] = pick(rng, others)
    return document


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*path, key)
        yield from _places(one, (*path, key))


def _unzipped(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return file.getvalue()


def rewrite_npy(content: bytes, rng: np.random.Generator) -> bytes:
    """A hostile array in a valid .npy file."""
    return _npy(hostile_array(np.lib.format.read_array(io.BytesIO(content)), rng))


def rewrite_member(content: bytes, rng: np.random.Generator) -> bytes:
    """A hostile array or document in a valid archive."""
    members = _unzipped(content)
    documents = [name for name in members if name.endswith(".json")]
    name = pick(rng, documents if documents and rng.random() < 0.5 else sorted(members))
    if name in documents:
        members[name] = json.dumps(hostile_json(json.loads(members[name]), rng)).encode()
    else:
        members[name] = rewrite_npy(members[name], rng)
    return _zipped(members)


def damage_member(content: bytes, rng: np.random.Generator) -> bytes:
    """A damaged member of an archive with valid checksums."""
    members = _unzipped(content)
    name = pick(rng, sorted(members))
    members[name] = pick(rng, tuple(BYTES.values()))(members[name], rng)
    return _zipped(members)


def rewrite_hdf5(content: bytes, rng: np.random.Generator) -> bytes:
    """A hostile array or attribute in a valid HDF5 file."""
    import h5py  # noqa: PLC0415

    file = io.BytesIO(content)
    with h5py.File(file, "r+") as tree:
        names: list[str] = []
        tree.visit(names.append)
        sparse = [name for name in names if name.rpartition("/")[2] in ("indices", "indptr", "data")]
        name = pick(rng, sparse if rng.random() < 0.6 else names)
        node = tree[name]
        if node.attrs and rng.random() < 0.3:
            attribute = pick(rng, sorted(node.attrs))
            value = node.attrs[attribute]
            node.attrs[attribute] = "other" if isinstance(value, str) else hostile_array(value, rng)
        elif isinstance(node, h5py.Dataset):
            array, attributes = hostile_array(node[()], rng), dict(node.attrs)
            del tree[name]
            tree[name] = array.astype("S") if array.dtype.kind == "U" else array
            tree[name].attrs.update(attributes)
        else:
            del tree[name]
    return file.getvalue()


def rewrite_parquet(content: bytes, rng: np.random.Generator) -> bytes:
    """A hostile column in a valid Parquet file."""
    import pandas as pd  # noqa: PLC0415

    frame = pd.read_parquet(io.BytesIO(content))
    name = pick(rng, list(frame))
    column = np.ravel(hostile_array(frame[name].to_numpy(), rng))
    column = column.real if column.dtype.kind == "c" else column
    column = column.astype(float) if column.dtype.char == "g" or column.dtype.str[0] == ">" else column
    frame = frame.iloc[: len(column)].assign(**{name: column[: len(frame)]})
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    return file.getvalue()


def damage_store(content: bytes, rng: np.random.Generator) -> bytes:
    """A damaged file of a Zarr store, which is kept as a zip archive here."""
    members = _unzipped(content)
    chunks = [name for name in members if not name.endswith(".json")]
    name = pick(rng, chunks)
    members[name] = pick(rng, tuple(BYTES.values()))(members[name], rng)
    return _zipped(members)


def rewrite_store(content: bytes, rng: np.random.Generator) -> bytes:
    """A hostile value in the metadata of a Zarr store, or a file that is missing."""
    members = _unzipped(content)
    name = pick(rng, sorted(members))
    if name.endswith(".json"):
        members[name] = json.dumps(hostile_json(json.loads(members[name]), rng)).encode()
    else:
        del members[name]
    return _zipped(members)


# Valid files, of 60 points.

N = 60


def _points() -> Any:
    return np.random.default_rng(0).standard_normal((N, 3))


def _graph(kind: str = "csr") -> Any:
    from scipy import sparse  # noqa: PLC0415

    columns = np.sort((np.arange(N)[:, None] + np.arange(-2, 3)) % N, axis=1).ravel()
    W = sparse.csr_array((np.ones(5 * N), columns, np.arange(0, 5 * N + 1, 5)), shape=(N, N))
    return W.asformat(kind)


def _scattered(kind: str = "csr") -> Any:
    """Sparse points that are no graph."""
    from scipy import sparse  # noqa: PLC0415

    return sparse.random_array((N, 40), density=0.3, rng=np.random.default_rng(0), format="csr").asformat(kind)


def _cells(which: str) -> Any:
    import anndata  # noqa: PLC0415

    cells = anndata.AnnData(_scattered("csc" if which == "csc" else "csr"))
    cells.obsm["X_pca"] = _points()
    if which == "obsp":
        cells.obsp["connectivities"], cells.uns["neighbors"] = _graph(), {"params": {"method": "of another tool"}}
    return cells


def _written(name: str, write: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        if path.is_dir():
            return _zipped({str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()})
        return path.read_bytes()


def _frame() -> Any:
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(_points(), columns=list("abc")).assign(kind=list("uv") * (N // 2), count=np.arange(N))


def _save_sparse(path: Path, kind: str) -> None:
    from scipy import sparse  # noqa: PLC0415

    sparse.save_npz(path, _scattered(kind))


def _save_mtx(path: Path, matrix: Any) -> None:
    from scipy.io import mmwrite  # noqa: PLC0415

    mmwrite(path, matrix)


def _save_model(path: Path, which: str) -> None:
    import heatsketch as hs  # noqa: PLC0415

    options: dict[str, Any] = {"random_state": 0, "device": "cpu"}
    if which == "graph":
        model: Any = hs.GaussianProcessEmbedding(2, affinity="precomputed", **options).fit(_graph())
    elif which == "table":
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415

        model = make_pipeline(hs.TableEncoder(), hs.DiffusionMaps(2, device="cpu")).fit(_frame())
    else:
        model = hs.HeatSketch(2, **options).fit(_scattered())
    hs.save_model(model, path)


def _save_graphml(path: Path) -> None:
    import networkx as nx  # noqa: PLC0415

    nx.write_graphml(nx.karate_club_graph(), path)


_EDGES = "".join(f"{i} {(i + step) % N} {1 + step / 2}\n" for i in range(N) for step in (1, 2))
_ARCHIVE = BYTES | {"member": damage_member, "structure": rewrite_member}
# By format: how to write valid files, and mutations.
FILES: dict[str, tuple[tuple[Callable[[Path], Any], ...], dict[str, Any]]] = {
    "npy": ((lambda p: np.save(p, _points()),), BYTES | {"structure": rewrite_npy}),
    "npz": ((lambda p: np.savez(p, X=_points(), kind=np.arange(N)),), _ARCHIVE),
    "sparse.npz": (
        tuple(lambda p, kind=kind: _save_sparse(p, kind) for kind in ("csr", "csc", "coo", "bsr", "dia")),
        _ARCHIVE,
    ),
    "mtx": (tuple(lambda p, m=m: _save_mtx(p, m()) for m in (_scattered, _points)), TEXT),
    "csv": ((lambda p: _frame().to_csv(p, index=False),), TEXT),
    "tsv": ((lambda p: _frame().to_csv(p, index=False, sep="\t"),), TEXT),
    "parquet": ((lambda p: _frame().to_parquet(p, index=False),), BYTES | {"structure": rewrite_parquet}),
    "edges": ((lambda p: p.write_text(_EDGES),), TEXT),
    "graphml": ((_save_graphml,), TEXT),
    "h5ad": (
        tuple(lambda p, which=which: _cells(which).write_h5ad(p) for which in ("csr", "csc", "obsp")),
        BYTES | {"structure": rewrite_hdf5},
    ),
    "zarr": (
        tuple(lambda p, which=which: _cells(which).write_zarr(p) for which in ("csr", "csc", "obsp")),
        {"damage": damage_store, "structure": rewrite_store},
    ),
    "heatsketch": (tuple(lambda p, w=w: _save_model(p, w) for w in ("points", "graph", "table")), _ARCHIVE),
}
MEMORY = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
# Formats that occur more than once get more inputs.
FORMATS = (*FILES, "sparse.npz", "h5ad", "heatsketch", *("memory",) * 4)


# One input.


class FuzzWorker:
    """Makes inputs and uses them; valid files are written once."""

    def __init__(self, seed: int, formats: Sequence[str], tell: Callable[[str], Any]) -> None:
        self._seed, self._formats, self._tell = seed, formats, tell
        self._valid: dict[tuple[str, int], bytes] = {}

    def run(self, number: int, *, raising: bool = False) -> Outcome:
        """Make and use an input."""
        rng = np.random.default_rng((self._seed, number))
        kind = pick(rng, self._formats)
        stage, mutation = "making", "structure"

        def tell(now: str) -> None:
            nonlocal stage
            stage = now
            self._tell(f"{kind}\n{mutation}\n{stage}")

        with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("always")
            if kind == "memory":
                tell("making")
                use = _memory_use(rng)
            else:
                writers, mutations = FILES[kind]
                mutation = pick(rng, sorted(mutations))
                tell("making")
                which = int(rng.integers(len(writers)))
                path = self._damaged(kind, which, mutations[mutation], rng, Path(folder))
                use = _file_use(kind, path)
            caught.clear()
            try:
                found = use(tell)
                ended, detail = _judged(found, caught, stage)
            except Exception as error:
                if raising:
                    raise
                ended, detail = _judged_error(error, stage, kind)
        return Outcome(number, kind, mutation, ended, stage, detail.replace(folder, "")[:600])

    def _damaged(self, kind: str, which: int, mutate: Any, rng: np.random.Generator, folder: Path) -> Path:
        """A file, or a directory of Zarr, with one mutation."""
        if (kind, which) not in self._valid:
            self._valid[kind, which] = _written(f"valid.{kind}", FILES[kind][0][which])
        content = mutate(self._valid[kind, which], rng)
        path = folder / f"damaged.{kind}"
        if kind == "zarr":
            for name, member in _unzipped(content).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(member)
        else:
            path.write_bytes(content)
        return path


class LibraryError(Exception):
    """The error of a library that reads a format without heatsketch."""


def _judged(found: Any, caught: list[warnings.WarningMessage], stage: str) -> tuple[str, str]:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    others = [w for w in caught if w.category not in (UserWarning, ConvergenceWarning)]
    if others and stage == "fitting":
        return "undocumented", f"{others[0].category.__name__}: {others[0].message} ({others[0].filename})"
    finite = found is None or np.isfinite(np.asarray(found, dtype=float)).all()
    return ("result", "") if finite else ("not finite", "")


def _judged_error(error: Exception, stage: str, kind: str) -> tuple[str, str]:
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, LibraryError):
        return "rejected by library", detail
    # Files raise ValueError alone; estimators also raise TypeError, for types that are no numbers.
    documented = (ValueError, TypeError) if stage == "fitting" or kind == "memory" else (ValueError,)
    if isinstance(error, documented) and not isinstance(error, np.linalg.LinAlgError) and len(str(error)) > 20:
        return "rejected", detail
    at = traceback.extract_tb(error.__traceback__)[-1]
    return "undocumented", f"{detail} ({at.filename}:{at.lineno})"


def _embedded(X: Any, tell: Any, *, is_graph: bool = False) -> Any:
    """Fit to what was read, and place it again."""
    import heatsketch as hs  # noqa: PLC0415

    tell("fitting")
    if max(X.shape) > _LARGEST:
        return None
    options = {"affinity": "precomputed"} if is_graph else {}
    model = hs.GaussianProcessEmbedding(2, random_state=0, device="cpu", **options).fit(X)
    return np.concatenate([np.asarray(model.embedding_), np.asarray(model.transform(X))])


def _file_use(kind: str, path: Path) -> Callable[[Any], Any]:
    """Read a file and fit to it."""

    def table(tell: Any) -> Any:
        from heatsketch.io import Reading, read  # noqa: PLC0415

        tell("reading")
        data = read(path, Reading(key="X" if kind == "h5ad" and path.stat().st_size % 2 else None))
        return _embedded(data.points, tell, is_graph=data.is_graph)

    def model(tell: Any) -> Any:
        import heatsketch as hs  # noqa: PLC0415

        tell("reading")
        loaded = hs.load_model(path)
        tell("fitting")
        if hasattr(loaded, "steps"):
            return loaded.transform(_frame())
        points = _graph() if loaded.affinity == "precomputed" else _scattered()
        return loaded.transform(points)

    def cells(tell: Any) -> Any:
        import anndata  # noqa: PLC0415

        tell("reading")
        try:
            found = anndata.read_zarr(path)
        except Exception as error:
            raise LibraryError(f"{type(error).__name__}: {error}") from error
        return _sketched(found, tell)

    return {"heatsketch": model, "zarr": cells}.get(kind, table)


def _sketched(cells: Any, tell: Any, **options: Any) -> Any:
    import heatsketch.scanpy  # noqa: PLC0415

    tell("fitting")
    heatsketch.scanpy.heat_sketch(cells, method="gaussian-process", diagnose=False, device="cpu", **options)
    return cells.obsm["X_heatsketch"]


def _memory_use(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A sparse matrix with a hostile array, for one of the functions that take it."""
    import heatsketch as hs  # noqa: PLC0415

    kind, is_graph = pick(rng, MEMORY), rng.random() < 0.5
    W = (_graph if is_graph else _scattered)(kind).copy()
    options: dict[str, Any] = {"random_state": 0, "device": "cpu"} | ({"affinity": "precomputed"} if is_graph else {})
    valid = _graph() if is_graph else _scattered()
    _spoil(W, rng)

    def cells(where: str) -> Any:
        import anndata  # noqa: PLC0415

        try:
            made = anndata.AnnData(W if where == "X" else _points())
            if where == "obsm":
                made.obsm["R"] = W
        except Exception as error:
            raise LibraryError(f"{type(error).__name__}: {error}") from error
        return made

    ways: dict[str, Callable[[Any], Any]] = {
        "fit": lambda tell: _embedded(W, tell, is_graph=is_graph),
        "transform": lambda _: hs.GaussianProcessEmbedding(2, **options).fit(valid).transform(W),
        "kernel": lambda _: hs.heat_kernel(W, affinity="precomputed" if is_graph else "gaussian") @ np.ones(N),
        "matrix": lambda _: hs.diffusion_distances(W, 2),
        "inverse_transform": lambda _: hs.DiffusionMaps(2).fit(_points()).inverse_transform(W),
    }
    if kind in ("csr", "csc"):
        ways["cells"] = lambda tell: _sketched(cells("X"), tell, use_rep="X")
        ways["representation"] = lambda tell: _sketched(cells("obsm"), tell, use_rep="R", n_pcs=3)
    way = ways[pick(rng, sorted(ways))]

    def use(tell: Any) -> Any:
        tell("fitting")
        return way(tell)

    return use


def _spoil(W: Any, rng: np.random.Generator) -> None:
    """Change one array of a sparse matrix in place, as code that does not know SciPy's rules."""
    if W.format == "dok":
        W._dict[int(pick(rng, _HOSTILE_NUMBERS)), int(rng.integers(N))] = 1.0
    elif W.format == "lil":
        row = int(rng.integers(N))
        if W.rows[row] and rng.random() < 0.7:
            W.rows[row][0] = pick(rng, _HOSTILE_NUMBERS)
        else:
            pick(rng, (W.rows, W.data))[row].append(1)
    else:
        names = {"coo": ("row", "col", "data"), "dia": ("offsets", "data")}.get(W.format, ("indices", "indptr", "data"))
        name = pick(rng, names)
        array = hostile_array(getattr(W, name), rng)
        try:
            setattr(W, name, array)
        except (OverflowError, ValueError, TypeError):  # SciPy converts the coordinates of COO
            getattr(W, name)[int(rng.integers(len(getattr(W, name))))] = 2**31 - 1


# Processes.


def work(seed: int, formats: Sequence[str], last: str) -> None:
    """A worker: numbers of inputs on standard input, outcomes on standard output; `last` has the present stage."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print
    if "san" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    worker = FuzzWorker(seed, formats, Path(last).write_text)
    for line in sys.stdin:
        out.write(json.dumps(asdict(worker.run(int(line)))) + "\n")
        out.flush()


class Process:
    """A worker process, started again after it has died."""

    def __init__(self, seed: int, formats: Sequence[str], folder: Path) -> None:
        self._arguments, self._folder, self._process = (seed, tuple(formats)), folder, None
        folder.mkdir()

    def run(self, number: int) -> Outcome:
        """Use an input in the process."""
        if self._process is None:
            self._start()
        process, last = self._process, self._folder / "stage"
        last.write_text("\n\n")
        with suppress(BrokenPipeError):  # of a dead process, which writes no line
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=SECONDS)
        except queue.Empty:
            line, ended = "", "timeout"
        else:
            ended = "killed"
        if line:
            return Outcome(**json.loads(line))
        kind, mutation, stage, *_ = (last.read_text() + "\n\n").split("\n")
        self.close()
        said = (self._folder / "stderr").read_text(errors="replace")
        lines = re.findall(r"^(?:Fatal|ERROR|SUMMARY|.*ERROR: AddressSanitizer|\s*#\d|  File).*", said, re.MULTILINE)
        detail = "; ".join(line.strip() for line in lines[:12]) or said[-600:]
        return Outcome(number, kind, mutation, ended, stage, f"exit code {process.returncode}: {detail}")

    def _start(self) -> None:
        paths = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
        # A dump of the Python stack says which library died.
        environment = os.environ | {"PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1", "OPENBLAS_NUM_THREADS": "1"}
        arguments = ", ".join(map(repr, (*self._arguments, str(self._folder / "stage"))))
        code = f"from benchmarks.fuzz import work; work({arguments})"
        with (self._folder / "stderr").open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=self._folder,
                text=True,
            )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def fuzz(
    count: int,
    seed: int = 0,
    *,
    formats: Sequence[str] = FORMATS,
    jobs: int = 1,
    report: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Outcomes of inputs, in order of their numbers."""
    folder = Path(tempfile.mkdtemp())
    processes = [Process(seed, formats, folder / str(job)) for job in range(jobs)]
    idle: queue.SimpleQueue[Process] = queue.SimpleQueue()
    for process in processes:
        idle.put(process)

    def run(number: int) -> Outcome:
        process = idle.get()
        outcome = process.run(number)
        idle.put(process)
        if report is not None:
            report(outcome)
        return outcome

    try:
        with ThreadPoolExecutor(jobs) as threads:
            return list(threads.map(run, range(count)))
    finally:
        for process in processes:
            process.close()
        shutil.rmtree(folder, ignore_errors=True)


def table(outcomes: list[Outcome]) -> str:
    """Counts by format, mutation and outcome, as a Markdown table."""
    kinds = ("result", "rejected", "rejected by library", *FAILURES)
    counted = Counter((one.format, one.mutation, one.ended) for one in outcomes)
    rows = sorted({(one.format, one.mutation) for one in outcomes})
    lines = [["format", "mutation", "inputs", *kinds]]
    for row in rows:
        counts = [counted[*row, kind] for kind in kinds]
        lines.append([*row, str(sum(counts)), *map(str, counts)])
    totals = [sum(counted[*row, kind] for row in rows) for kind in kinds]
    lines.append(["**together**", "", str(sum(totals)), *map(str, totals)])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Parse the command line, use the inputs, and print the table and the failures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=2000, help="number of inputs; 2000 by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", "--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one input again, with its traceback")
    parser.add_argument("--formats", default=",".join(FORMATS), help="separated by commas; all by default")
    options = parser.parse_args()
    formats = options.formats.split(",")
    if unknown := {*formats} - {*FORMATS}:
        parser.error(f"unknown formats: {', '.join(sorted(unknown))}; known are {', '.join(dict.fromkeys(FORMATS))}.")
    if options.only is not None:
        print(FuzzWorker(options.seed, formats, lambda stage: print(*stage.split())).run(options.only, raising=True))
        return

    done = Counter[str]()

    def show(outcome: Outcome) -> None:
        done[outcome.ended] += 1
        if outcome.ended in FAILURES:
            print(outcome, file=sys.stderr, flush=True)
        if done.total() % 100 == 0:
            print(f"{done.total()} of {options.count}: {dict(done)}", file=sys.stderr, flush=True)

    outcomes = fuzz(options.count, options.seed, formats=formats, jobs=options.jobs, report=show)
    print(table(outcomes))
    died = [one for one in outcomes if one.ended in FAILURES and not one.failed]
    print(f"\n{len(died)} inputs ended the process in the library that opens their format (see above).")
    if failed := [one for one in outcomes if one.failed]:
        sys.exit(f"{len(failed)} inputs failed: {', '.join(str(one.number) for one in failed[:50])}.")


if __name__ == "__main__":
    main()
