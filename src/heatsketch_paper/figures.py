"""The paper's figures (``figures.toml``): what is drawn, from which tables.

An experiment is what is computed: one table. A :class:`Figure` is what is drawn, from one table or several; the paper
draws the Klein bottle twice, from one computation, and so do we.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from .catalogue import EXPERIMENTS
from .charts import DistortionChart
from .errors import ReproductionError
from .harness.experiment import Experiment
from .methods import BEYOND

__all__ = ["FIGURES", "GROUPS", "Figure", "find_figures", "plan"]


@dataclass(frozen=True)
class Figure:
    """A picture and the tables it is drawn from.

    Attributes
    ----------
    name : str
    group : {"section5", "theory"}
    place : str
        Where it stands in the paper.
    title : str
    caption : str
        What is to be seen, for the page.
    experiments : sequence of str
        Names of the tables.
    drawing : str
        A key of `heatsketch_paper.pictures.DRAWINGS`.
    methods : sequence of str
        Those drawn; the tables may hold more.
    trials : sequence of int
        Those drawn, in pictures of single trials.
    """

    name: str
    group: str
    place: str
    title: str
    caption: str
    experiments: Sequence[str]
    drawing: str
    methods: Sequence[str] = ()
    trials: Sequence[int] = ()


_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FIGURES: dict[str, Figure] = {
    name: Figure(name, group, **fields) for group, figures in _DECLARED.items() for name, fields in figures.items()
}
GROUPS = tuple(_DECLARED)


def find_figures(names: Iterable[str] = ()) -> list[Figure]:
    """Figures by name or group, in the catalogue's order; all of them without a name."""
    names = list(names)
    known = [*GROUPS, *FIGURES]
    for name in names:
        if name not in known:
            close = [n for n in known if name in n] or get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ReproductionError(
                f"figure {name!r} is not known{hint} Known are the groups and figures: {', '.join(known)}."
            )
    return [f for f in FIGURES.values() if not names or f.name in names or f.group in names]


def plan(figures: Iterable[Figure], *, n_trials: int | None = None, beyond: bool = False) -> list[Experiment]:
    """Experiments that the figures need, each once.

    Parameters
    ----------
    figures : iterable of Figure
    n_trials : int, optional
        Trials of each experiment; its own number by default, and always for samples that are drawn one by one.
    beyond : bool
        Whether charts also contain the methods that this project adds.
    """
    if n_trials is not None and (not isinstance(n_trials, int) or n_trials < 1):
        raise ReproductionError(f"n_trials={n_trials!r} is not an integer of at least 1.")
    found: dict[str, Experiment] = {}
    for name in dict.fromkeys(name for figure in figures for name in figure.experiments):
        experiment = EXPERIMENTS[name]
        if beyond and isinstance(experiment, DistortionChart):
            experiment = replace(experiment, methods=(*experiment.methods, *BEYOND))
        if n_trials is not None and not experiment.always_as_declared:
            experiment = replace(experiment, n_trials=n_trials)
        found[name] = experiment
    return list(found.values())
