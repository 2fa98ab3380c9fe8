"""What `HeatSketch` minimises, as functions of the logarithmic dilations of pairs.

The dilation of a pair of points is ``|y_i - y_j| / d_ij``, embedded over diffusion distance. An objective is a function
of the logarithms of the dilations of many pairs that does not depend on the scale of the embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .._utils.typing import FloatArray

__all__ = ["OBJECTIVES", "Bilipschitz", "LogStress", "Objective"]


class Objective(ABC):
    """A scale-free measure of distortion and a smooth approximation of it."""

    # Whether it depends on the extreme pairs, which are searched then; otherwise pairs are drawn at random.
    extreme: ClassVar[bool]

    @staticmethod
    @abstractmethod
    def measure(ratios: FloatArray) -> float:
        """The objective itself, of log dilations of shape (m,)."""

    @staticmethod
    @abstractmethod
    def smooth(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """The smooth approximation, closer for larger `sharpness`, and its derivatives, shape (m,)."""


class Bilipschitz(Objective):
    """``log L``: the largest log dilation minus the smallest."""

    extreme = True

    @staticmethod
    def measure(ratios: FloatArray) -> float:
        """The range of the log dilations."""
        return float(ratios.max() - ratios.min())

    @staticmethod
    def smooth(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """``lme(b r) / b + lme(-b r) / b`` with lme the logarithm of the mean exponential, b the sharpness."""
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
        """The standard deviation, which is smooth."""
        deviation = ratios - ratios.mean()
        value = np.sqrt(np.mean(np.square(deviation)) + np.finfo(np.float64).tiny)
        return float(value), deviation / (value * len(ratios))


# Objectives by name; one that is added here can be used in `HeatSketch`.
OBJECTIVES: dict[str, type[Objective]] = {"bilipschitz": Bilipschitz, "log-stress": LogStress}
