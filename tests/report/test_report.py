"""The report: the file holds what the embedding says, treats text as text, and bad arguments raise errors."""

from __future__ import annotations

import base64
import gzip
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import heatsketch as hs
from heatsketch.report import page
from heatsketch.report.contents import gather
from heatsketch.report.points import count_in_cells, feature_columns, quantize, read_columns, read_names

N = 120
EVIL = '</script><img src=x onerror="alert(1)"><b>&amp;</b>'


@pytest.fixture(scope="module")
def X():
    return hs.datasets.stretched_torus(N, random_state=0)


@pytest.fixture(scope="module")
def model(X):
    return hs.GaussianProcessEmbedding(5, power=4, bandwidth=1.0, random_state=0).fit(X)


@pytest.fixture(scope="module")
def contents(model):
    with pytest.MonkeyPatch.context() as patch:  # one round of HeatSketch, to save time
        patch.setattr("heatsketch.report.contents._FULL_SEARCH", 0)
        patch.setattr("heatsketch.report.contents._SHORT", {"solver_params": {"n_rounds": 1}, "init": "spectral"})
        return gather(model)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    columns = {"number": np.append(np.nan, np.arange(N - 1.0)), EVIL: [EVIL, None] * (N // 2)}
    names = [f"{n} {EVIL}" for n in range(N)]
    hs.write_report(model, path, names=names, columns=columns, title=EVIL, powers=[1, 2], methods=False, call=EVIL)
    return path.read_text("utf-8")


def data_of(text):
    """What the script of the page reads."""
    packed = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def array(found):
    kinds = {"Int16Array": "<i2", "Uint16Array": "<u2", "Uint32Array": "<u4", "Float32Array": "<f4", "Uint8Array": "u1"}
    return np.frombuffer(base64.b64decode(found["data"]), kinds[found["kind"]])


def restored(coordinates):
    """Points relative to the centre of their box."""
    return (coordinates.axes.T.astype(float) - 32768) / 32767 * coordinates.radius


def centred(Y):
    return Y - (Y.min(axis=0) + Y.max(axis=0)) / 2


class TestContents:
    def test_distances_are_those_of_the_embedding(self, model, contents):
        estimate, low, high = model.diffusion_distances(contents.pair_indices, interval=0.95)
        np.testing.assert_array_equal(contents.pairs["embedded"], estimate)
        np.testing.assert_array_equal(contents.pairs["low"], low)
        np.testing.assert_array_equal(contents.pairs["high"], high)
        exact = hs.diffusion_distances(model.kernel_, 4, contents.pair_indices)
        np.testing.assert_allclose(contents.pairs["exact"], exact, rtol=1e-9)

    def test_pictures_are_the_embeddings_at_each_time(self, contents, X):
        names = [picture.name for picture in contents.pictures]
        assert names == ["GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch"]
        assert contents.powers[contents.chosen] == 4
        maps = hs.DiffusionMaps(3, power=4, bandwidth=1.0).fit(X)
        for coordinates, Y in zip(contents.pictures[1].solid, maps.at_powers(contents.powers), strict=True):
            np.testing.assert_allclose(restored(coordinates), centred(Y), atol=coordinates.radius / 60000)

    def test_curves_are_those_of_the_spectrum(self, model, contents):
        density = hs.spectral_density(model.kernel_)
        np.testing.assert_allclose(contents.curves["entropy"], density.entropy(contents.powers))
        exact = np.sort(np.linalg.eigvalsh(model.kernel_.toarray()))[::-1][1:13]
        np.testing.assert_allclose(contents.curves["eigenvalues"], exact, atol=1e-8)

    def test_comparison_measures_the_pictures(self, contents):
        maps = contents.comparison["DiffusionMaps"]
        assert maps.model.embedding_.shape == (N, 2)
        assert maps.log_distortion == pytest.approx(maps.model.distortion().log)

    def test_findings_are_those_of_the_embedding(self, model, contents):
        assert contents.diagnosis == model.diagnose()
        assert contents.support == str(model.unsupported_neighbors())

    def test_neighbours_come_with_their_intervals(self, model, contents):
        plane = restored(contents.pictures[0].flat[contents.chosen])
        squared = np.square(plane[:, None] - plane[None]).sum(axis=2) + np.diag(np.full(N, 1e9))
        found = np.take_along_axis(squared, contents.neighbors, axis=1)
        np.testing.assert_allclose(found, np.sort(squared, axis=1)[:, :5], rtol=1e-2, atol=1e-3 * np.ptp(plane) ** 2)
        pairs = np.column_stack([np.arange(N), contents.neighbors[:, 2]])
        _, low, high = model.diffusion_distances(pairs, interval=0.95)
        np.testing.assert_array_equal(contents.near_low[:, 2], low)
        np.testing.assert_array_equal(contents.near_high[:, 2], high)

    def test_features_are_offered_by_name(self, X):
        fitted = hs.DiffusionMaps(2, power=2, bandwidth=1.0).fit(pd.DataFrame(X, columns=list("abcd")))
        found = gather(fitted, methods=False, powers=np.array([2.0])).columns
        assert [column.name for column in found[:2]] == ["a", "b"]
        np.testing.assert_array_equal(found[1].values, X[:, 1])
        assert feature_columns(np.zeros((3, 100))) == []

    def test_many_points_are_sampled_and_counted_in_cells(self, model, contents):
        few = gather(model, max_points=50, methods=False)
        assert len(few.drawn) == 50
        assert all(cells.counts.sum() == N for cells in few.pictures[0].cells)
        assert "50" in few.notes[0]
        assert not any("sample" in note for note in contents.notes)

    @pytest.mark.parametrize("components", [2, 4])
    def test_very_many_points_are_not_embedded_again(self, monkeypatch, X, components):
        monkeypatch.setattr("heatsketch.report.contents._MANY", N - 1)
        maps = hs.DiffusionMaps(components, power=4, bandwidth=1.0).fit(X)
        found = gather(maps)
        assert [picture.name for picture in found.pictures] == ["DiffusionMaps", "GaussianProcessEmbedding"]
        own = found.pictures[0]
        flat = own.flat[found.chosen]
        np.testing.assert_allclose(restored(flat), centred(maps.embedding_[:, :2]), atol=flat.radius / 60000)
        assert (own.solid is None) == (components == 2)
        assert np.flatnonzero(np.isfinite(own.distortion)).tolist() == [found.chosen]


class TestPoints:
    def test_coordinates_are_accurate_at_any_scale(self):
        Y = np.random.default_rng(0).normal(size=(500, 2)) * [1e-30, 3e-30] + 1e-28
        found = quantize(Y, np.arange(100, 200), 3)
        np.testing.assert_allclose(restored(found)[:, :2], centred(Y)[100:200], atol=found.radius / 60000)
        assert (found.axes[2] == 32768).all()

    def test_cells_hold_means_and_majorities(self):
        Y = np.random.default_rng(1).uniform(-1, 1, size=(3000, 2)) * 5 + 2
        values = Y[:, 0].copy()
        values[::3] = np.nan
        columns = read_columns({"v": values, "g": np.where(Y[:, 1] > 2, "up", "down")}, 3000)
        found = count_in_cells(Y, columns, 10)
        assert found.counts.sum() == 3000
        low, high = columns[0].range
        means = low + (high - low) * (found.colors[0].astype(float) - 1) / 253
        assert np.abs(means - (-3 + np.arange(10) + 0.5)).max() < 0.5
        assert (found.colors[1][:5] == 1).all()
        assert (found.colors[1][5:] == 2).all()

    def test_empty_cells_differ_from_missing_values(self):
        Y = np.array([[0.0, 0.0], [1.0, 1.0]])
        found = count_in_cells(Y, read_columns({"v": [np.nan, 2.0], "g": [None, "a"]}, 2), 2)
        np.testing.assert_array_equal(found.counts, [[1, 0], [0, 1]])
        for colors in found.colors:
            np.testing.assert_array_equal(colors, [[255, 0], [0, 1]])

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
        found = {column.name: column for column in read_columns(frame, 3)}
        np.testing.assert_array_equal(found["real"].values, [0.5, np.nan, np.nan])
        np.testing.assert_array_equal(found["nullable"].values, [1.5, np.nan, 70000])
        assert found["ordered"].labels == ("low", "high")
        np.testing.assert_array_equal(found["ordered"].values, [0, -1, 1])
        assert found["mixed"].labels == ("3", "a")
        assert [label[:10] for label in found["day"].labels] == ["2026-01-01", "2026-01-02", "2026-01-03"]
        assert read_columns({"count": [1, None, 2]}, 3)[0].values.tolist() == [0, -1, 1]
        words, numbers = read_columns(pl.DataFrame({"w": ["b", None, "a"], "x": [1.5, None, 2.0]}), 3)
        np.testing.assert_array_equal(words.values, [1, -1, 0])
        np.testing.assert_array_equal(numbers.values, [1.5, np.nan, 2.0])
        assert read_names(["a", None, 3], 3) == ["a", "missing", "3"]

    def test_many_groups_are_ordered_by_size(self):
        values = [f"g{n}" for n in range(700)] + ["g650"] * 9
        (column,) = read_columns({"g": values}, len(values))
        assert column.labels[0] == "g650"
        assert len(column.labels) == 500
        assert column.values[-1] == 0


class TestFile:
    def test_holds_what_was_given(self, written, X):
        data = data_of(written)
        assert data["powers"] == [1, 2, 4]
        assert data["ids"][7] == f"7 {EVIL}"
        number, words = data["columns"][:2]
        np.testing.assert_array_equal(
            number["scale"] * array(number["values"]), np.append(np.nan, np.arange(N - 1)).astype(np.float32)
        )
        assert (words["name"], words["labels"]) == (EVIL, [EVIL])
        np.testing.assert_array_equal(array(words["values"])[:4], [0, -1, 0, -1])
        frame = data["methods"][0]["flat"][2]
        x = (array(frame["axes"][0]).astype(float) - 32768) / 32767 * frame["radius"]
        plane = hs.GaussianProcessEmbedding(2, power=4, bandwidth=1.0, random_state=0).fit(X)
        np.testing.assert_allclose(np.diff(x), np.diff(plane.embedding_[:, 0]), atol=frame["radius"] / 16000)

    def test_markup_is_text_and_nothing_is_fetched(self, written):
        assert EVIL not in written
        assert 'onerror="' not in written
        assert written.count("</script>") == 3
        text = re.sub(r'<script type="text/plain".*?</script>', "", written, flags=re.DOTALL)
        assert not re.search(r"https?:|@import|url\(|<link|<[^>]*\ssrc=", text)

    def test_parameters_and_versions(self, written):
        for name, value in (("heatsketch", hs.__version__), ("n_components", "5")):
            assert f'<th scope="row">{name}</th><td>{value}</td>' in written

    def test_call_repeats_the_embedding_with_its_seed(self, X, tmp_path):
        model = hs.GaussianProcessEmbedding(2, power=2, bandwidth=1.0).fit(X)
        line = page._call(model, tmp_path / "p.html").split("model = ")[1].split(".fit(X)")[0]
        np.testing.assert_array_equal(eval(line, {"hs": hs}).fit(X).embedding_, model.embedding_)

    def test_values_of_any_size(self):
        for values in (np.array([1e300, -3e299, np.nan]), np.array([1e-200, 0.0]), np.full(3, np.nan), np.zeros(2)):
            found = page._scaled(values)
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
        assert path.stat().st_size < 4e6


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "error", "word"),
        [
            ({"names": ["a"]}, ValueError, "names"),
            ({"names": "abc"}, ValueError, "abc"),
            ({"columns": {"x": [1, 2]}}, ValueError, "'x'"),
            ({"columns": {"x": np.zeros(N, dtype=complex)}}, ValueError, "complex"),
            ({"columns": np.zeros((N, 2))}, TypeError, "ndarray"),
            ({"columns": pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"])}, ValueError, "more than once"),
            ({"title": 3}, TypeError, "title"),
            ({"methods": "all"}, TypeError, "methods"),
            ({"powers": [0, 1]}, ValueError, "power"),
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
