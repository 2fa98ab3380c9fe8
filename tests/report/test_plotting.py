"""Pictures: what is drawn is what was given, for few points and for many."""

from __future__ import annotations

import runpy
from pathlib import Path

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
from heatsketch._utils.colors import Groups, Numbers, read_colors
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


class TestColors:
    def test_numbers_and_groups_are_told_apart(self):
        assert isinstance(read_colors([0.5, 1.5, 2.0], 3), Numbers)
        assert isinstance(read_colors(np.arange(50), 50), Numbers)
        for values in (["a", "b", "a"], [True, False, True], [3, 1, 3], pd.Series([1.5, 2.0, 1.5], dtype="category")):
            assert isinstance(read_colors(values, 3), Groups)
        for values in ({"x": 3, "y": 1}, {"x": 3, "y": None}):
            assert isinstance(read_colors(values, 2, names=["x", "y"]), Groups)
        assert isinstance(read_colors({"x": 3, "y": 1.5}, 2, names=["x", "y"]), Numbers)
        assert isinstance(read_colors([3, 1, 3], 3, categorical=False), Numbers)
        assert isinstance(read_colors([0.5, 1.5, 0.5], 3, categorical=True), Groups)

    def test_missing_values(self):
        for values in ([1.5, None, 2.5], [1.5, np.nan, 2.5], pd.array([1.5, pd.NA, 2.5]), [1.5, np.inf, 2.5]):
            np.testing.assert_array_equal(read_colors(values, 3).values, [1.5, np.nan, 2.5])
        for values in (["b", None, "a"], pd.Series(["b", np.nan, "a"]), pl.Series(["b", None, "a"])):
            colors = read_colors(values, 3)
            assert colors.codes.tolist() == [1, -1, 0]
            assert colors.names == ("a", "b")

    def test_groups_are_in_the_order_of_a_reader(self):
        assert read_colors(["g10", "g9", "g1"], 3).names == ("g1", "g9", "g10")
        assert read_colors(["x", 10, 9], 3).names == ("9", "10", "x")
        ordered = pd.Categorical(["low", "high", "low"], categories=["low", "middle", "high"])
        assert read_colors(ordered, 3).names == ("low", "high")
        assert read_colors(pd.Series(ordered, name="level"), 3).label == "level"

    def test_small_groups_are_joined(self):
        values = np.repeat([f"g{i}" for i in range(40)], np.arange(1, 41))
        colors = read_colors(values, len(values))
        assert colors.names == (*(f"g{i}" for i in range(19, 40)), "other (19 groups)")
        assert np.bincount(colors.codes).tolist() == [*range(20, 41), sum(range(1, 20))]

    def test_a_mapping_goes_by_names(self):
        assert read_colors({"b": 2.5, "a": 1.5, "c": 0.0}, 2, names=["a", "b"]).values.tolist() == [1.5, 2.5]
        with pytest.raises(ValueError, match="no value for 1 of 2 samples, such as 'b'"):
            read_colors({"a": 1}, 2, names=["a", "b"])
        with pytest.raises(ValueError, match="the samples have no names"):
            read_colors({0: 1}, 1)

    @pytest.mark.parametrize("color", ["red", [1, 2], np.ones((3, 2)), [(1,), (1, 2)]])
    def test_refusals(self, color):
        with pytest.raises(ValueError, match=r"color was given as .* value for each of the 3 points"):
            read_colors(color, 3)

    def test_dates_are_names(self):
        days = np.array(["2020-01-02", "NaT", "2020-01-01"], dtype="M8[ns]")
        colors = read_colors(days, 3)
        assert colors.codes.tolist() == [1, -1, 0]
        assert all(name.startswith("2020-01-0") for name in colors.names)

    def test_words_have_no_scale(self):
        with pytest.raises(ValueError, match="colours such as 'a'; a scale of colours needs numbers"):
            read_colors(["a", "b"], 2, categorical=False)


