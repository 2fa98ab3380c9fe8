"""The page of :mod:`benchmarks.gpu`: claims, texts and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heatsketch_paper.harness.experiment import Row
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Claim, Tables, claim, number, rows_table, section

COLUMNS, POWER, COMPONENTS, NEIGHBORS = 32, 16, 10, 32
STRIP = 4096  # rows per step of plain PyTorch
MILLION = 1_000_000


def good(tables: Tables, name: str, **about: Any) -> list[Row]:
    """Rows of a table that did not fail and have the given entries."""
    rows = records(tables[name]) if name in tables else []
    about = {"version": "now"} | about if name in tables and "version" in tables[name] else about
    return [
        row
        for row in rows
        if row.get("status", "ok") == "ok" and all(row.get(key) == value for key, value in about.items())
    ]


# Targets for a million points: statement, table, entries that select rows, measured column, and bound.
_TARGETS: tuple[tuple[str, str, Row, str, float], ...] = (
    ("Neighbours of a million points in R^50 are found in at most 4 s.", "search", {"d": 50}, "seconds", 4.0),
    ("The recall of these neighbours is at least .995.", "search", {"d": 50}, "recall", 0.995),
    (
        "Fit of all pairs of normals in R^50, 32 columns at diffusion time 16, in at most 15 s.",
        "pairs",
        {"d": 50, "data": "normals", "rule": "given"},
        "seconds",
        15.0,
    ),
    (
        "Fit of all pairs of the tree in R^50, with its small bandwidth, in at most 15 s.",
        "pairs",
        {"d": 50, "data": "tree"},
        "seconds",
        15.0,
    ),
    (
        "Products of all pairs in R^3 with 32 random columns: at least 3 10^12 pairs/s.",
        "products",
        {"d": 3, "columns": COLUMNS, "rule": "given", "kind": "random", "precision": "auto"},
        "pairs_per_s",
        3e12,
    ),
    (
        "Products in R^3 with diffused columns, as in the later steps of a fit: at least 3 10^12 pairs/s.",
        "products",
        {"d": 3, "columns": COLUMNS, "kind": "diffused"},
        "pairs_per_s",
        3e12,
    ),
    (
        "Products of all pairs in R^50 with 32 random columns: at least 1.8 10^12 pairs/s.",
        "products",
        {"d": 50, "columns": COLUMNS, "rule": "given", "kind": "random", "precision": "auto"},
        "pairs_per_s",
        1.8e12,
    ),
    (
        "Products in R^50 with diffused columns: at least 1.8 10^12 pairs/s.",
        "products",
        {"d": 50, "columns": COLUMNS, "kind": "diffused"},
        "pairs_per_s",
        1.8e12,
    ),
)
_UNITS = {"seconds": "s", "pairs_per_s": "10^12 pairs/s", "recall": "recall"}


def judged(tables: Tables) -> Iterator[Claim]:
    """Claims about the tables that exist."""
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
        statement = "Every product is within 1e-4 of the exact one, with the automatic precision."
        yield claim(statement, f"{max(chosen):.1e} at most", max(chosen) <= 1e-4)
    ratios = [row["ratio"] for row in good(tables, "plain") if row["method"].startswith("PyTorch")]
    if ratios:
        measured = f"{number(min(ratios))} to {number(max(ratios))} times as long"
        yield claim("A product takes longer by plain and by compiled PyTorch.", measured, min(ratios) > 1.0)
    differences = [row["largest_difference"] for row in good(tables, "arrays")]
    if differences:
        statement = "Tensors, CuPy arrays and arrays with DLPack give the same bits as a NumPy array."
        yield claim(statement, f"largest difference {max(differences):.1g}", max(differences) == 0.0)


INTRODUCTION = """
This page measures the speed, errors and memory of searches for neighbours, fits and products with the kernel on one
GPU, beside the limits of the GPU, plain PyTorch, the CPU and an earlier version.
`make bench-gpu ARGS="--output out/gpu"` runs everything again in another folder, within minutes. It needs an NVIDIA GPU
and PyTorch.

*Normals* are standard normal points in float32. Unless a rule is named, their bandwidth is 0.5 in R^3 and d in R^d, so
that no pair is negligible. The *tree* in R^50 and the *swiss roll* are noisy (`benchmarks/data.py`). Times of products
are medians, after a product that is not counted. Other times are those of one run, after a run with fewer points. The
error of a product is relative, in the Frobenius norm, on sampled rows against float64. Each table is measured in a
fresh process. GB are 10^9 bytes. *Before* is the time of commit 8e091bb, measured in the same run by the same functions
from a checkout (`--set older=DIR`). *Times faster* is this time divided by that of the version below.
"""
_PRODUCTS = """
Seconds, rate and error of products K V with the kernel K of all pairs.

- *Kind* is that of the columns V. *Random* ones are standard normal, and rounding errors do not average out. *Diffused*
  ones were multiplied by the kernel twice before, as in the later steps of a fit. There rounding errors average out,
  which is checked on sampled rows, so that one product of float16 numbers replaces three.
