"""Hints about columns that are probably not meant to be embedded: ids, targets and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["hints"]

_ENDS = [("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"), ("head", "tail")]
_TARGETS = {"target", "label", "labels", "class", "y", "species", "diagnosis", "outcome", "survived", "churn"}
_ANY_TARGETS = {"target", "outcome"}  # a column y with many values may be a coordinate
# Fewer rows have different integers by chance; more levels than these are a measurement.
_FEWEST_ROWS, _MOST_CLASSES = 20, 20
# If more columns hold a different integer in every row, these are measurements.
_MOST_IDS = 3


def hints(frame: Any, categorical: Sequence[str] = ()) -> list[str]:
    """Hints for the user about the columns of a frame that are about to be embedded."""
    edges = _edge_hint(frame)
    return [edges] if edges else [*_id_hints(frame, categorical), *_target_hints(frame)]


def _edge_hint(frame: Any) -> str | None:
    """A list of edges: two columns that name vertices, and perhaps a weight."""
    by_name = {name.lower(): name for name in frame.columns}
    for ends in _ENDS:
        if set(ends) <= by_name.keys() and len(by_name) <= 3:
            vertices = [frame[by_name[end]] for end in ends]
            if all(_whole_numbers(column) or column.dtype.kind not in "biuf" for column in vertices):
                return (
                    f"columns {ends[0]!r} and {ends[1]!r} look like a list of edges; if it is text, use --format edges"
                )
    return None


def _id_hints(frame: Any, categorical: Sequence[str]) -> Iterator[str]:
    if len(frame) < _FEWEST_ROWS:
        return
    found = [
        name
        for name in frame.columns
        if name not in categorical and _whole_numbers(frame[name]) and frame[name].is_unique
    ]
    for name in found if len(found) <= _MOST_IDS else ():
        yield f"column {name!r} holds a different integer in every row, like an id; use --id {name} or --drop {name}"


def _target_hints(frame: Any) -> Iterator[str]:
    for name in frame.columns:
        column = frame[name]
        if name.lower() not in _TARGETS or column.dtype.kind not in "biuf":
            continue
        if name.lower() in _ANY_TARGETS or column.nunique() <= _MOST_CLASSES:
            yield f"column {name!r} looks like a target and is embedded; keep it aside with --label {name}"


def _whole_numbers(column: Any) -> bool:
    """Whether a column holds integers only."""
    return bool(column.dtype.kind in "iu" or (column.dtype.kind == "f" and (column % 1 == 0).all()))
