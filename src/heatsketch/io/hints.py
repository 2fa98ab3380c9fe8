"""Hints about columns that are probably not meant to be embedded: ids, targets and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["hints"]

_ENDS = [("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"), ("head", "tail")]
_TARGETS = {"target", "label", "labels", "class", "y", "species", "diagnosis", "outcome", "survived", "churn"}
_ANY_TARGETS = {"target", "outcome"}  # a column y with many values may be a coordinate
# Fewer rows have different integers by chance; more levels than these are a measurement.
_FEWEST_ROWS, _MOST_CLASSES = 20, 20
# So many names that differ by a number only are a series, such as pixel0, pixel1, pixel2.
_SERIES = 3
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
    numeric = [name for name in frame.columns if frame[name].dtype.kind in "biuf"]
    odd = _odd_one_out(numeric)
    for name in numeric:
        column = frame[name]
        few = column.nunique() <= _MOST_CLASSES
        by_name = name.lower() in _TARGETS and (few or name.lower() in _ANY_TARGETS)
        if by_name or (name == odd and few and _whole_numbers(column)):
            yield f"column {name!r} looks like a target and is embedded; keep it aside with --label {name}"


def _odd_one_out(names: Sequence[str]) -> str | None:
    """The only name that differs from the others by more than a number, as in pixel0, pixel1, ..., digit."""
    stems = [name.rstrip("0123456789") for name in names]
    (common, count), *_ = [*Counter(stems).most_common(1), ("", 0)]
    others = [name for name, stem in zip(names, stems, strict=True) if stem != common]
    return others[0] if len(others) == 1 and count >= _SERIES else None


def _whole_numbers(column: Any) -> bool:
    """Whether a column holds integers only."""
    return bool(column.dtype.kind in "iu" or (column.dtype.kind == "f" and (column % 1 == 0).all()))