class TestPoints:
    def test_plane_and_space(self, model, maps):
        ax = hs.plot_embedding(model)
        np.testing.assert_array_equal(ax.collections[0].get_offsets(), model.embedding_)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 0", "component 1")
        assert hs.plot_embedding(model, ax=ax) is ax
        np.testing.assert_array_equal(hs.plot_embedding(maps).collections[0].get_offsets(), maps.embedding_[:, :2])
        ax = hs.plot_embedding(maps, dims=(3, 0))
        np.testing.assert_array_equal(ax.collections[0].get_offsets(), maps.embedding_[:, [3, 0]])
        deep = hs.plot_embedding(maps, dims=(0, 1, 4))
        assert deep.get_zlabel() == "component 4"
        assert hs.plot_embedding(maps.embedding_[:, :3], ax=deep) is deep
        line = hs.plot_embedding(maps, dims=2).collections[0].get_offsets()
        np.testing.assert_array_equal(line, np.column_stack([maps.embedding_[:, 2], np.arange(120)]))

    def test_whatever_has_an_embedding_is_drawn(self, model):
        Y = points(20, 2)
        for other in (Y, Y.tolist(), pd.DataFrame(Y), Y.astype(np.float32), SpectralEmbedding(affinity="rbf").fit(Y)):
            assert len(hs.plot_embedding(other).collections[0].get_offsets()) == 20

    def test_numbers(self):
        Y, values = points(50), np.linspace(0, 1, 50)
        values[:10] = np.nan
        ax = hs.plot_embedding(Y, color=values, label="height", vmax=2.0)
        missing, known = ax.collections
        np.testing.assert_array_equal(missing.get_offsets(), Y[:10])
        assert known.get_clim() == (values[10], 2.0)
        drawn = dict(zip(map(tuple, known.get_offsets()), known.get_array(), strict=True))
        assert drawn == dict(zip(map(tuple, Y[10:]), values[10:], strict=True))
        assert ax.figure.axes[1].get_ylabel() == "height"
        assert entries(ax) == ["missing"]

    @pytest.mark.parametrize("color", [[None] * 5, [np.nan] * 5])
    @pytest.mark.parametrize("max_points", [3, 10])
    def test_nothing_but_missing_values(self, color, max_points):
        ax = hs.plot_embedding(points(5), color=color, max_points=max_points)
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
        assert len(ax.figure.axes) == 1
        assert hs.plot_embedding(Y, color=names, legend=False).get_legend() is None

    def test_names_may_begin_with_anything(self):
        ax = hs.plot_embedding(points(40), color=np.array(["_hidden", "", "$x", " a"] * 10))
        assert sorted(entries(ax)) == ["", " a", "$x", "_hidden"]

    def test_twenty_groups_differ_in_colour_and_beyond_seven_in_shape(self):
        ax = hs.plot_embedding(points(400), color=np.arange(400) % 20)
        handles = ax.get_legend().legend_handles
        colors = [to_hex(one.get_color()) for one in handles]
        assert entries(ax) == [str(i) for i in range(20)]
        assert len(set(colors)) == 20
        assert [one.get_marker() for one in handles] == ["o"] * 7 + ["^"] * 7 + ["s"] * 6
        assert sum(len(one.get_offsets()) for one in ax.collections) == 400

    def test_palette(self):
        Y = points(4)
        for palette in (["red", "lime", "blue"], {1: "lime", 0: "red"}):
            (drawn,) = hs.plot_embedding(Y, color=[0, 1, 1, 0], palette=palette).collections
            assert {to_hex(c) for c in drawn.get_facecolors()} == {"#ff0000", "#00ff00"}
        with pytest.raises(ValueError, match="palette has 1 colours; 2 groups"):
            hs.plot_embedding(Y, color=[0, 1, 1, 0], palette=["red"])
        with pytest.raises(ValueError, match=r"no colour for the groups \['1'\]"):
            hs.plot_embedding(Y, color=[0, 1, 1, 0], palette={0: "red"})

    def test_nodes_are_coloured_by_name(self):
        graph = nx.karate_club_graph()
        fitted = hs.DiffusionMaps(2, affinity="precomputed").fit(graph)
        assert entries(hs.plot_embedding(fitted, color=dict(graph.nodes(data="club")))) == ["Mr. Hi", "Officer"]

    def test_axes_that_share_their_limits(self):
        _, axes = plt.subplots(1, 2, sharex=True, sharey=True)
        for ax in axes:
            hs.plot_embedding(points(10), ax=ax)
        axes[0].figure.canvas.draw()
        assert axes[0].get_xlim() == axes[1].get_xlim()
        assert axes[0].get_aspect() == 1.0  # a unit is as long along both axes

    def test_refusals(self, model, maps):
        with pytest.raises(ValueError, match=r"dims=\(0, 7\) were given; .* between 0 and 4"):
            hs.plot_embedding(maps, dims=(0, 7))
        for dims in ((), (1, 1), (0, 1, 2, 3), "ab", (0.0, 1.0)):
            with pytest.raises(ValueError, match="one to three different columns"):
                hs.plot_embedding(maps, dims=dims)
        with pytest.raises(ValueError, match="flat axes were given for three columns"):
            hs.plot_embedding(maps, dims=(0, 1, 2), ax=plt.figure().add_subplot())
        with pytest.raises(ValueError, match="axes in space were given"):
            hs.plot_embedding(model, ax=plt.figure().add_subplot(projection="3d"))
        for Y in (np.ones(3), np.ones((0, 2)), [["a", "b"]], [[np.nan, 1.0]]):
            with pytest.raises(ValueError, match="finite numbers of shape"):
                hs.plot_embedding(Y)
        with pytest.raises(NotFittedError):
            hs.plot_embedding(hs.DiffusionMaps(2))
        with pytest.raises(TypeError, match="PCA was given, which has no embedding_"):
            hs.plot_embedding(PCA().fit(points(5)))
        with pytest.raises(ValueError, match="max_points=0 was given"):
            hs.plot_embedding(model, max_points=0)
        assert not model.__dict__.keys() & {"_witness"}


