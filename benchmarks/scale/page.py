"""The page: everything on it is computed from the rows of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..data import DATA, TITLES
from . import notes
from .losses import losses
from .methods import registry
from .products import flop_limit, gemm_exp_limit
from .tables import Case, Gathered, cell, number, score, table
from .verdicts import HEADLINE, growth, judge, matched, methods_of

__all__ = ["page", "write_page"]

_LIMITS = (
    ("copy", "copy, all cores", "GB/s"),
    ("copy_1_thread", "copy, one thread", "GB/s"),
    ("gather_200k", "gather of random 128-byte rows, 200,000 rows", "GB/s"),
    ("gather_1M", "gather of random 128-byte rows, 1,000,000 rows", "GB/s"),
    ("gemm_gflops", "float32 GEMM", "GFLOP/s"),
    ("exp_numpy_1_thread", "exp in float32, NumPy, one thread", "10^9/s"),
    ("exp_numpy", "exp in float32, NumPy, all cores", "10^9/s"),
    ("exp_numba", "exp in float32, Numba, all cores", "10^9/s"),
    ("exp_c", "exp in float32, C with OpenMP, all cores", "10^9/s"),
)


def write_page(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the page of some rows to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(page(rows), encoding="utf-8")
    temporary.replace(path)


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page as Markdown."""
    found = Gathered(rows)
    sections = [
        ("Machine and limits", _machine(found)),
        ("What was to be reached", _targets(found)),
        ("Where we lose", _losses(found)),
        ("End to end", _end_to_end(found)),
        ("At matched quality", _matched(found)),
        ("Growth with the number of points", _growth(found)),
        ("Exact product without the matrix", _dense(found)),
        ("Sparse product", _sparse(found)),
        ("Neighbours", _neighbours(found)),
        ("First use", _cold(found)),
        ("Settings", _settings()),
        ("Absent, failed, or over a limit", _absent(found)),
    ]
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections)
    return f"# heatsketch at scale\n\n{_made_by(found)}\n\n{notes.HOW}\n\n{body}\n"


def _made_by(found: Gathered) -> str:
    runs = found.kind("run")
    if not runs:
        return "No run is recorded."
    commands = dict.fromkeys(run["command"] for run in runs)
    text = f"Made by {', '.join(f'`{command}`' for command in commands)}"
    text += f" ({runs[0]['started']}" + (f" to {runs[-1]['started']}" if len(runs) > 1 else "") + ")."
    if len(runs) > 1:
        text += f" {len(runs)} runs added to it, so not all rows are of one stretch of time."
    sources = {None} | {row.get("source") for row in found.rows if row.get("ours")}
    older = {row.get("source") for row in found.rows if row["kind"] == "embed" and not row.get("ours")} - sources
    if older:
        text += " Some peers were measured, and scored against the reference, before the last change of heatsketch."
    return text


def _machine(found: Gathered) -> str:
    header = next((row["fingerprint"] for row in found.kind("machine")), {})
    about = [f"{header.get('processor', '?')}, {header.get('cores', '?')} cores, {header.get('system', '?')}"]
    measured = [row for row in found.kind("limits") if "limits" in row]
    if measured:
        about.append(f"{measured[-1]['memory_gib']:g} GiB of memory")
    libraries = {"python": header.get("python", "?")} | header.get("versions", {})
    libraries |= measured[-1]["versions"] if measured else {}
    for row in found.kind("embed"):
        if "version" in row:
            libraries[registry()[row["method"]].package] = row["version"]
    text = f"{', '.join(about)}. " + ", ".join(f"{name} {version}" for name, version in libraries.items()) + "."
    body = [(title, number(found.limits[name]), unit) for name, title, unit in _LIMITS if name in found.limits]
    return f"{text}\n\n{table(('limit, measured in the same run', 'best', 'unit'), body)}" if body else text


def _targets(found: Gathered) -> str:
    body = [(v.figure, v.must, v.aim, v.measured, f"**{v.verdict}**") for v in judge(found)]
    return f"{notes.TARGETS}\n\n{table(('figure', 'must reach', 'aim', 'measured', 'verdict'), map(_cells, body))}"


