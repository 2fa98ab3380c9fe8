"""From names of figures to a directory with tables, pictures, claims and a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .claims import judge_claims
from .figures import find_figures, plan
from .page import Results, markdown_page, render_html
from .pictures import FORMATS, save
from .pictures_theory import draw
from .runner import Progress, run
from .store import write_whole

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
    claims : DataFrame
        A row for each statement, with its verdict.
    """

    directory: Path
    page: Path
    pictures: list[Path]
    claims: pd.DataFrame


def reproduce(
    figures: Sequence[str] = (),
    directory: str | os.PathLike[str] = "reproduction",
    *,
    n_trials: int | None = None,
    jobs: int | None = None,
    beyond: bool = False,
    fresh: bool = False,
    formats: Sequence[str] = FORMATS[:2],
    command: str | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Reproduction:
    """Reproduce figures of the paper and the claims that they bear out.

    Parameters
    ----------
    figures : sequence of str
        Names or groups ("section5", "theory"); all by default.
    directory : path
        Trials that it holds are kept and not computed again.
    n_trials : int, optional
        Trials of each experiment; the paper's numbers by default.
    jobs : int, optional
        Processes; one for each core by default.
    beyond : bool
        Whether the charts also carry the methods that this project adds.
    fresh : bool
        Whether to throw away results that are there.
    formats : sequence of {"svg", "png", "pdf"}
        The page shows "png".
    command : str, optional
        What the page says it was made by.
    report : callable
        Called with a `Progress` after each trial.

    Returns
    -------
    reproduction : Reproduction

    Examples
    --------
    >>> from heatsketch.experiments import reproduce
    >>> made = reproduce(["circle_with_outliers"], getfixture("tmp_path"), n_trials=20, jobs=1)
    >>> print(made.claims.verdict[0])
    holds
    """
    chosen = find_figures(figures)
    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise ValueError(f"format {unknown[0]!r} is not known; use some of {', '.join(FORMATS)}.")
    formats = tuple(dict.fromkeys((*formats, "png")))
    experiments = {e.name: e for e in plan(chosen, n_trials=n_trials, beyond=beyond)}
    target = Path(directory)
    store = run(list(experiments.values()), target, jobs=jobs or os.cpu_count() or 1, fresh=fresh, report=report)
    tables = {name: store.read(name) for name in experiments}
    pictures = [p for f in chosen for p in save(draw(f, tables), target / "pictures" / f.name, formats)]
    claims = judge_claims(tables)
    write_whole(target / "claims.csv", claims.to_csv(index=False, lineterminator="\n"))
    results = Results(experiments, tables, {name: store.provenance(name) for name in experiments})
    command = command or f"heatsketch.experiments.reproduce({list(figures)!r}, {str(directory)!r})"
    page = markdown_page(chosen, results, claims, command)
    write_whole(target / "index.md", page)
    write_whole(target / "index.html", render_html(page))
    return Reproduction(target, target / "index.html", pictures, claims)
