"""The page of :mod:`benchmarks.gpu`: claims, texts and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heatsketch_paper.harness.experiment import Row
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Claim, Tables, claim, number, rows_table, section

COLUMNS, POWER, COMPONENTS, NEIGHBORS = 32, 16, 10, 32
STRIP = 4096  # rows that plain PyTorch takes at a time
MILLION = 1_000_000


def good(tables: Tables, name: str, **about: Any) -> list[Row]:
    """Rows of a table that were measured, with these entries."""
    rows = records(tables[name]) if name in tables else []
    about = {"version": "now"} | about if name in tables and "version" in tables[name] else about
    return [
        row
        for row in rows
        if row.get("status", "ok") == "ok" and all(row.get(key) == value for key, value in about.items())
    ]


# Targets for a million points: table, entries of its rows, what is measured, and the bound.
_TARGETS: tuple[tuple[str, str, Row, str, float], ...] = (
    ("Neighbours of a million points in R^50 are found in 4 s.", "search", {"d": 50}, "seconds", 4.0),
    ("Their recall is at least .995.", "search", {"d": 50}, "recall", 0.995),
    (
        "All-pairs job of normals in R^50, 32 columns at diffusion time 16, in 15 s.",
        "pairs",
        {"d": 50, "data": "normals", "rule": "given"},
        "seconds",
        15.0,
    ),
    (
        "All-pairs job of the tree in R^50, with its small bandwidth, in 15 s.",
        "pairs",
        {"d": 50, "data": "tree"},
        "seconds",
        15.0,
    ),
    (
        "Products of all pairs in R^3 with 32 random columns: 3 10^12 pairs/s.",
        "products",
        {"d": 3, "columns": COLUMNS, "rule": "given", "kind": "random", "precision": "auto"},
        "pairs_per_s",
        3e12,
    ),
    (
        "In R^3 with columns that were diffused before, as in the later steps of a fit: 3 10^12 pairs/s.",
        "products",
        {"d": 3, "columns": COLUMNS, "kind": "diffused"},
        "pairs_per_s",
        3e12,
    ),
    (
        "Products of all pairs in R^50 with 32 random columns: 1.8 10^12 pairs/s.",
        "products",
        {"d": 50, "columns": COLUMNS, "rule": "given", "kind": "random", "precision": "auto"},
        "pairs_per_s",
        1.8e12,
    ),
    (
        "In R^50 with columns that were diffused before: 1.8 10^12 pairs/s.",
        "products",
        {"d": 50, "columns": COLUMNS, "kind": "diffused"},
        "pairs_per_s",
        1.8e12,
    ),
)
_UNITS = {"seconds": "s", "pairs_per_s": "10^12 pairs/s", "recall": "recall"}


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims whose tables are there."""
    for statement, name, about, key, bound in _TARGETS:
        own = {"method": "heatsketch"} if name == "search" else {}
        values = [row[key] for row in good(tables, name, n=MILLION, **own | about) if key in row]
        if values:
            worst = max(values) if key == "seconds" else min(values)
            shown = worst / 1e12 if key == "pairs_per_s" else worst
            holds = worst <= bound if key == "seconds" else worst >= bound
            yield claim(
                statement, f"{_UNITS[key]} {shown:.4f}" if key == "recall" else f"{number(shown)} {_UNITS[key]}", holds
            )
    fits = [row for row in good(tables, "pairs") if "row_sums" in row]
    if fits:
        worst = max(row["row_sums"] for row in fits)
        yield claim("Row sums of fitted kernels are within 1e-4 of 1.", f"{worst:.1e} at most", worst <= 1e-4)
    chosen = [row["error"] for row in good(tables, "products", precision="auto")]
    if chosen:
        statement = "Every product is within 1e-4 of the exact one, by the arithmetic that is chosen."
        yield claim(statement, f"{max(chosen):.1e} at most", max(chosen) <= 1e-4)
    ratios = [row["ratio"] for row in good(tables, "plain") if row["method"].startswith("PyTorch")]
    if ratios:
        measured = f"{number(min(ratios))} to {number(max(ratios))} times as long"
        yield claim("Plain and compiled PyTorch take longer for a product.", measured, min(ratios) > 1.0)
    differences = [row["largest_difference"] for row in good(tables, "arrays")]
    if differences:
        statement = "Tensors and arrays of CuPy or with DLPack give the embedding of the NumPy array, to the last bit."
        yield claim(statement, f"largest difference {max(differences):.1g}", max(differences) == 0.0)


