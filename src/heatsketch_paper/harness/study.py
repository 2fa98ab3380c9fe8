"""A study: experiments, claims about their tables, and the page that shows both; with its command line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd

from heatsketch._utils.files import write_whole

from ..errors import ReproductionError
from .evidence import Verdict
from .experiment import Experiment, Row
from .runner import Progress, available_cores, run
from .store import Provenance, Store

__all__ = [
    "Claim",
    "Study",
    "Tables",
    "cell",
    "claim",
    "frame_table",
    "grid",
    "machines",
    "main",
    "number",
    "provenance_table",
    "rows_table",
    "section",
    "write_page",
]

Tables = Mapping[str, pd.DataFrame]
Section = Callable[[Tables], str]
Claim = tuple[str, Verdict]


def claim(statement: str, measured: str, holds: bool) -> Claim:
    """A statement that the figures themselves decide, without a test."""
    return statement, Verdict(bool(holds), measured)


def section(names: Iterable[str], text: str = "") -> Callable[[Section], Section]:
    """Decorate a function that writes a section about some tables.

    It gets those of the tables that are there, and is not called without any. `text` introduces the section, with the
    number of trials in place of ``{trials}``.
    """
    names = tuple(names)

    def wrap(write: Section) -> Section:
        @wraps(write)
        def written(tables: Tables) -> str:
            there = {name: tables[name] for name in names if name in tables}
            if not there:
                return ""
            trials = max(table["trial"].nunique() for table in there.values())
            return f"{text.strip().replace('{trials}', str(trials))}\n\n{write(there)}"

        return written

    return wrap


def _one_small_trial(experiment: Experiment) -> Experiment | None:
    return replace(experiment, n_trials=1, n_samples=min(experiment.n_samples, 100))


@dataclass(frozen=True)
class Study:
    """Declaration of a study.

    Attributes
    ----------
    name : str
        Module under ``benchmarks``, and folder under ``docs`` unless `folder` is given.
    title, introduction : str
    experiments : tuple of Experiment
    claims : callable
        Takes the tables and yields pairs of a statement and its `Verdict`; statements without tables are left out.
    sections : mapping of str to callable
        Title and text of each section; one that returns an empty text is left out.
    draw : callable, optional
        Takes the tables and the folder of pictures, and writes pictures.
    quick : callable
        Shrinks an experiment for ``--quick``, or returns None to leave it out.
    folder : str, optional
        Folder under ``docs``.
    """

    name: str
    title: str
    introduction: str
    experiments: tuple[Experiment, ...]
    claims: Callable[[Tables], Iterable[Claim]] = lambda _: ()
    sections: Mapping[str, Section] = field(default_factory=dict)
    draw: Callable[[Tables, Path], None] | None = None
    quick: Callable[[Experiment], Experiment | None] = _one_small_trial
    folder: str = ""


def main(study: Study, arguments: Sequence[str] | None = None) -> None:
    """Run the cases of a study that are missing, and write its page."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser(study).parse_args(given)
    unknown = set(options.only) - {experiment.name for experiment in study.experiments}
    if unknown:
        sys.exit(f"Error: {', '.join(sorted(unknown))}: no such experiment; see --help.")
    chosen = [e for e in study.experiments if not options.only or e.name in options.only]
    if options.quick:
        chosen = [small for experiment in chosen if (small := study.quick(experiment)) is not None]
    if options.trials is not None:
        chosen = [replace(experiment, n_trials=options.trials) for experiment in chosen]
    output = options.output or Path("out" if options.quick else "docs") / (study.folder or study.name)
    store = Store(output)
    try:
        chosen = _with_settings(chosen, options.set)
        if not options.page:
            command = shlex.join(["python", "-m", f"benchmarks.{study.name}", *given])
            run(chosen, store, jobs=options.jobs, fresh=options.fresh, command=command, report=_show)
        if options.quick:
            study = replace(study, title=f"{study.title}: a quick run, with smaller sizes than the text says")
        print(f"Wrote {write_page(study, store)}.")
    except ReproductionError as failure:
        sys.exit(f"Error: {failure}")


def _parser(study: Study) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog=f"python -m benchmarks.{study.name}", description=study.title)
    names = ", ".join(experiment.name for experiment in study.experiments)
    found.add_argument("only", nargs="*", metavar="NAME", help=f"experiments, of {names}; all by default")
    found.add_argument("--quick", action="store_true", help="small sizes, under out/")
    found.add_argument("--trials", type=int, metavar="N", help="trials of each, instead of the declared numbers")
    found.add_argument("-j", "--jobs", type=int, default=available_cores(), help="processes")
    found.add_argument("-o", "--output", type=Path, metavar="DIR")
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--fresh", action="store_true", help="remove earlier results of these experiments")
    found.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="change a field, such as sizes=2000,5000"
    )
    return found


