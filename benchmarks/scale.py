"""Compare speed, memory and accuracy with other packages and an earlier version of heatsketch.

``python -m benchmarks.scale`` runs the missing cases. Packages that are not installed are reported as absent. A package
that needs its own environment runs in the interpreter given by an environment variable, such as
``PYTHON_PALANTIR=/path/to/python``; that environment also needs the dependencies of heatsketch. The earlier version
runs from the checkout given by ``HEATSKETCH_BEFORE``, in its own ``.venv``::

    git worktree add ../before 8e091bb && make -C ../before .venv/stamp-plot
    HEATSKETCH_BEFORE=../before python -m benchmarks.scale

Exact distances are cached under ``out/scale``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import psutil

import heatsketch as hs
from heatsketch_paper.harness.experiment import Case, Experiment, Row
from heatsketch_paper.harness.process import run_apart
from heatsketch_paper.harness.store import Store, records
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, grid, main, number, rows_table, section

from . import gpu
from .data import DATA, TITLES
from .embedders import MAPS, METHODS, OURS
from .loops import EXACT, GRAPH, SEARCHES
from .waits import QUESTIONS

ROLL, TREE = DATA
BEFORE = "before "  # a method with this prefix runs in the earlier version

# Experiments.

_LIBRARIES = (
    "heatsketch", "faiss-cpu", "hnswlib", "phate", "pyamg", "pydiffmap", "pygsp", "pykeops", "pynndescent",
    "topometry", "torch", "umap-learn",
)  # fmt: skip


@dataclass(frozen=True)
class Race(Experiment):
    """Methods by data set and number of points, in fresh processes and in turns.

    The function in the module `where` with the name of the table measures a case. A method that exceeded a limit is not
    run with more points. A method that failed or took more than a minute is not repeated.
    """

    alone: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("trial", "method", "data", "n")
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "methods", "sizes", "timeout", "sets")
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES
    where: str = "loops"
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    sets: tuple[str, ...] = tuple(DATA)
    timeout: float = 600.0

    def cases(self) -> list[Case]:
        """All combinations, with methods in the inner loop, so that disturbances affect all of them alike."""
        turns = [(n, data, trial) for n in self.sizes for data in self.sets for trial in range(self.n_trials)]
        return [{"trial": t, "method": m, "data": data, "n": n} for n, data, t in turns for m in self.methods]

    def measure(self, case: Case, done: Sequence[Row] = ()) -> list[Row]:
        """Rows of a method, or the reason why it was not run."""
        earlier = [r for r in done if (r["method"], r["data"]) == (case["method"], case["data"])]
        same = [r for r in earlier if r["n"] == case["n"]]
        if any(r.get("status", "ok") != "ok" or r.get("seconds", 0.0) > 60.0 for r in same):
            return []
        over = [r["n"] for r in earlier if r.get("status") in ("timeout", "memory", "skipped") and r["n"] < case["n"]]
        if over:
            return [{"status": "skipped", "reason": f"over a limit at {min(over):,} points"}]
        return self.race(case)

    def race(self, case: Case) -> list[Row]:
        """Rows of a method."""
        return self.apart(f"{self.where}:{self.name}", case)

    def apart(self, function: str, case: Case, **options: Any) -> list[Row]:
        """Rows of a function in a fresh process, which may use 80% of the memory."""
        name = case["method"]
        python = os.environ.get(f"PYTHON_{name.split()[0].upper()}", sys.executable)
        environment: dict[str, str] = {}
        if name.startswith(BEFORE):
            checkout = os.environ.get("HEATSKETCH_BEFORE")
            if checkout is None:
                return [{"status": "absent", "reason": "HEATSKETCH_BEFORE does not name a checkout"}]
            python = str(Path(checkout).absolute() / ".venv/bin/python")
            environment = {"PYTHONPATH": os.pathsep.join([str(Path(checkout).absolute() / "src"), str(Path.cwd())])}
        job = {"method": name.removeprefix(BEFORE), "data": case["data"], "n": case["n"]} | options
        limits = {"timeout_s": self.timeout, "memory_gib": 0.8 * psutil.virtual_memory().total / 2**30}
        return run_apart(f"benchmarks.{function}", job, python=python, environment=environment, **limits)


class Embeddings(Race):
    """Embeddings from points to coordinates; those of the first trial are scored."""

    def race(self, case: Case) -> list[Row]:
        """One row; if the scores fail, the measured time and memory are kept."""
        options: Row = {}
        if case["trial"] == 0:
            path = Path("out/scale") / f"{case['data'].replace(' ', '-')}-{case['n']}-{hs.__version__}.npz"
            options = {"path": str(path.absolute())}
            if not path.exists():
                self.apart("exactness:reference", case | {"method": OURS}, **options)
        row: Row = {}
        for part in self.apart("embedders:embeddings", case, **options):
            late = "seconds" in row and part.get("status", "ok") != "ok"
            row |= {"unscored": part["reason"]} if late else part
        return [row]


class Limits(Race):
    """The speed limits of the machine."""

    def cases(self) -> list[Case]:
        """One for each trial."""
        return [{"trial": t, "method": "machine", "data": "", "n": 0} for t in range(self.n_trials)]


def _and_before(*methods: str) -> tuple[str, ...]:
    return tuple(name for method in methods for name in (method, BEFORE + method))


_ESTIMATORS = ("GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch")
_SIZES = (500, 2_000, 5_000, 50_000, 200_000, 1_000_000)
EXPERIMENTS = (
    Limits("limits", n_trials=3),
    Race("first_use", where="waits", methods=_and_before(*_ESTIMATORS), sizes=(2_000, 50_000)),
    Embeddings("embeddings", n_trials=3, methods=(*METHODS, BEFORE + OURS, BEFORE + MAPS), sizes=_SIZES),
    Race("questions", where="waits", methods=_ESTIMATORS, sizes=(10_000, 100_000, 1_000_000)),
    Race("page", where="waits", methods=_and_before("HeatSketch"), sizes=(2_000, 100_000, 1_000_000), sets=(TREE,)),
    Race("exact_product", n_trials=3, methods=(*EXACT, BEFORE + OURS), sizes=(5_000, 20_000)),
    Race("graph_product", n_trials=3, methods=(*GRAPH, BEFORE + OURS), sizes=_SIZES[3:]),
    Race("neighbours", methods=(*SEARCHES, BEFORE + OURS), sizes=_SIZES[3:]),
)
_QUICK_METHODS = (OURS, "heatsketch k=32", "heatsketch 10 exact + 10", "eigsh on our kernel", "SpectralEmbedding")


def _quick(experiment: Experiment) -> Experiment:
    """One trial of up to 50,000 points."""
    assert isinstance(experiment, Race)
    small = replace(experiment, n_trials=1, timeout=120.0, sizes=tuple(n for n in experiment.sizes if n <= 50_000))
    return replace(small, methods=_QUICK_METHODS) if experiment.name == "embeddings" else small


# Claims.

_RESOLVED = 2.0  # seconds of a fit; half a second is within the noise of longer fits


def over_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each case, with medians over repeats and their number, fastest method first."""
    keys = [key for key in ("n", "data", "order", "method", "question") if key in table]
    groups = table.assign(repeats=table["seconds"]).groupby(keys)
    numbers = groups.median(numeric_only=True).assign(repeats=groups["repeats"].count())
    words = groups.first().drop(columns=numbers.columns)
    return numbers.join(words).reset_index().sort_values([*keys[:-1], "seconds"], ignore_index=True)


