"""Sentences of a report: its summary, and what facts about an embedding mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.diagnosis import Finding
from ..estimators import HeatSketch
from ..kernel.affinity import GaussianAffinity
from .contents import Contents

__all__ = ["FACTS", "advice", "percent", "summary"]

# Below the first share of near neighbours a picture is not good; above the second share of random points that are as
# near, the first one says little.
_GOOD, _SAYS_LITTLE = 0.75, 0.5

FACTS = {
    "features": "columns of numbers that were embedded",
    "components": "coordinates of each point in the embedding",
    "samples": "points, and the precision of their numbers",
    "kernel": "which points exchange heat",
    "bandwidth": "how far heat goes in a step",
    "normalisation": "how the exchange of heat is balanced",
    "power": "the diffusion time: for how long heat spreads",
    "seed": "where the random numbers start",
}


def percent(share: float) -> str:
    """A share in words; none and all only if that is so."""
    if 0.0 < share < 0.005:
        return "less than 1%"
    return "more than 99%" if 0.995 <= share < 1.0 else f"{share:.0%}"


def advice(finding: Finding) -> str:
    """What to do about a finding; which neighbours are false, the page shows itself."""
    if finding.name != "dimension":
        return finding.remedy
    return f"This is usual for a picture: “Shade by trust” shows where. {finding.remedy.partition('. ')[2]}"


def summary(model: Any, contents: Contents) -> list[str]:
    """What was embedded; how well the picture keeps neighbours and distances; what looks wrong, or comes next."""
    return [_embedded(model, contents.n_columns), _kept(contents), _next(model, contents)]


def _embedded(model: Any, n_columns: int) -> str:
    n, k, affinity = model.kernel_.shape[0], model.n_components_, model.kernel_.affinity
    if not isinstance(affinity, GaussianAffinity):
        what = f"the {n:,} vertices of a graph"
    elif affinity.metric.precomputed:
        what = f"{n:,} points, given by their distances,"
    else:
        what = f"{n:,} rows of {n_columns:,} column{'s' * (n_columns != 1)}"
        if n_columns != model.n_features_in_:
            what += f", encoded as {model.n_features_in_:,},"
    axes = "its two main axes" if isinstance(model, HeatSketch) else "the first two"
    drawn = f"; the picture shows {axes}" if k > 2 else ""
    return f"{type(model).__name__} embedded {what} in {k} component{'s' * (k > 1)}{drawn}."


def _kept(contents: Contents) -> str:
    figures, k = contents.figures[0], contents.n_neighbors
    near, chance = percent(figures.near), percent(contents.near_by_chance)
    nearest = f"Of each point's {k} nearest neighbours" if k > 1 else "Of all nearest neighbours"
    kept = f"{nearest} in the picture, {near} are near in the data, too"
    if contents.near_by_chance < _SAYS_LITTLE:
        kept += f" (of random points, {chance} are)."
    else:
        kept += f", but so are {chance} of random points: this says little."
    if np.isnan(figures.in_order):
        return kept
    order = f"the longer one in the picture is the longer one in the data in {percent(figures.in_order)} of cases"
    return f"{kept} Of two distances, {order} (50% would be chance)."


def _next(model: Any, contents: Contents) -> str:
    if contents.diagnosis:
        first, *others = contents.diagnosis
        start = "Do not rely on this picture yet" if first.harmful else "Worth knowing"
        more = f" {len(others)} more below." if others else ""
        return f"{start}: {first.message[0].lower()}{first.message[1:]} {advice(first)}{more}"
    if contents.figures[0].near >= _GOOD:
        k = model.n_components_
        shown = "" if k <= 2 else f" with the {k} components; the picture shows two axes of them, and keeps less"
        return f"Nothing looks wrong{shown}. “Shade by trust” shows which points are placed best and worst."
    better = "compare the other methods below"
    if model.n_components_ > 2:
        better = "for a picture, two components of HeatSketch are a better choice"
    return (
        "Data and settings look right, but many neighbours in the picture are false. “Shade by trust” shows where; "
        f"{better}."
    )