def _cells(row: Sequence[str]) -> list[str]:
    return [cell(text) for text in row]


def _losses(found: Gathered) -> str:
    lines = losses(found)
    if not lines:
        return "Nowhere in these results."
    return (
        "Every case in which a peer is faster, smaller or more accurate than heatsketch at its defaults:\n\n"
        + "\n".join(f"- {line}" for line in lines)
    )


def _end_to_end(found: Gathered) -> str:
    parts = []
    for data in DATA:
        for n in found.sizes(data):
            rows = [_embedding(case, found.case(HEADLINE, data, n)) for case in _tried(found, data, n)]
            parts.append(f"### {TITLES[data]}, {n:,} points\n\n{table(_HEAD, rows)}")
    return "\n\n".join(parts) or "Nothing was measured."


_HEAD = (
    "method", "s", "slowest / fastest", "runs", "against heatsketch", "peak MB", "cold s", "own error", "own rank",
    "own error, near", "own rank, near", "reference error", "reference rank",
)  # fmt: skip


def _tried(found: Gathered, data: str, n: int) -> Iterator[Case]:
    """All cases that were tried, fastest first; then those without a time."""
    cases = [case for name in registry() if (case := found.case(name, data, n)) is not None]
    yield from sorted(cases, key=lambda case: float("inf") if case.seconds is None else case.seconds)


def _embedding(case: Case, ours: Case | None) -> list[str]:
    title = registry()[case.method].title
    if registry()[case.method].family == "ours":
        title = f"**{title}**"
    if case.seconds is None:
        return [title, case.status, *["-"] * (len(_HEAD) - 2)]
    times = None if ours is None or not ours.seconds else case.seconds / ours.seconds
    spread = (case.slowest or 0.0) / case.fastest if case.fastest and case.repeats > 1 else None
    scores = ("own_random_error", "own_random_spearman", "own_near_error", "own_near_spearman")
    return [
        title,
        number(case.seconds),
        number(spread),
        str(case.repeats),
        "-" if times is None else f"{number(times)} x",
        number(case.peak_mb),
        number(case.cold_s),
        *(score(case.score(name)) for name in (*scores, "ref_random_error", "ref_random_spearman")),
    ]


def _matched(found: Gathered) -> str:
    scored = [
        peer
        for data in DATA
        for n in found.sizes(data)
        for peer in found.measured(data, n, methods_of("peer", "solver"))
        if peer.score("own_random_error") is not None
    ]
    body = [_match(found, peer) for peer in scored]
    if not body:
        return "No peer was scored."
    head = (
        "peer", "data", "points", "its s", "its error", "its rank", "ours, no worse", "s", "error", "rank",
        "times faster", "no worse for near pairs too",
    )  # fmt: skip
    return f"{notes.MATCHED}\n\n{table(head, body)}"


def _match(found: Gathered, peer: Case) -> list[str]:
    known = registry()
    about = [known[peer.method].title, peer.data, f"{peer.n:,}", number(peer.seconds)]
    about += [score(peer.score("own_random_error")), score(peer.score("own_random_spearman"))]
    ours = matched(found, peer)
    if ours is None:
        return [*about, "none", "-", "-", "-", "-", "-"]
    near = (
        (ours.score("own_near_error") or 0.0) <= (peer.score("own_near_error") or 0.0)
        and (ours.score("own_near_spearman") or 0.0) >= (peer.score("own_near_spearman") or 0.0)
    )  # fmt: skip
    figures = [number(ours.seconds), score(ours.score("own_random_error")), score(ours.score("own_random_spearman"))]
    times = number((peer.seconds or 0.0) / ours.seconds) if ours.seconds else "-"
    return [*about, known[ours.method].title, *figures, times, "yes" if near else "no"]


