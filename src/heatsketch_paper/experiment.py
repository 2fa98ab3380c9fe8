"""What an experiment is: a frozen declaration, and trials that are functions of its seed and their number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray

__all__ = ["Experiment", "Row", "rows_of", "sample"]

Row = dict[str, Any]


# Words of the seed that keep the random numbers of a trial apart.
_POINTS, _SKETCH, _OTHER = range(3)


@dataclass(frozen=True)
class Experiment(ABC):
    """A reproducible computation whose results are the rows of one table.

    A subclass declares its parameters as fields and owes one method, `trial`. Trial i depends on the parameters, the
    seed and i alone, so trials may run in any order and process, and be added later.

    Attributes
    ----------
    name : str
        Name of the table; its first column, ``figure``, repeats it.
    n_samples : int
        Points in each trial.
    n_trials : int
    seed : int
    effort : float
        Seconds that a trial takes on an ordinary core, roughly: it weighs the progress bar and nothing else.
    """

    name: str
    n_samples: int
    n_trials: int
    seed: int = 0
    effort: float = 0.1

    # Experiments that measure time run when nothing else does.
    alone: ClassVar[bool] = False
    # Some are drawn trial by trial and have no more use for more of them.
    always_as_declared: ClassVar[bool] = False

    @abstractmethod
    def trial(self, index: int) -> list[Row]:
        """Rows of one trial, without the columns ``figure`` and ``trial``."""

    @property
    def parameters(self) -> dict[str, Any]:
        """All that decides what a trial computes."""
        without = ("n_trials", "effort")
        return {"kind": type(self).__name__} | {k: v for k, v in asdict(self).items() if k not in without}

    def points_seed(self, index: int) -> np.random.Generator:
        """Random numbers for the points of a trial."""
        return np.random.default_rng([self.seed, index, _POINTS])

    def sketch_seed(self, index: int) -> int:
        """Seed of the random matrices of a trial."""
        return int(np.random.default_rng([self.seed, index, _SKETCH]).integers(2**63))

    def other_seed(self, index: int) -> np.random.Generator:
        """Random numbers for anything else: noise, choices of points."""
        return np.random.default_rng([self.seed, index, _OTHER])


def sample(data: str, n: int, random_state: np.random.Generator) -> FloatArray:
    """Points of one of the paper's data sets, by its name in `heatsketch.datasets`."""
    points: FloatArray = getattr(datasets, data)(n, random_state=random_state)
    return points


def rows_of(columns: dict[str, Sequence[Any] | FloatArray], **constants: Any) -> list[Row]:
    """One row for each position of equally long columns, with the same constants in all."""
    names = list(columns)
    return [constants | dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
