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
def test_interrupted_optimisation_leaves_the_estimator_unchanged(method, monkeypatch):
    def interrupt(*_args):
        raise KeyboardInterrupt

    model = hs.HeatSketch(2, solver_params={"n_rounds": 1}, random_state=0).fit(X)
    before = dict(vars(model))
    # The last step, after attributes were set.
    monkeypatch.setattr("heatsketch.estimators.heat_sketch.kernel_distortion", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER) if method == "fit" else model.add_components(1)
    assert vars(model) == before