def is_ours(methods: pd.Series) -> pd.Series:
    """Mask of the methods that are estimators of heatsketch."""
    return methods.str.startswith(OURS)


_EQUAL = 0.01  # relative tolerance for equal errors and correlations


def at_par(cases: pd.DataFrame) -> pd.DataFrame:
    """Other packages, each with our fastest variant whose distances are no worse, each by its own operator."""
    rows = []
    peers = cases[~is_ours(cases["method"]) & ~cases["method"].str.startswith(BEFORE)]
    for peer in peers.dropna(subset=["seconds", "own_random_error"]).itertuples():
        ours = cases[is_ours(cases["method"]) & (cases["data"] == peer.data) & (cases["n"] == peer.n)]
        good = ours["seconds"].notna() & (ours["own_random_error"] <= (1.0 + _EQUAL) * peer.own_random_error)
        good &= ours["own_random_spearman"] >= (1.0 - _EQUAL) * peer.own_random_spearman
        row = peer._asdict()
        for best in ours[good].head(1).itertuples():
            near = best.own_near_error <= peer.own_near_error and best.own_near_spearman >= peer.own_near_spearman
            row |= {f"our_{key}": value for key, value in best._asdict().items()}
            row |= {"times": peer.seconds / best.seconds, "near": "yes" if near else "no"}
        rows.append(row)
    return pd.DataFrame(rows, columns=[*PEER_COLUMNS.values(), "peak_mb", "our_peak_mb"])


