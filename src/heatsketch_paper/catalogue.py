"""The experiments behind the paper's figures, as declarations: what is computed, with the paper's parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .charts import DistortionChart, NearCrossing, PlaneSample, PlaneShape
from .cost import Cost
from .harness.experiment import Experiment
from .laws import DistanceLaw, KarhunenLoeve, Robustness, WorstError
from .obstacles import Challenge, ExtremePowers, KernelColumns, LocalCoordinates, Refinement, TorusEigenfunctions
from .settings import PAPER

__all__ = ["EXPERIMENTS"]


def _chart(name: str, **changes: Any) -> DistortionChart:
    """A chart over k with the parameters that section 5 gives for a data set."""
    setting = PAPER[name]
    low, high = setting.n_components
    return DistortionChart(
        name=name,
        n_samples=setting.n_samples,
        n_trials=setting.n_trials,
        data=name,
        bandwidth=setting.bandwidth,
        powers=(setting.power,),
        n_components=tuple(range(low, high + 1)),
        **changes,
    )


def _multiscale(name: str, data: str, k: int, most: int, **changes: Any) -> DistortionChart:
    """A chart over the powers 2, 4, ..., 2^most, against the Euclidean distance."""
    return replace(
        _chart(data, **changes),
        name=name,
        n_trials=100,
        powers=tuple(2**i for i in range(1, most + 1)),
        n_components=(k,),
        distance="euclidean",
    )


def _worst(name: str, data: str, **changes: Any) -> WorstError:
    setting = PAPER[data]
    return WorstError(
        name, setting.n_samples, 200, data=data, bandwidth=setting.bandwidth, power=setting.power, **changes
    )


def _plane(kind: type[PlaneSample], name: str, data: str, n_trials: int, **changes: Any) -> PlaneSample:
    setting = PAPER[data]
    return kind(
        name,
        setting.n_samples,
        n_trials,
        effort=0.02,
        data=data,
        bandwidth=setting.bandwidth,
        power=setting.power,
        **changes,
    )


# Seeds differ so that no two experiments share their points, but for samples and the shapes of the same.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _chart("circle", seed=1, effort=0.1),
        _plane(PlaneSample, "circle_sample", "circle", 11, seed=2, methods=("GPS",)),
        _plane(PlaneShape, "circle_shapes", "circle", 200, seed=2, methods=("DMS", "GPS")),
        _chart("stretched_torus", seed=3, effort=0.25),
        _chart("klein_bottle", seed=4, effort=0.35),
        _chart("circle_with_outliers", seed=5, effort=0.04),
        NearCrossing("outlier_crossings", PAPER["circle_with_outliers"].n_samples, 1000, seed=24, effort=0.01),
        _plane(PlaneSample, "outlier_samples", "circle_with_outliers", 3, seed=6, methods=("DMS", "GPS")),
        _plane(PlaneShape, "outlier_shapes", "circle_with_outliers", 200, seed=6, methods=("DMS", "GPS")),
        _chart("gaussian_clouds", seed=7, effort=0.1, distance="euclidean"),
        replace(
            _chart("circle_with_outliers", seed=23, effort=0.02, methods=("GPS", "GPB", "GPSBS", "GPSBB")),
            name="signs_with_outliers",
            n_trials=1000,
        ),
        _multiscale("multiscale_torus", "stretched_torus", 8, 10, seed=8, effort=0.5),
        _multiscale("multiscale_circle", "circle", 2, 8, seed=9, effort=0.15),
        KarhunenLoeve("karhunen_loeve", 300, 200, seed=10, effort=0.2),
        DistanceLaw("distance_law", 500, 500, seed=11, effort=0.1),
        _worst("worst_error_circle", "circle", seed=12, effort=0.2),
        _worst("worst_error_torus", "stretched_torus", seed=13, effort=0.5),
        _worst("worst_error_klein", "klein_bottle", seed=14, effort=0.4),
        Robustness("robustness", 300, 100, seed=15, effort=0.25),
        Challenge("challenge", 400, 20, seed=16, effort=0.6),
        Refinement("refinement", 2000, 20, seed=17, effort=3.5),
        TorusEigenfunctions("torus_eigenfunctions", 500, 100, seed=18, effort=0.05),
        ExtremePowers("extreme_powers", 500, 20, seed=19, effort=0.02),
        KernelColumns("kernel_columns", 300, 1, seed=20, effort=0.1),
        LocalCoordinates("local_coordinates", 2000, 30, seed=21, effort=1.5),
        Cost("cost", 2000, 10, seed=22, effort=2.0),
    )
}
