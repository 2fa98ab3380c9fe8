"""The targets, each with the figure measured and a verdict that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log

from ..data import DATA
from .methods import registry
from .products import flop_limit, gemm_exp_limit
from .tables import Case, Gathered, number, same_case

__all__ = ["MATCHED", "Target", "Verdict", "judge", "matched", "ratio"]

HEADLINE = "heatsketch"
_ROLL, _TREE = DATA
_MILLION = 1_000_000
_PEER_SIZES = (50_000, 200_000)
_GIB_MB = 2**30 / 1e6
# The fastest packages that compute diffusion maps of so many points.
_NAMED = ("palantir", "topometry")
# Points from which on the exact product is judged: the kernel of fewer is held. The page shows the smaller ones too.
_EXACT_POINTS = 20_000
# Recall without which a speed does not count.
_LEAST_RECALL = 0.99
# What "no worse" is measured in: distances of random pairs, each method against its own operator.
MATCHED = ("own_random_error", "own_random_spearman")


@dataclass(frozen=True)
class Verdict:
    """A line of the table of targets."""

    figure: str
    must: str
    aim: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Target:
    """A target: figures that must all reach theirs, each at least (or, for costs, at most) so much."""

    figure: str
    must: tuple[float, ...]
    aim: tuple[float, ...]
    unit: str
    measure: Callable[[Gathered], list[tuple[float | None, str]]]
    costs: bool = False


def methods_of(*families: str) -> list[str]:
    """Names of the methods of some families."""
    return [name for name, method in registry().items() if method.family in families]


def ratio(ours: Case | None, peers: Iterable[Case | None], timeouts: dict[str, float]) -> tuple[float | None, str]:
    """How many times faster we are than the fastest of some peers, and who that is.

    A peer that ran into the time limit counts with that limit, as a lower bound, when no other ran.
    """
    if ours is None or ours.seconds is None:
        return None, "ours did not run" if ours is not None else "not measured"
    tried = [peer for peer in peers if peer is not None]
    ran = [peer for peer in tried if peer.seconds is not None]
    if ran:
        best = min(ran, key=lambda peer: peer.seconds or 0.0)
        return (best.seconds or 0.0) / ours.seconds, registry()[best.method].title
    late = [peer for peer in tried if peer.status == "timeout"]
    if late and timeouts:
        return min(timeouts.values()) / ours.seconds, f"at least: {registry()[late[0].method].title} over the limit"
    return None, "no peer ran"


def _timeouts(found: Gathered) -> dict[str, float]:
    return {row["started"]: row["timeout_s"] for row in found.kind("run") if "timeout_s" in row}


def _against(methods: list[str], sizes: tuple[int, ...]) -> Callable[[Gathered], list[tuple[float | None, str]]]:
    """For each data set the smallest ratio over the sizes."""

    def measure(found: Gathered) -> list[tuple[float | None, str]]:
        figures = []
        for data in (_ROLL, _TREE):
            each = []
            for n in sizes:
                peers = [found.case(method, data, n) for method in methods]
                value, why = ratio(found.case(HEADLINE, data, n), peers, _timeouts(found))
                each.append((value, f"{data}, {n:,}: {why}"))
            figures.append(_smallest(each))
        return figures

    return measure


def _smallest(each: list[tuple[float | None, str]]) -> tuple[float | None, str]:
    """The smallest figure; none if one of them is missing, for then nothing is shown for all."""
    missing = [why for value, why in each if value is None]
    if missing or not each:
        return None, "; ".join(missing) or "not measured"
    return min(each, key=lambda pair: pair[0] or 0.0)


def _largest(each: list[tuple[float | None, str]]) -> tuple[float | None, str]:
    missing = [why for value, why in each if value is None]
    if missing or not each:
        return None, "; ".join(missing) or "not measured"
    return max(each, key=lambda pair: pair[0] or 0.0)


def matched(found: Gathered, peer: Case) -> Case | None:
    """The fastest of our variants whose distances are no worse than the peer's, each against its own operator."""
    error, rank = (peer.score(name) for name in MATCHED)
    if error is None or rank is None:
        return None
    good = [
        case
        for case in found.measured(peer.data, peer.n, methods_of("ours"))
        if _no_worse(case.score(MATCHED[0]), case.score(MATCHED[1]), error, rank)
    ]
    return min(good, key=lambda case: case.seconds or 0.0, default=None)


def _no_worse(error: float | None, rank: float | None, peer_error: float, peer_rank: float) -> bool:
    return error is not None and rank is not None and error <= peer_error and rank >= peer_rank


