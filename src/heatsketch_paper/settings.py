"""The parameters of the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAPER", "PaperSetting"]


@dataclass(frozen=True)
class PaperSetting:
    """Parameters of one of the paper's experiments: sample size, power, bandwidth, range of dimensions, trials."""

    n_samples: int
    power: int
    bandwidth: float
    n_components: tuple[int, int]
    n_trials: int


# Section 5 of the paper, except for the Gaussian clouds: the paper does not give their parameters.
PAPER = {
    "circle": PaperSetting(300, 8, 0.25, (2, 8), 200),
    "stretched_torus": PaperSetting(500, 10, 0.3, (2, 12), 100),
    "klein_bottle": PaperSetting(500, 4, 2.0, (3, 20), 100),
    "circle_with_outliers": PaperSetting(200, 4, 0.5, (2, 5), 100),
    "gaussian_clouds": PaperSetting(300, 4, 10.0, (2, 10), 100),
}