def _with_settings(experiments: Sequence[Experiment], settings: Iterable[str]) -> list[Experiment]:
    """Change fields of those experiments that have them."""
    changed = list(experiments)
    for name, _, text in (setting.partition("=") for setting in settings):
        having = [name in {one.name for one in fields(experiment)} for experiment in changed]
        if not any(having):
            raise ReproductionError(f"--set {name}: none of the experiments has this field.")
        changed = [
            replace(experiment, **{name: _parsed(text, getattr(experiment, name))}) if has else experiment
            for experiment, has in zip(changed, having, strict=True)
        ]
    return changed


def _parsed(text: str, before: Any) -> Any:
    """A value of the type that the field has; items of a tuple are separated by commas."""
    try:
        if isinstance(before, tuple):
            kind = type(before[0]) if before else str
            return tuple(kind(part) for part in text.split(","))
        return type(before)(text)
    except ValueError as failure:
        raise ReproductionError(f"--set: {failure}; the present value is {before!r}.") from failure


def _show(step: Progress) -> None:
    end = "\n" if step.done == step.total else "\r"
    print(f"{step.experiment.name}: {step.done} of {step.total} ", end=end, file=sys.stderr, flush=True)


def write_page(study: Study, store: Store) -> Path:
    """Draw the pictures and write the page from the tables in the directory."""
    tables = {name: store.read(name) for name in store.names}
    origins = {name: store.provenance(name) for name in tables}
    if study.draw is not None:
        study.draw(tables, store.directory / "pictures")
    commands = dict.fromkeys(s["command"] for origin in origins.values() for s in origin.sessions)
    made, versions = ", ".join(f"`{c}`" for c in commands), ", ".join(sorted({o.version for o in origins.values()}))
    parts = [f"# {study.title}", study.introduction.strip()]
    parts.append(
        f"Measured with heatsketch {versions} by {made}. Commands, modules and tests have the names of that version. "
        f"`python -m benchmarks.{study.name} --page` writes this page."
    )
    judged = [[statement, verdict.measured, f"**{verdict.word}**"] for statement, verdict in study.claims(tables)]
    if judged:
        parts += ["## Claims", grid(["claim", "measured", "verdict"], judged)]
    for title, section in study.sections.items():
        text = section(tables)
        parts += [f"## {title}", text.strip()] if text else []
    parts += ["## Provenance", provenance_table(tables, origins)]
    page = store.directory / "index.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def provenance_table(tables: Tables, origins: Mapping[str, Provenance]) -> str:
    """Trials, seed and seconds of each table, and the machines."""
    rows = []
    for name, origin in origins.items():
        cases, seed = str(tables[name]["trial"].nunique()), str(origin.parameters["seed"])
        rows.append([f"[{name}](tables/{name}.csv)", cases, seed, f"{origin.seconds:.0f}" if origin.seconds else "-"])
    return grid(["table", "trials", "seed", "seconds"], rows) + "\n\nMachine: " + "; ".join(machines(origins)) + "."


def machines(origins: Mapping[str, Provenance]) -> list[str]:
    """Every machine that results come from, once."""
    sessions = [session for origin in origins.values() for session in origin.sessions]
    return list(dict.fromkeys(", ".join(f"{k} {v}" for k, v in s["machine"].items()) for s in sessions))


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, figures: bool = False) -> str:
    """A table in Markdown; with `figures`, all columns but the first are aligned to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1) if figures else f"|{'---|' * len(head)}"
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def rows_table(rows: Iterable[Row], columns: Mapping[str, str]) -> str:
    """A table in Markdown of rows; `columns` maps each title to a key, or to "key:format" as `format` takes it.

    Numbers without a format have three significant digits; missing entries are dashes.

    >>> print(rows_table([{"n": 5000, "error": 2e-6}], {"points": "n", "error": "error:.1e", "s": "seconds"}))
    | points | error | s |
    |---|---:|---:|
    | 5,000 | 2.0e-06 | - |
    """

    def entry(row: Row, column: str) -> str:
        key, _, form = column.partition(":")
        value = row.get(key)
        if value is None or isinstance(value, str):
            return cell(value or "-")
        return format(value, form) if form else number(value)

    body = [[entry(row, column) for column in columns.values()] for row in rows]
    return grid(list(columns), body, figures=True)


def frame_table(frame: pd.DataFrame, formats: Mapping[str, str] | None = None) -> str:
    """A frame as a table in Markdown, with a format for each column that needs one; missing values are left empty."""
    columns = [
        ["" if pd.isna(value) else format(value, (formats or {}).get(str(name), "")) for value in column]
        for name, column in frame.items()
    ]
    return grid([str(name) for name in frame], zip(*columns, strict=True))


def number(value: Any, digits: int = 3) -> str:
    """A figure with some significant digits; a dash for None."""
    if value is None:
        return "-"
    if value and abs(value) < 10 ** (digits - 1):
        return f"{value:.{digits}g}"
    return f"{value:,.0f}"


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")
