"""Plots: what is drawn is what was given, for few points and for many."""

from __future__ import annotations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.colors import to_hex
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.manifold import SpectralEmbedding

import heatsketch as hs
from heatsketch._utils.colors import read_colors
from heatsketch._utils.drawing import PALETTE


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return hs.GaussianProcessEmbedding(2, power=4, random_state=0).fit(hs.datasets.circle(120, random_state=0))


@pytest.fixture(scope="module")
def maps():
    return hs.DiffusionMaps(5, power=4).fit(hs.datasets.circle(120, random_state=0))


def points(n, k=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, k))


def entries(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn_values(collection):
    return dict(zip(map(tuple, collection.get_offsets()), collection.get_array(), strict=True))


class TestColors:
    def test_numbers_and_groups(self):
        for values in ([0.5, 1.5, 2.0], np.arange(50), {"a": 3, "b": 1.5}):
            names = list(values) if isinstance(values, dict) else None
            assert read_colors(values, len(values), names=names).groups is None
        for values in (["a", "b", "a"], [True, False, True], [3, 1, 3], pd.Series([1.5, 2.0, 1.5], dtype="category")):
            assert read_colors(values, 3).groups is not None
        assert read_colors([3, 1, 3], 3, categorical=False).groups is None
        assert read_colors([0.5, 1.5, 0.5], 3, categorical=True).groups == ("0.5", "1.5")

    def test_missing_values(self):
        for values in ([1.5, None, 2.5], [1.5, np.nan, 2.5], pd.array([1.5, pd.NA, 2.5]), [1.5, np.inf, 2.5]):
            np.testing.assert_array_equal(read_colors(values, 3).values, [1.5, np.nan, 2.5])
        dates = np.array(["2020-01-02", "NaT", "2020-01-01"], dtype="M8[ns]")
        for values in (["b", None, "a"], pd.Series(["b", np.nan, "a"]), pl.Series(["b", None, "a"]), dates):
            assert read_colors(values, 3).values.tolist() == [1, -1, 0]

    def test_groups_are_in_natural_order(self):
        assert read_colors(["g10", "g9", "g1"], 3).groups == ("g1", "g9", "g10")
        assert read_colors(["x", 10, 9], 3).groups == ("9", "10", "x")
        ordered = pd.Series(pd.Categorical(["low", "high", "low"], categories=["low", "middle", "high"]), name="level")
        assert read_colors(ordered, 3).groups == ("low", "high")
        assert read_colors(ordered, 3).label == "level"

    def test_small_groups_are_joined(self):
        values = np.repeat([f"g{i}" for i in range(40)], np.arange(1, 41))
        colors = read_colors(values, len(values))
        assert colors.groups[:-1] == tuple(f"g{i}" for i in range(19, 40))
        assert np.bincount(colors.values).tolist() == [*range(20, 41), sum(range(1, 20))]

    def test_mapping_goes_by_names(self):
        found = read_colors({"b": 2.5, "a": 1.5, "d": 0.0}, 3, names=["a", "b", "c"])
        np.testing.assert_array_equal(found.values, [1.5, 2.5, np.nan])
        with pytest.raises(ValueError, match="no names"):
            read_colors({0: 1}, 2)

    @pytest.mark.parametrize("color", ["red", [1, 2], np.ones((3, 2)), [(1,), (1, 2)]])
    def test_one_value_for_each_point(self, color):
        with pytest.raises(ValueError, match="3 points"):
            read_colors(color, 3)

    def test_text_has_no_colour_scale(self):
        with pytest.raises(ValueError, match="categorical=False"):
            read_colors(["a", "b"], 2, categorical=False)


class TestPoints:
    def test_columns(self, model, maps):
        ax = hs.plot_embedding(model)
        np.testing.assert_array_equal(
            np.sort(ax.collections[0].get_offsets(), axis=0), np.sort(model.embedding_, axis=0)
        )
        assert hs.plot_embedding(model, ax=ax) is ax
        ax = hs.plot_embedding(maps, dims=(3, 0))
        assert {*map(tuple, ax.collections[0].get_offsets())} == {*map(tuple, maps.embedding_[:, [3, 0]])}
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 3", "component 0")
        deep = hs.plot_embedding(maps, dims=(0, 1, 4))
        assert deep.get_zlabel() == "component 4"
        assert hs.plot_embedding(maps.embedding_[:, :3], ax=deep) is deep
        line = hs.plot_embedding(maps, dims=2).collections[0].get_offsets()
        assert {*map(tuple, line)} == {*zip(maps.embedding_[:, 2], range(120), strict=True)}

    def test_arrays_frames_and_other_estimators(self):
        Y = points(20, 2)
        for other in (Y, Y.tolist(), pd.DataFrame(Y), Y.astype(np.float32), SpectralEmbedding(affinity="rbf").fit(Y)):
            assert len(hs.plot_embedding(other).collections[0].get_offsets()) == 20

    def test_numbers(self):
        Y, values = points(50), np.linspace(0, 1, 50)
        values[:10] = np.nan
        ax = hs.plot_embedding(Y, color=values, label="height")
        missing, known = ax.collections
        assert {*map(tuple, missing.get_offsets())} == {*map(tuple, Y[:10])}
        assert known.get_clim() == (values[10], 1.0)
        assert drawn_values(known) == dict(zip(map(tuple, Y[10:]), values[10:], strict=True))
        assert ax.figure.axes[1].get_ylabel() == "height"
        assert entries(ax) == ["missing"]

    @pytest.mark.parametrize("max_points", [3, 10])
    def test_only_missing_values(self, max_points):
        ax = hs.plot_embedding(points(5), color=[None] * 5, max_points=max_points)
        assert entries(ax) == ["missing"]
        assert len(ax.figure.axes) == 1

    def test_groups(self):
        Y, names = points(30), np.array(["b", "a", None] * 10, dtype=object)
        ax = hs.plot_embedding(Y, color=names)
        assert entries(ax) == ["a", "b", "missing"]
        _, known = ax.collections
        drawn = {tuple(y): to_hex(c) for y, c in zip(known.get_offsets(), known.get_facecolors(), strict=True)}
        expected = {"a": PALETTE[0].lower(), "b": PALETTE[1].lower()}
        assert drawn == {tuple(y): expected[g] for y, g in zip(Y, names, strict=True) if g is not None}
        assert hs.plot_embedding(Y, color=names, legend=False).get_legend() is None

    def test_twenty_groups_have_different_colours(self):
        ax = hs.plot_embedding(points(400), color=np.arange(400) % 20)
        assert entries(ax) == [str(i) for i in range(20)]
        assert len({to_hex(one.get_color()) for one in ax.get_legend().legend_handles}) == 20

    def test_palette(self):
        Y = points(4)
        for palette in (["red", "lime", "blue"], {1: "lime", 0: "red"}):
            (drawn,) = hs.plot_embedding(Y, color=[0, 1, 1, 0], palette=palette).collections
            assert {to_hex(c) for c in drawn.get_facecolors()} == {"#ff0000", "#00ff00"}
        for palette in (["red"], {0: "red"}):
            with pytest.raises(ValueError, match="palette"):
                hs.plot_embedding(Y, color=[0, 1, 1, 0], palette=palette)

    def test_nodes_are_coloured_by_name(self):
        graph = nx.karate_club_graph()
        fitted = hs.DiffusionMaps(2, affinity="precomputed").fit(graph)
        assert entries(hs.plot_embedding(fitted, color=dict(graph.nodes(data="club")))) == ["Mr. Hi", "Officer"]

    def test_errors(self, model, maps):
        for dims in ((), (0, 1, 2, 3)):
            with pytest.raises(ValueError, match="dims"):
                hs.plot_embedding(maps, dims=dims)
        for wrong, shape in ((maps.embedding_[:, :3], None), (model, "3d")):
            with pytest.raises(ValueError, match="3d"):
                hs.plot_embedding(wrong, ax=plt.figure().add_subplot(projection=shape))
        for Y in (np.ones(3), np.ones((0, 2)), [["a", "b"]], [[np.nan, 1.0]], PCA().fit(points(5))):
            with pytest.raises(ValueError, match="finite"):
                hs.plot_embedding(Y)
        with pytest.raises(NotFittedError):
            hs.plot_embedding(hs.DiffusionMaps(2))
        with pytest.raises(ValueError, match="max_points"):
            hs.plot_embedding(model, max_points=0)


class TestCells:
    def test_every_point_is_counted(self):
        (image,) = hs.plot_embedding(points(60_000)).images
        assert image.get_array().sum() == 60_000

    def test_numbers_are_averaged_in_place(self):
        Y = np.repeat([[0.0, 0.0], [8.0, 2.0], [8.0, 0.0]], [30, 10, 2], axis=0)
        values = np.concatenate([np.tile([1.0, 3.0], 15), np.full(10, 5.0), [np.nan, np.nan]])
        grey, image = hs.plot_embedding(Y, color=values, max_points=5).images
        assert image.get_extent() == [0.0, 8.0, 0.0, 2.0]
        means = image.get_array()
        assert (means[0, 0], means[-1, -1], means.count()) == (2.0, 5.0, 2)
        assert np.argwhere(np.asarray(grey.get_array())[..., 3] > 0).tolist() == [[0, means.shape[1] - 1]]

    def test_groups_go_by_majority(self):
        Y = np.array([[0.0, 0.0]] * 4 + [[1.0, 1.0]] * 2)
        (image,) = hs.plot_embedding(Y, color=list("abbbaa"), max_points=5).images
        rgba = np.asarray(image.get_array())
        assert to_hex(rgba[0, 0]) == PALETTE[1].lower()
        assert to_hex(rgba[-1, -1]) == PALETTE[0].lower()
        assert rgba[0, 0, 3] > rgba[-1, -1, 3] > 0
        assert (rgba[..., 3] > 0).sum() == 2

    def test_space_is_sampled(self):
        ax = hs.plot_embedding(points(6, 3), color=np.arange(6.0), max_points=5)
        assert sum(len(one.get_offsets()) for one in ax.collections) == 5

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_points_that_coincide(self, k):
        ax = hs.plot_embedding(np.ones((20, k)), max_points=5)
        ax.figure.canvas.draw()
        low, high = ax.get_xlim()
        assert low < 1 < high


class TestMeasurements:
    def test_scales(self, model):
        scales = model.scales([1, 4])
        above, below = scales.plot()
        np.testing.assert_array_equal(above.lines[0].get_ydata(), scales.effective_dimension)
        np.testing.assert_array_equal(below.lines[0].get_ydata(), scales.distortion)

    def test_distortion(self, model, maps):
        ax = hs.plot_distortion(model)
        assert ax.collections[0].get_array().sum() == 120 * 119 // 2
        low, high = (line.get_ydata()[0] for line in ax.lines)
        assert high / low == pytest.approx(model.distortion().central[0.01], rel=1e-6)
        d, ratio = np.asarray(hs.plot_distortion(maps, n_points=20).collections[0].get_offsets()).T
        assert len(d) == 190
        assert ratio.max() <= 1.0 + 1e-9  # diffusion maps leave coordinates out

    def test_intervals(self, maps):
        pairs = np.array([[0, 1], [5, 60], [7, 8], [30, 2]])
        ax = hs.plot_intervals(maps, pairs, interval=0.9)
        distance, low, high = maps.diffusion_distances(pairs, interval=0.9)
        order = np.argsort(distance)
        bars = np.array(ax.collections[0].get_segments())
        np.testing.assert_allclose(bars[:, :, 1], np.column_stack([low, high])[order])
        drawn = np.vstack([one.get_offsets() for one in ax.collections[2:]])
        np.testing.assert_allclose(drawn[np.argsort(drawn[:, 0]), 1], distance[order])

    def test_random_pairs(self, model):
        def drawn(**options):
            return hs.plot_intervals(model, **options).collections[0].get_segments()

        assert len(drawn(n_pairs=50)) == 50
        np.testing.assert_array_equal(drawn(n_pairs=50), drawn(n_pairs=50))

    def test_spectrum(self, maps):
        ax = hs.plot_spectrum(maps)
        number, sizes = ax.lines[0].get_data()
        assert (np.diff(sizes) <= 0).all()
        np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], maps.eigenvalues_)
        np.testing.assert_allclose(ax.lines[1].get_ydata(), sizes**4)
        exact = np.sort(np.abs(np.linalg.eigvalsh(maps.kernel_.toarray())))[::-1][1:]
        # A trace over r modes, estimated from 16 random columns, has a standard deviation of at most sqrt(2 r / 16).
        r = np.arange(1, 41)
        assert (np.abs(np.interp(-exact[r - 1], -sizes, number) - r) < 1.0 + 4.0 * np.sqrt(r / 8.0)).all()
        for other in (maps.kernel_, maps.kernel_.toarray(), hs.spectral_density(maps.kernel_)):
            assert len(hs.plot_spectrum(other).lines) == 1
        h = hs.multiscale(maps.kernel_)
        kept = hs.plot_spectrum(maps, power=h).lines[1].get_ydata()
        np.testing.assert_allclose(kept, h(sizes) / h(sizes[0]))

    @pytest.mark.parametrize("draw", [hs.plot_distortion, hs.plot_intervals])
    def test_errors(self, draw):
        with pytest.raises(NotFittedError):
            draw(hs.DiffusionMaps(2))
        with pytest.raises(TypeError, match="ndarray"):
            draw(points(5))
