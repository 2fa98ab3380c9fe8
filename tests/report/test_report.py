"""The report: what is on the page is what the embedding says, and the file is whole, small and safe."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import heatsketch as hs
from heatsketch._utils.files import replacing
from heatsketch.report import page
from heatsketch.report.columns import feature_columns, read_columns, read_names
from heatsketch.report.contents import Request, gather
from heatsketch.report.packing import in_levels, in_logarithms
from heatsketch.report.pictures import quantise, rasterise

N = 120
EVIL = '</script><img src=x onerror="alert(1)"><b>&amp;</b>'


@pytest.fixture(scope="module")
def X():
    return hs.datasets.stretched_torus(N, random_state=0)


@pytest.fixture(scope="module")
def model(X):
    return hs.GaussianProcessEmbedding(5, power=4, bandwidth=1.0, random_state=0).fit(X)


def _request(**more):
    standard = {"title": "t", "call": "c", "names": None, "columns": [], "methods": True, "powers": None}
    return Request(**standard | {"max_points": 20_000} | more)


@pytest.fixture(scope="module")
def contents(model):
    with pytest.MonkeyPatch.context() as patch:  # so few rounds of HeatSketch that it takes no time
        patch.setattr("heatsketch.report.contents._FULL_SEARCH", 0)
        patch.setattr("heatsketch.report.contents._SHORT", {"solver_params": {"n_rounds": 1}, "init": "spectral"})
        return gather(model, _request())


def _unpacked(text):
    """What a browser reads from the page."""
    packed = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)[1]
    data = gzip.decompress(base64.b64decode(packed))
    length = int.from_bytes(data[:8], "little")
    manifest = json.loads(data[8 : 8 + length])

    def array(found):
        kind = {"Uint8Array": "u1", "Uint16Array": "<u2", "Uint32Array": "<u4"}[found["kind"]]
        return np.frombuffer(data, kind, found["length"], 8 + length + found["at"])

    return manifest, array


def test_distances_are_those_of_the_embedding(model, contents):
    pairs = contents.pairs
    estimate, low, high = model.diffusion_distances(pairs.points, interval=0.95)
    np.testing.assert_array_equal(pairs.embedded, estimate)
    np.testing.assert_array_equal(pairs.low, low)
    np.testing.assert_array_equal(pairs.high, high)
    np.testing.assert_allclose(pairs.exact, hs.diffusion_distances(model.kernel_, 4, pairs.points), rtol=1e-9)
    assert 0.9 < np.mean((pairs.low < pairs.exact) & (pairs.exact < pairs.high)) <= 1.0


def test_pictures_are_the_embeddings_at_each_time(model, contents):
    assert [one.name for one in contents.shown] == ["GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch"]
    assert contents.curves.powers[contents.chosen] == 4
    maps = hs.DiffusionMaps(3, power=4, bandwidth=1.0).fit(
        contents.comparison["DiffusionMaps"].model.kernel_.affinity.X
    )
    for coordinates, Y in zip(contents.shown[1].solid, maps.at_powers(contents.curves.powers), strict=True):
        assert np.abs(coordinates.restored() - Y).max() <= coordinates.radius / 65534 * (1 + 1e-6)
        # No time is drawn smaller than another.
        assert coordinates.numbers.max() == 65535


def test_curves_are_those_of_the_spectrum(model, contents):
    density = hs.spectral_density(model.kernel_)
    np.testing.assert_allclose(contents.curves.entropy, density.entropy(contents.curves.powers))
    exact = np.sort(np.linalg.eigvalsh(model.kernel_.toarray()))[::-1][1:13]
    np.testing.assert_allclose(contents.curves.eigenvalues, exact, atol=1e-8)


def test_figures_are_those_of_the_pictures(model, contents):
    maps = contents.comparison["DiffusionMaps"]
    assert maps.model.embedding_.shape == (N, 2)
    assert maps.log_distortion == pytest.approx(maps.model.distortion().log)
    at = contents.chosen
    for one, figures in zip(contents.shown, contents.comparison.embeddings, strict=True):
        # Central log L of 64 random points beside that of all.
        assert one.distortion[at] == pytest.approx(figures.central_log_distortion, rel=0.35)


def test_findings_are_those_of_the_embedding(model, contents):
    assert contents.diagnosis == model.diagnose()
    assert contents.support == str(model.unsupported_neighbors())
    text = page.render(model, contents, "")
    assert all(f"<p>{one.message}</p>" in text or one.harmful for one in contents.diagnosis)


def test_neighbours_come_with_their_intervals(model, contents):
    plane = contents.shown[0].flat[contents.chosen].restored()
    squared = np.square(plane[:, None] - plane[None]).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    found = np.take_along_axis(squared, contents.neighbours, axis=1)
    np.testing.assert_allclose(found, np.sort(squared, axis=1)[:, :5], atol=1e-4 * squared[np.isfinite(squared)].max())
    pairs = np.column_stack([np.arange(N), contents.neighbours[:, 2]])
    _, low, high = model.diffusion_distances(pairs, interval=0.95)
    np.testing.assert_array_equal(contents.near_low[:, 2], low)
    np.testing.assert_array_equal(contents.near_high[:, 2], high)


def test_sixteen_bits_are_enough():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(500, 2)) * [1e-30, 3e-30] + 1e-28
    found = quantise(Y, np.arange(100, 200), 3)
    assert np.abs(found.restored()[:, :2] - Y[100:200]).max() <= found.radius / 65534 * (1 + 1e-6)
    assert (found.numbers[:, 2] == 32768).all()
    values = np.append(rng.normal(size=300), np.nan)
    numbers, low, step = in_levels(values)
    assert numbers[-1] == 65535
    np.testing.assert_allclose((low + step * numbers)[:-1], values[:-1], atol=0.5001 * step)
    whole_numbers = np.array([-3.0, 40000.0, 7.0])
    numbers, low, step = in_levels(whole_numbers)
    np.testing.assert_array_equal(low + step * numbers, whole_numbers)
    sizes = np.append(np.exp(rng.normal(scale=50, size=300)), 0.0)
    numbers, low, step = in_logarithms(sizes)
    assert numbers[-1] == 65535
    np.testing.assert_allclose(np.exp(low + step * numbers[:-1]), sizes[:-1], rtol=0.51 * step)


def test_cells_count_all_points_with_their_mean_and_majority():
    rng = np.random.default_rng(1)
    Y = rng.uniform(-1, 1, size=(3000, 2)) * 5 + 2
    values = Y[:, 0].copy()
    values[::3] = np.nan
    number, group = read_columns({"v": values, "g": np.where(Y[:, 1] > 2, "up", "down")}, 3000)
    found = rasterise(Y, [number, group], [(-3.0, 7.0), (0.0, 0.0)], 10)
    assert found.counts.sum() == 3000
    assert found.counts.min() > 0
    means = -3 + 10 * (found.colours[0].astype(float) - 1) / 253
    centres = -3 + 10 * (np.arange(10) + 0.5) / 10
    assert np.abs(means - centres).max() < 0.5
    assert group.labels == ("down", "up")
    assert (found.colours[1][:5] == 1).all()
    assert (found.colours[1][5:] == 2).all()


def test_cells_tell_empty_from_missing():
    Y = np.array([[0.0, 0.0], [1.0, 1.0]])
    number, group = read_columns({"v": [np.nan, 2.0], "g": [None, "a"]}, 2)
    found = rasterise(Y, [number, group], [(2.0, 2.0), (0.0, 0.0)], 2)
    np.testing.assert_array_equal(found.counts, [[1, 0], [0, 1]])
    for colours in found.colours:
        np.testing.assert_array_equal(colours, [[255, 0], [0, 1]])


def test_columns_of_every_kind_are_read():
    frame = pd.DataFrame(
        {
            "real": [0.5, np.nan, np.inf],
            "nullable": pd.array([1.5, None, 70000], dtype="Float64"),
            "label": [2, 1, 2],
            "ordered": pd.Categorical(["low", None, "high"], categories=["low", "high"]),
            "flag": [True, False, True],
            "mixed": ["a", None, 3],
        }
    )
    found = {column.name: column for column in read_columns(frame, 3)}
    np.testing.assert_array_equal(found["real"].values, [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(found["nullable"].values, [1.5, np.nan, 70000])
    assert found["label"].labels == ("1", "2")
    assert found["ordered"].labels == ("low", "high")
    np.testing.assert_array_equal(found["ordered"].values, [0, -1, 1])
    assert found["flag"].labels == ("False", "True")
    assert found["mixed"].labels == ("3", "a")
    words, numbers = read_columns(pl.DataFrame({"w": ["b", None, "a"], "x": [1.5, None, 2.0]}), 3)
    np.testing.assert_array_equal(words.values, [1, -1, 0])
    np.testing.assert_array_equal(numbers.values, [1.5, np.nan, 2.0])
    assert read_names(["a", None, 3], 3) == ["a", "missing", "3"]


def test_many_groups_are_kept_by_size():
    values = [f"g{n}" for n in range(700)] + ["g650"] * 9
    (column,) = read_columns({"g": values}, len(values))
    assert column.labels[0] == "g650"
    assert column.labels[-1].startswith("other (")
    assert len(column.labels) == 500
    assert column.values[-1] == 0


def test_features_are_offered_by_name(X):
    model = hs.DiffusionMaps(2, power=2, bandwidth=1.0).fit(pd.DataFrame(X, columns=list("abcd")))
    found = gather(model, _request(methods=False, powers=np.array([2.0]))).columns
    assert [column.name for column in found[:2]] == ["a", "b"]
    np.testing.assert_array_equal(found[1].values, X[:, 1])
    assert feature_columns(np.zeros((3, 100))) == []


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    columns = {"number": np.append(np.nan, np.arange(N - 1.0)), EVIL: [EVIL, None] * (N // 2)}
    names = [f"{n} {EVIL}" for n in range(N)]
    hs.write_report(model, path, names=names, columns=columns, title=EVIL, powers=[1, 2], methods=False, call=EVIL)
    return path


def test_the_page_holds_what_was_given(written, model):
    manifest, array = _unpacked(written.read_text("utf-8"))
    assert manifest["powers"] == [1, 2, 4]
    assert manifest["ids"][7] == f"7 {EVIL}"
    number, words = manifest["columns"][:2]
    assert array(number["values"])[0] == 65535
    np.testing.assert_array_equal(number["low"] + number["step"] * array(number["values"])[1:], np.arange(N - 1))
    assert words["name"] == EVIL
    assert words["labels"] == [EVIL]
    np.testing.assert_array_equal(array(words["values"])[:4], [0, 65535, 0, 65535])
    frame = manifest["methods"][0]["flat"][2]
    x = (array(frame["axes"][0]).astype(float) - 32768) / 32767 * frame["radius"]
    plane = hs.GaussianProcessEmbedding(2, power=4, bandwidth=1.0, random_state=0).fit(model.kernel_.affinity.X)
    np.testing.assert_allclose(np.diff(x), np.diff(plane.embedding_[:, 0]), atol=frame["radius"] / 16000)


def test_markup_is_text(written):
    text = written.read_text("utf-8")
    assert 'onerror="' not in text
    assert EVIL not in text
    assert text.count("</script>") == 3
    assert "&lt;/script&gt;&lt;img src=x" in text


def test_nothing_is_fetched(written):
    text = written.read_text("utf-8")
    text = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(|<link|<[^>]*\ssrc=", text)


def test_settings_and_versions_are_told(written, model):
    text = written.read_text("utf-8")
    assert f"<td>{hs.__version__}</td>" in text
    assert '<tr><th scope="row">bandwidth</th><td>1 (' in text
    assert '<tr><th scope="row">n_components</th><td>5</td>' in text
    plain = page._call(model, written)
    repeated = eval(plain.split("model = ")[1].split(".fit(X)")[0], {"hs": hs})
    assert repeated.get_params() == model.get_params()


def test_a_seed_that_was_drawn_is_told(X):
    model = hs.GaussianProcessEmbedding(2, power=2, bandwidth=1.0).fit(X)
    line = page._call(model, page.Path("p.html")).split("model = ")[1].split(".fit(X)")[0]
    again = eval(line, {"hs": hs}).fit(X)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_many_points_are_sampled_and_counted(model, contents):
    few = gather(model, _request(max_points=50, methods=False))
    assert len(few.drawn) == 50
    assert all(raster.counts.sum() == N for raster in few.shown[0].rasters)
    assert "random sample of 50" in few.notes[0]
    assert not any("sample" in note for note in contents.notes)
    manifest, _ = _unpacked(page.render(model, few, ""))
    assert len(manifest["methods"][0]["cells"]) == len(few.curves.powers)


@pytest.mark.parametrize("components", [2, 4])
def test_very_many_points_are_not_embedded_again(monkeypatch, X, components):
    monkeypatch.setattr("heatsketch.report.contents._MANY", N - 1)
    maps = hs.DiffusionMaps(components, power=4, bandwidth=1.0).fit(X)
    found = gather(maps, _request())
    assert [one.name for one in found.shown] == ["DiffusionMaps", "GaussianProcessEmbedding"]
    at = found.chosen
    own = found.shown[0]
    assert np.abs(own.flat[at].restored() - maps.embedding_[:, :2]).max() <= own.flat[at].radius / 60000
    assert (own.solid is None) == (components == 2)
    assert np.flatnonzero(np.isfinite(own.distortion)).tolist() == [at]
    assert "first axes" in " ".join(found.notes)


def test_twenty_thousand_points_stay_below_ten_megabytes(model, contents):
    n, rng = 20_000, np.random.default_rng(0)
    everyone, some = np.arange(n), np.arange(6000)
    frames = [quantise(rng.normal(size=(n, 3)), everyone, 3) for _ in range(11)]
    flat = [replace(one, numbers=one.numbers[:, :2]) for one in frames]
    solid = [replace(one, numbers=one.numbers[:6000]) for one in frames]
    columns = read_columns({f"c{j}": rng.normal(size=n) for j in range(12)}, n)
    large = replace(
        contents,
        request=replace(contents.request, names=[f"sample-{i:06d}" for i in range(n)]),
        n_samples=n,
        drawn=everyone,
        solid=some,
        columns=columns,
        ranges=[(-5.0, 5.0)] * 12,
        shown=[replace(one, flat=flat, solid=solid) for one in contents.shown],
        curves=replace(contents.curves, powers=np.append(2.0 ** np.arange(3), np.arange(4, 12))),
        neighbours=rng.integers(n, size=(n, 5)),
        near_low=rng.uniform(size=(n, 5)),
        near_high=rng.uniform(size=(n, 5)),
    )
    assert len(page.render(model, large, page.plotly_script()).encode()) < 10e6


def test_a_file_is_whole_or_left_alone(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    with replacing(path) as temporary:
        temporary.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    path.chmod(0o640)
    with replacing(path) as temporary:
        temporary.write_text("again")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (
            {"names": ["a"]},
            (ValueError, r"names was given as list of shape \(1,\); .* for each of the 120"),
        ),
        ({"names": "abc"}, (ValueError, "'abc'")),
        ({"columns": {"x": [1, 2]}}, (ValueError, r"column 'x' was given as list of shape \(2,\)")),
        ({"columns": {"x": np.zeros(N, dtype=complex)}}, (ValueError, "complex")),
        ({"columns": np.zeros((N, 2))}, (TypeError, "ndarray")),
        ({"columns": pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"])}, (ValueError, "more than once")),
        ({"title": 3}, (TypeError, "title was given as int")),
        ({"methods": "all"}, (TypeError, "methods='all'")),
        ({"powers": [0, 1]}, (ValueError, "power")),
        ({"max_points": 1}, (ValueError, "max_points=1")),
    ],
)
def test_bad_arguments_are_refused_before_any_work(model, tmp_path, monkeypatch, arguments, refusal):
    monkeypatch.setattr(page, "gather", lambda *_: pytest.fail("work was begun"))
    error, message = refusal
    with pytest.raises(error, match=message):
        hs.write_report(model, tmp_path / "page.html", **arguments)


def test_bad_models_and_places_are_refused(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="make it first"):
        hs.write_report(model, tmp_path / "none" / "page.html")
    with pytest.raises(IsADirectoryError, match="name a file"):
        hs.write_report(model, tmp_path)
    with pytest.raises(TypeError, match="ndarray was given as model"):
        hs.write_report(np.zeros((3, 2)), tmp_path / "page.html")
    with pytest.raises(NotFittedError):
        hs.write_report(hs.HeatSketch(), tmp_path / "page.html")


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: hs.HeatSketch(1, power=2, random_state=0).fit(rng.normal(size=(5, 2))),
        lambda rng: hs.DiffusionMaps(4, affinity="precomputed", power="auto").fit(np.eye(9, k=1) + np.eye(9, k=-1)),
        lambda rng: hs.GaussianProcessEmbedding(2, n_neighbors=4, random_state=0, verbose=True).fit(
            rng.normal(size=(30, 2)).astype(np.float32)
        ),
        lambda rng: hs.GaussianProcessEmbedding(2, normalization="symmetric", random_state=0).fit(
            rng.normal(size=(30, 2))
        ),
    ],
    ids=["five points, one component", "affinity", "float32 neighbours", "dropped trivial mode"],
)
def test_every_kind_of_embedding_has_a_page(make, tmp_path):
    model = make(np.random.default_rng(0))
    path = hs.write_report(model, tmp_path / "page.html", columns={"constant": np.ones(model.kernel_.shape[0])})
    manifest, _ = _unpacked(path.read_text("utf-8"))
    assert len(manifest["methods"]) == 3
    assert all(method["solid"] for method in manifest["methods"])


def test_a_subclass_has_its_page_too(tmp_path):
    class Maps(hs.DiffusionMaps):
        pass

    fitted = Maps(2, power=4).fit(hs.datasets.circle(40, random_state=0))
    assert hs.write_report(fitted, tmp_path / "page.html").stat().st_size > 1e6


def test_dates_and_whole_numbers_with_gaps_are_groups():
    days = pd.date_range("2026-01-01", periods=3).to_numpy()
    date, count = read_columns({"day": days, "count": [1, None, 2]}, 3)
    assert [label[:10] for label in date.labels] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert count.labels == ("1", "2")
    assert count.values.tolist() == [0, -1, 1]
    (name,) = read_columns({"lone \ud800": ["a", "b", "c"]}, 3)
    assert name.name == "lone ?"