PEER_COLUMNS = {
    "peer": "method", "data": "data", "points": "n", "its s": "seconds", "its error": "own_random_error",
    "its rank": "own_random_spearman", "ours, no worse": "our_method", "s": "our_seconds",
    "error": "our_own_random_error", "rank": "our_own_random_spearman", "times faster": "times",
    "no worse for near pairs too": "near",
}  # fmt: skip


def judged(tables: Tables) -> Iterator[Claim]:
    """Claims about the tables that exist."""
    claims = {
        "first_use": _first_claims,
        "embeddings": _end_to_end_claims,
        "questions": _question_claims,
        "page": _page_claims,
        "graph_product": _graph_claims,
        "exact_product": _exact_claims,
        "neighbours": _recall_claims,
    }
    for name, about in claims.items():
        if name in tables:
            yield from about(over_repeats(tables[name]))


def _at_most(statement: str, cases: pd.DataFrame, column: str, bound: float, unit: str = " s") -> Claim:
    """Claim that a figure is at most a bound in every case, with the worst case."""
    worst = cases.dropna(subset=[column]).sort_values(column).iloc[-1]
    what = worst["question"] + ", " if "question" in cases else ""
    where = f"{what}{worst['method']}, {worst['data']}, {worst['n']:,}"
    return claim(statement, f"{number(worst[column])}{unit} at most ({where})", worst[column] <= bound)


def _first_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    now = cases[~cases["method"].str.startswith(BEFORE)]
    yield _at_most("`import heatsketch` takes at most .05 s.", now, "import_s", 0.05)
    short = now.query("seconds <= @_RESOLVED")
    statement = "Fits of up to 2 s: the first of a process takes at most .5 s more than later ones."
    yield _at_most(statement, short, "more_s", 0.5)
    yield _at_most("The same in a process that has imported scikit-learn.", short, "more_beside_s", 0.5)
    yield _at_most("The first fit after installation takes at most 10 s.", now, "ever_s", 10.0)
    statement = "Checks of arguments, planning and setting threads take at most 5 ms of a fit."
    yield _at_most(statement, now.query("n <= 2_000"), "besides_s", 5e-3)


def _end_to_end_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    few = at_par(cases).query("n <= 5_000")
    lost = few[~(few["times"] >= 1.0)]
    yield claim(
        "500 to 5,000 points: no other package is faster at the same accuracy.",
        f"{len(lost)} of {len(few)} cases are faster, or unmatched",
        lost.empty,
    )
    for data, bound in ((ROLL, 25), (TREE, 12)):
        part = cases.query("data == @data and n == 50_000")
        statement = f"A fit of 50,000 points of the {data} is at least {bound} times as fast as SpectralEmbedding's."
        yield from _slowest(statement, part, "SpectralEmbedding", bound)
    for data, seconds in ((ROLL, 5), (TREE, 45)):
        for row in cases.query("method == @OURS and data == @data and n == 1_000_000").itertuples():
            measured = f"{number(row.seconds)} s, {number(row.peak_mb * 1e6 / 2**30)} GiB"
            statement = f"A fit of 1,000,000 points of the {data} takes at most {seconds} s and 1.2 GiB."
            yield claim(statement, measured, row.seconds <= seconds and row.peak_mb * 1e6 <= 1.2 * 2**30)


def _question_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    for method, part in cases.groupby("method"):
        statement = f"No question about a fitted {method} takes longer than the fit."
        yield _at_most(statement, part, "ratio", 1.0, " of the fit")


