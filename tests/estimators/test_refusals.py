"""Rare refusals and the ways around them: each is met, says what was received, and names the next step."""

from __future__ import annotations

import json
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import heatsketch as hs
from heatsketch._utils.progress import shown, task
from heatsketch.analysis.diagnosis import _recall
from heatsketch.backends.dask.tasks import _explained
from heatsketch.kernel.operator import HeatKernel, as_heat_kernel
from heatsketch.kernel.plan import Estimate
from heatsketch.optimize.features import WideSketch
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.store import Store

GP = hs.GaussianProcessEmbedding
X = hs.datasets.circle(40, random_state=0)


@pytest.fixture(scope="module")
def model():
    return GP(2, bandwidth=0.5, power=4, random_state=0).fit(X)


class TestKernels:
    def test_a_graph_is_no_kernel(self):
        with pytest.raises(ValueError, match=r"pass heat_kernel\(graph, affinity='precomputed'\)"):
            hs.diffusion_distances(nx.path_graph(4), 2)

    def test_entries_whose_products_overflow(self):
        with pytest.raises(ValueError, match=r"entries of up to 1e\+160, whose products overflow.*Divide A by"):
            hs.diffusion_distances(np.eye(3) * 1e160, 2)

    def test_a_kernel_of_nothing(self):
        with pytest.raises(ValueError, match=r"needs an operator, or an affinity and its scaling; use heat_kernel"):
            HeatKernel()

    def test_a_matrix_has_no_rows_at_new_points(self):
        with pytest.raises(ValueError, match="no rows at new points"):
            as_heat_kernel(np.eye(3)).rows_at_new_points(np.eye(3))

    def test_only_points_have_a_bandwidth_of_neighbours(self):
        assert hs.heat_kernel(nx.path_graph(6), affinity="precomputed").neighbor_bandwidth is None

    def test_times_that_are_none(self, model):
        for powers, shape in (([], r"\(0,\)"), ([[1, 2]], r"\(1, 2\)"), (3.0, r"\(\)")):
            with pytest.raises(ValueError, match=f"powers of shape {shape} were given; give a list"):
                model.at_powers(powers)

    def test_blocks_of_another_length_on_a_device(self):
        pytest.importorskip("torch")
        A = hs.heat_kernel(X, bandwidth=0.5, device="torch-cpu")
        with pytest.raises(ValueError, match=r"cannot multiply an array of shape \(7, 2\); give one with 40 rows"):
            A.symmetric @ np.ones((7, 2))

    def test_tensors_of_complex_numbers(self):
        torch = pytest.importorskip("torch")
        with pytest.raises(ValueError, match=r"X is a tensor of torch.complex64"):
            GP(2).fit(torch.ones((4, 2), dtype=torch.complex64))

    def test_sketches_beyond_the_range_of_numbers(self):
        wide = WideSketch(np.ones((3, 1)), np.ones((3, 1)), 1.0, np.ones(1), 0, exact=True)
        np.testing.assert_array_equal(wide.combined(np.array([[2.0]]), np.float32), np.full((3, 1), 2, np.float32))
        with pytest.raises(ValueError, match="overflows float32"):
            wide.combined(np.array([[1e60]]), np.float32)

    def test_a_search_that_misses_neighbours_is_told(self):
        found = _recall(SimpleNamespace(gaussian=SimpleNamespace(recall=0.8)))
        assert (found.name, found.figure) == ("recall", 0.8)
        assert _recall(SimpleNamespace(gaussian=SimpleNamespace(recall=1.0))) is None

    def test_a_line_up_of_a_model_with_a_sketch_of_its_own(self):
        own = GP(2, bandwidth=0.5, power=4, sketch=np.random.default_rng(0).normal(size=(40, 2))).fit(X)
        found = hs.compare_embeddings(own, 3)["GaussianProcessEmbedding"].model
        assert (found.embedding_.shape, found.sketch) == ((40, 3), "gaussian")


class TestScales:
    def test_of_a_graph_there_are_no_shortest_paths_between_points(self):
        fit = GP(2, affinity="precomputed", power=2, random_state=0).fit(nx.cycle_graph(30))
        found = fit.scales([1.0, 4.0])
        assert found.paths is None
        assert "paths" not in found._repr_html_()
        assert len(found.plot()[1].get_lines()) == 2  # the distortion, and the time that was chosen


def test_a_record_of_another_kind(tmp_path):
    store = Store(tmp_path)
    path = store.path("circle", ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"name": "circle", "parameters": {"seed": 0}, "version": 3, "seconds": 1.0, "sessions": []}
    path.write_text(json.dumps(record))
    with pytest.raises(ReproductionError, match="is not a record of results"):
        store.provenance("circle")


def test_lines_of_progress(monkeypatch, capsys):
    monkeypatch.setattr("heatsketch._utils.progress._EVERY", 0.0)
    with shown(True), task("working") as advance:
        advance(1, 4)
        advance(2, 0)
    assert [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines()] == ["0 s, 25%", "0 s"]


class TestResources:
    def test_memory_that_runs_out_all_the_same(self):
        estimate = Estimate(5, "every pair", None, 10, 10**12, 1.0)
        words = r"memory ran out \(Unable to allocate\): 5 samples with every pair"
        with pytest.raises(MemoryError, match=words), estimate.within_memory():
            raise _LackingError("Unable to allocate")
        with pytest.raises(MemoryError, match=r"^known better$"), estimate.within_memory():
            raise MemoryError("known better")


class _LackingError(MemoryError):
    """As NumPy has one of its own."""


class TestClusters:
    @pytest.mark.parametrize(
        ("kind", "words"), [("KilledWorker", "Give each worker more memory"), ("CancelledError", "fit again on data")]
    )
    def test_what_is_lost_is_told_with_the_remedy(self, kind, words):
        error = type(kind, (Exception,), {})("gone")
        with pytest.raises(RuntimeError, match=f"multiplying.*gone.*{words}"), _explained("multiplying"):
            raise error
        with pytest.raises(KeyError), _explained("multiplying"):
            raise KeyError("of the task itself")
