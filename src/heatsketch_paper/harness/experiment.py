"""What an experiment is: a frozen declaration whose trials, or cases, give the rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from heatsketch._utils.typing import FloatArray

__all__ = ["Case", "Experiment", "Row", "rows_of"]

Row = dict[str, Any]
Case = dict[str, Any]

# Parts of the seed that keep the random numbers of a trial apart.
_POINTS, _SKETCH, _OTHER = range(3)


@dataclass(frozen=True)
class Experiment:
    """A reproducible computation whose results are the rows of one table.

    Most subclasses declare parameters as fields and define `trial`. Trial i depends on the parameters, the seed and i
    only, so trials may run in any order and process, and more can be added later. An experiment whose table grows by
    contenders or sizes instead defines `cases` and `measure`.

    Attributes
    ----------
    name : str
        Name of the table; its first column, ``figure``, repeats it.
    n_samples : int
        Points in each trial.
    n_trials : int
    seed : int
    effort : float
        Approximate seconds of a trial, for progress bars.
    """

    name: str
    n_samples: int = 0
    n_trials: int = 1
    seed: int = 0
    effort: float = 0.1

    # Experiments that measure time or memory run when nothing else does, and on one machine.
    alone: ClassVar[bool] = False
    # Experiments drawn trial by trial need no more trials than declared.
    always_as_declared: ClassVar[bool] = False
    # Columns that identify a case; finished cases are not measured again.
    keys: ClassVar[tuple[str, ...]] = ("trial",)
    # Fields that select cases or limits and do not change the results of a case.
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort")
    # Installed packages whose versions are recorded besides NumPy, SciPy and scikit-learn.
    libraries: ClassVar[tuple[str, ...]] = ()

    def cases(self) -> list[Case]:
        """All cases in the order in which they run; one for each trial by default."""
        return [{"trial": index} for index in range(self.n_trials)]

    def measure(self, case: Case, done: Sequence[Row] = ()) -> list[Row]:  # noqa: ARG002  for subclasses
        """Rows of one case, without the key columns; `done` has the earlier rows of experiments that run alone."""
        return self.trial(case["trial"])

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial, without the columns ``figure`` and ``trial``."""
        raise NotImplementedError

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that decides the results of a case."""
        return {"kind": type(self).__name__} | {k: v for k, v in asdict(self).items() if k not in self.free}

    def points_seed(self, index: int) -> np.random.Generator:
        """Random numbers for the points of a trial."""
        return np.random.default_rng([self.seed, index, _POINTS])

    def sketch_seed(self, index: int) -> int:
        """Seed of the random matrices of a trial."""
        return int(np.random.default_rng([self.seed, index, _SKETCH]).integers(2**63))

    def other_seed(self, index: int) -> np.random.Generator:
        """Random numbers for noise, choices of points and the like."""
        return np.random.default_rng([self.seed, index, _OTHER])


def rows_of(columns: dict[str, Sequence[Any] | FloatArray], **constants: Any) -> list[Row]:
    """One row for each position of equally long columns, with the same constants in all."""
    names = list(columns)
    return [constants | dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
