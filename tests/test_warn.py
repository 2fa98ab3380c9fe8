"""Warnings: at the user's line, and once for all fits of a grid search."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import heatsketch as hs


@pytest.fixture
def search():
    pipeline = make_pipeline(hs.GaussianProcessEmbedding(kernel_params={"max_iter": 2}), KNeighborsClassifier())
    return GridSearchCV(pipeline, {"gaussianprocessembedding__n_components": [2, 3, 4]}, cv=3)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(90, 3)), np.repeat([0, 1, 2], 30)


@pytest.mark.parametrize(("action", "count"), [("default", 1), ("always", 10), ("ignore", 0)])
def test_grid_search_warns_as_the_filter_says(search, data, action, count):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        search.fit(*data)
    assert len(seen) == count
    assert {one.filename for one in seen} <= {__file__}


def test_every_line_of_the_user_warns(data):
    model = hs.GaussianProcessEmbedding(kernel_params={"max_iter": 2})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        model.fit(data[0])
        model.fit(data[0])
    assert [one.lineno for one in seen] == [seen[0].lineno, seen[0].lineno + 1]


def test_fit_of_minutes_is_announced_with_a_faster_way(monkeypatch, capsys):
    monkeypatch.setattr("heatsketch.kernel.plan._LONG", 0.0)
    X = np.random.default_rng(0).normal(size=(3000, 3))
    with pytest.warns(UserWarning, match=r"HeatSketch of 3,000 samples takes about .*; a fit to 300 random samples"):
        hs.HeatSketch().fit(X)
    hs.HeatSketch(verbose=True).fit(X)
    assert "takes about" in capsys.readouterr().err
