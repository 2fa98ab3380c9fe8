"""Side-by-side comparison: one kernel, the same measure for all methods, and fitted embeddings as input."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.spatial.distance import pdist

import heatsketch as hs
from heatsketch.analysis.distortion import TAIL

mpl.use("agg")
OPTIONS = {"power": 3, "bandwidth": 1.0}


@pytest.fixture(scope="module")
def X():
    return hs.datasets.stretched_torus(90, random_state=0)


@pytest.fixture(scope="module")
def comparison(X):
    return hs.compare_embeddings(X, 3, **OPTIONS, random_state=7)


def test_all_share_one_kernel_and_time(comparison):
    kernels = {id(one.model.kernel_) for one in comparison.embeddings}
    assert len(kernels) == 1
    assert {one.model.power_ for one in comparison.embeddings} == {3.0}
    assert {one.model.embedding_.shape for one in comparison.embeddings} == {(90, 3)}
    assert [one.name for one in comparison.embeddings] == ["DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch"]


def test_measures_match_their_definition(comparison):
    for one in comparison.embeddings:
        d = hs.diffusion_distances(one.model.kernel_, 3)
        dilation = pdist(one.model.embedding_) / d
        low, high = np.quantile(dilation, [TAIL, 1 - TAIL])
        assert one.log_distortion == pytest.approx(np.log(dilation.max() / dilation.min()))
        assert one.central_log_distortion == pytest.approx(np.log(high / low))
        assert one.median_error == pytest.approx(np.median(np.abs(dilation - 1)))
        assert one.seconds > 0


def test_embeddings_equal_separate_fits(comparison, X):
    maps = hs.DiffusionMaps(3, **OPTIONS).fit(X)
    sketch = hs.GaussianProcessEmbedding(3, **OPTIONS, random_state=7).fit(X)
    np.testing.assert_allclose(comparison["DiffusionMaps"].model.embedding_, maps.embedding_, atol=1e-12)
    np.testing.assert_array_equal(comparison["GaussianProcessEmbedding"].model.embedding_, sketch.embedding_)
    new = hs.datasets.stretched_torus(5, random_state=1)
    np.testing.assert_allclose(comparison["DiffusionMaps"].model.transform(new), maps.transform(new), atol=1e-12)


def test_fitted_embedding_represents_its_method(X):
    model = hs.GaussianProcessEmbedding(4, **OPTIONS, n_exact=2, random_state=0).fit(X)
    same = hs.compare_embeddings(model, methods=["DiffusionMaps", "GaussianProcessEmbedding"])
    assert same["GaussianProcessEmbedding"].model is model
    assert same["GaussianProcessEmbedding"].seconds is None
    fewer = hs.compare_embeddings(model, 2, methods=["GaussianProcessEmbedding"])["GaussianProcessEmbedding"].model
    assert fewer is not model
    assert fewer.embedding_.shape == (90, 2)
    assert fewer.kernel_ is model.kernel_


def test_own_options_are_kept_with_other_components(X):
    maps = hs.DiffusionMaps(5, **OPTIONS, normalization="stochastic", solver="randomized").fit(X)
    fewer = hs.compare_embeddings(maps, 2, methods=["DiffusionMaps"])["DiffusionMaps"].model
    assert fewer.solver == "randomized"
    assert fewer.normalization == "stochastic"
    np.testing.assert_allclose(fewer.embedding_, maps.embedding_[:, :2], atol=1e-6)


def test_random_points_are_measured_beyond_all_pairs(monkeypatch, X):
    monkeypatch.setattr("heatsketch.compare.ALL_PAIRS", 40)
    monkeypatch.setattr("heatsketch.compare._MAX_SEARCHED", 50)
    monkeypatch.setattr("heatsketch.compare._ANCHORS", 30)
    found = hs.compare_embeddings(X, 2, **OPTIONS, methods=["DiffusionMaps"])
    assert "30 random points" in found.measured
    assert found["DiffusionMaps"].log_distortion <= found["DiffusionMaps"].model.distortion().log


def test_search_finds_the_worst_pairs(monkeypatch, X):
    monkeypatch.setattr("heatsketch.compare.ALL_PAIRS", 40)
    monkeypatch.setattr("heatsketch.compare._ANCHORS", 10)
    found = hs.compare_embeddings(X, 2, **OPTIONS, methods=["DiffusionMaps"])
    assert "a search finds" in found.measured
    assert found["DiffusionMaps"].log_distortion == pytest.approx(found["DiffusionMaps"].model.distortion().log)


def test_table_frame_and_picture(comparison):
    assert len(str(comparison).splitlines()) == 5
    assert comparison._repr_html_().count(">HeatSketch</th>") == 1
    frame = comparison.to_frame()
    assert frame.loc["HeatSketch", "log_distortion"] == comparison["HeatSketch"].log_distortion
    axes = comparison.plot(color=np.arange(90))
    assert [ax.get_title().splitlines()[0] for ax in axes] == list(frame.index)
    plt.close("all")


def test_automatic_choices(X):
    found = hs.compare_embeddings(X, methods=["GaussianProcessEmbedding"], random_state=0)
    assert found.n_components == 2
    assert isinstance(found.power, hs.MultiscaleFilter)
    assert "multiscale" in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "HeatSketch"}, "as a list"),
        ({"methods": ["UMAP"]}, "UMAP"),
        ({"n_components": 0}, "n_components=0"),
    ],
)
def test_bad_arguments(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        hs.compare_embeddings(X, **arguments)


def test_unknown_and_superfluous_options(X, comparison):
    with pytest.raises(TypeError, match="bandwith"):
        hs.compare_embeddings(X, bandwith=1.0)
    with pytest.raises(ValueError, match="its own kernel"):
        hs.compare_embeddings(comparison["DiffusionMaps"].model, power=4)
    with pytest.raises(KeyError, match="UMAP"):
        comparison["UMAP"]
    with pytest.raises(ValueError, match=r"color.*\(3,\)"):
        comparison.plot(color=[1, 2, 3])
