"""Where a peer does better than heatsketch at its defaults, found in the results and not chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..data import DATA
from .methods import registry
from .tables import Case, Gathered, number, same_case, score
from .verdicts import HEADLINE, judge, matched, methods_of

__all__ = ["losses"]

_ENOUGH_RECALL = 0.99


def losses(found: Gathered) -> list[str]:
    """One sentence for each loss."""
    return [*_targets(found), *_end_to_end(found), *_dense(found), *_sparse(found), *_neighbours(found)]


def _targets(found: Gathered) -> Iterator[str]:
    for line in judge(found):
        if "missed" in line.verdict:
            yield f"Target missed: {line.figure}: {line.measured}; wanted {line.must}, aim {line.aim}."


def _end_to_end(found: Gathered) -> Iterator[str]:
    for data in DATA:
        for n in found.sizes(data):
            ours = found.case(HEADLINE, data, n)
            if ours is None:
                continue
            where = f"{data}, {n:,} points"
            others = found.measured(data, n, methods_of("peer", "solver"))
            if ours.seconds is None:
                if others:
                    yield f"{where}: ours {ours.status} ({ours.reason}) where {_names(others)} ran."
                continue
            yield from _compared(found, ours, others, where)


def _compared(found: Gathered, ours: Case, others: list[Case], where: str) -> Iterator[str]:
    faster = [o for o in others if (o.seconds or 0.0) < (ours.seconds or 0.0)]
    if faster:
        each = ", ".join(f"{_title(o)} ({number(o.seconds)} s)" for o in faster)
        yield f"{where}: faster than ours ({number(ours.seconds)} s): {each}."
    smaller = [o for o in others if o.peak_mb is not None and o.peak_mb < (ours.peak_mb or 0.0)]
    if smaller:
        each = ", ".join(f"{_title(o)} ({number(o.peak_mb)} MB)" for o in smaller)
        yield f"{where}: less memory than ours ({number(ours.peak_mb)} MB): {each}."
    for name, word, better in (
        ("own_random_error", "smaller median error of distances, each against its own operator,", -1),
        ("own_random_spearman", "better order of distances, each against its own operator,", 1),
        ("own_near_error", "smaller median error of near distances, each against its own operator,", -1),
        ("own_near_spearman", "better order of near distances, each against its own operator,", 1),
        ("ref_random_error", "smaller median error against our reference kernel", -1),
        ("ref_random_spearman", "better order against our reference kernel", 1),
    ):
        mine = ours.score(name)
        ahead = [o for o in others if _ahead(o.score(name), mine, better)]
        if ahead:
            each = ", ".join(f"{_title(o)} ({score(o.score(name))})" for o in ahead)
            yield f"{where}: {word} than ours ({score(mine)}): {each}."
    for other in others:
        if other.score("own_random_error") is not None and ours.score("own_random_error") is not None:
            yield from _unmatched(found, other, where)


def _ahead(theirs: float | None, mine: float | None, better: int) -> bool:
    return theirs is not None and mine is not None and better * (theirs - mine) > 0


def _unmatched(found: Gathered, other: Case, where: str) -> Iterator[str]:
    best = matched(found, other)
    if best is None:
        yield f"{where}: no variant of ours that was measured is as accurate as {_title(other)}."
    elif (best.seconds or 0.0) > (other.seconds or 0.0):
        mine = f"{_title(best)} takes {number(best.seconds)} s"
        yield f"{where}: at the quality of {_title(other)} ({number(other.seconds)} s), {mine}."


def _dense(found: Gathered) -> Iterator[str]:
    yield from _products(found, "dense", lambda row: f"exact product, d = {row['d']}, {row['n']:,} points")


def _sparse(found: Gathered) -> Iterator[str]:
    yield from _products(found, "sparse", lambda row: f"sparse product, {row['data']}, {row['n']:,}, {row['order']}")


def _products(found: Gathered, kind: str, where: Any) -> Iterator[str]:
    rows = found.products(kind)
    for ours in (row for row in rows if row["method"] == "heatsketch"):
        same = [row for row in rows if same_case(row, ours) and "seconds" in row]
        if "seconds" not in ours:
            if same:
                yield f"{where(ours)}: ours {ours['status']} ({ours.get('reason', '')})."
            continue
        for row in same:
            if row["seconds"] < ours["seconds"]:
                times = f"{number(row['seconds'])} s against our {number(ours['seconds'])} s"
                yield f"{where(ours)}: {row['method']} is faster, {times}."
            if row["error"] < ours["error"]:
                errors = f"{row['error']:.1e} against our {ours['error']:.1e}"
                yield f"{where(ours)}: {row['method']} is more exact, {errors}."


def _neighbours(found: Gathered) -> Iterator[str]:
    rows = [row for row in found.kind("neighbours") if "recall" in row]
    for ours in (row for row in rows if row["method"] == "heatsketch"):
        for row in rows:
            same = row["data"] == ours["data"] and row["n"] == ours["n"] and row is not ours
            enough = row["recall"] >= min(_ENOUGH_RECALL, ours["recall"])
            if same and enough and row["seconds"] < ours["seconds"]:
                yield (
                    f"neighbours, {row['data']}, {row['n']:,}: {row['method']} ({row['setting']}) is faster, "
                    f"{number(row['seconds'])} s at recall {row['recall']:.4f} against our {number(ours['seconds'])} s "
                    f"at {ours['recall']:.4f}."
                )


def _title(case: Case) -> str:
    return registry()[case.method].title


def _names(cases: list[Case]) -> str:
    return ", ".join(map(_title, cases))