INTRODUCTION = """
*Normals* are standard normal points, in float32, with a bandwidth of 0.5 in R^3 and d in R^d, so that every pair counts
and nothing can be skipped, unless a rule is named; the *tree* in R^50 and the *swiss roll* are noisy
(`benchmarks/data.py`). Times of products are medians, after one product that is not counted; other times are of one
run, after a run with fewer points. The error of a product is that of sampled rows against float64 by differences,
relative, in the Frobenius norm. Every section runs in a fresh process. GB are 10^9 bytes. *Before* is version 8e091bb,
measured in the same run by the same functions; *times faster* is its time over that of this version.
"""
_PRODUCTS = """
*Kind*: random normal columns, for which nothing averages out, or columns that were *diffused* twice before, as in the
later steps of a fit: there rounding averages out, which is measured on sampled rows, and one product of halves does for
three. *Matrix units*: the share of the float16 ceiling, at 2 (K + T C) operations for each pair that is looked at: K
columns make its exponent (those of eight bits count half), and C columns are multiplied in T terms, three or one.
*Exponentials*: the share of their ceiling, one for each pair (a single column of many points takes half of them, by
symmetry, and half of the operations). Both kinds of units work at the same time. In a measurement apart from this one,
products with 32 columns drew 685 to 698 W of the card's 700 W, which bind before either. *Tiles*: the share of the
kernel that is looked at; all other entries are below 2^-46.
"""
_PLAIN = f"""
The plain way takes strips of {STRIP:,} rows: squared distances from norms and a product, exponentials in place, and a
product, in float32 without TF32; *compiled* is the same by `torch.compile`. Contenders take turns; *of ours* is the
ratio of medians. Where fewer rows than points were timed, the seconds are scaled up to all of them.
"""
_GROWTH = """
*Normal*: 32 random normal columns. *Ones*: 32 columns of ones, and a single one: sums of positive numbers would drift
with the number of points if they were added up in halves, or cut off. *One half each*: the error of the normal columns
if entries and columns were rounded to halves, once, and nothing else.
"""
_SEARCH = f"""
{NEIGHBORS} nearest other points of each point, from an array in memory to lists in memory. On the device all distances
are compared by tensor cores, and every row is proved; many points in few dimensions are searched by a tree on the CPU.
*Recall* is that of 64 sampled points against float64. FAISS and cuVS search by brute force, where they are installed.
"""
_FITS = f"""
From an array in memory to coordinates, neighbours included. *Sketch* is `GaussianProcessEmbedding({COMPONENTS},
power={POWER}, n_neighbors={NEIGHBORS})`; *multiscale* has `power="multiscale"` and the default of 15 neighbours;
`DiffusionMaps({COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})`; `HeatSketch()` has its defaults, in the plane.
"""
_PAIRS = f"""
`GaussianProcessEmbedding(n_components={COLUMNS}, power={POWER}, n_neighbors=None)`, bistochastic, after a fit of
300,000 points. *Scaling*: products with one column that the bistochastic scaling took; {POWER} products with {COLUMNS}
columns follow. *Row sums*: largest deviation from 1 of sampled row sums of the fitted kernel, in float64.
"""
_FIRST = """
The first fit of a process: from its start to the end of the fit, imports, compilation by Triton into an empty cache and
the transfer to the device included (making the points is not).
"""
_MODERATE = f"""
Medians of five fits from an array in memory, after one that is not counted ({COMPONENTS} components; one fit for the
worst distance, 4 components).
"""
_ARRAYS = f"""
`GaussianProcessEmbedding({COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})` of the same points, given in several
ways. *Largest difference*: of the embedding from that of the NumPy array.
"""
_SAME = """
Embeddings by the CPU and on the device with the same seed: Frobenius norm of the difference over that of the embedding.
*Recall*: share of the true neighbours that each found. In many dimensions the CPU searches by clusters and misses some,
so that the graphs differ, and the embeddings with them.
"""
_CPU = 'The same fit of every pair by `device="cpu"` and on the device, in turns.'
_LOSSES = """
Published figures of others are from other machines and other data; they are anchors, not a comparison. Where they are
below ours, expect others to be faster: for one spectral embedding of 50,000 points, and for an approximate search.

| task | here | others |
|---|---|---|
| spectral embedding, 50,000 points | {moderate} | cuML .03 to .05 s (GH200) |
| neighbours and embedding, a million points | {fits} | rapids-singlecell 18.8 s and 2.95 s (982,000 cells) |
| neighbours, a million points in R^128 | {search} | FAISS IVF 2.9 s at a recall of .999 (B200) |

{missed}
"""