def _matched_quality(found: Gathered) -> list[tuple[float | None, str]]:
    each: list[tuple[float | None, str]] = []
    for n in _PEER_SIZES:
        scored = [p for p in found.measured(_TREE, n, _NAMED) if p.score(MATCHED[0]) is not None]
        if not scored:
            each.append((None, f"{n:,}: no peer was scored"))
            continue
        peer = min(scored, key=lambda case: case.seconds or 0.0)
        ours, title = matched(found, peer), registry()[peer.method].title
        if ours is None or not ours.seconds:
            each.append((0.0, f"{n:,}: no variant of ours is as good as {title}"))
        else:
            mine = registry()[ours.method].title
            each.append(((peer.seconds or 0.0) / ours.seconds, f"{n:,}: {mine} against {title}"))
    return [_smallest(each)]


def _million(data: str, *, memory: bool) -> Callable[[Gathered], list[tuple[float | None, str]]]:
    def measure(found: Gathered) -> list[tuple[float | None, str]]:
        case = found.case(HEADLINE, data, _MILLION)
        if case is None or case.seconds is None:
            why = "not measured" if case is None else f"{case.status}: {case.reason}"
            return [(None, why)] * (2 if memory else 1)
        peak = None if case.peak_mb is None else case.peak_mb / _GIB_MB
        return [(case.seconds, ""), (peak, "")] if memory else [(case.seconds, "")]

    return measure


def _product_ratios(
    found: Gathered, kind: str, peer: str, order: str | None = None, least: int = 0
) -> tuple[float | None, str]:
    """The smallest ratio of a peer's time to ours over all cases of a product with at least so many points."""
    rows = [row for row in found.products(kind) if row.get("order") == order and row["n"] >= least]
    each: list[tuple[float | None, str]] = []
    for row in (row for row in rows if row.get("method") == "heatsketch"):
        where = f"{row.get('data') or 'd = ' + str(row.get('d'))}, {row['n']:,}"
        other = next((r for r in rows if r["method"] == peer and same_case(r, row)), {})
        if "seconds" in row and "seconds" in other:
            each.append((other["seconds"] / row["seconds"], where))
        else:
            each.append((None, f"{where}: {row.get('reason') or other.get('reason') or 'not measured'}"))
    return _smallest(each)


def _sparse(found: Gathered) -> list[tuple[float | None, str]]:
    return [_product_ratios(found, "sparse", "scipy", order) for order in ("as given", "reordered")]


def _dense(found: Gathered) -> list[tuple[float | None, str]]:
    return [_product_ratios(found, "dense", peer, least=_EXACT_POINTS) for peer in ("keops", "torch")]


def _sparse_limit(found: Gathered) -> list[tuple[float | None, str]]:
    rows = [r for r in found.products("sparse") if r["method"] == "heatsketch" and r.get("order") == "reordered"]
    return [_over_limit(found, [(r, flop_limit(r["stored"], found.limits) if found.limits else None) for r in rows])]


def _dense_limit(found: Gathered) -> list[tuple[float | None, str]]:
    rows = [row for row in found.products("dense") if row["method"] == "heatsketch"]
    pairs = [(r, gemm_exp_limit(r["n"], r["d"], found.limits) if found.limits else None) for r in rows]
    return [_over_limit(found, pairs)]


def _over_limit(found: Gathered, pairs: list[tuple[dict[str, object], float | None]]) -> tuple[float | None, str]:
    if not found.limits:
        return None, "the limits were not measured"
    each: list[tuple[float | None, str]] = []
    for row, limit in pairs:
        seconds, where = row.get("seconds"), f"{row.get('data') or 'd = ' + str(row.get('d'))}, {row['n']:,}"
        if isinstance(seconds, float) and limit:
            each.append((seconds / limit, where))
        else:
            each.append((None, f"{where}: {row.get('reason', 'not measured')}"))
    return _largest(each)


def least_recall(found: Gathered) -> tuple[float | None, str]:
    """The lowest recall of our search at its defaults."""
    rows = [row for row in found.kind("neighbours") if row.get("method") == "heatsketch"]
    each = [
        (row.get("recall"), f"{row['data']}, {row['n']:,}" + (f": {row['reason']}" if "reason" in row else ""))
        for row in rows
    ]
    return _smallest(each)


def _cold(found: Gathered) -> list[tuple[float | None, str]]:
    first = [row for row in found.kind("cold") if row["repeat"] == 0]
    where = [f"{row['data']}, {row['n']:,}" for row in first]
    took = [row["wall_s"] if row.get("status") == "ok" else None for row in first]
    return [_largest(list(zip(took, where, strict=True)))]


