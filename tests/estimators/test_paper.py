"""Estimators against the paper's algorithms in NumPy, and their parameters in dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import heatsketch as hs
from heatsketch import reference

KERNELS = {"symmetric": reference.symmetric_kernel, "bistochastic": reference.bistochastic_kernel}
ESTIMATORS = [hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch]


@pytest.fixture(scope="module")
def X():
    return hs.datasets.circle(80, random_state=0)


@pytest.mark.parametrize("normalization", KERNELS)
@pytest.mark.parametrize("power", [1, 5])
def test_sketch_of_given_matrix(X, normalization, power):
    G = np.random.default_rng(0).normal(size=(len(X), 6))
    model = hs.GaussianProcessEmbedding(6, power=power, bandwidth=0.3, normalization=normalization, sketch=G).fit(X)
    Y = reference.embed(KERNELS[normalization](X, 0.3), G / np.sqrt(6), power)
    np.testing.assert_allclose(pdist(model.embedding_), pdist(Y), rtol=1e-6)
    shift = model.embedding_ - Y  # a constant trivial mode is left out
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-7)


@pytest.mark.parametrize("normalization", KERNELS)
def test_diffusion_maps(X, normalization):
    Y = hs.DiffusionMaps(3, power=4, bandwidth=0.3, normalization=normalization).fit_transform(X)
    expected = reference.diffusion_maps(KERNELS[normalization](X, 0.3), 3, 4)
    np.testing.assert_allclose(Y * np.sign((Y * expected).sum(axis=0)), expected, atol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unknown_keys_name_the_known_ones(X, estimator):
    with pytest.raises(ValueError, match="cutoff"):
        estimator(kernel_params={"cut": 0.1}).fit(X)
    with pytest.raises(ValueError, match="kernel_params"):
        estimator(kernel_params=3).fit(X)
    with pytest.raises(ValueError, match="tol"):
        estimator(kernel_params={"tol": -1}).fit(X)


@pytest.mark.parametrize("params", [{"rounds": 3}, {"n_rounds": 0}, {"width": 1}, {"regularization": -1}, 3])
def test_solver_params_are_checked(X, params):
    with pytest.raises(ValueError, match="solver_params"):
        hs.HeatSketch(2, solver_params=params).fit(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_constructors_are_short(estimator):
    assert len(estimator().get_params()) <= 16


def test_kernel_params_are_searched(X):
    labels = X[:, 0] > 0
    pipeline = make_pipeline(hs.DiffusionMaps(2, bandwidth=0.5), KNeighborsClassifier(3))
    grid = {"diffusionmaps__kernel_params": [None, {"diagonal": "zero"}]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, labels)
    assert search.best_params_["diffusionmaps__kernel_params"] in grid["diffusionmaps__kernel_params"]
    assert clone(search.best_estimator_[0]).get_params() == search.best_estimator_[0].get_params()
