"""Time and memory of a fit, each in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import heatsketch as hs
from heatsketch_paper.experiment import Experiment, Row

from ..scale.data import make

__all__ = ["TIMES"]


@dataclass(frozen=True)
class Times(Experiment):
    """Seconds and peak memory of HeatSketch with its defaults, and log L beside the other methods'."""

    alone: ClassVar[bool] = True
    data: tuple[str, ...] = ("swiss roll", "tree")
    n_components: tuple[int, ...] = (4,)
    methods: tuple[str, ...] = ("DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows = []
        for data in self.data:
            for k in self.n_components:
                for method in self.methods:
                    call = [sys.executable, "-m", "benchmarks.study.times", method, data, self.n_samples, k, index]
                    done = subprocess.run(list(map(str, call)), capture_output=True, text=True, check=True)
                    rows.append({"method": method, "data": data, "k": k} | json.loads(done.stdout))
        return rows


def fit(method: str, data: str, n: int, k: int, seed: int) -> Row:
    """Fit once on little data, so that everything is compiled, then on all, and measure that."""
    model = getattr(hs, method)(k)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    model.set_params(n_neighbors=16).fit(make(data, 2500, seed=1001)[:2500])
    X = make(data, n, seed)
    start = perf_counter()
    model.set_params(n_neighbors="auto").fit(X)
    seconds = perf_counter() - start
    found = model.distortion_ if method == "HeatSketch" else model.distortion()
    return {
        "seconds": seconds,
        "optimising": model.history_[-1].seconds if method == "HeatSketch" else 0.0,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "log_L": found.log,
    }


TIMES = {
    "times_500": Times("times_500", 500, 3, seed=133, effort=60.0, n_components=(2, 8)),
    "times_20000": Times("times_20000", 20_000, 1, seed=133, effort=200.0),
    # Eigenvectors of so many points take longer than all the rest.
    "times_100000": Times("times_100000", 100_000, 1, seed=133, effort=900.0, methods=Times.methods[1:]),
}

if __name__ == "__main__":
    method, data, n, k, seed = sys.argv[1:]
    print(json.dumps(fit(method, data, int(n), int(k), int(seed))))