def growth(found: Gathered, data: str) -> tuple[float | None, str]:
    """Exponent p of seconds ~ N^p for our defaults, between 50,000 points and the most that were measured."""
    cases = [c for c in (found.case(HEADLINE, data, n) for n in found.sizes(data) if n >= _PEER_SIZES[0]) if c]
    ran = [case for case in cases if case.seconds]
    if len(ran) < 2:
        return None, f"{data}: fewer than two sizes"
    first, last = ran[0], ran[-1]
    exponent = log((last.seconds or 1) / (first.seconds or 1)) / log(last.n / first.n)
    return exponent, f"{data}, {first.n:,} to {last.n:,}"


TARGETS = (
    Target(
        "50,000 points to 10 dimensions against scikit-learn's SpectralEmbedding, end to end: swiss roll / tree",
        (25, 12), (50, 25), "times faster", _against(["sklearn"], (50_000,)),
    ),
    Target(
        "for comparison: the same with its other solver, which needs pyamg",
        (), (), "times faster", _against(["sklearn-amg"], (50_000,)),
    ),
    Target(
        "for comparison: our method put together by hand from PyGSP's graph and heat filter, of random signals",
        (), (), "times faster", _against(["pygsp-heat"], (50_000,)),
    ),
    Target(
        "50,000 and 200,000 points against the faster of Palantir and TopOMetry: swiss roll / tree",
        (10, 3), (20, 5), "times faster", _against(list(_NAMED), _PEER_SIZES),
    ),
    Target(
        "the same tree at matched quality (median error and Spearman correlation no worse than that peer's)",
        (2,), (4,), "times faster", _matched_quality,
    ),
    Target(
        "1,000,000 points in R^50, 10 dimensions, 16 steps, end to end",
        (150, 3), (75, 2), "s / GiB", _million(_TREE, memory=True), costs=True,
    ),
    Target("1,000,000 points in R^3, the same", (25,), (12,), "s", _million(_ROLL, memory=False), costs=True),
    Target(
        "sparse product, 32 columns, float32, against SciPy on the same graph: as given / both reordered",
        (5, 2), (15, 4), "times faster", _sparse,
    ),
    Target(
        "sparse product after reordering, time over the flop limit (an aim only)",
        (), (2,), "times the limit", _sparse_limit, costs=True,
    ),
    Target(
        "exact matrix-free product against KeOps / PyTorch in chunks, 20,000 points and more, d = 3 and 50",
        (3, 1.5), (5, 2), "times faster", _dense,
    ),
    Target(
        "exact matrix-free product, time over the GEMM + exp limit (an aim only)",
        (), (1.2,), "times the limit", _dense_limit, costs=True,
    ),
    Target(
        "recall of the neighbours at default settings, at every N measured",
        (0.99,), (0.995,), "", lambda found: [least_recall(found)],
    ),
    Target("10,000 and 20,000 points from a cold start, compilation included", (20,), (), "s", _cold, costs=True),
)  # fmt: skip


def judge(found: Gathered) -> list[Verdict]:
    """Every target with its verdict: "aim reached", "reached", "missed" or "not measured"."""
    recall = least_recall(found)[0]
    return [_judged(target, target.measure(found), recall) for target in TARGETS]


def _judged(target: Target, figures: list[tuple[float | None, str]], recall: float | None) -> Verdict:
    values = [value for value, _ in figures]
    if any(value is None for value in values):
        verdict = "not measured"
    elif not target.must and not target.aim:
        verdict = "-"
    elif target.aim and _all_reach(values, target.aim, target.costs):
        verdict = "aim reached"
    elif target.must and _all_reach(values, target.must, target.costs):
        verdict = "reached"
    else:
        verdict = "missed" if target.must else "aim missed"
    # Speed bought with lost neighbours does not count.
    if "faster" in target.unit and "product" not in target.figure and verdict.endswith("reached"):
        if recall is None:
            verdict += ", recall not measured"
        elif recall < _LEAST_RECALL:
            verdict = f"missed: recall {recall:.3f}"
    shown = [f"{number(value)}" + (f" ({why})" if why else "") for value, why in figures]
    return Verdict(target.figure, _wanted(target.must, target), _wanted(target.aim, target), " / ".join(shown), verdict)


def _all_reach(values: list[float | None], wanted: tuple[float, ...], costs: bool) -> bool:
    pairs = zip(values, wanted, strict=True)
    return all(value is not None and (value <= goal if costs else value >= goal) for value, goal in pairs)


def _wanted(goals: tuple[float, ...], target: Target) -> str:
    if not goals:
        return "-"
    sign = "at most " if target.costs else ""
    units = target.unit.split(" / ")
    if len(units) > 1:
        return sign + ", ".join(f"{goal:g} {unit}" for goal, unit in zip(goals, units, strict=True))
    return f"{sign}{' / '.join(f'{goal:g}' for goal in goals)} {target.unit}".strip()