class TestCells:
    def test_every_point_is_counted(self):
        (image,) = hs.plot_embedding(points(60_000)).images
        assert image.get_array().sum() == 60_000

    def test_cells_are_where_their_points_are(self):
        Y = np.repeat([[0.0, 0.0], [8.0, 2.0]], [30, 10], axis=0)
        ax = hs.plot_embedding(Y, color=np.repeat([1.0, 3.0], [30, 10]), max_points=5)
        (image,) = ax.images
        values = image.get_array()
        assert image.get_extent() == [0.0, 8.0, 0.0, 2.0]
        assert values[0, 0] == 1.0
        assert values[-1, -1] == 3.0
        assert values.count() == 2

    def test_numbers_are_averaged_and_missing_ones_left_out(self):
        Y = np.array([[0.0, 0.0]] * 4 + [[1.0, 1.0]] * 2)
        ax = hs.plot_embedding(Y, color=[1.0, 2.0, 6.0, np.nan, np.nan, np.nan], max_points=5)
        grey, image = ax.images
        assert image.get_array().compressed().tolist() == [3.0]
        assert (np.asarray(grey.get_array())[..., 3] > 0).sum() == 1

    def test_groups_go_by_majority(self):
        Y = np.array([[0.0, 0.0]] * 4 + [[1.0, 1.0]] * 2)
        (image,) = hs.plot_embedding(Y, color=list("abbbaa"), max_points=5).images
        rgba = np.asarray(image.get_array())
        assert to_hex(rgba[0, 0]) == PALETTE[1].lower()
        assert to_hex(rgba[-1, -1]) == PALETTE[0].lower()
        assert rgba[0, 0, 3] > rgba[-1, -1, 3] > 0
        assert (rgba[..., 3] > 0).sum() == 2

    @pytest.mark.parametrize("color", [None, "numbers", "groups"])
    def test_space(self, color):
        Y = np.array([[0.0, 0.0, 0.0]] * 4 + [[1.0, 1.0, 1.0]] * 2)
        colors = {None: None, "numbers": np.arange(6.0), "groups": list("abbbaa")}[color]
        ax = hs.plot_embedding(Y, color=colors, max_points=5)
        (drawn,) = ax.collections
        assert len(drawn.get_offsets()) == 2
        ax.figure.canvas.draw()

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_points_that_coincide(self, k):
        ax = hs.plot_embedding(np.ones((20, k)), max_points=5)
        ax.figure.canvas.draw()
        low, high = ax.get_xlim()
        assert low < 1 < high
        assert ax.images or ax.collections

    def test_a_million_points(self):
        Y = points(1_000_000)
        ax = hs.plot_embedding(Y, color=np.arange(1_000_000) % 20)
        assert not ax.collections
        assert len(ax.images) == 1


