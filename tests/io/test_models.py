"""Model files: a loaded model embeds as the saved one, and other files raise."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs

SEEN, NEW = hs.datasets.stretched_torus(150, random_state=0), hs.datasets.stretched_torus(12, random_state=1)
GRAPH = nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float)
GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
CASES = {
    "sketch": (GP(4, bandwidth=1.0, random_state=0), SEEN, NEW),
    "generator": (GP(3, bandwidth=1.0, random_state=np.random.default_rng(0)), SEEN, NEW),
    "signs, some exact": (GP(6, bandwidth=1.0, sketch="rademacher", n_exact=2, random_state=1), SEEN, NEW),
    "own sketch": (GP(2, bandwidth=1.0, sketch=np.random.default_rng(0).normal(size=(150, 2))), SEEN, NEW),
    "power chosen": (GP(3, power="auto", random_state=0), SEEN, NEW),
    "float32": (GP(3, power=0.5, bandwidth=1.0, random_state=0), SEEN.astype("float32"), NEW.astype("float32")),
    "maps": (DM(3, bandwidth=1.0, normalization="stochastic"), SEEN, NEW),
    "local scales": (DM(2), SEEN, NEW),
    "local scales, every pair": (DM(2, n_neighbors=None), SEEN, NEW),
    "given scales": (DM(2, bandwidth=np.linspace(1.0, 2.0, 150)), SEEN, NEW),
    "optimised": (HS(3, random_state=0), SEEN, NEW),
    "optimised, every pair": (HS(3, bandwidth=1.0, random_state=0), SEEN, NEW),
    "worst pairs": (HS(3, bandwidth=1.0, power=4, objective="bilipschitz", random_state=0), SEEN, NEW),
    "neighbours": (GP(4, n_neighbors=10, random_state=0), SEEN, NEW),
    "metric": (GP(4, metric="minkowski", metric_params={"p": 3}, random_state=0), SEEN, NEW),
    "sparse points": (GP(2, random_state=0), sparse.csr_array(SEEN), sparse.csr_array(NEW)),
    "graph": (DM(2, affinity="precomputed"), GRAPH, GRAPH[:5]),
}


@pytest.mark.parametrize("case", CASES)
def test_loaded_model_embeds_as_the_saved_one(case, tmp_path):
    model, X, new = CASES[case]
    model = clone(model).fit(X)
    hs.save_model(model, tmp_path / "m.heatsketch")
    loaded = hs.load_model(tmp_path / "m.heatsketch")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_array_equal(loaded.at_powers([1.0, 3.0]), model.at_powers([1.0, 3.0]))
    hs.save_model(loaded, tmp_path / "again.heatsketch")
    np.testing.assert_array_equal(hs.load_model(tmp_path / "again.heatsketch").transform(new), model.transform(new))


@pytest.mark.parametrize("case", ["sketch", "maps", "optimised", "neighbours"])
def test_loaded_model_has_all_methods(case, tmp_path):
    model, X, _ = CASES[case]
    model = clone(model).fit(X)
    hs.save_model(model, tmp_path / "m")
    loaded = hs.load_model(tmp_path / "m")
    pairs = [[0, 1], [2, 9]]
    np.testing.assert_array_equal(
        loaded.diffusion_distances(pairs, interval=0.9), model.diffusion_distances(pairs, interval=0.9)
    )
    assert loaded.diagnose().names == model.diagnose().names
    np.testing.assert_array_equal(loaded.add_components(1).embedding_, model.add_components(1).embedding_)


def test_feature_names_and_output_settings_are_kept(tmp_path):
    frame = pd.DataFrame(SEEN, columns=["one", "two", "three", "four"])
    model = GP(2, bandwidth=1.0, random_state=0).set_output(transform="pandas").fit(frame)
    hs.save_model(model, tmp_path / "m")
    loaded = hs.load_model(tmp_path / "m")
    pd.testing.assert_frame_equal(loaded.transform(frame[:3]), model.transform(frame[:3]))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[["two", "one", "three", "four"]])


@pytest.mark.parametrize("index", [list("abcdefgh"), pd.date_range("2026-01-01", periods=8), range(3, 11), None])
def test_sample_names_are_kept(tmp_path, index):
    frame = pd.DataFrame(SEEN[:8], columns=list("wxyz"), index=index)
    hs.save_model(GP(2, bandwidth=2.0, random_state=0).fit(frame), tmp_path / "m")
    assert [str(n) for n in hs.load_model(tmp_path / "m").sample_names_] == [str(n) for n in frame.index]


def test_node_names_are_kept(tmp_path):
    hs.save_model(DM(2, affinity="precomputed").fit(nx.grid_2d_graph(4, 5)), tmp_path / "m")
    assert list(hs.load_model(tmp_path / "m").to_dict()) == list(nx.grid_2d_graph(4, 5))


def test_parameters_of_numpy_types(tmp_path):
    model = GP(np.int64(2), bandwidth=np.float64(0.5), power=np.float32(4), random_state=np.int32(0)).fit(SEEN[:40])
    hs.save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(hs.load_model(tmp_path / "m").embedding_, model.embedding_)


TABLE = pd.DataFrame(SEEN, columns=list("abcd")).assign(
    a=lambda f: 1000 * f["a"].where(f.index % 7 > 0),
    kind=["uvw"[i % 3] for i in range(150)],
    day=pd.date_range("2026-01-01", periods=150),
)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_pipeline_of_a_table(tmp_path, output):
    encoder = hs.TableEncoder(impute="median", dates="number").set_output(transform=output)
    model = Pipeline([("columns", encoder), ("map", DM(2))]).fit(TABLE)
    hs.save_model(model, tmp_path / "m")
    loaded = hs.load_model(tmp_path / "m")
    assert list(loaded.named_steps) == ["columns", "map"]
    assert loaded[0].get_params() == model[0].get_params()
    assert loaded[0].notes_ == model[0].notes_
    new = TABLE[:9][["kind", "d", "c", "b", "a", "day"]].assign(kind=["u", "x", None] * 3)  # "x" is unseen
    for one in (TABLE, new):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            np.testing.assert_array_equal(loaded.transform(one), model.transform(one))
    hs.save_model(loaded, tmp_path / "again")
    np.testing.assert_array_equal(hs.load_model(tmp_path / "again").transform(TABLE), model.transform(TABLE))
    with pytest.raises(ValueError, match="'kind'"):
        loaded.transform(TABLE.drop(columns="kind"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["fitted"].update(columns_=[]), "columns"),
        (lambda t: t["fitted"].update(columns_=["a"]), "columns"),
        (lambda t: t["fitted"]["columns_"]["$tuple"].pop(), "encoded columns"),
        (lambda t: t["fitted"]["columns_"]["$tuple"][0]["fields"].update(scale=0.0), "scale"),
        (lambda t: t["fitted"]["columns_"]["$tuple"][0]["fields"].update(kind="code"), "code"),
        (lambda t: t["fitted"]["columns_"]["$tuple"][-1]["fields"]["levels"].update({"$tuple": ["u", "u"]}), "levels"),
        (lambda t: t["parameters"].update(surprise=1), "surprise"),
        (lambda t: t.update(steps=["one"]), "cannot be loaded"),
        (lambda t: t.pop("fitted"), "fitted"),
    ],
)
def test_damaged_tables_raise(tmp_path, change, message):
    hs.save_model(make_pipeline(hs.TableEncoder(impute="median"), DM(2)).fit(TABLE), tmp_path / "m")
    with pytest.raises(ValueError, match=message):
        hs.load_model(_rewritten(tmp_path / "m", lambda document: change(document["table"])))


def test_what_cannot_be_saved(tmp_path):
    def largest(x, y):
        return float(np.abs(x - y).max())

    nodes = nx.relabel_nodes(nx.karate_club_graph(), {0: frozenset("a")})
    for model, message in (
        (GP(2, metric=largest, bandwidth=1.0, random_state=0).fit(SEEN[:30]), "function"),
        (DM(2, affinity="precomputed").fit(nodes), "frozenset"),
        ({}, "dict"),
        (make_pipeline(StandardScaler(), DM(2)).fit(SEEN), "Pipeline"),
    ):
        with pytest.raises(ValueError, match=message):
            hs.save_model(model, tmp_path / "m")
    with pytest.raises(NotFittedError):
        hs.save_model(GP(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.heatsketch"
    hs.save_model(GP(2, bandwidth=1.0, random_state=0).fit(SEEN[:40]), path)
    return path


def _rewritten(path, change, **arrays):
    """The file with its document changed and members replaced."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["model.json"])
    change(document)
    members["model.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | arrays).items():
            archive.writestr(name, content)
    return path


class _Bomb:
    def __reduce__(self):
        return os.system, ("echo ran > bomb",)


def test_nothing_in_a_file_is_executed(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("bomb.npy", np.array([_Bomb()], dtype=object), allow_pickle=True)
    _rewritten(saved, lambda document: None, **{"arrays/0.npy": (tmp_path / "bomb.npy").read_bytes()})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        hs.load_model(saved)
    (tmp_path / "pickled").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ValueError, match="not a zip file"):
        hs.load_model(tmp_path / "pickled")
    assert not (tmp_path / "bomb").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "not a model"),
        (lambda d: d.update(version=99), "Install a later version"),
        (lambda d: d.update(estimator="os.system"), "not a model"),
        (lambda d: d.update(fitted={"$record": "Popen", "fields": {"args": "true"}}), "Popen"),
        (lambda d: d.update(fitted={"$code": "1 + 1"}), "code"),
        (lambda d: d.update(fitted={"$array": "../../etc/passwd"}), "no item named"),
        (lambda d: d["parameters"].update(surprise=1), "surprise"),
        (lambda d: d["fitted"].update(n_components_=7), "embedding_"),
        (lambda d: d["fitted"].update(_sample_names=["a"]), "names"),
        (lambda d: d["fitted"].update(power_={"$number": "nan"}), "power=nan"),
        (lambda d: d["kernel"].update(dtype="int8"), "dtype"),
        (lambda d: d["kernel"]["scaling"]["fields"].update(row_weight=[1, 2]), "row_weight"),
        (lambda d: d["fitted"].update(embedding_=[[{"$number": "nan"}, 0.0]] * 40), "embedding_"),
        (lambda d: d["fitted"].update(_coefficients=[["1", "2"]] * 40), "_coefficients"),
        (lambda d: d["kernel"]["scaling"]["fields"].update(scale=[{"$number": "inf"}] * 40), "scale"),
        (lambda d: d["kernel"]["scaling"]["fields"].update(reference_exponent="1"), "reference_exponent"),
        (lambda d: d.pop("kernel"), "kernel"),
    ],
)
def test_inconsistent_files_raise(saved, change, message):
    with pytest.raises(ValueError, match=message):
        hs.load_model(_rewritten(saved, change))


def test_sparse_indices_are_checked(tmp_path):
    path = tmp_path / "m"
    hs.save_model(DM(2, affinity="precomputed").fit(GRAPH), path)
    with zipfile.ZipFile(path) as archive:
        member = json.loads(archive.read("model.json"))["kernel"]["X"]["$sparse"]["indices"]["$array"]
        indices = np.lib.format.read_array(archive.open(member))
    indices[3] = 10**6
    content = io.BytesIO()
    np.save(content, indices)
    with pytest.raises(ValueError, match="index 1000000"):
        hs.load_model(_rewritten(path, lambda d: None, **{member: content.getvalue()}))


def test_model_of_a_gpu_loads_without_one(saved):
    before = hs.load_model(saved).transform(SEEN[40:50])
    loaded = hs.load_model(_rewritten(saved, lambda d: d["parameters"].update(device="cuda")))
    np.testing.assert_allclose(loaded.transform(SEEN[40:50]), before, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_truncated_files_raise(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="damaged" if share else "not a heatsketch model"):
        hs.load_model(saved)
