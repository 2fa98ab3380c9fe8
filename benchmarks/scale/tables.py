"""Rows of results, gathered and set as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["Case", "Gathered", "cell", "number", "same_case", "table"]

_SCORES = ("error", "spearman")
# What tells one product from another.
_PRODUCT = ("method", "data", "n", "d", "order")


@dataclass(frozen=True)
class Case:
    """An embedding method on one data set and number of points, over its repeats.

    Attributes
    ----------
    status : str
        "ok", or what the first run ended with.
    seconds, fastest, slowest, peak_mb : float or None
        Median, extremes, median.
    scores : dict
        "own_random_error" and so on, where measured.
    """

    method: str
    data: str
    n: int
    status: str
    reason: str
    repeats: int
    seconds: float | None
    fastest: float | None
    slowest: float | None
    peak_mb: float | None
    cold_s: float | None
    scores: dict[str, float]

    def score(self, which: str) -> float | None:
        """A score by its name."""
        return self.scores.get(which)


class Gathered:
    """The rows of a results file by what they are about."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        embeddings: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for row in self.kind("embed"):
            embeddings.setdefault((row["method"], row["data"], row["n"]), []).append(row)
        self.cases = {key: _case(key, found) for key, found in embeddings.items()}

    def kind(self, name: str) -> list[dict[str, Any]]:
        """Rows of a kind."""
        return [row for row in self.rows if row["kind"] == name]

    def products(self, name: str) -> list[dict[str, Any]]:
        """Rows of a product, those of repeated processes as one: the median of their medians."""
        cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.kind(name):
            if "method" in row:
                cases.setdefault(tuple(row.get(part) for part in _PRODUCT), []).append(row)
        return [_merged(rows) for rows in cases.values()]

    @property
    def limits(self) -> dict[str, float]:
        """The machine's limits, or nothing."""
        found = [row["limits"] for row in self.kind("limits") if "limits" in row]
        return found[-1] if found else {}

    def case(self, method: str, data: str, n: int) -> Case | None:
        """An embedding, if it was tried."""
        return self.cases.get((method, data, n))

    def measured(self, data: str, n: int, methods: Iterable[str]) -> list[Case]:
        """Those of the methods that ran, in the order given."""
        found = [self.case(method, data, n) for method in methods]
        return [case for case in found if case is not None and case.seconds is not None]

    def sizes(self, data: str) -> list[int]:
        """Numbers of points at which anything was tried."""
        return sorted({n for _, name, n in self.cases if name == data})


def same_case(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two rows are of the same product by whatever method."""
    return all(a.get(part) == b.get(part) for part in _PRODUCT[1:])


def _merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if "seconds" in row]
    if not good:
        return rows[0]
    return good[0] | {
        "seconds": median(row["seconds"] for row in good),
        "fastest_s": min(row["fastest_s"] for row in good),
        "setup_s": median(row["setup_s"] for row in good),
        "repeats": sum(row["repeats"] for row in good),
    }


def _case(key: tuple[str, str, int], rows: list[dict[str, Any]]) -> Case:
    good = [row for row in rows if row.get("status") == "ok"]
    times = [row["seconds"] for row in good]
    scored = next((row for row in good if "ref_random_error" in row or "own_random_error" in row), {})
    first = rows[0]
    return Case(
        *key,
        status="ok" if good else first.get("status", "failed"),
        reason=first.get("reason", "") or first.get("unscored", ""),
        repeats=len(good),
        seconds=median(times) if times else None,
        fastest=min(times, default=None),
        slowest=max(times, default=None),
        peak_mb=median(row["peak_mb"] for row in good) if good else None,
        cold_s=max((row["cold_s"] for row in good if "cold_s" in row), default=None),
        scores={name: value for name, value in scored.items() if name.endswith(_SCORES)},
    )


def number(value: float | None, digits: int = 3) -> str:
    """A figure with so many significant digits; a dash where there is none."""
    if value is None:
        return "-"
    if value and abs(value) < 10 ** (digits - 1):
        return f"{value:.{digits}g}"
    return f"{value:,.0f}"


def score(value: float | None) -> str:
    """An error or a correlation."""
    return "-" if value is None else f"{value:.3f}"


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines)