class TestAnswers:
    def test_scales(self, model):
        scales = model.scales([1, 4])
        for above, below in (hs.plot_scales(scales), hs.plot_scales(model, [1, 4])):
            np.testing.assert_array_equal(above.lines[0].get_ydata(), scales.effective_dimension)
            np.testing.assert_array_equal(below.lines[0].get_ydata(), scales.distortion)
        assert hs.plot_scales(scales, axes=(above, below)) == (above, below)
        with pytest.raises(ValueError, match="measured already"):
            hs.plot_scales(scales, [1, 2])

    def test_distortion(self, model):
        ax = hs.plot_distortion(model)
        drawn = ax.collections[0].get_array()
        assert drawn.sum() == 120 * 119 // 2
        low, high = (line.get_ydata()[0] for line in ax.lines)
        assert high / low == pytest.approx(model.distortion(quantiles=(0.01,)).central[0.01], rel=1e-6)
        assert entries(ax) == [f"98% of pairs within a factor of {high / low:.3g}"]

    def test_distortion_of_few_pairs(self, maps):
        ax = hs.plot_distortion(maps, n_points=20)
        d, ratio = np.asarray(ax.collections[0].get_offsets()).T
        assert len(d) == 190
        true = np.sort(hs.diffusion_distances(maps.kernel_, 4))
        assert np.isclose(true[np.searchsorted(true, d * (1 - 1e-9))], d).all()
        assert ratio.max() <= 1.0 + 1e-9  # diffusion maps leave coordinates out
        assert hs.plot_distortion(maps, n_points=5, ax=ax) is ax

    def test_intervals(self, maps):
        pairs = np.array([[0, 1], [5, 60], [7, 8], [30, 2]])
        ax = hs.plot_intervals(maps, pairs, interval=0.9)
        distance, low, high = maps.diffusion_distances(pairs, interval=0.9)
        order = np.argsort(distance)
        bars = np.array(ax.collections[0].get_segments())
        np.testing.assert_allclose(bars[:, 0, 1], low[order])
        np.testing.assert_allclose(bars[:, 1, 1], high[order])
        drawn = np.vstack([one.get_offsets() for one in ax.collections[2:]])
        np.testing.assert_allclose(drawn[np.argsort(drawn[:, 0]), 1], distance[order])
        outside = (distance < low) | (distance > high)
        wrong = [text for text in entries(ax) if "outside" in text]
        assert wrong == [f"embedding, outside of it ({outside.sum()} of 4)"] * bool(outside.any())

    def test_random_pairs(self, model):
        def drawn(**options):
            ax = hs.plot_intervals(model, **options)
            return ax.collections[0].get_segments(), ax

        first, ax = drawn(n_pairs=50)
        assert len(first) == 50
        assert entries(ax) == ["0.95 interval", "embedding"]  # a sketch's own interval contains its distance
        np.testing.assert_array_equal(first, drawn(n_pairs=50)[0])
        assert not np.array_equal(first, drawn(n_pairs=50, random_state=1)[0])
        assert len(drawn(n_pairs=10_000)[0]) == 120 * 119 // 2

    def test_spectrum(self, maps):
        ax = hs.plot_spectrum(maps)
        number, sizes = ax.lines[0].get_data()
        assert (np.diff(sizes) <= 0).all()
        assert number[-1] == pytest.approx(119, rel=0.05)  # nontrivial modes; the last node stands for several
        np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], maps.eigenvalues_)
        np.testing.assert_allclose(ax.lines[1].get_ydata(), sizes**4)
        exact = np.sort(np.abs(np.linalg.eigvalsh(maps.kernel_.toarray())))[::-1][1:]
        # A trace over r modes, estimated from 16 random columns, has a standard deviation of at most sqrt(2 r / 16).
        r = np.arange(1, 41)
        assert (np.abs(np.interp(-exact[r - 1], -sizes, number) - r) < 1.0 + 4.0 * np.sqrt(r / 8.0)).all()
        for other in (maps.kernel_, maps.kernel_.toarray(), hs.spectral_density(maps.kernel_)):
            assert len(hs.plot_spectrum(other).lines) == 1
        assert len(hs.plot_spectrum(maps.kernel_, power=2).lines) == 2

    @pytest.mark.parametrize("draw", [hs.plot_scales, hs.plot_distortion, hs.plot_intervals])
    def test_only_fitted_embeddings_answer(self, draw):
        with pytest.raises(NotFittedError):
            draw(hs.DiffusionMaps(2))
        with pytest.raises(TypeError, match="ndarray was given"):
            draw(points(5))
        with pytest.raises(TypeError, match="PCA was given"):
            hs.plot_spectrum(PCA().fit(points(5)))

    def test_of_many_items_some_are_drawn(self, monkeypatch):
        A, B = (hs.heat_kernel(hs.datasets.circle(60, random_state=s), bandwidth=0.5) for s in (0, 1))
        comparison = hs.compare_kernels(A, B, random_state=0)
        monkeypatch.setattr("heatsketch.analysis.comparison._DRAWN", 20)
        ax = comparison.plot()
        assert len(ax.lines) == 20
        assert [len(one.get_offsets()) for one in ax.collections] == [20, 20]


def test_the_example_draws(tmp_path):
    script = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pictures.py"))
    script["main"](["--output", str(tmp_path), "--samples", "150"])
    assert (tmp_path / "pictures.png").stat().st_size > 20_000
