"""Graphs: edge lists and GraphML."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.extras import optional
from ..kernel.graphs import adjacency
from .data import SEPARATORS, Data, Reading
from .errors import check_known, not_text, parsing

__all__ = ["read_edges", "read_graphml"]

_COMMENTS = ("#", "%")
# Column names in the first line of an edge list.
_ENDS = {"source", "target", "from", "to", "src", "dst", "u", "v", "node1", "node2", "vertex1", "vertex2"}
_WEIGHTS = {"weight", "w", "value", "score", "affinity", "similarity"}
# A dictionary at the end of a line, by which networkx.write_edgelist writes attributes of an edge.
_ATTRIBUTES = re.compile(r"\{(\}|'.*\})\s*$")


def read_edges(file: Any, reading: Reading) -> Data:
    """Read lines ``vertex vertex [weight]``, separated by tabs, commas, semicolons or spaces.

    An edge may be listed once or in both directions. Repeated edges add up.
    """
    import pandas as pd  # noqa: PLC0415

    notes: list[str] = []
    options = _layout(file, reading, notes)
    with parsing("edges"):
        frame = pd.read_csv(file, header=None, dtype=str, keep_default_na=False, **options)
    frame = frame[~frame[0].str.startswith(_COMMENTS)].reset_index(drop=True)
    if frame.shape[1] not in (2, 3):
        raise ValueError(
            f"its lines have {frame.shape[1]} fields; each line must hold two vertices, and a weight in all lines or "
            "none. Choose the separator with --separator."
        )
    short = np.flatnonzero((frame.isna() | (frame == "")).any(axis=1))
    if len(short):
        line = " ".join(map(str, frame.iloc[short[0]].dropna())).strip()
        raise ValueError(
            f"edge {short[0] + 1} is {line!r}; each line must hold two vertices, and a weight in all lines or none."
        )
    codes, names = pd.factorize(pd.concat([frame[0], frame[1]], ignore_index=True))
    i, j = codes[: len(frame)], codes[len(frame) :]
    weights = _weights(frame) if frame.shape[1] == 3 else np.ones(len(frame))
    directed = sparse.csr_array((weights, (i, j)), shape=(len(names), len(names)))
    return Data(_undirected(directed, names), names.to_numpy(dtype=object), is_graph=True, notes=notes)


def _layout(file: Any, reading: Reading, notes: list[str]) -> dict[str, Any]:
    """Options for pandas: the separator, and the number of lines before the first edge."""
    encoding = reading.encoding or "utf-8-sig"
    try:
        lines = [line.decode(encoding) for line in islice(file, 1000)]
    except (UnicodeError, LookupError) as error:
        raise ValueError(not_text(encoding)) from error
    file.seek(0)
    skipped = next(
        (n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(_COMMENTS)), None
    )
    if skipped is None:
        raise ValueError("it holds no edges.")
    first, given = lines[skipped], reading.separator
    if _ATTRIBUTES.search(first):
        raise ValueError(
            f"its first edge is {first.strip()!r}, with attributes as networkx.write_edgelist writes them; write "
            "weights only, with networkx.write_weighted_edgelist, or GraphML, with networkx.write_graphml."
        )
    separator = next((c for c in "\t,;" if c in first), r"\s+") if given is None else SEPARATORS.get(given, given)
    cells = [cell.strip().lower() for cell in (first.split() if separator == r"\s+" else first.split(separator))]
    if set(cells[:2]) <= _ENDS or (len(cells) == 3 and cells[2] in _WEIGHTS):
        notes.append(f"the line {first.strip()!r} is taken as column names")
        skipped += 1
    return {"sep": separator, "skiprows": skipped, "encoding": encoding, "skipinitialspace": True}


def _weights(frame: Any) -> Any:
    import pandas as pd  # noqa: PLC0415

    weights = pd.to_numeric(frame[2], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        one = frame.iloc[bad[0]]
        raise ValueError(
            f"edge {bad[0] + 1}, from {one[0]!r} to {one[1]!r}, has the weight {one[2]!r}; weights must be "
            "finite and non-negative."
        )
    return weights


def _undirected(directed: Any, names: Any) -> Any:
    """The symmetric matrix of edges that are listed once or in both directions."""
    back = directed.T.tocsr()
    both = directed.multiply(back.astype(bool)) - back.multiply(directed.astype(bool))
    if abs(both).max() > 0:
        a, b = (names[at] for at in np.argwhere(both)[0])
        raise ValueError(
            f"the weights from {a!r} to {b!r} and back differ; the heat kernel needs an undirected graph: list each "
            "edge once, or with the same weight in both directions."
        )
    return sparse.csr_array(directed.maximum(back))


def read_graphml(file: Any, reading: Reading) -> Data:
    """Read GraphML through networkx: vertices by id, their attributes as columns, weights by the edge attribute."""
    networkx = optional("networkx", "read GraphML", "graph")
    notes: list[str] = []
    with parsing("GraphML", notes):
        graph = networkx.read_graphml(file)
    nodes = list(graph.nodes(data=True))
    attributes = sorted({name for _, values in nodes for name in values})
    check_known(reading.named, attributes, "attribute")
    columns = {name: [values.get(name) for _, values in nodes] for name in attributes if name not in reading.drop}
    names = [str(node) for node, _ in nodes] if reading.id is None else [str(name) for name in columns.pop(reading.id)]
    ids = np.array(names, dtype=object)
    return Data(adjacency(graph), ids, None, columns, is_graph=True, notes=notes, id_name=reading.id)