_SIZE = {"points": "n", "d": "d"}
_DATA = {"data": "data", **_SIZE}
_MEMORY = {"device GB": "device_gb", "process GB": "host_gb"}
_BEFORE = {"s": "seconds", "before": "before", "times faster": "faster"}
_PLAIN_COLUMNS = _SIZE | {
    "method": "method", "s": "seconds", "of ours": "ratio", "error": "error:.1e", "rows timed": "timed_rows",
}  # fmt: skip
_GROWTH_COLUMNS = _SIZE | {
    "arithmetic": "arithmetic", "normal": "normal:.1e", "ones": "ones:.1e", "a single column": "one:.1e",
    "one half each": "rounded:.1e",
}  # fmt: skip
_PAIRS_COLUMNS = _DATA | {
    "bandwidth": "epsilon", "rule": "rule", **_BEFORE, "scaling": "scaling_products", "row sums": "row_sums:.1e",
    **_MEMORY,
}  # fmt: skip
_SEARCH_COLUMNS = {
    "method": "method",
    **_DATA,
    **_BEFORE,
    "10^12 pairs/s": "trillions",
    "recall": "recall:.4f",
    **_MEMORY,
}
_FITS_COLUMNS = {"estimator": "method", **_DATA, **_BEFORE, "recall": "recall:.4f", **_MEMORY}
_MODERATE_COLUMNS = {"estimator": "method", **_DATA, **_BEFORE, **_MEMORY}
_FIRST_COLUMNS = {**_DATA, "s": "seconds", **_MEMORY}
_ARRAY_COLUMNS = {"given": "method", **_SIZE, "s": "seconds", "largest difference": "largest_difference:.1g", **_MEMORY}
_CPU_COLUMNS = {**_SIZE, "CPU s": "cpu_s", "device s": "device_s", "times faster": "ratio"}
_SAME_COLUMNS = _SIZE | {
    "dtype": "dtype", "kernel": "kernel", "recall, CPU": "recall_cpu:.4f", "recall, device": "recall_device:.4f",
    "difference": "difference:.1e",
}  # fmt: skip


def with_before(tables: Tables, name: str) -> list[Row]:
    """Rows of this version, with the time of the earlier one."""
    keys = ("method", "data", "n", "d", "rule")
    earlier = {tuple(row.get(key) for key in keys): row["seconds"] for row in good(tables, name, version="before")}
    rows = good(tables, name)
    for row in rows:
        if "pairs_per_s" in row:
            row["trillions"] = row["pairs_per_s"] / 1e12
        before = earlier.get(tuple(row.get(key) for key in keys))
        if before is not None:
            row |= {"before": before, "faster": before / row["seconds"]}
    return rows


def _rows(name: str, text: str, columns: dict[str, str]) -> Callable[[Tables], str]:
    """A section with the rows of a table."""
    return section([name], text)(lambda tables: rows_table(with_before(tables, name), columns))


@section(["ceilings"])
def _ceilings(tables: Tables) -> str:
    chip, *rows = good(tables, "ceilings")
    columns = {"ceiling": "what", "measured on": "way", "best": "best", "unit": "unit"}
    return f"{chip['way']}.\n\n{rows_table(rows, columns)}"