def _growth(found: Gathered) -> str:
    lines = []
    for data in DATA:
        exponent, where = growth(found, data)
        lines.append(f"- end to end, {where}: " + ("-" if exponent is None else f"seconds grow like N^{exponent:.2f}"))
    for d in (3, 50):
        rows = [
            r for r in found.products("dense") if r["method"] == "heatsketch" and r.get("d") == d and "seconds" in r
        ]
        by_size = {row["n"]: row["seconds"] for row in rows}
        shown = ", ".join(f"{n:,} points {number(by_size[n])} s" for n in sorted(by_size))
        lines.append(f"- exact product, d = {d}: {shown or '-'}")
    return "\n".join(lines)


def _dense(found: Gathered) -> str:
    body = []
    for row in found.products("dense"):
        limit = gemm_exp_limit(row["n"], row["d"], found.limits) if found.limits else None
        body.append([row["method"], str(row["d"]), f"{row['n']:,}", *_product(row, limit), number(row.get("gflops"))])
    return f"{notes.DENSE}\n\n{table((*_PRODUCT_HEAD[:1], 'd', 'points', *_PRODUCT_HEAD[1:], 'GFLOP/s'), body)}"


_PRODUCT_HEAD = ("method", "median s", "fastest s", "runs", "set-up s", "error", "limit / median")


def _product(row: dict[str, Any], limit: float | None) -> list[str]:
    if "seconds" not in row:
        return [row.get("status", "failed"), *["-"] * 5]
    share = "-" if limit is None else f"{limit / row['seconds']:.0%}"
    times = [number(row["seconds"]), number(row["fastest_s"]), str(row["repeats"]), number(row["setup_s"])]
    return [*times, f"{row['error']:.1e}", share]


def _sparse(found: Gathered) -> str:
    body = []
    for row in found.products("sparse"):
        if "order" in row:
            limit = flop_limit(row["stored"], found.limits) if found.limits else None
            about = [row["method"], row["data"], f"{row['n']:,}", row["order"], number(row["reorder_s"])]
            body.append([*about, *_product(row, limit)])
    head = (*_PRODUCT_HEAD[:1], "data", "points", "order", "reordering s", *_PRODUCT_HEAD[1:])
    return f"{notes.SPARSE}\n\n{table(head, body)}"


def _neighbours(found: Gathered) -> str:
    body = []
    for row in found.kind("neighbours"):
        about = [
            row["method"],
            row["data"],
            f"{row['n']:,}",
            row.get("setting", "-") if "recall" in row else row["status"],
        ]
        said = "; ".join(str(row[name]) for name in ("said_method", "said_recall") if name in row)
        recall = f"{row['recall']:.4f}" if "recall" in row else "-"
        body.append([cell(text) for text in (*about, number(row.get("seconds")), recall, said or "-")])
    return (
        f"{notes.NEIGHBOURS}\n\n{table(('search', 'data', 'points', 'setting', 's', 'recall', 'says of itself'), body)}"
    )


def _cold(found: Gathered) -> str:
    rows = found.kind("cold")
    if not rows:
        return "Not measured."
    words = ("first, with empty caches of compiled code", "second")
    body = [(words[min(row["repeat"], 1)], row["data"], f"{row['n']:,}", _or_status(row)) for row in rows]
    return table(("use, from the start of the process to its end", "data", "points", "s"), body)


def _or_status(row: dict[str, Any]) -> str:
    return number(row["wall_s"]) if row.get("status") == "ok" else f"{row.get('status')}: {cell(row.get('reason', ''))}"


def _settings() -> str:
    return "\n".join(f"- **{method.title}** (`{method.name}`): {method.settings}." for method in registry().values())


def _absent(found: Gathered) -> str:
    seen: dict[str, None] = {}
    for row in found.rows:
        wrong = row.get("status", "ok") != "ok"
        if wrong or "unscored" in row:
            where = ", ".join(str(row[name]) for name in ("method", "data") if name in row)
            size = f", {row['n']:,} points" if "n" in row else ""
            word = row["status"] if wrong else "not scored"
            why = row.get("reason", "") if wrong else row["unscored"]
            seen[f"- {row['kind']}, {where}{size}: {word}: {cell(why)}"] = None
    return "\n".join(seen) or "Nothing."
