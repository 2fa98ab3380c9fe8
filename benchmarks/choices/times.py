"""What the automatic choices cost, beside the embedding itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

import heatsketch as hs
from heatsketch_paper.experiment import Experiment, Row

from ..scale.data import make

__all__ = ["CHOICE_TIMES"]

_REPEATS = 3


@dataclass(frozen=True)
class ChoiceTimes(Experiment):
    """Seconds of a fit with power="auto", and of one with the numbers that it chose, one after the other."""

    alone: ClassVar[bool] = True
    data: tuple[str, ...] = ("swiss roll", "tree", "torus")
    methods: tuple[str, ...] = ("GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for data in self.data:
            X = hs.datasets.stretched_torus(self.n_samples, random_state=index) if data == "torus" else None
            X = make(data, self.n_samples, index) if X is None else X.astype(np.float32)
            rows += [{"data": data, "method": method} | _measured(X, method) for method in self.methods]
        return rows


def _measured(X: Any, method: str) -> Row:
    seeded = {} if method == "DiffusionMaps" else {"random_state": 0}
    auto = getattr(hs, method)(10 if method != "HeatSketch" else 3, power="auto", **seeded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        _fit(auto, X)
    given = auto.__class__(**auto.get_params()).set_params(power=auto.power_, bandwidth=float(auto.bandwidth_))
    _fit(given, X)
    seconds: dict[str, list[float]] = {"automatic": [], "given": []}
    for _ in range(_REPEATS):
        seconds["automatic"].append(_fit(auto, X))
        seconds["given"].append(_fit(given, X))
    automatic, plain = (float(np.median(values)) for values in seconds.values())
    return {"power": auto.power_, "automatic": automatic, "given": plain, "extra": (automatic - plain) / plain}


def _fit(model: Any, X: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        start = perf_counter()
        model.fit(X)
        return perf_counter() - start


CHOICE_TIMES = {
    f"choice_times_{n}": ChoiceTimes(f"choice_times_{n}", n, trials, 144, 30.0, methods=ChoiceTimes.methods[:methods])
    for n, trials, methods in ((500, 3, 3), (2000, 2, 3), (10_000, 1, 1), (50_000, 1, 1))
}