def _page_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    for n, seconds in ((2_000, 8), (100_000, 60), (1_000_000, 300)):
        part = cases.query("n == @n and method == 'HeatSketch'")
        if len(part):
            statement = f"From a csv file of {n:,} rows to the page in at most {seconds} s."
            yield _at_most(statement, part, "seconds", seconds)


def _graph_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    statement = "Product with a graph, points reordered: at most 3 times the time of as many flops in a matrix product."
    yield _at_most(statement, cases.query("method == @OURS and order == 'reordered'"), "of_limit", 3.0, " times")
    for order, bound in (("as given", 5), ("reordered", 2)):
        statement = f"Product with a graph, points {order}: at least {bound} times as fast as SciPy's."
        yield from _slowest(statement, cases.query("order == @order"), "SciPy", bound)


def _exact_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    for peer, bound in (("KeOps", 3), ("PyTorch", 1.5)):
        statement = f"Product with all pairs: at least {bound} times as fast as {peer}'s."
        yield from _slowest(statement, cases.query("n == 20_000"), peer, bound)


def _slowest(statement: str, cases: pd.DataFrame, peer: str, bound: float) -> Iterator[Claim]:
    """Claim the least ratio of the times of `peer` and heatsketch, if there are cases in which both were measured."""
    times = cases.pivot_table(index=["data", "n"], columns="method", values="seconds").reindex(columns=[OURS, peer])
    ratios = (times[peer] / times[OURS]).dropna()
    if len(ratios):
        measured = ", ".join(f"{number(ratio)} ({data}, {n:,})" for (data, n), ratio in ratios.items())
        yield claim(statement, measured, (ratios >= bound).all())


def _recall_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    worst = cases.query("method == @OURS").sort_values("recall").iloc[0]
    measured = f"{worst['recall']:.4f} ({worst['data']}, {worst['n']:,})"
    yield claim("Recall of neighbours is at least 0.995 at every size.", measured, worst["recall"] >= 0.995)


# The page.

_INTRODUCTION = """
This page measures the time, memory and accuracy of fits of 500 to a million points, of questions about them, and of the
page of `heatsketch embed`, beside other packages, an earlier version of heatsketch (*before*: commit 8e091bb), and the
speed limits of the machine. `make bench-full ARGS="--output out/benchmarks"` runs everything again in another folder,
which takes hours and gigabytes of packages; `make bench` runs smaller sizes in about ten minutes. The rows of the
earlier version need a checkout of it (`benchmarks/scale.py`).

The data are a noisy swiss roll in R^3 and a branching tree in R^50. Figures of other packages (*peers*) that are better
than those of heatsketch with its defaults are **bold** in all tables. Every method runs in fresh processes, in turns.
Times are medians over the runs, in seconds. Claims about a largest value name the worst case in brackets.
"""
_QUALITY = """
**How embeddings are measured.** They have 10 components, at diffusion time 16. A process makes the data, then imports
the method and runs it on other points, so that the times do not include imports and compilation; *cold* is what these
take. *Peak* is resident memory above that of libraries and points. Other packages use 30 neighbours if that can be
set, all cores, and otherwise their defaults. `benchmarks/embedders.py` has every call.

*Error* and *rank* compare distances in the embedding with exact diffusion distances: the median relative error after
the best common factor, and Spearman's correlation. The pairs are sampled, either from all pairs or from *near* ones, a
point and one of its 100 nearest. *Own* is against the diffusion operator that the method itself built. *Reference* is
against the bistochastic kernel of heatsketch with 30 neighbours in float64, which favours heatsketch. Eigenvectors of
other packages are multiplied by the powers of eigenvalues that diffusion distances need; this is not in the times.
UMAP does not aim at distances, and PHATE aims at others.
"""

# Whether higher (1) or lower (-1) is better.
_BETTER = dict.fromkeys(("own_random_spearman", "own_near_spearman", "ref_random_spearman", "recall"), 1)
_BETTER |= dict.fromkeys(("own_random_error", "own_near_error", "ref_random_error", "seconds", "peak_mb", "error"), -1)


