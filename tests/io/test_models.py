"""Models in files: what is loaded embeds as what was saved, and a file that is not one does no harm."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import heatsketch as hs
from heatsketch._utils.files import whole

SEEN, NEW = hs.datasets.stretched_torus(150, random_state=0), hs.datasets.stretched_torus(12, random_state=1)
GRAPH = nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float)
CLOSED = GRAPH + GRAPH @ GRAPH  # with loops
GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
LINE = np.exp(-np.abs(np.subtract.outer(NEW[:, 0], NEW[:, 0])))
CASES = {
    "sketch": (GP(4, bandwidth=1.0, random_state=0), SEEN, NEW),
    "generator": (GP(3, bandwidth=1.0, random_state=np.random.default_rng(0)), SEEN, NEW),
    "signs, some exact": (GP(6, bandwidth=1.0, sketch="rademacher", n_exact=2, random_state=1), SEEN, NEW),
    "own sketch": (GP(2, bandwidth=1.0, sketch=np.random.default_rng(0).normal(size=(150, 2))), SEEN, NEW),
    "columns, kept": (GP(3, bandwidth=1.0, sketch="columns", random_state=0), SEEN, NEW),
    "power chosen": (GP(3, power="auto", random_state=0), SEEN, NEW),
    "power below one": (GP(3, power=0.5, bandwidth=1.0, random_state=0), SEEN.astype("float32"), NEW.astype("float32")),
    "maps": (DM(3, bandwidth=1.0, normalization="stochastic"), SEEN, NEW),
    "self-tuning": (DM(2, bandwidth="self-tuning"), SEEN, NEW),
    "optimised": (HS(3, bandwidth=1.0, solver_params={"n_rounds": 2}, random_state=0), SEEN, NEW),
    "neighbours": (GP(4, n_neighbors=10, random_state=0), SEEN, NEW),
    "neighbours, local": (DM(2, n_neighbors=10, bandwidth="self-tuning"), SEEN, NEW),
    "cutoff": (GP(4, kernel_params={"cutoff": 1e-4}, bandwidth=1.0, random_state=0), SEEN, NEW),
    "metric": (GP(4, metric="minkowski", metric_params={"p": 3}, random_state=0), SEEN, NEW),
    "sparse points": (GP(2, random_state=0), sparse.csr_array(SEEN), sparse.csr_array(NEW)),
    "graph": (DM(2, affinity="precomputed"), GRAPH, GRAPH[:5]),
    "graph without loops": (
        GP(2, affinity="precomputed", kernel_params={"diagonal": "zero"}, random_state=0),
        GRAPH + GRAPH @ GRAPH,
        None,
    ),
    "affinity": (
        GP(2, affinity="precomputed", random_state=0),
        np.exp(-np.abs(np.subtract.outer(*2 * [NEW[:, 0]]))),
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_loaded_embeds_as_what_was_saved(case, tmp_path):
    model, X, new = CASES[case]
    model = clone(model).fit(X)
    new = X[:4] if new is None else new
    hs.save_model(model, tmp_path / "m.heatsketch")
    loaded = hs.load_model(tmp_path / "m.heatsketch")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_array_equal(loaded.at_powers([1.0, 3.0]), model.at_powers([1.0, 3.0]))
    assert loaded.bandwidth_ == pytest.approx(model.bandwidth_) if np.ndim(model.bandwidth_) == 0 else True
    mine, theirs = ({name for name in vars(m) if name != "_witness"} for m in (model, loaded))
    assert mine == theirs
    saved_again = tmp_path / "again.heatsketch"
    hs.save_model(loaded, saved_again)
    np.testing.assert_array_equal(hs.load_model(saved_again).transform(new), model.transform(new))


@pytest.mark.parametrize("case", ["sketch", "maps", "optimised", "neighbours"])
def test_a_loaded_model_goes_on(case, tmp_path):
    model, X, _ = CASES[case]
    model = clone(model).fit(X)
    hs.save_model(model, tmp_path / "m")
    loaded = hs.load_model(tmp_path / "m")
    for ours, theirs in zip(
        *(m.diffusion_distances([[0, 1], [2, 9]], interval=0.9) for m in (model, loaded)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.diagnose().names == model.diagnose().names
    np.testing.assert_array_equal(loaded.add_components(1).embedding_, model.add_components(1).embedding_)


def test_names_and_output_settings_are_kept(tmp_path):
    frame = pd.DataFrame(SEEN, columns=["one", "two", "three", "four"])
    model = GP(2, bandwidth=1.0, random_state=0).set_output(transform="pandas").fit(frame)
    hs.save_model(model, tmp_path / "m")
    loaded = hs.load_model(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    pd.testing.assert_frame_equal(loaded.transform(frame[:3]), model.transform(frame[:3]))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[["two", "one", "three", "four"]])


@pytest.mark.parametrize("index", [list("abcdefgh"), pd.date_range("2026-01-01", periods=8), range(3, 11), None])
def test_names_of_samples_are_kept(tmp_path, index):
    frame = pd.DataFrame(SEEN[:8], columns=list("wxyz"), index=index)
    model = GP(2, bandwidth=2.0, random_state=0).fit(frame)
    hs.save_model(model, tmp_path / "m")
    assert [str(n) for n in hs.load_model(tmp_path / "m").sample_names_] == [str(n) for n in frame.index]


def test_names_of_nodes_are_kept(tmp_path):
    model = DM(2, affinity="precomputed").fit(nx.grid_2d_graph(4, 5))
    hs.save_model(model, tmp_path / "m")
    assert list(hs.load_model(tmp_path / "m").to_dict()) == list(nx.grid_2d_graph(4, 5))
    strange = nx.relabel_nodes(nx.karate_club_graph(), {0: frozenset("a")})
    with pytest.raises(ValueError, match=r"_sample_names\[0\] is a frozenset, which a model file does not hold"):
        hs.save_model(DM(2, affinity="precomputed").fit(strange), tmp_path / "n")


def test_functions_are_refused_and_callbacks_left_out(tmp_path):
    odd = GP(2, metric=lambda x, y: float(np.abs(x - y).max()), bandwidth=1.0, random_state=0).fit(SEEN[:30])
    with pytest.raises(ValueError, match="is a function, which a model file does not hold"):
        hs.save_model(odd, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    heard = []
    called = HS(2, bandwidth=1.0, solver_params={"n_rounds": 1}, callback=heard.append, random_state=0).fit(SEEN[:60])
    hs.save_model(called, tmp_path / "m")
    assert hs.load_model(tmp_path / "m").callback is None
    assert heard
    with pytest.raises(NotFittedError):
        hs.save_model(GP(), tmp_path / "n")
    with pytest.raises(ValueError, match="a dict was given; what can be saved"):
        hs.save_model({}, tmp_path / "n")


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


def test_a_file_that_would_run_code_is_refused(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = np.array([_Bomb()], dtype=object)
    np.save("bomb.npy", bomb, allow_pickle=True)
    content = (tmp_path / "bomb.npy").read_bytes()
    _rewritten(saved, lambda document: None, **{"arrays/0.npy": content})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        hs.load_model(saved)
    (tmp_path / "pickled").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ValueError, match="not a zip file"):
        hs.load_model(tmp_path / "pickled")
    assert not (tmp_path / "bomb").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="other"), "not a model of heatsketch"),
        (lambda d: d.update(version=99), "reads version 1. Install a later heatsketch"),
        (lambda d: d.update(version={"$array": "arrays/0.npy"}), "reads version 1. Install a later heatsketch"),
        (lambda d: d.update(format={"$array": "arrays/0.npy"}), "is not a model of heatsketch"),
        (lambda d: d.update(estimator="os.system"), "holds a 'os.system'"),
        (lambda d: d.update(fitted={"$record": "Popen", "fields": {"args": "true"}}), "a 'Popen', which this version"),
        (lambda d: d.update(fitted={"$code": "1 + 1"}), "a '\\$code', which this version"),
        (lambda d: d.update(fitted={"$array": "../../etc/passwd"}), "no item named"),
        (lambda d: d["parameters"].update(surprise=1), "unexpected keyword argument 'surprise'"),
        (lambda d: d["parameters"].update(n_neighbors=-3), "n_neighbors=-3"),
        (lambda d: d["fitted"].update(n_components_=7), "for 40 samples and 7 components"),
        (lambda d: d["fitted"].update(n_components_={"$number": "inf"}), "damaged"),
        (lambda d: d["fitted"].update(transform=3), "holds a 'transform', which is no attribute of a fit"),
        (lambda d: d["fitted"].update(__class__="x"), "holds a '__class__'"),
        (lambda d: d["fitted"].update(kernel_=None), "holds a 'kernel_'"),
        (lambda d: d["fitted"].update(power_choice_=[1]), "power_choice_ is of another kind"),
        (lambda d: d["fitted"].update(_sample_names=["a"]), "not 40 names of samples"),
        (lambda d: d["kernel"].update(dtype="float16"), "the kernel is in float16"),
        (lambda d: d["kernel"]["scaling"]["fields"].update(row_weight=[1, 2]), "row_weight has shape"),
        (lambda d: d["kernel"]["scaling"]["fields"].update(reference=[0.0] * 40), "reference is not positive"),
        (lambda d: d["kernel"].update(X=[1, 2]), "no points or no scaling"),
        (lambda d: d["fitted"].update(power_=-2.0), "its power is -2"),
        (lambda d: d.pop("kernel"), "'kernel'"),
        (lambda d: d.update(fitted=json.loads("[" * 60 + "]" * 60)), "nested more than 32 deep"),
    ],
)
def test_documents_that_do_not_fit_are_refused(saved, change, words):
    with pytest.raises(ValueError, match=words):
        hs.load_model(_rewritten(saved, change))


@pytest.mark.parametrize(
    ("points", "words"),
    [(np.empty((2**31, 0)), "its 2147483648 points have no columns"), (np.ones((41, 3)), "scale has shape .* for 41")],
)
def test_points_of_another_number_are_refused_before_anything_is_made_of_them(saved, points, words):
    with zipfile.ZipFile(saved) as archive:
        place = json.loads(archive.read("model.json"))["kernel"]["X"]["$array"]
    content = io.BytesIO()
    np.save(content, points)
    with pytest.raises(ValueError, match=words):
        hs.load_model(_rewritten(saved, lambda d: None, **{place: content.getvalue()}))


def test_sparse_entries_outside_of_the_matrix_are_refused(tmp_path):
    path = tmp_path / "m"
    hs.save_model(DM(2, affinity="precomputed").fit(GRAPH), path)
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
        place = document["kernel"]["X"]["$sparse"]["indices"]["$array"]
        indices = np.lib.format.read_array(archive.open(place))
    indices[3] = 10**6
    for wrong, words in ((indices, "must be < 34"), (indices * np.nan, "places are no whole numbers")):
        np.save(tmp_path / "i.npy", wrong)
        with pytest.raises(ValueError, match=words):
            hs.load_model(_rewritten(path, lambda d: None, **{place: (tmp_path / "i.npy").read_bytes()}))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_files_cut_short_are_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="damaged, or no model of heatsketch"):
        hs.load_model(saved)


def test_models_are_written_whole_or_not_at_all(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="no space"):
        hs.save_model(GP(3, bandwidth=1.0).fit(SEEN[:30]), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_outputs_keep_links_and_leave_devices_alone(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("before")
    link.symlink_to(target)
    with whole(link) as temporary:
        temporary.write_text("after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    with whole("/dev/null") as device:
        device.write_text("gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116
    with pytest.raises(FileNotFoundError, match="there is no folder"), whole(tmp_path / "no" / "file"):
        pass
    with pytest.raises(IsADirectoryError, match="name a file in it"), whole(tmp_path):
        pass
