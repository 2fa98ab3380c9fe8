"""The few figures that the README shows, from the same rows as the page."""

from __future__ import annotations

from pathlib import Path

from ..data import DATA, TITLES
from .methods import registry
from .tables import Case, Gathered, number, table
from .verdicts import HEADLINE, matched, methods_of

__all__ = ["headline", "put_headline"]

_SIZES = (50_000, 200_000, 1_000_000)
_BEGIN, _END = "<!-- figures of docs/benchmarks -->", "<!-- end of figures -->"
_HEAD = (
    "data",
    "points",
    "heatsketch",
    "memory",
    "scikit-learn `SpectralEmbedding`",
    "fastest peer",
    "heatsketch as accurate as that peer",
)


def headline(found: Gathered) -> str:
    """A table of our defaults against the fastest peer."""
    body = []
    for data in DATA:
        for n in _SIZES:
            ours = found.case(HEADLINE, data, n)
            if ours is None or ours.seconds is None:
                continue
            ran = found.measured(data, n, methods_of("peer"))
            peer = min(ran, key=lambda case: case.seconds or 0.0, default=None)
            sklearn = found.case("sklearn", data, n)
            body.append(
                [
                    TITLES[data],
                    f"{n:,}",
                    _seconds(ours),
                    f"{number((ours.peak_mb or 0.0) / 1e3, 2)} GB",
                    _against(sklearn, ours),
                    _against(peer, ours, named=True),
                    _as_good(found, peer),
                ]
            )
    return table(_HEAD, body)


def _seconds(case: Case) -> str:
    return f"{number(case.seconds, 2)} s"


def _against(peer: Case | None, ours: Case, *, named: bool = False) -> str:
    """A peer's time, and how many times ours it is."""
    if peer is None or peer.seconds is None or ours.seconds is None:
        return "not run" if peer is None else peer.status
    times = f"{_seconds(peer)} ({number(peer.seconds / ours.seconds, 2)} times)"
    return f"{registry()[peer.method].title}: {times}" if named else times


def _as_good(found: Gathered, peer: Case | None) -> str:
    """The fastest of our variants that is no worse than a peer."""
    best = None if peer is None else matched(found, peer)
    if peer is None or peer.seconds is None or best is None or best.seconds is None:
        return "-"
    title = registry()[best.method].title.removeprefix("heatsketch").lstrip(", ") or "defaults"
    return f"{title}: {_seconds(best)} ({number(peer.seconds / best.seconds, 2)} times)"


def put_headline(found: Gathered, readme: Path) -> None:
    """Write the table between its markers, where there are such."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if begin and end:
        readme.write_text(f"{before}{_BEGIN}\n{headline(found)}\n{_END}{after}", encoding="utf-8")