def _marked(table: pd.DataFrame) -> list[Row]:
    """Rows of one case, with figures of peers in bold that are better than those of heatsketch with its defaults."""
    rows = records(table)
    ours = next((row for row in rows if row["method"] == OURS), {})
    for row in rows:
        is_peer = not row["method"].startswith((OURS, BEFORE))
        for key in _BETTER.keys() & row.keys() & ours.keys() if is_peer else ():
            if _BETTER[key] * row[key] > _BETTER[key] * ours[key]:
                row[key] = f"**{number(row[key])}**"
        row.setdefault("seconds", row.get("status"))
    return rows


_LOSSES = """
Every case below is a loss of heatsketch: an embedding of another package that is faster, or needs less memory, than
each of our variants that is as accurate; an embedding that none of our variants matches in accuracy; a faster search
for neighbours with at least our recall; a faster product; or a question that takes longer than the fit.
"""


@section(["embeddings", "neighbours", "exact_product", "graph_product", "questions"], _LOSSES)
def _losses(tables: Tables) -> str:
    cases = {name: over_repeats(table) for name, table in tables.items()}
    lines = list(_lost_embeddings(cases["embeddings"])) if "embeddings" in cases else []
    for name, what in {"neighbours": "neighbours", "exact_product": "all pairs", "graph_product": "a graph"}.items():
        if name in cases:
            lines += _lost_loops(what, cases[name])
    for row in cases["questions"].query("ratio > 1").itertuples() if "questions" in cases else ():
        waited = f"{number(row.seconds)} s, {number(row.ratio)} of the fit"
        lines.append(f"`{row.question}` of {row.method}, {row.data}, {row.n:,} points: {waited}.")
    return "\n".join(f"- {line}" for line in lines)


def _lost_embeddings(cases: pd.DataFrame) -> Iterator[str]:
    for row in at_par(cases).itertuples():
        peer = f"{row.method}, {row.data}, {row.n:,} points: {number(row.seconds)} s"
        if pd.isna(row.times):
            yield f"{peer}; no variant of ours is as accurate."
        elif row.times < 1.0:
            yield f"{peer}; {row.our_method} takes {number(row.our_seconds)} s."
        if row.peak_mb < row.our_peak_mb:
            yield f"{peer} and {number(row.peak_mb)} MB; {row.our_method} takes {number(row.our_peak_mb)} MB."


def _lost_loops(what: str, cases: pd.DataFrame) -> Iterator[str]:
    """Other methods that are faster than ours, with at least the same recall."""
    keys = [key for key in ("n", "data", "order") if key in cases]
    for _, part in cases.groupby(keys):
        ours = part[part["method"] == OURS]
        if ours.empty or pd.isna(ours["seconds"].iloc[0]):
            continue
        mine = ours.iloc[0]
        for row in part[part["seconds"] < mine["seconds"]].itertuples():
            if row.method.startswith(BEFORE) or ("recall" in part and row.recall < mine["recall"]):
                continue
            where = ", ".join(str(getattr(row, key)) for key in keys[1:])
            times = f"{number(row.seconds)} s; ours {number(mine['seconds'])} s"
            yield f"{what}, {row.method}, {where}, {row.n:,} points: {times}."


_END_TO_END = """
All methods by data set and number of points, the fastest first; columns are explained [above](#at-matched-quality).
Rows whose names start with "heatsketch" are variants of its estimators, "before" is the earlier version, and "eigsh on
our kernel" is SciPy's solver with the kernel of heatsketch.
"""
_BEFORE_AND_NOW = """
Commit 8e091bb and this version, measured in turns, in seconds or MB. In the last column values above 1 are in favour of
this version. Recall, errors and scores are in the tables below.
"""
_MOMENTS = {
    "first_use": {"import": "import_s", "first fit ever": "ever_s", "first fit of a process": "first_s"},
    "embeddings": {"fit": "seconds", "peak MB of a fit": "peak_mb"},
    "page": {"csv to page": "seconds"},
    "exact_product": {"product, all pairs": "seconds"},
    "graph_product": {"product, graph": "seconds"},
    "neighbours": {"neighbours": "seconds"},
}


