"""Rare refusals and the ways around them: each is met, says what was received, and names the next step."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import struct
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import heatsketch as hs
from heatsketch._utils import memory as resources
from heatsketch._utils.progress import shown, task
from heatsketch._utils.thread_pool import Crew
from heatsketch.analysis.diagnosis import _recall
from heatsketch.backends.dask.tasks import _explained
from heatsketch.cli import _in_words
from heatsketch.cli.console import delivered, interruptible, print_json, replace_closed_streams
from heatsketch.io import Reading, read
from heatsketch.io.untrusted import check_array_header, check_compressed
from heatsketch.kernel.estimate import Estimate
from heatsketch.kernel.operator import HeatKernel
from heatsketch.optimize.features import WideSketch
from heatsketch.report.packing import ABSENT, in_levels, in_logarithms
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
        with pytest.raises(ValueError, match="was given as a matrix and has no rows at new points; build it from data"):
            hs.heat_operator.as_heat_kernel(np.eye(3)).rows_at_new_points(np.eye(3))

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
        with pytest.raises(ValueError, match=r"leaves the range of float32; use a smaller power, or float64"):
            wide.combined(np.array([[1e60]]), np.float32)

    def test_a_search_that_misses_neighbours_is_told(self):
        found = _recall(SimpleNamespace(gaussian=SimpleNamespace(recall=0.8)))
        assert (found.name, found.figure) == ("recall", 0.8)
        assert found.message == "The search found 80.0% of the nearest neighbours."
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


class TestFiles:
    def test_names_for_a_sparse_matrix(self, tmp_path):
        sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.eye(3)))
        with pytest.raises(ValueError, match="one sparse matrix and nothing else, so no names can be given"):
            read(tmp_path / "m.npz", Reading(key="X"))

    def test_two_arrays_of_one_name(self, tmp_path):
        content = io.BytesIO()
        np.save(content, X)
        with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            archive.writestr("X.npy", content.getvalue())
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr("X.npy", content.getvalue())
        with pytest.raises(ValueError, match="two of its arrays have the same name"):
            read(tmp_path / "t.npz")

    def test_more_entries_than_bytes(self, tmp_path):
        (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate real general\n9 9 80\n1 1 1.0\n")
        with pytest.raises(ValueError, match="it promises 80 entries, and has"):
            read(tmp_path / "m.mtx")

    @pytest.mark.parametrize("array", [np.ones(4), np.ones((2, 2), dtype=complex), np.ones((0, 2))])
    def test_arrays_that_are_no_matrix(self, tmp_path, array):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(ValueError, match=r"it must be a matrix of real numbers.*v\[:, None\] makes one"):
            read(tmp_path / "x.npy")

    def test_two_columns_of_one_name(self, tmp_path):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = arrow.table([arrow.array([1.0, 2.0])] * 2, names=["a", "a"])
        parquet.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="two of its columns are called 'a'; give each a name of its own"):
            read(tmp_path / "t.parquet")
        # Names are numbers, says what pandas keeps beside the table, and so these two are one.
        table = arrow.Table.from_pandas(pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=[1, 2]))
        renamed = table.rename_columns(["1", "01"]).replace_schema_metadata(table.schema.metadata)
        parquet.write_table(renamed, tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=r"two of its columns are called '1'|Level values must be unique"):
            read(tmp_path / "t.parquet")

    def test_heaps_within_heaps(self, tmp_path):
        """Every one of many heaps goes on to the end of the file: to look through them all would take for ever."""
        h5py = pytest.importorskip("h5py")
        entry = struct.pack("<H6xQ", 1, 16) + b"GCOL\1\0\0\0" + struct.pack("<Q", 1 << 40)
        with h5py.File(tmp_path / "x.h5ad", "w") as file:
            file["X"] = np.frombuffer(entry * 20_000, dtype=np.uint8)
        with pytest.raises(ValueError, match=r"its heap of words at byte [0-9]+ overlaps with others"):
            read(tmp_path / "x.h5ad")

    def test_a_table_without_rows(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n")
        with pytest.raises(ValueError, match="it has no rows; there is nothing to embed"):
            read(tmp_path / "t.csv")

    def test_numbers_of_pandas_own(self, tmp_path):
        pd.DataFrame({"a": pd.array([1, 2, 3], "Int64"), "b": pd.array([0.5, 1.5, 2.5], "Float64")}).to_parquet(
            tmp_path / "t.parquet"
        )
        np.testing.assert_array_equal(read(tmp_path / "t.parquet").X, [[1, 0.5], [2, 1.5], [3, 2.5]])

    def test_cells_without_a_matrix(self, tmp_path):
        anndata = pytest.importorskip("anndata")
        anndata.AnnData(obs=pd.DataFrame(index=list("abc")), obsm={"X_own": np.eye(3)}).write_h5ad(tmp_path / "c.h5ad")
        with pytest.raises(ValueError, match="no matrix X; name an entry of obsm with --key: X_own"):
            read(tmp_path / "c.h5ad")
        np.testing.assert_array_equal(read(tmp_path / "c.h5ad", Reading(key="X_own")).X, np.eye(3))

    def test_headers_that_promise_more_than_is_there(self):
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 3)})
        content.seek(0)
        with pytest.raises(ValueError, match=r"promises an array of shape \(1000000000, 3\) of float64, and it has 99"):
            check_array_header(content, 99)

    def test_pointers_that_fall(self):
        A = sparse.csr_array(np.eye(3))
        A.indptr[:] = [0, 2, 1, 3]
        with pytest.raises(ValueError, match="its index pointers fall"):
            check_compressed(A)

    def test_a_record_of_another_kind(self, tmp_path):
        store = Store(tmp_path)
        path = store.path("circle", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"name": "circle", "parameters": {"seed": 0}, "version": 3, "seconds": 1.0, "sessions": []}
        path.write_text(json.dumps(record))
        with pytest.raises(ReproductionError, match="is not a record of results"):
            store.provenance("circle")


class TestModelFiles:
    def _changed(self, model, path, change):
        """Save a model, and write its document anew."""
        hs.save_model(model, path)
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        (name,) = (name for name in parts if name.endswith(".json"))
        document, options = change(json.loads(parts[name]))
        parts[name] = json.dumps(document).encode()
        with zipfile.ZipFile(path, "w", **options) as archive:
            for member, content in parts.items():
                archive.writestr(member, content)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda document: ([document], {}), "holds a list"),
            (lambda document: (document, {"compression": zipfile.ZIP_DEFLATED}), "is compressed or too large"),
        ],
    )
    def test_documents_of_another_form(self, model, tmp_path, change, words):
        self._changed(model, tmp_path / "m.heatsketch", change)
        with pytest.raises(ValueError, match=words):
            hs.load_model(tmp_path / "m.heatsketch")

    @pytest.mark.parametrize(
        ("name", "words"), [("embedding_", "embedding_ is not finite"), ("power_", "its power is nan")]
    )
    def test_numbers_that_are_none(self, model, tmp_path, name, words):
        other = GP(2, bandwidth=0.5, power=4, random_state=0).fit(X)
        setattr(other, name, np.full((40, 2), np.nan) if name == "embedding_" else float("nan"))
        hs.save_model(other, tmp_path / "m.heatsketch")
        with pytest.raises(ValueError, match=words):
            hs.load_model(tmp_path / "m.heatsketch")

    def test_parameters_of_numpy(self, tmp_path):
        kept = GP(np.int64(2), bandwidth=np.float64(0.5), power=np.float32(4), random_state=np.int32(0)).fit(X)
        hs.save_model(kept, tmp_path / "m.heatsketch")
        np.testing.assert_array_equal(hs.load_model(tmp_path / "m.heatsketch").embedding_, kept.embedding_)


class TestStreams:
    def test_numbers_of_numpy_are_told_to_programs(self, capsys):
        print_json({"a": np.float64(0.5), "b": np.arange(2)})
        assert json.loads(capsys.readouterr().out) == {"a": 0.5, "b": [0, 1]}
        with pytest.raises(TypeError, match="a set has no form in JSON"):
            print_json({"a": {1}})

    def test_streams_that_are_closed(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        replace_closed_streams()
        with sys.stdout, sys.stderr:
            assert os.write(sys.stderr.fileno(), b"told nobody") == 11
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(sys.stdout.fileno(), b"as it should")

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
    def test_output_that_is_not_taken(self, monkeypatch, tmp_path, number):
        with (tmp_path / "out").open("w") as taken:
            monkeypatch.setattr(sys, "stdout", taken)
            if number == errno.EPIPE:
                with pytest.raises(SystemExit) as stop, delivered():
                    raise OSError(number, "gone")
                assert stop.value.code == 1
            else:
                words = r"standard output cannot be written \(full\); name a file with -o"
                with pytest.raises(OSError, match=words), delivered():
                    raise OSError(number, "full")

    def test_other_errors_pass(self, monkeypatch, tmp_path):
        with (tmp_path / "out").open("w") as taken:
            monkeypatch.setattr(sys, "stdout", taken)
            with pytest.raises(FileNotFoundError, match="there"), delivered():
                raise FileNotFoundError(errno.ENOENT, "there is none", "there")

    def test_an_interrupt_that_a_library_takes_for_an_error(self):
        def read():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            except KeyboardInterrupt as interrupt:
                raise ValueError("it cannot be read") from interrupt

        with pytest.raises(KeyboardInterrupt), interruptible():
            read()
        with pytest.raises(ValueError, match="of its own"), interruptible():
            raise ValueError("of its own")

    @pytest.mark.parametrize("leave", [lambda: None, sys.exit])
    def test_an_interrupt_that_is_lost(self, leave):
        def lose():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            except KeyboardInterrupt:  # as Python does with one that comes while it throws something away
                leave()

        with pytest.raises(KeyboardInterrupt), interruptible():
            lose()

    def test_what_python_prints_of_a_lost_interrupt(self, monkeypatch):
        """Nothing: it is raised again. Of other errors it is told as ever."""

        def interrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

        class Thrown:
            def __init__(self, last):
                self.last = last

            def __del__(self):
                self.last()

        told, thrown = [], [Thrown(interrupted), Thrown(lambda: 1 / 0)]
        monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
        with pytest.raises(KeyboardInterrupt), interruptible():
            thrown.clear()
        assert told == [ZeroDivisionError]
        Thrown(lambda: {}["gone"])
        assert told == [ZeroDivisionError, KeyError]

    def test_lines_of_progress(self, monkeypatch, capsys):
        monkeypatch.setattr("heatsketch._utils.progress._EVERY", 0.0)
        with shown(True), task("working") as advance:
            advance(1, 4)
            advance(2, 0)
        assert [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines()] == ["0 s, 25%", "0 s"]


class TestResources:
    def test_memory_where_the_system_tells_less(self, monkeypatch):
        def unreadable(self, *_):
            raise OSError

        monkeypatch.setattr(Path, "read_text", unreadable)
        assert resources._free_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert resources.address_space() == sys.maxsize
        assert resources._control_groups() == []
        monkeypatch.setattr(os, "sysconf", lambda _: int("none"))
        assert resources._free_memory() == sys.maxsize

    def test_memory_that_runs_out_all_the_same(self):
        estimate = Estimate(5, "every pair", None, 10, 10**12, 1.0)
        words = r"memory ran out \(Unable to allocate\): 5 samples with every pair"
        with pytest.raises(MemoryError, match=words), estimate.within_memory():
            raise _LackingError("Unable to allocate")
        with pytest.raises(MemoryError, match=r"^known better$"), estimate.within_memory():
            raise MemoryError("known better")

    def test_commands_say_what_to_do(self):
        assert _in_words(MemoryError()).startswith("memory ran out; heatsketch estimate INPUT tells")
        assert _in_words(_LackingError("3 GiB")).startswith("memory ran out (3 GiB); heatsketch estimate")
        assert _in_words(MemoryError("in words already")) == "in words already"

    def test_a_system_that_refuses_threads(self, monkeypatch):
        started = []

        def start(self):
            if started:
                raise RuntimeError("can't start new thread")
            started.append(self)
            run(self)

        run = threading.Thread.start
        monkeypatch.setattr("heatsketch._utils.thread_pool.Thread.start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Crew("workers", 3, lambda: None)
        started[0].join(10)
        assert not started[0].is_alive()  # nobody is left behind


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


def test_levels_of_nothing():
    numbers, low, step = in_levels(np.full(3, np.nan))
    assert (numbers.tolist(), low, step) == ([ABSENT] * 3, 0.0, 1.0)
    numbers, low, step = in_logarithms(np.zeros((2, 2)))
    assert (numbers.tolist(), low, step) == ([[ABSENT] * 2] * 2, 0.0, 1.0)
