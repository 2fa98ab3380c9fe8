"""Interrupts and errors at any moment of a fit: the estimator is as it was, and so is everything around it.

What is promised is that a method changes its estimator wholly or not at all. An interrupt that comes when the work is
done finds it changed, wholly; before that, it finds the attributes that were there, the same objects with the same
contents.
"""

from __future__ import annotations

import gc
import pickle
import signal
import tempfile
import time
from contextlib import contextmanager

import numpy as np
import pytest
from anndata import AnnData
from sklearn.neighbors import kneighbors_graph

import heatsketch as hs
from budget import HUNT, rounds
from heatsketch.scanpy import heat_sketch

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system"),
    # An interrupt between a file's opening and the block that closes it leaves that to the interpreter, which warns.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]

X = hs.datasets.stretched_torus(90, random_state=0)
OTHER = hs.datasets.klein_bottle(80, random_state=1)
GRAPH = kneighbors_graph(X, 12, mode="connectivity").maximum(kneighbors_graph(X, 12, mode="connectivity").T)

MODELS = {
    "gaussian process": lambda: hs.GaussianProcessEmbedding(4, random_state=0),
    "of neighbours": lambda: hs.GaussianProcessEmbedding(4, n_neighbors=12, n_exact=1, random_state=0),
    "best of several": lambda: hs.GaussianProcessEmbedding(3, power="auto", random_state=0),
    "of a graph": lambda: hs.GaussianProcessEmbedding(4, affinity="precomputed", random_state=0),
    "diffusion maps": lambda: hs.DiffusionMaps(3, bandwidth="self-tuning"),
    "randomized": lambda: hs.DiffusionMaps(3, solver="randomized", normalization="symmetric"),
    "heat sketch": lambda: hs.HeatSketch(2, solver_params={"n_rounds": 2}, random_state=0),
}
# What changes a model, and what only asks it something (and may keep the answer).
CHANGES = {
    "fit": lambda model, data: model.fit(data),
    "fit into an array": lambda model, data: model.fit_transform(data, out=np.empty((data.shape[0], n_columns(model)))),
    "add components": lambda model, _: model.add_components(1),
    "reach an error": lambda model, _: model.add_components(distance_error=0.6),
    "intervals": lambda model, _: model.diffusion_distances([[0, 1]], interval=0.9),
}


def n_columns(model):
    return model.n_components


def data_of(name, *, other=False):
    return GRAPH if name == "of a graph" else OTHER if other else X


def contents(value):
    """What an attribute holds, to the last bit."""
    return pickle.dumps(value) if not callable(value) else value


def state(model):
    """Every attribute, as an object and as what it holds."""
    return {name: (id(value), contents(value)) for name, value in vars(model).items()}


def holds(model):
    """What every attribute holds, whatever object it is; but for the time that it took."""
    rounds_ = [one._replace(seconds=0.0) for one in getattr(model, "history_", ())]
    return {name: contents(rounds_ if name == "history_" else value) for name, value in vars(model).items()}


@contextmanager
def alarm(seconds):
    """Raise KeyboardInterrupt after so many seconds of real time, at whatever place the interpreter is then."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(work, seconds):
    """Whether an alarm came before the work was done."""
    try:
        with alarm(seconds):
            work()
    except KeyboardInterrupt:
        return True
    return False


@pytest.fixture
def calm(tmp_path, monkeypatch):
    """An empty directory for temporary files, which must be empty afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    gc.collect()
    assert not any(tmp_path.iterdir())


def moments(seconds, n):
    """Moments of work that takes so long: the same in every run, others in every hunt."""
    return np.random.default_rng(None if HUNT > 1 else 0).uniform(0, 1.1 * seconds, rounds(n)).tolist()


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", MODELS)
def test_an_interrupt_at_any_moment_leaves_a_fitted_estimator_as_it_was(name, record_property):
    model, hits = MODELS[name]().fit(data_of(name)), 0
    fitted = dict(vars(model))
    for change in CHANGES.values():

        def work(change=change):
            model.__dict__ = dict(fitted)
            change(model, data_of(name, other=True))

        work()  # once without, to know how long it takes and what comes of it
        start = time.perf_counter()
        work()
        changed, seconds = holds(model), time.perf_counter() - start
        model.__dict__ = dict(fitted)
        before = state(model)
        for moment in moments(seconds, 2):
            if interrupted(work, moment):
                hits += 1
                assert state(model) == before or holds(model) == changed
            else:
                assert holds(model) == changed
    record_property("faults", hits)


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", MODELS)
def test_an_estimator_whose_first_fit_is_interrupted_is_not_fitted(name, record_property):
    hits, reference = 0, MODELS[name]()
    parameters = dict(vars(reference))
    start = time.perf_counter()
    fitted = holds(reference.fit(data_of(name)))
    for moment in moments(time.perf_counter() - start, 2):
        model = MODELS[name]()
        model.__dict__ = dict(parameters)
        if interrupted(lambda model=model: model.fit(data_of(name)), moment):
            hits += 1
            assert vars(model) == parameters or holds(model) == fitted
    record_property("faults", hits)


def failing_metric(calls, error):
    """The Euclidean distance, until it has been asked for so often."""
    left = iter(range(calls))

    def distance(x, y):
        if next(left, None) is None:
            raise error
        return float(np.linalg.norm(x - y))

    return distance


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("error", [OSError("the disk"), MemoryError(), ZeroDivisionError("a mistake")])
def test_an_error_in_the_middle_of_a_fit_leaves_the_estimator_as_it_was(error, record_property):
    points, faults = X[:20], 0
    model = hs.GaussianProcessEmbedding(2, bandwidth=1.0, random_state=0).fit(X)
    for calls in np.linspace(0, 150, 5 * rounds(1)).astype(int):
        model.set_params(metric=failing_metric(int(calls), error))
        before = state(model)
        with pytest.raises(type(error)) as raised:
            model.fit(points)
        faults += 1
        assert state(model) == before
        assert not isinstance(error, MemoryError) or "memory ran out: 20 samples with every pair" in str(raised.value)
    assert np.array_equal(model.set_params(metric="euclidean").fit(points).embedding_, twin_of(model, points))
    record_property("faults", faults)


def twin_of(model, points):
    return type(model)(**model.get_params()).fit_transform(points)


@pytest.mark.usefixtures("calm")
def test_cells_are_unchanged_by_an_interrupt(record_property):
    def work():
        heat_sketch(adata, 2, n_rounds=2, n_steps=4, n_neighbors=10, diagnose=False)

    adata = AnnData(X.copy(), obsm={"X_heatsketch": np.zeros((len(X), 2))}, uns={"heatsketch": {"mine": 1}, "more": 2})
    work()
    start, hits = time.perf_counter(), 0
    work()
    for moment in moments(time.perf_counter() - start, 10):
        adata = AnnData(X.copy(), obsm={"X_heatsketch": np.zeros((len(X), 2))}, uns={"heatsketch": {"mine": 1}})
        if interrupted(work, moment):
            hits += 1
            untouched = (not adata.obsm["X_heatsketch"].any(), dict(adata.uns) == {"heatsketch": {"mine": 1}})
            assert untouched in ((True, True), (False, False))
    record_property("faults", hits)
