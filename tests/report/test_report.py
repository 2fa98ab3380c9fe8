"""The report: the file holds what the embedding says, treats text as text, and bad arguments raise errors."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import heatsketch as hs
from heatsketch.analysis.diagnosis import Diagnosis, Finding
from heatsketch.estimators._base import HeatEmbedding
from heatsketch.report import page
from heatsketch.report.contents import _exact_distances, _fast, gather
from heatsketch.report.points import (
    MAX_COLORS,
    PALETTE,
    encode_cells,
    encode_column,
    encode_fine_cells,
    encode_intervals,
    encode_points,
    feature_columns,
    read_columns,
    read_names,
    scaled,
)
from heatsketch.report.words import percent, summary

N = 120
EVIL = '</script><img src=x onerror="alert(1)"><b>&amp;</b>'


@pytest.fixture(scope="module")
def X():
    return hs.datasets.stretched_torus(N, random_state=0)


@pytest.fixture(scope="module")
def model(X):
    return hs.GaussianProcessEmbedding(5, power=4, bandwidth=1.0, random_state=0).fit(X)


@pytest.fixture(scope="module", params=["bistochastic", "symmetric", "stochastic"])
def fitted(request):
    X = hs.datasets.stretched_torus(700, random_state=0)
    return hs.HeatSketch(normalization=request.param, random_state=0).fit(X)


@pytest.fixture(scope="module")
def contents(model):
    return gather(model)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    columns = {"number": np.append(np.nan, np.arange(N - 1.0)), EVIL: [EVIL, None] * (N // 2)}
    names = [f"{n} {EVIL}" for n in range(N)]
    hs.write_report(model, path, names=names, columns=columns, title=EVIL, methods=False, call=EVIL)
    return path.read_text("utf-8")


def data_of(text):
    """What the script of the page reads."""
    packed = re.search(r'<script type="text/plain" id="data">(.*?)</script>', text)[1]
    data = gzip.decompress(base64.b85decode(packed.replace(":", "<")))
    end = 4 + int.from_bytes(data[:4], "little")

    def with_bytes(found):
        return found | {"data": data[end:][slice(*found["data"])]} if "kind" in found else found

    return json.loads(data[4:end], object_hook=with_bytes)


def array(found):
    kinds = {"Int16Array": "<i2", "Uint16Array": "<u2", "Uint32Array": "<u4", "Float32Array": "<f4", "Uint8Array": "u1"}
    kind = np.dtype(kinds[found["kind"]])
    return np.frombuffer(found["data"], "u1").reshape(kind.itemsize, -1).T.copy().view(kind).ravel()


def finest(found):
    """Coordinates of the finest cells of all points, in the order in which they are stored, (n, 2)."""
    bits = np.cumsum(array(found["steps"]).astype(np.uint64))[:, None] >> np.arange(
        2 * found["bits"], dtype=np.uint64
    ) & np.uint64(1)
    weights = np.uint64(1) << np.arange(found["bits"], dtype=np.uint64)
    return np.column_stack([bits[:, ::2] @ weights, bits[:, 1::2] @ weights]).astype(int)


def restored(points):
    """Points relative to the centre of their box."""
    axes = np.array([array(axis) for axis in points["axes"]])
    return (axes.T.astype(float) - points["steps"] - 1) / points["steps"] * points["radius"]


def intervals(stored):
    """The ends of intervals."""
    centre = stored["centre"]["scale"] * array(stored["centre"]["values"]).astype(float)
    half = centre * (array(stored["width"]) / 65535)
    return centre - half, centre + half


def ends(pairs):
    """Indices of the random points between which distances are stored, (n_pairs, 2)."""
    names = np.array(pairs["names"]).astype(int)
    return np.column_stack([names[part] for part in np.triu_indices(len(names), 1)])


def centred(Y):
    return Y - (Y.min(axis=0) + Y.max(axis=0)) / 2


class TestContents:
    def test_distances_are_those_of_the_embedding(self, model, contents):
        pairs = contents.data["pairs"]
        indices = ends(pairs)
        estimate, low, high = model.diffusion_distances(indices, interval=0.95)
        exact = hs.diffusion_distances(model.kernel_, 4, indices)
        for name, values in {"embedded": estimate, "low": low, "high": high, "exact": exact}.items():
            np.testing.assert_allclose(pairs[name], values, rtol=1e-5)

    def test_pictures_are_the_embeddings_at_each_time(self, contents, X):
        data = contents.data
        assert [one["name"] for one in data["methods"]] == ["GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch"]
        assert data["powers"][data["chosen"]] == 4
        maps = hs.DiffusionMaps(3, power=4, bandwidth=1.0).fit(X)
        solid = data["methods"][1]["solid"]
        np.testing.assert_allclose(restored(solid), centred(maps.embedding_), atol=solid["radius"] / 4000)
        own = hs.GaussianProcessEmbedding(2, power=4, bandwidth=1.0, random_state=0).fit(X)
        for points, Y in zip(data["methods"][0]["flat"], own.at_powers(data["powers"]), strict=True):
            np.testing.assert_allclose(restored(points), centred(Y), atol=points["radius"] / 4000)
        kept = [[one is not None for one in method["flat"]] for method in data["methods"]]
        assert kept[0] == [True] * len(data["powers"])
        assert kept[1] == kept[2] == [at == data["chosen"] for at in range(len(data["powers"]))]

    def test_curves_are_those_of_the_spectrum(self, model, contents):
        curves, density = contents.data["curves"], hs.spectral_density(model.kernel_)
        np.testing.assert_allclose(curves["entropy"], density.entropy(contents.data["powers"]), rtol=1e-5)
        exact = np.sort(np.linalg.eigvalsh(model.kernel_.toarray()))[::-1][1:13]
        np.testing.assert_allclose(curves["eigenvalues"], exact, rtol=1e-5, atol=1e-8)

    def test_comparison_measures_the_pictures(self, contents):
        pairs, exact = ends(contents.data["pairs"]), np.array(contents.data["pairs"]["exact"])
        for method, found in zip(contents.data["methods"], contents.figures, strict=True):
            assert method["name"] == found.name
            plane = restored(method["flat"][contents.data["chosen"]])
            drawn = np.linalg.norm(plane[pairs[:, 0]] - plane[pairs[:, 1]], axis=1)
            ratio = drawn / exact
            low, high = np.quantile(ratio, [0.01, 0.99])
            assert found.distortion == pytest.approx(np.log(high / low), abs=0.02)
            assert found.distortion == pytest.approx(method["distortion"][contents.data["chosen"]], rel=1e-4)
            assert found.median_error == pytest.approx(np.median(np.abs(ratio - 1.0)), abs=1e-3)
            i, j = np.triu_indices(len(exact), 1)
            same = np.mean((exact[i] < exact[j]) == (drawn[i] < drawn[j]))
            assert found.in_order == pytest.approx(same, abs=1e-3)

    def test_trust_is_that_of_the_picture(self, X, contents):
        picture = hs.GaussianProcessEmbedding(2, power=4, bandwidth=1.0, random_state=0).fit(X)
        support = picture.unsupported_neighbors(n_points=None)  # of the two components that are drawn
        trust = contents.data["trust"]
        np.testing.assert_array_equal(array(trust["counts"]), support.supported.sum(axis=1))
        assert (trust["k"], trust["every"], contents.n_neighbors) == (15, True, 15)
        assert contents.figures[0].near == pytest.approx(support.share.mean())
        assert 0.0 < contents.near_by_chance < contents.figures[0].near

    def test_trust_of_many_points_is_that_of_a_sample(self, X, monkeypatch):
        model = hs.HeatSketch(random_state=0).fit(X)
        whole = gather(model, methods=False).data["trust"]
        monkeypatch.setattr("heatsketch.report.contents._FEW", 50)
        monkeypatch.setattr("heatsketch.report.contents._FEW_POINTS", 30)
        data = gather(model, methods=False, max_points=70).data
        assert not data["trust"]["every"]
        rows = array(data["drawn"])[array(data["few"])]
        np.testing.assert_array_equal(array(data["trust"]["counts"]), array(whole["counts"])[rows])

    @pytest.mark.parametrize("normalization", ["bistochastic", "symmetric", "stochastic"])
    @pytest.mark.parametrize("power", [4, "multiscale"])
    def test_distances_are_exact_at_every_time(self, X, power, normalization):
        options = {"bandwidth": 1.0, "normalization": normalization, "random_state": 0}
        model = hs.GaussianProcessEmbedding(2, power=power, **options).fit(X)
        filters = [1.0, 4.0] if power == 4 else [*map(float, model.power_.times), model.power_]
        anchors, found = _exact_distances(model.kernel_, filters)
        i, j = np.triu_indices(len(anchors), 1)
        for d, h in zip(found, filters, strict=True):
            exact = hs.diffusion_distances(model.kernel_, h, np.column_stack([anchors[i], anchors[j]]))
            np.testing.assert_allclose(d, exact, rtol=1e-6)

    @pytest.mark.parametrize("kind", [hs.DiffusionMaps, hs.GaussianProcessEmbedding, hs.HeatSketch])
    @pytest.mark.parametrize("components", [2, 3, 5])
    def test_nothing_is_fitted_twice(self, monkeypatch, X, kind, components):
        model = kind(components, power=4, bandwidth=1.0).fit(X)
        fitted = []
        embed = HeatEmbedding._embed

        def counted(self, *args):
            embed(self, *args)
            fitted.append((type(self), self.n_components_))

        monkeypatch.setattr(HeatEmbedding, "_embed", counted)
        found = gather(model)
        wanted = {(hs.DiffusionMaps, 12), (hs.GaussianProcessEmbedding, 3), (hs.HeatSketch, 2)}
        wanted = {(other, k) for other, k in wanted if other is not kind}
        if components == 2 and kind is not hs.HeatSketch:  # which adds a component to the plane
            wanted |= {(kind, 3)}
        assert len(fitted) == len(wanted)
        assert set(fitted) == wanted
        if components == 5:  # HeatSketch is drawn along its principal axes
            own, Y = found.data["methods"][0], model.embedding_
            for d, points in ((2, own["flat"][found.data["chosen"]]), (3, own["solid"])):
                drawn = restored(points)
                scale = np.sqrt(components / d) if kind is hs.GaussianProcessEmbedding else 1.0
                if kind is hs.HeatSketch:
                    wanted_axes = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False)[:d]
                    got = np.linalg.svd(drawn - drawn.mean(axis=0), compute_uv=False)
                    np.testing.assert_allclose(got, wanted_axes, rtol=1e-3)
                else:
                    np.testing.assert_allclose(drawn, centred(scale * Y[:, :d]), atol=3e-4 * np.ptp(drawn))

    def test_findings_are_those_of_the_embedding(self, model, contents):
        assert contents.diagnosis == model.diagnose()

    def test_neighbours_come_with_their_intervals(self, model, contents):
        near = contents.data["near"]
        neighbors = array(near["points"]).reshape(N, near["k"]).astype(int)
        plane = restored(contents.data["methods"][0]["flat"][contents.data["chosen"]])
        squared = np.square(plane[:, None] - plane[None]).sum(axis=2) + np.diag(np.full(N, 1e9))
        found = np.take_along_axis(squared, neighbors, axis=1)
        np.testing.assert_allclose(found, np.sort(squared, axis=1)[:, :5], rtol=1e-2, atol=1e-3 * np.ptp(plane) ** 2)
        _, low, high = model.diffusion_distances(np.column_stack([np.arange(N), neighbors[:, 2]]), interval=0.95)
        stored = [end.reshape(N, near["k"])[:, 2] for end in intervals(near)]
        np.testing.assert_allclose(stored, [low, high], rtol=1e-2)
        assert (stored[0] <= low).all()
        assert (high <= stored[1]).all()

    def test_features_are_offered_by_name(self, X):
        fitted = hs.DiffusionMaps(2, power=2, bandwidth=1.0).fit(pd.DataFrame(X, columns=list("abcd")))
        first, second = gather(fitted, methods=False).data["columns"][:2]
        assert (first["name"], second["name"]) == ("a", "b")
        np.testing.assert_allclose(second["scale"] * array(second["values"]), X[:, 1], rtol=1e-6)
        assert feature_columns(np.zeros((3, 100))) == []

    def test_features_of_many_points_are_few_and_rounded(self):
        X = np.random.default_rng(0).normal(size=(10_000, 30))
        found = feature_columns(X, n_drawn=10_000)
        assert 5 < len(found) < 30
        np.testing.assert_allclose(found[0].values, X[:, 0], rtol=5e-3)
        assert len(feature_columns(X, n_drawn=1_000_000)) == 0

    def test_many_points_are_sampled_and_counted_in_cells(self, model, contents):
        few = gather(model, max_points=50, methods=False)
        assert len(array(few.data["drawn"])) == 50
        cells = few.data["methods"][0]["cells"]
        assert all(array(one["counts"]).sum() == N for one in cells)
        assert [at for at, one in enumerate(cells) if "fine" in one] == [few.data["chosen"]]
        assert len(finest(cells[few.data["chosen"]]["fine"])) == N
        assert "50" in few.notes[0]
        assert not any("sample" in note for note in contents.notes)

    @pytest.mark.parametrize("components", [2, 4])
    def test_very_many_points_are_not_embedded_again(self, monkeypatch, X, components):
        for name in ("_MANY", "_VERY_MANY"):
            monkeypatch.setattr(f"heatsketch.report.contents.{name}", N - 1)
        maps = hs.DiffusionMaps(components, power=4, bandwidth=1.0).fit(X)
        found = gather(maps)
        own, other = found.data["methods"]
        assert (own["name"], other["name"]) == ("DiffusionMaps", "GaussianProcessEmbedding")
        flat = own["flat"][found.data["chosen"]]
        np.testing.assert_allclose(restored(flat), centred(maps.embedding_[:, :2]), atol=flat["radius"] / 60000)
        assert own["solid"] is None if components == 2 else len(own["solid"]["axes"]) == 3
        assert [at for at, one in enumerate(own["distortion"]) if one is not None] == [found.data["chosen"]]

    def test_tasks_side_by_side_change_nothing(self, monkeypatch, X):
        model = hs.HeatSketch(random_state=0).fit(X)
        together = gather(model)
        monkeypatch.setattr("heatsketch.report.contents._FEW", 0)
        apart = gather(model)
        assert together.data == apart.data
        assert (together.diagnosis, together.figures) == (apart.diagnosis, apart.figures)


class TestManyPoints:
    """Of many points the kernel is multiplied in float32, and intervals come from a narrow sketch."""

    @pytest.fixture(autouse=True)
    def many(self, monkeypatch):
        monkeypatch.setattr("heatsketch.report.contents._MANY", 500)

    def test_kernel_is_the_same_in_single_precision(self, fitted):
        V = np.random.default_rng(0).normal(size=(700, 3))
        fast = _fast(fitted.kernel_)
        assert fast.dtype == np.float32
        np.testing.assert_allclose(fast @ V, fitted.kernel_ @ V, atol=1e-5)

    def test_weighted_and_equal_points_keep_their_kernel(self):
        X = hs.datasets.stretched_torus(600, random_state=0)
        for model in (hs.HeatSketch().fit(X, sample_weight=np.arange(1, 601)), hs.HeatSketch().fit(np.tile(X, (2, 1)))):
            assert _fast(model.kernel_) is model.kernel_

    def test_pictures_distances_and_findings_are_those_of_the_model(self, fitted):
        found = gather(fitted)
        data, pairs = found.data, ends(found.data["pairs"])
        for points, Y in zip(data["methods"][0]["flat"], fitted.at_powers(data["powers"]), strict=False):
            np.testing.assert_allclose(restored(points), centred(Y), atol=points["radius"] / 1000)
        exact = hs.diffusion_distances(fitted.kernel_, fitted.power_, pairs)
        np.testing.assert_allclose(data["pairs"]["exact"], exact, rtol=1e-3)
        low, high = np.array(data["pairs"]["low"]), np.array(data["pairs"]["high"])
        assert np.mean((low <= exact) & (exact <= high)) > 0.8  # correlated, so that it is not exactly 0.95
        assert found.diagnosis.names == fitted.diagnose().names


class TestPoints:
    def test_coordinates_are_accurate_at_any_scale(self):
        Y = np.random.default_rng(0).normal(size=(500, 2)) * [1e-30, 3e-30] + 1e-28
        found = encode_points(Y, np.arange(100, 200), 3)
        np.testing.assert_allclose(restored(found)[:, :2], centred(Y)[100:200], atol=found["radius"] / 60000)
        assert (restored(found)[:, 2] == 0).all()

    def test_cells_hold_means_and_majorities(self):
        Y = np.random.default_rng(1).uniform(-1, 1, size=(3000, 2)) * 5 + 2
        values = Y[:, 0].copy()
        values[::3] = np.nan
        columns = read_columns({"v": values, "g": np.where(Y[:, 1] > 2, "up", "down")}, 3000)
        found = encode_cells(Y, columns, 10)
        assert array(found["counts"]).sum() == 3000
        levels, groups = (array(one).reshape(10, 10).astype(float) for one in found["colours"])
        low, high = np.nanmin(values), np.nanmax(values)
        means = low + (high - low) * (levels - 1) / 253
        assert np.abs(means - (-3 + np.arange(10) + 0.5)).max() < 0.5
        assert (groups == np.repeat([1, 2], 5)[:, None]).all()

    def test_finer_cells_divide_coarser_ones(self):
        rng = np.random.default_rng(2)
        Y = np.vstack([rng.normal(size=(3000, 2)), 1e-3 * rng.normal(size=(1000, 2))])
        values = rng.normal(size=4000)
        values[::5] = np.nan
        columns = read_columns({"v": values, "g": rng.choice(["a", "b", "c"], 4000)}, 4000)
        fine, places = encode_fine_cells(Y, columns), finest(encode_fine_cells(Y, columns))
        for size in (1, 8, 128, 256):
            coarse = encode_cells(Y, columns, size)
            across, along = (places * size >> fine["bits"]).T
            cells = along * size + across
            np.testing.assert_array_equal(np.bincount(cells, minlength=size**2), array(coarse["counts"]))
            # The points of a cell are consecutive.
            assert (np.diff(cells) != 0).sum() + 1 == np.count_nonzero(array(coarse["counts"]))
            numbers, groups = (array(one) for one in fine["colours"])
            votes = np.bincount(cells * 4 + groups, minlength=4 * size**2).reshape(-1, 4)
            full = votes.any(axis=1)
            np.testing.assert_array_equal(votes.argmax(axis=1)[full], array(coarse["colours"][1])[full])
            known, stored = numbers != 255, array(coarse["colours"][0]).astype(float)
            counts = np.bincount(cells[known], minlength=size**2)
            means = np.bincount(cells[known], weights=numbers[known], minlength=size**2) / np.maximum(counts, 1)
            assert np.abs(means - stored)[counts > 0].max() <= 1.0
            assert (stored[full & (counts == 0)] == 255).all()

    def test_values_of_fine_cells_are_limited(self, monkeypatch):
        monkeypatch.setattr("heatsketch.report.points._FINE_VALUES", 25)
        columns = read_columns({name: np.arange(10.0) for name in "abc"}, 10)
        found = encode_fine_cells(np.random.default_rng(0).normal(size=(10, 2)), columns)
        assert [one is None for one in found["colours"]] == [False, False, True]

    def test_groups_are_counted(self):
        values = ["a"] * 3 + ["b", None] + [f"g{n}" for n in range(700)]
        (column,) = read_columns({"g": values}, len(values))
        found = encode_column(column, np.arange(4))
        assert (found["groups"], found["missing"]) == (702, 1)
        assert sum(found["counts"]) == len(values) - 1
        assert found["counts"][found["labels"].index("a")] == 3
        assert array(found["values"]).tolist() == [0, 0, 0, found["labels"].index("b")]

    def test_intervals_are_not_narrower_than_given(self):
        rng = np.random.default_rng(0)
        low = rng.uniform(0, 1, 1000) * 10.0 ** rng.integers(-9, 9, 1000)
        low[:10] = 0
        high = low * rng.uniform(1, 2, 1000) + 1e-12 * (rng.uniform(size=1000) < 0.5)
        high[20:30] = low[20:30]
        found = intervals(encode_intervals(low, high))
        assert (found[0] <= low * (1 + 2e-3)).all()
        known = high > low
        assert (found[0] <= low * (1 + 1e-6))[known].all()
        assert (found[1] >= high * (1 - 1e-6))[known].all()
        np.testing.assert_allclose(found[1], high, rtol=1e-2)

    def test_empty_cells_differ_from_missing_values(self):
        Y = np.array([[0.0, 0.0], [1.0, 1.0]])
        found = encode_cells(Y, read_columns({"v": [np.nan, 2.0], "g": [None, "a"]}, 2), 2)
        assert array(found["counts"]).tolist() == [1, 0, 0, 1]
        for colors in found["colours"]:
            assert array(colors).tolist() == [255, 0, 0, 1]

    def test_columns_of_every_kind(self):
        frame = pd.DataFrame(
            {
                "real": [0.5, np.nan, np.inf],
                "nullable": pd.array([1.5, None, 70000], dtype="Float64"),
                "ordered": pd.Categorical(["low", None, "high"], categories=["low", "high"]),
                "mixed": ["a", None, 3],
                "day": pd.date_range("2026-01-01", periods=3),
            }
        )
        found = {column.label: column for column in read_columns(frame, 3)}
        np.testing.assert_array_equal(found["real"].values, [0.5, np.nan, np.nan])
        np.testing.assert_array_equal(found["nullable"].values, [1.5, np.nan, 70000])
        assert found["ordered"].groups == ("low", "high")
        np.testing.assert_array_equal(found["ordered"].values, [0, -1, 1])
        assert found["mixed"].groups == ("3", "a")
        assert [label[:10] for label in found["day"].groups] == ["2026-01-01", "2026-01-02", "2026-01-03"]
        assert read_columns({"count": [1, None, 2]}, 3)[0].values.tolist() == [0, -1, 1]
        words, numbers = read_columns(pl.DataFrame({"w": ["b", None, "a"], "x": [1.5, None, 2.0]}), 3)
        np.testing.assert_array_equal(words.values, [1, -1, 0])
        np.testing.assert_array_equal(numbers.values, [1.5, np.nan, 2.0])
        assert read_names(["a", None, 3], 3) == ["a", "missing", "3"]

    def test_many_groups_are_ordered_by_size(self):
        values = [f"g{n}" for n in range(700)] + ["g650"] * 9
        (column,) = read_columns({"g": values}, len(values))
        assert column.groups[0] == "g650"
        assert len(column.groups) == 500
        assert column.values[-1] == 0


def _oklab(colour, seen_as=None):
    """A colour in a space in which distances are those that are seen, also with a lack of red or green."""
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    if seen_as is not None:
        linear = np.clip(seen_as @ linear, 0, 1)
    cones = np.cbrt(CONES @ linear)
    return OPPONENT @ cones


CONES = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
OPPONENT = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])
# Colours as they are seen without red and without green cones (Machado, Oliveira and Fernandes 2009).
PROTANOPIA = np.array([[0.15229, 1.05258, -0.20487], [0.11450, 0.78628, 0.09922], [-0.00388, -0.04812, 1.05200]])
DEUTERANOPIA = np.array([[0.36732, 0.86065, -0.22797], [0.28008, 0.67250, 0.04741], [-0.01182, 0.04294, 0.96888]])


def _least_distance(colours, seen_as=None):
    found = [_oklab(colour, seen_as) for colour in colours]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(found, 2))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_apart(theme):
    colours, ground = PALETTE[theme], {"light": "#ffffff", "dark": "#1a1e26"}[theme]
    okabe_ito = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000"]
    assert len(colours) == MAX_COLORS == 20
    assert _least_distance([*colours, ground]) > 0.11
    for seen_as in (PROTANOPIA, DEUTERANOPIA):
        assert _least_distance(colours[:10], seen_as) > 0.95 * min(
            _least_distance(okabe_ito, kind) for kind in (PROTANOPIA, DEUTERANOPIA)
        )


class TestSummary:
    def test_says_what_was_embedded_and_how_well(self, model, contents):
        first, second, third = summary(model, contents)
        assert {str(N), "4", "5"} <= set(re.findall(r"\d+", first))  # rows, columns, components
        assert percent(contents.figures[0].near) in second
        assert percent(contents.figures[0].in_order) in second
        assert third

    def test_each_kind_of_data_is_named(self, X, contents):
        graph = hs.DiffusionMaps(2, affinity="precomputed").fit(np.exp(-np.square(X[:, None] - X).sum(axis=2)))
        distances = hs.DiffusionMaps(2, metric="precomputed").fit(np.linalg.norm(X[:, None] - X, axis=2))
        points = hs.DiffusionMaps(2).fit(X)
        words = [set(summary(model, contents)[0].split()) for model in (graph, distances, points)]
        assert "graph" in words[0] - words[1] - words[2]
        assert "distances," in words[1] - words[0] - words[2]
        assert "columns" in words[2] - words[0] - words[1]

    def test_chance_is_taken_into_account(self, model, contents):
        second = [summary(model, replace(contents, near_by_chance=chance))[1] for chance in (0.1, 0.9)]
        assert "10%" in second[0]
        assert "90%" in second[1]
        assert "little" in second[1]
        assert "little" not in second[0]

    def test_first_finding_comes_with_its_remedy(self, model, contents):
        finding = Finding("new", 1.0, "A problem.", "A remedy.", harmful=True)
        third = summary(model, replace(contents, diagnosis=Diagnosis([finding])))[2]
        assert "problem" in third
        assert finding.remedy in third
        good, poor = (replace(contents.figures[0], near=near) for near in (0.9, 0.3))
        without = replace(contents, diagnosis=Diagnosis())
        fine, false = (summary(model, replace(without, figures=(one,)))[2] for one in (good, poor))
        assert "Nothing" in fine
        assert "Nothing" not in false

    def test_shares_in_words(self):
        assert [percent(share) for share in (0.0, 1.0, 0.5)] == ["0%", "100%", "50%"]
        assert percent(0.999) not in ("99%", "100%")
        assert percent(0.001) not in ("0%", "1%")


class TestFile:
    def test_holds_what_was_given(self, written, X):
        data = data_of(written)
        assert data["ids"][7] == f"7 {EVIL}"
        number, words = data["columns"][:2]
        np.testing.assert_array_equal(
            number["scale"] * array(number["values"]), np.append(np.nan, np.arange(N - 1)).astype(np.float32)
        )
        assert (words["name"], words["labels"]) == (EVIL, [EVIL])
        np.testing.assert_array_equal(array(words["values"])[:4], [0, -1, 0, -1])
        frame = data["methods"][0]["flat"][data["chosen"]]
        x = (array(frame["axes"][0]).astype(float) - 32768) / 32767 * frame["radius"]
        plane = hs.GaussianProcessEmbedding(2, power=4, bandwidth=1.0, random_state=0).fit(X)
        np.testing.assert_allclose(np.diff(x), np.diff(plane.embedding_[:, 0]), atol=frame["radius"] / 16000)

    def test_markup_is_text_and_nothing_is_fetched(self, written):
        assert EVIL not in written
        assert 'onerror="' not in written
        assert written.count("</script>") == 3
        text = re.sub(r'<script type="text/plain".*?</script>', "", written, flags=re.DOTALL)
        assert not re.search(r"https?:|@import|url\(|<link|<[^>]*\ssrc=", text)

    def test_parts_are_there(self, model, written, tmp_path):
        assert len(re.findall(r'<div id="summary">(<p>[^<]+</p>){3}</div>', written)) == 1
        assert len(re.findall(r"<th scope=\"row\">Gaussian<wbr>Process<wbr>Embedding</th>", written)) == 1
        assert '<section aria-labelledby="lineup-title" hidden>' in written  # without other methods
        other = hs.write_report(model, tmp_path / "page.html").read_text("utf-8")
        assert '<section aria-labelledby="lineup-title">' in other
        assert not re.search(r"\$[a-z]+ *[<\"]", other.split("<body>")[1].split('<script type="text/plain"')[0])

    def test_many_points_make_small_pages(self, tmp_path):
        rng = np.random.default_rng(0)
        n = 3000
        model = hs.DiffusionMaps(2, n_neighbors=8, power=2).fit(rng.normal(size=(n, 20)))
        columns = {"number": rng.normal(size=n), "group": rng.integers(12, size=n).astype(str)}
        path = hs.write_report(model, tmp_path / "page.html", columns=columns, methods=False)
        assert path.stat().st_size < 2.4e6

    def test_pipeline_shows_the_columns_of_its_table(self, tmp_path):
        frame = pd.DataFrame({"income": np.linspace(2e4, 9e4, 60), "pet": ["cat", "dog", None] * 20})
        model = make_pipeline(hs.TableEncoder(), hs.DiffusionMaps(power=4)).fit(frame)
        path = hs.write_report(model, tmp_path / "page.html", columns={"row": np.arange(60.0)}, methods=False)
        columns = {column["name"]: column for column in data_of(path.read_text("utf-8"))["columns"]}
        assert list(columns) == ["row", "income", "pet"]
        np.testing.assert_allclose(columns["income"]["range"], (2e4, 9e4))
        assert columns["pet"]["labels"] == ["cat", "dog"]
        text = path.read_text("utf-8")
        assert "60 rows of 2 columns, encoded as 4," in text
        assert "make_pipeline(hs.TableEncoder(), hs.DiffusionMaps(power=4)).fit(X)" in text
        assert "columns=columns)" in text

    def test_call_repeats_the_embedding_with_its_seed(self, X, tmp_path):
        model = hs.GaussianProcessEmbedding(2, power=2, bandwidth=1.0).fit(X)
        line = page._call(model, tmp_path / "p.html", []).split("model = ")[1].split(".fit(X)")[0]
        np.testing.assert_array_equal(eval(line, {"hs": hs}).fit(X).embedding_, model.embedding_)

    def test_values_of_any_size(self):
        for values in (np.array([1e300, -3e299, np.nan]), np.array([1e-200, 0.0]), np.full(3, np.nan), np.zeros(2)):
            found = scaled(values)
            np.testing.assert_allclose(found["scale"] * array(found["values"]).astype(float), values, rtol=1e-6)

    @pytest.mark.parametrize(
        "make",
        [
            lambda rng: hs.HeatSketch(1, power=2, random_state=0).fit(rng.normal(size=(5, 2))),
            lambda rng: hs.DiffusionMaps(4, affinity="precomputed", power="auto").fit(np.eye(9, k=1) + np.eye(9, k=-1)),
            lambda rng: hs.GaussianProcessEmbedding(2, n_neighbors=4, random_state=0).fit(
                rng.normal(size=(30, 2)).astype(np.float32)
            ),
        ],
        ids=["five points, one component", "affinity", "float32 neighbours"],
    )
    def test_every_kind_of_embedding_has_a_page(self, make, tmp_path):
        model = make(np.random.default_rng(0))
        columns = {"constant": np.ones(model.kernel_.shape[0])}
        path = hs.write_report(model, tmp_path / "page.html", columns=columns, max_points=6)
        data = data_of(path.read_text("utf-8"))
        assert len(data["methods"]) == 3
        assert all(method["solid"] for method in data["methods"])
        assert path.stat().st_size < 2e6


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "error", "word"),
        [
            ({"names": ["a"]}, ValueError, "names"),
            ({"columns": {"x": [1, 2]}}, ValueError, "'x'"),
            ({"columns": pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"])}, ValueError, "'a'"),
            ({"columns": pd.Series(np.zeros(N))}, TypeError, "Series"),
            ({"max_points": 1}, ValueError, "max_points"),
        ],
    )
    def test_bad_arguments(self, model, tmp_path, arguments, error, word):
        with pytest.raises(error, match=word):
            hs.write_report(model, tmp_path / "page.html", **arguments)

    def test_models_and_paths(self, model, tmp_path):
        with pytest.raises(FileNotFoundError):
            hs.write_report(model, tmp_path / "none" / "page.html")
        with pytest.raises(IsADirectoryError):
            hs.write_report(model, tmp_path)
        with pytest.raises(TypeError, match="ndarray"):
            hs.write_report(np.zeros((3, 2)), tmp_path / "page.html")
        with pytest.raises(NotFittedError):
            hs.write_report(hs.HeatSketch(), tmp_path / "page.html")
