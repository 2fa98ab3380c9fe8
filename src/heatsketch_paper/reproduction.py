"""From names of figures to a directory with tables, pictures, claims and a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from heatsketch._utils.files import write_whole

from .claims import judge_claims
from .errors import ReproductionError
from .figures import FIGURES, find_figures, plan
from .harness.runner import Progress, available_cores, run
from .harness.store import Store
from .page import markdown_page, render_html
from .pictures import DEFAULT_FORMATS, FORMATS, draw, save

__all__ = ["Reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` made.

    Attributes
    ----------
    directory : Path
    page : Path
        The HTML page.
    pictures : list of Path
        Of the figures that were asked for.
    claims : DataFrame
        A row for each statement, with its verdict.
    """

    directory: Path
    page: Path
    pictures: list[Path]
    claims: pd.DataFrame


def reproduce(
    figures: str | Sequence[str] = (),
    directory: str | os.PathLike[str] = "reproduction",
    *,
    n_trials: int | None = None,
    jobs: int | None = None,
    beyond: bool = False,
    fresh: bool = False,
    formats: str | Sequence[str] = DEFAULT_FORMATS,
    command: str | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Reproduction:
    """Reproduce figures of the paper and the claims that they bear out.

    Page and claims cover all that the directory holds, from earlier calls too.

    Parameters
    ----------
    figures : str or sequence of str
        Names or groups ("section5", "theory"); all by default.
    directory : path
        New, empty, or of earlier calls: trials that it holds are kept and not computed again.
    n_trials : int, optional
        Trials of each experiment; the paper's numbers by default.
    jobs : int, optional
        Processes; one for each core by default.
    beyond : bool
        Whether the charts also contain the methods that this project adds.
    fresh : bool
        Whether to remove earlier results of these figures.
    formats : str or sequence of {"svg", "png", "pdf"}
        "png" is always written: the page shows it.
    command : str, optional
        Recorded with the results and shown on the page.
    report : callable
        Called with a `Progress` after each trial.

    Returns
    -------
    reproduction : Reproduction

    Examples
    --------
    >>> from heatsketch_paper import reproduce
    >>> made = reproduce("circle_with_outliers", getfixture("tmp_path"), n_trials=20, jobs=1)
    >>> print(made.claims.verdict[0])
    holds
    """
    names, formats = ([given] if isinstance(given, str) else list(given) for given in (figures, formats))
    chosen = find_figures(names)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ReproductionError(f"format {unknown[0]!r} is not known; use some of {', '.join(FORMATS)}.")
    experiments = plan(chosen, n_trials=n_trials, beyond=beyond)
    store = Store(directory)
    run(
        experiments,
        store,
        jobs=available_cores() if jobs is None else jobs,
        fresh=fresh,
        command=command or _call(names, directory, n_trials, beyond),
        report=report,
    )
    formats = list(dict.fromkeys([*formats, "png"]))
    return _present(store, [figure.name for figure in chosen], formats)


def _present(store: Store, asked_for: Sequence[str], formats: Sequence[str]) -> Reproduction:
    """Draw, judge and write the page, from the tables only."""
    target = store.directory
    tables = {name: store.read(name) for name in store.names}
    shown = [figure for figure in FIGURES.values() if set(figure.experiments) <= set(tables)]
    pictures = []
    for figure in shown:
        written = save(draw(figure, tables), target / "pictures" / figure.name, formats)
        pictures += written if figure.name in asked_for else []
    claims = judge_claims(tables)
    page = markdown_page(shown, tables, {name: store.provenance(name) for name in tables}, claims)
    write_whole(target / "claims.csv", claims.to_csv(index=False, lineterminator="\n"))
    write_whole(target / "index.md", page)
    write_whole(target / "index.html", render_html(page))
    return Reproduction(target, target / "index.html", pictures, claims)


def _call(names: Sequence[str], directory: str | os.PathLike[str], n_trials: int | None, beyond: bool) -> str:
    """The call of `reproduce`, as one would write it."""
    options = [f"n_trials={n_trials}"] if n_trials is not None else []
    options += ["beyond=True"] if beyond else []
    return f"reproduce({', '.join([repr(list(names)), repr(os.fspath(directory)), *options])})"
