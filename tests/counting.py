"""An experiment that counts its trials; worker processes import this module only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from heatsketch_paper.harness.experiment import Experiment


@dataclass(frozen=True)
class Counting(Experiment):
    """Trials that leave a mark when they run, and may fail."""

    marks: str = ""
    fails_at: int = -1
    fails_after: str = ""  # a file
    dies_at: int = -1

    def trial(self, index):
        if index == self.fails_at:
            while not Path(self.fails_after).exists():
                sleep(0.01)
            raise ArithmeticError("this trial fails")
        if index == self.dies_at:
            os._exit(9)
        with (Path(self.marks) / f"{index}").open("a") as file:
            file.write("x")
        return [{"k": k, "value": self.points_seed(index).normal() + k} for k in range(2)]


def measured(fail=False):
    """Runs in a fresh process."""
    yield {"stage": 1}
    if fail:
        raise ModuleNotFoundError("no such package", name="peer")
    yield {"status": "ok"}


def endless():
    """Runs in a fresh process until it is ended."""
    yield {"stage": 1}
    while True:
        pass