@section(_MOMENTS, _BEFORE_AND_NOW)
def _before_and_now(tables: Tables) -> str:
    rows = []
    for name, table in tables.items():
        cases = over_repeats(table)
        keys = [key for key in ("data", "order", "n") if key in cases]
        earlier = cases["method"].str.startswith(BEFORE)
        before = cases[earlier].assign(method=cases["method"].str.removeprefix(BEFORE))
        both = before.merge(cases[~earlier], on=[*keys, "method"], suffixes=("_before", ""))
        for what, column in _MOMENTS[name].items():
            for row in both.dropna(subset=[column, f"{column}_before"]).to_dict("records"):
                pair = {"before": row[f"{column}_before"], "now": row[column]}
                rows.append(row | pair | {"what": what, "ratio": pair["before"] / pair["now"]})
    columns = {"what": "what", "method": "method", "data": "data", "order": "order", "points": "n"}
    return rows_table(rows, columns | {"before": "before", "now": "now", "before / now": "ratio"})


@section(["embeddings"], _END_TO_END)
def _end_to_end(tables: Tables) -> str:
    columns = {
        "method": "method", "s": "seconds", "runs": "repeats", "peak MB": "peak_mb", "cold s": "cold_s",
        "own error": "own_random_error", "own rank": "own_random_spearman", "own error, near": "own_near_error",
        "own rank, near": "own_near_spearman", "reference error": "ref_random_error",
        "reference rank": "ref_random_spearman", "version": "version",
    }  # fmt: skip
    groups = over_repeats(tables["embeddings"]).groupby(["data", "n"])
    tried = (f"### {TITLES[data]}, {n:,} points\n\n{rows_table(_marked(part), columns)}" for (data, n), part in groups)
    return "\n\n".join(tried)


_MATCHED = f"""
Each row compares a package (*peer*) with the fastest variant of heatsketch that is at least as accurate: its median
error is no larger and its rank correlation no smaller, to within 1%, on random pairs, each against its own operator.
*times faster* is the time of the peer divided by that of heatsketch: below 1 the peer is faster. A row of dashes means
that none of our variants is as accurate.

{_QUALITY.strip()}
"""


@section(["embeddings"], _MATCHED)
def _matched(tables: Tables) -> str:
    return rows_table(records(at_par(over_repeats(tables["embeddings"]))), PEER_COLUMNS)


def _contenders(columns: dict[str, str]) -> Callable[[Tables], str]:
    """A function that writes a table of the methods, case by case."""

    def write(tables: Tables) -> str:
        (cases,) = map(over_repeats, tables.values())
        groups = cases.groupby([key for key in ("n", "data", "order") if key in cases])
        return rows_table([row for _, part in groups for row in _marked(part)], _CASE | columns)

    return write


_CASE = {"points": "n", "data": "data", "method": "method", "s": "seconds"}
_FIRST = """
Seconds of the import and of the first fit of a process. `GaussianProcessEmbedding` and `DiffusionMaps` have 10 columns
and power 16, and `HeatSketch` its defaults.

- *s* is the time of a later fit, and *first* that of the first fit of a process.
- *Ever* is the first fit after installation, with empty caches. The other processes use the caches that it left.
- *More* is how much longer the first fit takes than later ones. *More, beside* is the same in a process that has
  imported scikit-learn. Nearly all of the difference is the import of scikit-learn, and through it of SciPy and pandas,
  which heatsketch loads with the first estimator.
- *Besides* is the part of a fit outside of its mathematics: checks of arguments, planning, and setting threads.
"""
_FIRST_COLUMNS = {
    "import s": "import_s", "ever s": "ever_s", "first s": "first_s", "more s": "more_s",
    "more, beside s": "more_beside_s", "besides s": "besides_s",
}  # fmt: skip
_QUESTIONS = """
Seconds of a fit and of calls that answer questions about it (`distortion()`, `diagnose()`, ...), and in brackets the
ratio to the fit. Each call is measured without the results that earlier calls leave behind. The estimators have the
parameters of [the first fit](#the-first-fit).
"""
_PAGE = """
Seconds of the command `heatsketch embed points.csv --report page.html`: the start of Python, reading, standardising,
the fit of `HeatSketch`, all questions that the page answers, pictures in two and three dimensions, and writing.
"""
_EXACT = """
Seconds of K V for the Gaussian kernel K of all pairs and 32 columns V, in float32, without storing K. The error is
relative, on 64 rows, against float64. For PyTorch, the size of the chunks was tuned on other points.
"""
_GRAPH = """
Seconds of the product of a symmetric graph of 30 neighbours with Gaussian weights and 32 columns, in float32. The
points are in random order (*as given*), or were *reordered* by reverse Cuthill-McKee for all methods. *Set-up* is done
once per operator, and includes its own reordering. *Of the limit* is the ratio to the time of as many operations in a
float32 matrix product, timed beside it.
"""
_NEIGHBOURS = """
Seconds of a search for the 30 nearest neighbours, with the recall on 1,000 sampled points against brute force. Indexes
with a parameter for accuracy have several rows, and their time includes building the index. *Of all products* is the
ratio to the time of the products of all pairs at the rate of a float32 matrix product, timed beside it.
"""


