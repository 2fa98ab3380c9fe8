"""An interrupted or failed fit leaves the estimator as it was."""

from __future__ import annotations

import numpy as np
import pytest

import heatsketch as hs

X = hs.datasets.stretched_torus(90, random_state=0)
OTHER = hs.datasets.klein_bottle(80, random_state=1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), ZeroDivisionError()])
def test_error_inside_a_fit_leaves_the_estimator_unchanged(error):
    calls = iter(range(150))

    def distance(x, y):
        if next(calls, None) is None:
            raise error
        return float(np.linalg.norm(x - y))

    model = hs.GaussianProcessEmbedding(2, bandwidth=1.0, random_state=0).fit(X).set_params(metric=distance)
    before = dict(vars(model))
    with pytest.raises(type(error)):
        model.fit(OTHER[:30])
    assert vars(model) == before


@pytest.mark.parametrize("method", ["fit", "add_components"])
def test_interrupted_optimisation_leaves_the_estimator_unchanged(method):
    def interrupt(found):
        if found.number >= 1:
            raise KeyboardInterrupt

    model = hs.HeatSketch(2, n_rounds=4, n_steps=3, random_state=0).fit(X).set_params(callback=interrupt)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER) if method == "fit" else model.add_components(1)
    assert vars(model) == before
