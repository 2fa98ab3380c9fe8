"""What `HeatSketch` minimises, as functions of the logarithmic dilations of pairs.

For a pair of points the dilation is ``|y_i - y_j| / d_ij``, embedded over diffusion distance. An objective turns the
logarithms of the dilations of many pairs into one number that does not depend on the scale of the embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .._utils.typing import FloatArray

__all__ = ["OBJECTIVES", "Bilipschitz", "LogStress", "Objective"]


class Objective(ABC):
    """A scale-free measure of distortion and a smooth stand-in for it."""

    # Whether the extreme pairs decide, so that they are looked for; otherwise pairs are drawn at random.
    extreme: ClassVar[bool]

    @staticmethod
    @abstractmethod
    def measure(ratios: FloatArray) -> float:
        """The objective itself, of log dilations of shape (m,)."""

    @staticmethod
    @abstractmethod
    def smooth(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """The smooth stand-in, closer to the objective the larger `sharpness`, and its derivatives, shape (m,)."""


class Bilipschitz(Objective):
    """``log L``: the largest log dilation minus the smallest."""

    extreme = True

    @staticmethod
    def measure(ratios: FloatArray) -> float:
        """The range of the log dilations."""
        return float(ratios.max() - ratios.min())

    @staticmethod
    def smooth(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """``lse(b r) / b + lse(-b r) / b`` with lse the logarithm of the mean exponential, b the sharpness."""
        value, slope = 0.0, np.zeros_like(ratios)
        for sign, end in ((1.0, ratios.max()), (-1.0, ratios.min())):
            weights = np.exp(sign * sharpness * (ratios - end))
            total = weights.sum()
            value += sign * end + np.log(total / len(ratios)) / sharpness
            slope += sign * weights / total
        return float(value), slope


class LogStress(Objective):
    """Root mean square of the log dilations around their mean: relative error of typical distances."""

    extreme = False

    @staticmethod
    def measure(ratios: FloatArray) -> float:
        """Standard deviation of the log dilations."""
        return float(ratios.std())

    @staticmethod
    def smooth(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:  # noqa: ARG004
        """The standard deviation, which is smooth already."""
        deviation = ratios - ratios.mean()
        value = np.sqrt(np.mean(np.square(deviation)) + np.finfo(np.float64).tiny)
        return float(value), deviation / (value * len(ratios))


# Objectives by name; one that is added here can be used in `HeatSketch`.
OBJECTIVES: dict[str, type[Objective]] = {"bilipschitz": Bilipschitz, "log-stress": LogStress}
