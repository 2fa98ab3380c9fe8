"""The page: everything on it is computed from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..scale.tables import cell, number, table
from .bench import FULL

__all__ = ["page"]

Row = dict[str, Any]

_HOW = """
Points are standard normal, in float32. The bandwidth is 0.5 in R^3 and d in R^d, so that every pair counts and
nothing can be skipped, unless a rule is named. Products are timed by the device's own clock, after one that is not
counted, and the median is shown. The error of a product is that of sampled rows against float64 by differences,
relative, in the Frobenius norm, with random normal columns, for which nothing averages out. Every section runs in a
process of its own. GB are 10^9 bytes.
""".strip()

_PRODUCTS = """
*Matrix units*: the share of the float16 ceiling that is used, counting 2 (K + 3 C) operations for each pair that is
looked at: K columns make its exponent (those of eight bits count half), and C columns are multiplied in three terms.
*Exponentials*: the share of the ceiling of `exp2`, one for each pair. Both kinds of units work at the same time.
*Tiles*: the share of the kernel that is looked at; all other entries are below 2^-46.
""".strip()

_PLAIN = """
The plain way takes strips of {strip:,} rows: squared distances from norms and a product, exponentials in place, and a
product, in float32 without TF32; *compiled* is the same by `torch.compile`. Contenders take turns; *of ours* is the
ratio of medians.{scaled}
""".strip()

_GROWTH = """
*Normal*: many random normal columns. *Ones*: as many columns of ones, and a single one: sums of positive numbers would
drift with the number of points if they were added up in halves, or cut off. *One half each*: what the error of the
normal columns would be if entries and columns were rounded to halves, once, and nothing else.
""".strip()

_FITS = """
`GaussianProcessEmbedding(n_components={columns}, power={power}, n_neighbors=None)`, bistochastic. *First*: from the
start of a Python process to the end of its first fit, imports, compilation by Triton into an empty cache and the
transfer to the device included (making the points is not). *Again*: a later fit in the same process. *Row sums*:
largest deviation from 1 of sampled row sums of the fitted kernel, in float64.
""".strip()

_PARTS = """
Where the seconds of the fits *again* go. *Factors* is what prepares the points. *Scaling* and *powers* consist of
products with the kernel, of one column and of several.
""".strip()

_NEIGHBOURS = """
Searched by all distances on the *device*, or in few dimensions by a *tree* on the CPU; the graph is built on the CPU.
The recall is that of sampled rows, whose true neighbours are found in float64.
""".strip()

_SAME = """
Embeddings by the CPU and on the device with the same seed: Frobenius norm of the difference over that of the embedding.
*Recall*: share of the true neighbours that the CPU and the device found. In many dimensions the CPU searches by
clusters and misses some, so that the graphs differ, and the embeddings with them.
""".strip()


def page(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    rows = results["rows"]

    def of(name: str) -> list[Row]:
        return [row for row in rows if row["section"] == name and "failed" not in row]

    limits = {row["what"]: row["best"] for row in of("ceilings")}
    sections = [
        ("The machine and its ceilings", f"{_machine(results['machine'])}\n\n{_ceilings(of('ceilings'))}"),
        ("Products with the kernel", _products(of("products"), limits)),
        ("Beside plain PyTorch and KeOps", _plain(of("plain"))),
        ("The error as the number of points grows", _growth(of("growth"))),
        ("From points to coordinates", _fits([*of("fit_50"), *of("fit_3")])),
        ("Other estimators", _others([*of("diffusion_maps"), *of("heat_sketch")])),
        ("Neighbours", _neighbours(of("neighbours"))),
        ("Beside the CPU", _cpu(of("cpu"), results["machine"])),
        ("The same results", _same(of("same"))),
        ("Failed or left out", _failed(rows)),
    ]
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections)
    made = f"Made by `{results['command']}`; the page itself by `python -m benchmarks.gpu --page`, from `results.json`."
    return f"# On a GPU, measured\n\n{made}\n\n{_summary(of)}{_HOW}\n\n{body}\n"


def _summary(of: Callable[[str], list[Row]]) -> str:
    """The main figures, where they were measured."""
    whole = [row for row in [*of("fit_50"), *of("fit_3")] if row["run"] == "again" and row["rule"] == "given"]
    lines = [
        f"- {row['n']:,} points of R^{row['d']} to {row['columns']} coordinates at time {row['power']} by every pair: "
        f"{number(row['seconds'])} s, with row sums within {row['row_sums']:.1e} of 1."
        for row in whole
    ]
    lines += [
        f"- {row['n']:,} points of R^{row['d']}, {row['columns']} columns: plain PyTorch takes {number(row['ratio'])} "
        "times as long for a product."
        for row in of("plain")
        if row["method"] == "PyTorch"
    ]
    errors = [row["error"] for row in of("products") if row["precision"] == "auto"]
    if errors:
        lines.append(
            f"- The largest relative error of all products below, by the arithmetic that is chosen: {max(errors):.1e}."
        )
    return "\n".join(lines) + "\n\n" if lines else ""


def _table(head: Iterable[str], body: list[list[str]]) -> str:
    return table(tuple(head), body) if body else "Not measured."


def _machine(about: dict[str, Any]) -> str:
    words = [about["chip"]]
    if "multiprocessors" in about:
        words.append(f"{about['multiprocessors']} multiprocessors")
        words.append(f"{about['device_gib']:g} GiB")
    told = (("driver", "driver {}"), ("power_limit", "power limit {}"), ("clock", "at most {}"))
    words += [text.format(about[name]) for name, text in told if name in about]
    beside = f"{about['processor']}, {about['cores']} cores, {about['memory_gib']:g} GiB, {about['system']}"
    libraries = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return f"{', '.join(words)}; beside it {beside}. {libraries}."


_CEILINGS = {"copy": "copy", "float16": "matrix product, float16", "bfloat16": "matrix product, bfloat16"} | {
    "float32": "matrix product, float32",
    "exp2": "exponentials",
}


def _ceilings(rows: list[Row]) -> str:
    body = [[_CEILINGS[row["what"]], row["way"], number(row["best"]), row["unit"]] for row in rows]
    return _table(("ceiling", "measured on", "best", "unit"), body)


def _products(rows: list[Row], limits: dict[str, float]) -> str:
    head = (
        "points", "d", "columns", "bandwidth", "precision", "arithmetic", "s", "10^12 pairs/s", "error", "tiles",
        "TFLOP/s", "matrix units", "exponentials", "peak GB", "set-up s",
    )  # fmt: skip
    body = []
    for row in rows:
        looked_at = row["pairs_per_s"] * row["share"] / 1e12
        done = row["flops_per_pair"] * looked_at if "flops_per_pair" in row else None
        body.append(
            [
                f"{row['n']:,}",
                str(row["d"]),
                str(row["columns"]),
                f"{number(row['epsilon'])} ({row['rule']})",
                row["precision"],
                row["arithmetic"],
                number(row["seconds"]),
                number(row["pairs_per_s"] / 1e12),
                f"{row['error']:.1e}",
                _share(row["share"]),
                number(done),
                _of(done, limits.get("float16")),
                _of(looked_at, limits.get("exp2")),
                number(row.get("device_gb")),
                number(row["setup_s"]),
            ]
        )
    return f"{_PRODUCTS}\n\n{_table(head, body)}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.2%}"


def _of(done: float | None, limit: float | None) -> str:
    return "-" if done is None or not limit else f"{done / limit:.0%}"


def _plain(rows: list[Row]) -> str:
    body = [
        [
            f"{row['n']:,}",
            str(row["d"]),
            row["method"],
            number(row["seconds"]),
            f"{number(row['ratio'])} x",
            f"{row['error']:.1e}",
            f"{row['timed_rows']:,}",
        ]
        for row in rows
    ]
    scaled = any(row["timed_rows"] < row["n"] for row in rows)
    words = " Where fewer rows than points were timed, the seconds are scaled up to all of them." if scaled else ""
    text = _PLAIN.format(strip=FULL.strip, scaled=words)
    return f"{text}\n\n{_table(('points', 'd', 'method', 's', 'of ours', 'error', 'rows timed'), body)}"


_ERRORS = ("normal", "ones", "one", "rounded")


def _growth(rows: list[Row]) -> str:
    body = [
        [f"{row['n']:,}", str(row["d"]), row["arithmetic"], *(f"{row[name]:.1e}" for name in _ERRORS)] for row in rows
    ]
    head = ("points", "d", "arithmetic", "normal", "ones", "a single column", "one half each")
    return f"{_GROWTH}\n\n{_table(head, body)}"


_FIT_HEAD = ("points", "d", "bandwidth", "run", "s", "products", "row sums", "tiles", "device GB", "process GB")
_PART_NAMES = ("checks", "bandwidth", "factors", "scaling", "sketch", "powers", "placing", "other")


def _fits(rows: list[Row]) -> str:
    if not rows:
        return "Not measured."
    body, parts = [], []
    for row in rows:
        about = [f"{row['n']:,}", str(row["d"]), _bandwidth(row)]
        again = "parts" in row
        found = [_counted(row), f"{row['row_sums']:.1e}", _share(row["share"])] if again else ["-", "-", "-"]
        memory = [number(row.get("device_gb")), number(row.get("host_gb"))]
        body.append([*about, row["run"], number(row["seconds"]), *found, *memory])
        if again:
            parts.append([*about, *(number(row["parts"].get(name, 0.0)) for name in _PART_NAMES)])
    text = _FITS.format(columns=rows[0]["columns"], power=rows[0]["power"])
    head = ("points", "d", "bandwidth", *_PART_NAMES)
    return f"{text}\n\n{_table(_FIT_HEAD, body)}\n\n{_PARTS}\n\n{_table(head, parts)}"


def _bandwidth(row: Row) -> str:
    return f"{number(row['epsilon'])} ({row['rule']})" if "epsilon" in row else row["rule"]


def _counted(row: Row) -> str:
    """Products and their seconds, of one column and of several."""
    told = [f"{found['count']} of {name} in {number(found['seconds'])} s" for name, found in row["products"].items()]
    return ", ".join(told) or "-"


def _others(rows: list[Row]) -> str:
    body = [
        [
            f"`{row['method']}(n_components={row['components']}, power={row['power']})`",
            f"{row['n']:,}",
            str(row["d"]),
            number(row["seconds"]),
            _counted(row),
            number(row.get("log_distortion")),
            number(row.get("device_gb")),
            number(row["host_gb"]),
        ]
        for row in rows
    ]
    head = ("estimator, every pair", "points", "d", "s", "products", "log L", "device GB", "process GB")
    return f"After a first fit of a twentieth of the points.\n\n{_table(head, body)}" if body else "Not measured."


def _neighbours(rows: list[Row]) -> str:
    body = [
        [
            f"{row['n']:,}",
            str(row["d"]),
            str(row["neighbors"]),
            row["search"],
            number(row["parts"].get("neighbours")),
            f"{row['recall']:.4f}",
            number(row["seconds"]),
            number(row.get("device_gb")),
            number(row["host_gb"]),
        ]
        for row in rows
    ]
    head = ("points", "d", "neighbours", "search", "search s", "recall", "whole fit s", "device GB", "process GB")
    return f"{_NEIGHBOURS}\n\n{_table(head, body)}"


def _cpu(rows: list[Row], machine: dict[str, Any]) -> str:
    body = [
        [
            f"{row['n']:,}",
            str(row["d"]),
            *(number(row[name]["seconds"]) for name in ("cpu", "device")),
            number(row["ratio"]),
        ]
        for row in rows
    ]
    head = ("points", "d", f"{machine['cores']} cores, s", f"{machine['chip']}, s", "times faster")
    return f'The same fit of every pair by `device="cpu"` and on the device, turn by turn.\n\n{_table(head, body)}'


def _same(rows: list[Row]) -> str:
    body = [
        [
            f"{row['n']:,}",
            str(row["d"]),
            row["dtype"],
            "every pair" if row["neighbors"] is None else f"{row['neighbors']} neighbours",
            " and ".join(f"{recall:.4f}" for recall in row["recalls"]) if row["neighbors"] else "-",
            f"{row['difference']:.1e}",
        ]
        for row in rows
    ]
    return f"{_SAME}\n\n{_table(('points', 'd', 'dtype', 'kernel', 'recall', 'difference'), body)}"


def _failed(rows: list[Row]) -> str:
    about = ("method", "what", "n", "d", "columns", "precision", "rule", "run")
    lines = [
        f"- {row['section']}"
        + "".join(f", {name} {row[name]}" for name in about if name in row)
        + f": {cell(row['failed'])}"
        for row in rows
        if "failed" in row
    ]
    return "\n".join(lines) or "Nothing."