def _shares(tables: Tables) -> str:
    """Products, with the shares of the ceilings that they reach."""
    if "products" not in tables:
        return ""
    best = {row["what"]: row.get("best") for row in good(tables, "ceilings")}
    rows = good(tables, "products")
    for row in rows:
        looked_at = row["pairs_per_s"] * row["share"] / 1e12
        row["trillions"] = row["pairs_per_s"] / 1e12
        if best:
            row["exponentials"] = looked_at / best["exponentials"]
            if "flops_per_pair" in row:
                row["units"] = row["flops_per_pair"] * looked_at / best["matrix product, float16"]
    columns = _SIZE | {
        "columns": "columns", "kind": "kind", "bandwidth": "epsilon", "rule": "rule", "precision": "precision",
        "arithmetic": "arithmetic", "s": "seconds", "10^12 pairs/s": "trillions", "error": "error:.1e",
        "tiles": "share:.3g", "matrix units": "units:.0%", "exponentials": "exponentials:.0%", "peak GB": "device_gb",
    }  # fmt: skip
    return f"{_PRODUCTS.strip()}\n\n{rows_table(rows, columns)}"


def _losses(tables: Tables) -> str:
    """Published figures of others, targets that are missed, and rows that were not faster than before."""
    if not {"search", "fits", "moderate"} & set(tables):
        return ""

    def shown(name: str, **about: Any) -> str:
        rows = good(tables, name, **about)
        return ", ".join(f"{number(row['seconds'])} s ({row['method']}, {row['data']})" for row in rows) or "-"

    missed = [
        f"- Missed: {text} Measured: {verdict.measured}." for text, verdict in judged(tables) if not verdict.holds
    ]
    slower = [
        f"- Slower than before: {row.get('method', 'all pairs')}, {row['data']}, {row['n']:,} points of R^{row['d']}: "
        f"{number(row['seconds'])} s, before {number(row['before'])} s."
        for name in ("search", "fits", "pairs", "moderate")
        for row in with_before(tables, name)
        if row.get("faster", 1.0) < 0.97
    ]
    return _LOSSES.format(
        moderate=shown("moderate", method="DiffusionMaps, 15 neighbours"),
        fits=shown("fits", data="tree"),
        search=shown("search", d=128, method="heatsketch"),
        missed="\n".join([*missed, *slower]) or "No target is missed, and nothing is slower than before.",
    )


def _failed(tables: Tables) -> str:
    rows = [row for table in tables.values() for row in records(table) if row.get("status", "ok") != "ok"]
    columns = {
        "table": "figure", "version": "version", "method": "method", "data": "data", **_SIZE, "precision": "precision",
        "reason": "reason",
    }  # fmt: skip
    return rows_table(rows, columns) if rows else ""


SECTIONS: dict[str, Callable[[Tables], str]] = {
    "Where we lose or miss": _losses,
    "The chip and its ceilings": _ceilings,
    "Neighbours by themselves": _rows("search", _SEARCH, _SEARCH_COLUMNS),
    "Fits with neighbours": _rows("fits", _FITS, _FITS_COLUMNS),
    "Fits of all pairs": _rows("pairs", _PAIRS, _PAIRS_COLUMNS),
    "The first fit": _rows("first", _FIRST, _FIRST_COLUMNS),
    "Fits of fewer points": _rows("moderate", _MODERATE, _MODERATE_COLUMNS),
    "Arrays of other libraries": _rows("arrays", _ARRAYS, _ARRAY_COLUMNS),
    "Products with the kernel": _shares,
    "Beside plain PyTorch and KeOps": _rows("plain", _PLAIN, _PLAIN_COLUMNS),
    "The error as the number of points grows": _rows("growth", _GROWTH, _GROWTH_COLUMNS),
    "Beside the CPU": _rows("cpu", _CPU, _CPU_COLUMNS),
    "The same results": _rows("same", _SAME, _SAME_COLUMNS),
    "Absent or failed": _failed,
}