@section(["questions"], _QUESTIONS)
def _asked(tables: Tables) -> str:
    rows = []
    for (n, data, method), part in over_repeats(tables["questions"]).groupby(["n", "data", "method"]):
        row: Row = {"n": n, "data": data, "method": method}
        for one in part.itertuples():
            share = "" if one.question == "fit" else f" ({number(one.ratio)})"
            row[one.question] = f"{number(one.seconds)}{share}"
        rows.append(row)
    columns = {"points": "n", "data": "data", "method": "method", "fit": "fit"}
    return rows_table(rows, columns | {name: name for name in QUESTIONS})


@section(["limits"], "The best rates of single operations on all cores, measured by themselves.")
def _limits(tables: Tables) -> str:
    best = tables["limits"].groupby(["what", "unit"], sort=False)["best"].max().reset_index()
    return rows_table(records(best), {"what": "what", "best": "best", "unit": "unit"})


def _on_gpu(tables: Tables) -> str:
    """Claims of the study on a GPU."""
    if not tables:
        return ""
    store = Store(Path("docs/gpu"))
    found = [
        [text, v.measured, f"**{v.word}**"]
        for text, v in gpu.STUDY.claims({name: store.read(name) for name in store.names})
    ]
    text = "Claims of the study on one GPU. [Its page](../gpu/index.md) has all figures, limits and losses."
    return f"{text}\n\n{grid(['claim', 'measured', 'verdict'], found)}" if found else ""


def _absent(tables: Tables) -> str:
    rows = [row for table in tables.values() for row in records(table)]
    wrong = [row for row in rows if row.get("status", "ok") != "ok" or "unscored" in row]
    columns = {"table": "figure", "method": "method", "data": "data", "points": "n", "status": "status"}
    text = "Cases without a result, with the reason. Those under *not scored* were timed, but their scores failed."
    table = rows_table(wrong, columns | {"reason": "reason", "not scored": "unscored"})
    return f"{text}\n\n{table}" if wrong else ""


_GRAPH_COLUMNS = {"order": "order", "of the limit": "of_limit", "set-up s": "setup_s", "error": "error"}
STUDY = Study(
    "scale",
    "Fast at every size",
    _INTRODUCTION,
    EXPERIMENTS,
    judged,
    {
        "Where we lose": _losses,
        "Before and now": _before_and_now,
        "The first fit": section(["first_use"], _FIRST)(_contenders(_FIRST_COLUMNS)),
        "Questions": _asked,
        "From a table to a page": section(["page"], _PAGE)(_contenders({"page MB": "page_mb"})),
        "At matched quality": _matched,
        "End to end": _end_to_end,
        "Limits of the machine": _limits,
        "Exact product without the matrix": section(["exact_product"], _EXACT)(_contenders({"error": "error"})),
        "Product with a graph": section(["graph_product"], _GRAPH)(_contenders(_GRAPH_COLUMNS)),
        "Neighbours": section(["neighbours"], _NEIGHBOURS)(
            _contenders({"recall": "recall:.4f", "of all products": "of_limit"})
        ),
        "On a GPU": _on_gpu,
        "Absent, failed, or over a limit": _absent,
    },
    quick=_quick,
    folder="benchmarks",
)

if __name__ == "__main__":
    main(STUDY)
