"""Graphs: lists of edges, and GraphML."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..extras import optional
from ..graphs import adjacency
from .data import Data, Reading

__all__ = ["read_edges", "read_graphml"]

_COMMENTS = ("#", "%")


def read_edges(file: Any, reading: Reading) -> Data:
    """Read lines ``vertex vertex [weight]``, separated by commas, tabs or spaces.

    An edge may be listed once or in both directions. Lines that repeat an edge in one direction add up.
    """
    _refuse_columns(reading)
    import pandas as pd  # noqa: PLC0415

    text = file.read().decode("utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(_COMMENTS)]
    if not lines:
        raise ValueError("it holds no edges.")
    cells = [_cells(line, reading.separator) for line in lines]
    if len(cells) > 1 and len(cells[0]) == 3 and not _is_weight(cells[0][2]):  # a line of column names
        cells = cells[1:]
    wrong = next((at for at, cell in enumerate(cells) if len(cell) not in (2, 3) or len(cell) != len(cells[0])), None)
    if wrong is not None:
        raise ValueError(
            f"edge {wrong + 1} is {lines[wrong]!r}; each line must hold two vertices, and a weight in all or in none."
        )
    frame = pd.DataFrame(cells)
    weights = _weights(frame[2]) if frame.shape[1] == 3 else np.ones(len(frame))
    codes, names = pd.factorize(pd.concat([frame[0], frame[1]], ignore_index=True))
    i, j = codes[: len(frame)], codes[len(frame) :]
    directed = sparse.csr_array((weights, (i, j)), shape=(len(names), len(names)))
    return Data(_undirected(directed, names), names.to_numpy(dtype=object), is_graph=True)


def _cells(line: str, separator: str | None) -> list[str]:
    between = {"comma": ",", "tab": "\t", "semicolon": ";", "space": None}.get(separator or "", separator)
    if separator is None:
        between = next((c for c in (",", "\t", ";") if c in line), None)
    return [cell.strip() for cell in line.split(between)]


def _is_weight(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _weights(column: Any) -> Any:
    bad = next((at for at, cell in enumerate(column) if not _is_weight(cell)), None)
    if bad is not None:
        raise ValueError(f"edge {bad + 1} has the weight {column[bad]!r}; weights must be finite numbers.")
    return column.astype(np.float64).to_numpy()


def _undirected(directed: Any, names: Any) -> Any:
    """The symmetric matrix of edges that are listed once or both ways."""
    back = directed.T.tocsr()
    both = directed.multiply(back.astype(bool)) - back.multiply(directed.astype(bool))
    if abs(both).max() > 0:
        at = abs(both).tocoo()
        worst = int(np.argmax(at.data))
        a, b = at.row[worst], at.col[worst]
        raise ValueError(
            f"the weight from {names[a]!r} to {names[b]!r} is {directed[a, b]:g} and back {directed[b, a]:g}; the heat "
            "kernel needs an undirected graph: list each edge once, or with the same weight both ways."
        )
    return sparse.csr_array(directed.maximum(back))


def read_graphml(file: Any, reading: Reading) -> Data:
    """Read GraphML through networkx: vertices by id, their attributes as columns, weights by the edge attribute."""
    _refuse_columns(reading)
    networkx = optional("networkx", "read GraphML", "graph")
    try:
        graph = networkx.read_graphml(file)
    except (SyntaxError, networkx.NetworkXError, KeyError, ValueError) as error:  # of XML: a kind of SyntaxError
        raise ValueError(f"it cannot be read as GraphML: {error}.") from error
    nodes = list(graph.nodes(data=True))
    attributes = sorted({name for _, values in nodes for name in values})
    columns = {name: np.array([values.get(name) for _, values in nodes], dtype=object) for name in attributes}
    names = np.array([str(node) for node, _ in nodes], dtype=object)
    return Data(adjacency(graph), names, None, columns, is_graph=True)


def _refuse_columns(reading: Reading) -> None:
    if reading.named:
        raise ValueError(f"a graph has no columns, so {reading.named[0]!r} is not known.")