- *Arithmetic* is the way in which exponents are computed ([theory](../theory/halves.md)).
- *Tiles* is the share of the kernel that is computed; all other entries are below 2^-46.
- *Matrix units* is the share of the float16 limit. Each computed pair counts 2 (K + T C) operations: K columns form its
  exponent (columns of eight bits count half), and C columns are multiplied in T terms, three or one.
- *Exponentials* is the share of their limit, with one for each computed pair. For a single column and many points,
  symmetry saves half of the exponentials and of the operations, so that shares above 100% are possible.

Matrix units and exponentials work at the same time. In a separate measurement, products with 32 columns drew 685 to 698
W of the card's 700 W, so that power was the limit.
"""
_PLAIN = f"""
Seconds of the same product by heatsketch, plain PyTorch and KeOps, in turns. The plain way computes strips of
{STRIP:,} rows: squared distances from norms and a product, exponentials in place, and a product, in float32 without
TF32. *Compiled* is the same with `torch.compile`. *Of ours* is the ratio of the median time to that of heatsketch. If
fewer rows than points were timed, the seconds are extrapolated to all of them.
"""
_GROWTH = """
Errors of a product as the number of points grows. *Normal* has 32 standard normal columns, *ones* 32 columns of ones,
and *a single column* one column of ones. Sums of positive numbers would drift with the number of points if they were
accumulated in float16, or truncated. *One half each* is the error of the normal columns if kernel entries and columns
were rounded to float16 once, with no other error.
"""
_SEARCH = f"""
Seconds of a search for the {NEIGHBORS} nearest neighbours of each point, from an array in memory to lists in memory. On
the GPU all distances are compared on tensor cores, and each row is verified to be exact. Many points in few dimensions
are searched by a tree on the CPU. *Recall* is measured on 64 sampled points against float64. FAISS and cuVS search by
brute force, if they are installed.
"""
_FITS = f"""
Seconds of a fit from an array in memory to coordinates, including the neighbours.

- *Sketch* is `GaussianProcessEmbedding({COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})`.
- *Sketch, multiscale* has `power="multiscale"` and 15 neighbours, the default.
- *DiffusionMaps* is `DiffusionMaps({COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})`.
- `HeatSketch()` has its defaults, in the plane.
"""
_PAIRS = f"""
Seconds of `GaussianProcessEmbedding(n_components={COLUMNS}, power={POWER}, n_neighbors=None)`, bistochastic, after a
fit of 300,000 points. *Rule* says whether the bandwidth was given or chosen. *Scaling* is the number of products with
one column for the bistochastic scaling; {POWER} products with {COLUMNS} columns follow. *Row sums* is the largest
deviation from 1 among sampled row sums of the fitted kernel, in float64.
"""
_FIRST = """
Seconds from the start of a process to the end of its first fit. They include imports, compilation by Triton into an
empty cache and the transfer to the GPU, but not making the points.
"""
_MODERATE = f"""
Seconds of a fit from an array in memory: medians of five fits with {COMPONENTS} components, after a fit that is not
counted. "Worst distance" is `objective="bilipschitz"`, one fit with 4 components.
"""
_ARRAYS = f"""
Seconds of `GaussianProcessEmbedding({COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})` for the same points as
different kinds of arrays. *Largest difference* is that of the embedding from the one of the NumPy array.
"""
_SAME = """
How far embeddings by the CPU and by the GPU with the same seed are apart: the Frobenius norm of the difference, divided
by that of the embedding. *Recall* is the share of the true neighbours that each found. In many dimensions the CPU
searches by clusters and misses some neighbours, so that the graphs differ, and with them the embeddings.
"""
_CPU = 'Seconds of the same fit of all pairs by `device="cpu"` and on the GPU, in turns.'
_LOSSES = """
The published figures of other packages below are from other machines and other data, and are no direct comparison.
Where they are lower than ours, expect the others to be faster: for a spectral embedding of 50,000 points, and for an
approximate search.

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
    """Rows of this version, with the time of the earlier version."""
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
    """A section with a text and the rows of a table."""
    return section([name], text)(lambda tables: rows_table(with_before(tables, name), columns))


@section(["ceilings"], "The GPU, and the best rates that were measured on it.")
def _ceilings(tables: Tables) -> str:
    chip, *rows = good(tables, "ceilings")
    columns = {"ceiling": "what", "measured on": "way", "best": "best", "unit": "unit"}
    return f"{chip['way']}.\n\n{rows_table(rows, columns)}"


def _shares(tables: Tables) -> str:
    """Products, with the shares of the limits that they reach."""
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
    """Published figures of other packages, missed targets, and rows that are slower than before."""
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
    text = "Cases without a result, with the reason."
    return f"{text}\n\n{rows_table(rows, columns)}" if rows else ""


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
