"""Single-cell data: what is read from AnnData objects, what is written to them, and new cells."""

from __future__ import annotations

import base64
import gzip
import re
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from scipy import sparse
from sklearn.neighbors import kneighbors_graph

import heatsketch as hs
from heatsketch.estimators import METHODS
from heatsketch.scanpy import heat_sketch, model, neighbors, place_cells, pseudotime

# Defaults of heat_sketch.
CELLS = {"n_neighbors": 15, "bandwidth": "self-tuning"}


@pytest.fixture(scope="module")
def blood():
    """A quarter of the blood cells that scanpy ships, without constant genes, with a PCA and two neighbour graphs."""
    whole = sc.datasets.pbmc68k_reduced()
    adata = whole[::4, ::4][:, np.ptp(whole.X[::4, ::4], axis=0) > 0].copy()
    sc.pp.pca(adata, n_comps=20)
    for key, k in (("neighbors", 10), ("wide", 30)):
        name = "connectivities" if key == "neighbors" else f"{key}_connectivities"
        graph = kneighbors_graph(adata.obsm["X_pca"], k)
        adata.obsp[name] = graph.maximum(graph.T)
        adata.uns[key] = {"connectivities_key": name, "params": {"n_neighbors": k, "method": "umap"}}
    return adata


@pytest.fixture
def cells(blood):
    return blood.copy()


@pytest.fixture(scope="module")
def myeloid():
    """640 simulated cells with 11 genes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of cells are given twice
        adata = sc.datasets.krumsiek11()
    adata.obs_names_make_unique()
    return adata[::4].copy()


class TestWhatIsRead:
    def test_principal_components_by_default(self, cells):
        assert heat_sketch(cells) is None
        model = hs.HeatSketch(2, random_state=0).fit(cells.obsm["X_pca"])
        np.testing.assert_array_equal(cells.obsm["X_heatsketch"], model.embedding_)
        record = cells.uns["heatsketch"]
        assert record["power"].keys() == {"times", "weights"}
        assert hs.MultiscaleFilter(*map(tuple, record["power"].values())) == model.power_
        np.testing.assert_array_equal(record["bandwidth"], model.bandwidth_)
        assert record["distortion"]["constant"] == model.distortion().constant
        assert tuple(record["diagnosis"]) == model.diagnose().names
        expected = {"method": "heatsketch", "use_rep": "X_pca", "n_components": 2, "power": "auto"}
        expected |= {"random_state": 0, "n_neighbors": "auto", "bandwidth": "auto"}
        assert record["params"] == expected

    def test_few_genes_are_used_directly(self, myeloid):
        adata = heat_sketch(myeloid, method="diffusion-maps", power=4, copy=True)
        expected = hs.DiffusionMaps(2, power=4, **CELLS).fit_transform(myeloid.X)
        np.testing.assert_array_equal(adata.obsm["X_heatsketch"], expected)
        assert adata.uns["heatsketch"]["params"]["use_rep"] == "X"
        assert "X_heatsketch" not in myeloid.obsm

    def test_first_columns_and_other_representations(self, cells):
        cells.obsm["X_other"] = pd.DataFrame(cells.obsm["X_pca"], index=cells.obs_names)
        cells.layers["sparse"], cells.X = cells.X, sparse.csr_matrix(cells.X)
        found = {}
        for name, given in {
            "first": {"n_pcs": 5},
            "other": {"use_rep": "X_other", "n_pcs": 5},
            "X": {"use_rep": "X"},
            "zero": {"n_pcs": 0},
        }.items():
            heat_sketch(cells, 3, method="gaussian-process", power=4, key_added=name, **given)
            found[name] = cells.obsm[name]
        np.testing.assert_array_equal(found["first"], found["other"])
        np.testing.assert_array_equal(found["X"], found["zero"])
        np.testing.assert_array_equal(
            found["first"],
            hs.GaussianProcessEmbedding(3, power=4, random_state=0, **CELLS).fit_transform(cells.obsm["X_pca"][:, :5]),
        )

    def test_neighbour_graph(self, cells):
        found = {}
        for key, where in {"neighbors": "connectivities", "wide": "wide_connectivities"}.items():
            heat_sketch(cells, method="diffusion-maps", neighbors_key=key)
            model = hs.DiffusionMaps(2, affinity="precomputed", power="auto").fit(cells.obsp[where])
            np.testing.assert_array_equal(cells.obsm["X_heatsketch"], model.embedding_)
            found[key] = cells.uns["heatsketch"]
            assert found[key]["params"]["neighbors_key"] == key
            assert "bandwidth" not in found[key]

    def test_what_the_neighbours_were_computed_from(self, cells):
        cells.obsm["X_scVI"] = cells.obsm["X_pca"][:, 3:9]
        del cells.obsm["X_pca"]
        options = {"method": "gaussian-process", "power": 4, "diagnose": False}
        expected = {"euclidean": {}, "manhattan": {"metric": "manhattan"}}
        for metric, given in expected.items():
            sc.pp.neighbors(cells, use_rep="X_scVI", n_pcs=5, metric=metric)
            heat_sketch(cells, **options)
            model = hs.GaussianProcessEmbedding(2, power=4, random_state=0, **given).fit(cells.obsm["X_scVI"][:, :5])
            np.testing.assert_array_equal(cells.obsm["X_heatsketch"], model.embedding_)
            params = cells.uns["heatsketch"]["params"]
            assert (params["use_rep"], params["n_pcs"], params.get("metric")) == ("X_scVI", 5, given.get("metric"))

    @pytest.mark.filterwarnings("ignore:Parameter p")  # scikit-learn's, of a call by scanpy
    def test_parameters_of_the_metric(self, cells, tmp_path):
        expected = heat_sketch(cells, use_rep="X_pca", metric="manhattan", diagnose=False, copy=True)
        sc.pp.neighbors(cells, use_rep="X_pca", metric="minkowski", metric_kwds={"p": 1})
        cells.write_h5ad(tmp_path / "cells.h5ad")
        cells = anndata.read_h5ad(tmp_path / "cells.h5ad")
        for _ in range(2):  # the second time from the record of the neighbours below
            heat_sketch(cells, diagnose=False)
            np.testing.assert_allclose(cells.obsm["X_heatsketch"], expected.obsm["X_heatsketch"], rtol=1e-5)
            assert cells.uns["heatsketch"]["params"]["metric_params"] == {"p": 1}
            neighbors(cells)
            graph = kneighbors_graph(cells.obsm["X_pca"], 14, mode="distance", metric="manhattan")
            np.testing.assert_allclose(cells.obsp["distances"].toarray(), graph.toarray(), rtol=1e-4)
        cells.write_h5ad(tmp_path / "cells.h5ad")
        cells = anndata.read_h5ad(tmp_path / "cells.h5ad")
        assert model(cells).metric_params == {"p": 1}
        place_cells(cells[:20].copy(), cells)
        sc.pp.neighbors(cells, use_rep="X_heatsketch")  # lead back to the record
        heat_sketch(cells, diagnose=False)
        assert cells.uns["heatsketch"]["params"]["metric_params"] == {"p": 1}

    @pytest.mark.filterwarnings("ignore:Parameter p")  # scikit-learn's, of a call by scanpy
    def test_metric_replaces_the_recorded_one(self, cells):
        sc.pp.neighbors(cells, use_rep="X_pca", metric="minkowski", metric_kwds={"p": 1})
        heat_sketch(cells, metric="cosine", diagnose=False)
        assert cells.uns["heatsketch"]["params"]["metric"] == "cosine"
        assert "metric_params" not in cells.uns["heatsketch"]["params"]
        neighbors(cells, metric="cosine")
        assert "metric_kwds" not in cells.uns["neighbors"]["params"]

    def test_first_columns_of_what_is_followed(self, cells, myeloid):
        cells.obsm["X_pca_harmony"] = cells.obsm["X_pca"][:, ::-1].copy()
        options = {"method": "diffusion-maps", "power": 4, "diagnose": False}

        def used(adata, **given):
            heat_sketch(adata, **options, **given)
            params = adata.uns["heatsketch"]["params"]
            return params["use_rep"], params.get("n_pcs"), params.get("metric")

        sc.pp.neighbors(cells, use_rep="X_pca_harmony", n_pcs=15, metric="cosine")
        assert used(cells, n_pcs=5) == ("X_pca_harmony", 5, "cosine")
        expected = hs.DiffusionMaps(2, power=4, metric="cosine").fit_transform(cells.obsm["X_pca_harmony"][:, :5])
        np.testing.assert_array_equal(cells.obsm["X_heatsketch"], expected)
        assert used(cells, n_pcs=0) == ("X", None, None)
        assert used(cells, use_rep="X_pca", n_pcs=5) == ("X_pca", 5, None)
        sc.pp.neighbors(cells, metric="cosine")
        assert used(cells, n_pcs=5) == ("X_pca", 5, "cosine")
        sc.pp.neighbors(cells, use_rep="X", metric="cosine")
        assert used(cells, n_pcs=5) == ("X_pca", 5, None)
        cells.uns["neighbors"]["params"]["bbknn"] = {"batch_key": "batch"}
        assert used(cells, n_pcs=5) == ("X_pca", 5, None)
        myeloid = myeloid.copy()
        sc.pp.neighbors(myeloid, metric="cosine")
        assert used(myeloid) == ("X", None, "cosine")

    def test_graphs_of_other_tools_are_used_themselves(self, cells):
        cells.uns["neighbors"]["params"]["bbknn"] = {"batch_key": "batch"}
        heat_sketch(cells, method="diffusion-maps", diagnose=False)
        assert cells.uns["heatsketch"]["params"]["neighbors_key"] == "neighbors"
        with_key = heat_sketch(cells, method="diffusion-maps", neighbors_key="neighbors", diagnose=False, copy=True)
        np.testing.assert_array_equal(with_key.obsm["X_heatsketch"], cells.obsm["X_heatsketch"])
        heat_sketch(cells, method="diffusion-maps", use_rep="X_pca", diagnose=False)
        assert cells.uns["heatsketch"]["params"]["use_rep"] == "X_pca"

    @pytest.mark.parametrize("key", ["X_heatsketch", "X_ten"])
    def test_neighbours_in_an_embedding_lead_back_to_what_was_embedded(self, cells, key):
        pseudotime(cells, root=3)
        expected = cells.obs["heatsketch_pseudotime"].to_numpy()
        heat_sketch(cells, 10, use_rep="X_pca", n_pcs=18, key_added=key, diagnose=False)
        sc.pp.neighbors(cells, use_rep=key)
        pseudotime(cells, root=3)
        assert cells.uns["heatsketch_pseudotime"]["params"]["use_rep"] == "X_pca"
        assert cells.uns["heatsketch_pseudotime"]["params"]["n_pcs"] == 18
        assert np.corrcoef(cells.obs["heatsketch_pseudotime"], expected)[0, 1] > 0.9
        neighbors(cells)
        assert cells.uns["neighbors"]["params"]["use_rep"] == "X_pca"

    def test_embeddings_are_not_embedded_again(self, cells):
        heat_sketch(cells, 10, diagnose=False)
        sc.pp.neighbors(cells, use_rep="X_heatsketch", key_added="clusters")
        for given in ({"use_rep": "X_heatsketch"}, {"neighbors_key": "clusters"}):
            for tool in (heat_sketch, pseudotime):
                with pytest.raises(ValueError, match="'X_heatsketch' is an embedding by heatsketch"):
                    tool(cells, **given | ({"root": 3} if tool is pseudotime else {}))
        # The graph that was embedded has been overwritten.
        heat_sketch(cells, neighbors_key="neighbors", diagnose=False)
        sc.pp.neighbors(cells, use_rep="X_heatsketch")
        with pytest.raises(ValueError, match="embedding by heatsketch"):
            heat_sketch(cells)

    def test_log_of_scanpy(self, cells, monkeypatch):
        lines = []
        monkeypatch.setattr(sc.logging, "info", lines.append)
        heat_sketch(cells, n_pcs=5, method="diffusion-maps", diagnose=False)
        neighbors(cells, key_added="ours")
        assert lines == ["    using use_rep = 'X_pca', n_pcs = 5", "    using use_rep = 'X_pca'"]

    def test_views_become_copies(self, cells):
        view = cells[:100]
        with pytest.warns(UserWarning, match="view"):
            heat_sketch(view, method="diffusion-maps", diagnose=False)
        assert not view.is_view
        assert view.obsm["X_heatsketch"].shape == (100, 2)
        assert "X_heatsketch" not in cells.obsm
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert heat_sketch(cells[:100], method="diffusion-maps", diagnose=False, copy=True).n_obs == 100

    @pytest.mark.parametrize("method", METHODS)
    def test_dask_arrays(self, cells, method, tmp_path):
        da = pytest.importorskip("dask.array")
        expected = heat_sketch(cells, method=method, use_rep="X_pca", power=4, copy=True)
        cells.obsm["X_pca"] = da.from_array(cells.obsm["X_pca"], chunks=(50, -1))
        heat_sketch(cells, method=method, power=4)
        assert isinstance(cells.obsm["X_heatsketch"], np.ndarray)
        np.testing.assert_allclose(cells.obsm["X_heatsketch"], expected.obsm["X_heatsketch"], atol=1e-6)
        place_cells(cells, cells)
        cells.write_h5ad(tmp_path / "cells.h5ad")

    def test_zarr_store_read_lazily(self, cells, tmp_path):
        pytest.importorskip("dask.array")
        zarr = pytest.importorskip("zarr")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr's own, of formats to come
            cells.write_zarr(tmp_path / "cells.zarr")
            stored = zarr.open(tmp_path / "cells.zarr", mode="r")
            lazy = anndata.experimental.read_elem_lazy(stored["obsm/X_pca"])
        expected = heat_sketch(cells, method="gaussian-process", power=4, diagnose=False, copy=True)
        cells.obsm["X_pca"] = lazy
        heat_sketch(cells, method="gaussian-process", power=4, diagnose=False)
        np.testing.assert_allclose(cells.obsm["X_heatsketch"], expected.obsm["X_heatsketch"], atol=1e-6)

    def test_dask_array_of_genes(self, myeloid):
        da = pytest.importorskip("dask.array")
        lazy = myeloid.copy()
        lazy.X = da.from_array(lazy.X, chunks=(50, -1))
        heat_sketch(lazy, method="diffusion-maps", power=4)
        expected = hs.DiffusionMaps(2, power=4, **CELLS).fit_transform(myeloid.X)
        np.testing.assert_allclose(lazy.obsm["X_heatsketch"], expected, atol=1e-6)
        pseudotime(lazy, root=0)
        assert np.isfinite(lazy.obs["heatsketch_pseudotime"]).all()

    @pytest.mark.parametrize(
        ("method", "kind"), [("heatsketch", "h5ad"), ("diffusion-maps", "h5ad"), ("gaussian-process", "zarr")]
    )
    def test_files(self, cells, method, kind, tmp_path):
        options = {"neighbor_weight": 0.5} if method == "heatsketch" else {}
        heat_sketch(cells, 3, method=method, power=4, **options)
        path = tmp_path / f"cells.{kind}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr's own, of formats to come
            getattr(cells, f"write_{kind}")(path)
            again = getattr(anndata, f"read_{kind}")(path)
        np.testing.assert_array_equal(again.obsm["X_heatsketch"], cells.obsm["X_heatsketch"])
        _assert_same(again.uns["heatsketch"], cells.uns["heatsketch"])

    def test_diagnosis_can_be_left_out(self, cells):
        quick = heat_sketch(cells, method="diffusion-maps", diagnose=False, copy=True)
        heat_sketch(cells, method="diffusion-maps")
        np.testing.assert_array_equal(quick.obsm["X_heatsketch"], cells.obsm["X_heatsketch"])
        assert set(cells.uns["heatsketch"]) - set(quick.uns["heatsketch"]) == {"distortion", "diagnosis"}
        assert "heatsketch_trust" not in quick.obs
        heat_sketch(cells, method="diffusion-maps", power=4, diagnose=False)
        assert "heatsketch_trust" not in cells.obs  # of the earlier embedding

    @pytest.mark.parametrize(("key", "column"), [(None, "heatsketch_trust"), ("X_map", "X_map_trust")])
    def test_trust_of_each_cell(self, cells, key, column):
        heat_sketch(cells, use_rep="X_pca", key_added=key)
        support = hs.HeatSketch(2, random_state=0).fit(cells.obsm["X_pca"]).unsupported_neighbors()
        np.testing.assert_array_equal(cells.obs[column], support.share)
        heat_sketch(cells, neighbors_key="neighbors", key_added=key)
        assert cells.obs[column].between(0, 1).all()

    def test_trust_of_a_sample(self, cells, monkeypatch):
        monkeypatch.setattr("heatsketch.io.cells._TESTED", 50)
        heat_sketch(cells, method="diffusion-maps")
        assert cells.obs["heatsketch_trust"].notna().sum() == 50

    def test_harmful_findings_warn(self, myeloid):
        with pytest.warns(UserWarning, match="identity"):
            adata = heat_sketch(
                myeloid, method="gaussian-process", power=2, bandwidth=1e-5, n_neighbors=None, copy=True
            )
        assert adata.uns["heatsketch"]["diagnosis"]["identity"]["harmful"]


def _assert_same(found, expected):
    assert type(found) is type(expected) or not isinstance(expected, dict)
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key, value in expected.items():
            _assert_same(found[key], value)
    else:
        np.testing.assert_array_equal(found, expected)


class TestNewCells:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("options", [{}, {"n_neighbors": None, "bandwidth": "auto"}], ids=str)
    def test_new_cells_are_placed_as_the_model_does(self, blood, method, options):
        reference, new = blood[:120].copy(), blood[120:].copy()
        sc.pp.pca(reference, n_comps=20)
        heat_sketch(reference, 3, method=method, power=4, **options)
        assert place_cells(new, reference) is None
        projected = (new.X - reference.X.mean(axis=0)) @ reference.varm["PCs"]
        seed = {} if method == "diffusion-maps" else {"random_state": 0}
        model = METHODS[method](3, power=4, **CELLS | seed | options).fit(reference.obsm["X_pca"])
        expected = model.transform(projected)
        np.testing.assert_allclose(
            new.obsm["X_heatsketch"], expected, atol=1e-3 * np.abs(expected).max()
        )  # X_pca is float32

    def test_weights(self, cells):
        cells.obs["size"] = 1 + np.arange(cells.n_obs) % 4
        heat_sketch(cells, use_rep="X", weights_key="size")
        model = hs.HeatSketch(2, random_state=0).fit(cells.X, sample_weight=cells.obs["size"])
        np.testing.assert_array_equal(cells.obsm["X_heatsketch"], model.embedding_)
        new = cells[:20].copy()
        place_cells(new, cells)
        scale = np.abs(model.embedding_).max()
        np.testing.assert_allclose(new.obsm["X_heatsketch"], model.embedding_[:20], atol=1e-3 * scale)
        with pytest.raises(ValueError, match="weights_key"):
            heat_sketch(cells, weights_key="sizes")

    def test_cells_of_the_reference_keep_their_places(self, cells, tmp_path):
        heat_sketch(cells, method="gaussian-process", key_added="map")
        cells.write_h5ad(tmp_path / "reference.h5ad")
        reference = anndata.read_h5ad(tmp_path / "reference.h5ad")
        some = cells[::3, ::-1].copy()  # genes in another order
        place_cells(some, reference, key="map")
        moved = np.linalg.norm(some.obsm["map"] - reference.obsm["map"][::3], axis=1)
        scale = np.linalg.norm(reference.obsm["map"], axis=1).max()
        # The projection is rounded to float32.
        assert np.median(moved) < 0.01 * scale
        assert moved.max() < 0.05 * scale

    def test_genes_and_other_representations(self, myeloid):
        myeloid = myeloid.copy()
        myeloid.obsm["X_latent"] = myeloid.X[:, :6].copy()
        reference, new = myeloid[::2].copy(), myeloid[1::2].copy()
        for use_rep in ("X", "X_latent"):
            heat_sketch(reference, method="diffusion-maps", use_rep=use_rep, power=4)
            placed = place_cells(new, reference, copy=True)
            X, Z = ((a.X if use_rep == "X" else a.obsm[use_rep]) for a in (reference, new))
            expected = hs.DiffusionMaps(2, power=4, **CELLS).fit(X).transform(Z)
            np.testing.assert_allclose(placed.obsm["X_heatsketch"], expected, atol=1e-4)
            same = place_cells(reference[::3], reference, copy=True).obsm["X_heatsketch"]
            np.testing.assert_allclose(same, reference.obsm["X_heatsketch"][::3], atol=1e-4)
        assert "X_heatsketch" not in new.obsm

    def test_cells_that_were_integrated_together(self, cells):
        cells.obsm["X_pca_harmony"] = cells.obsm["X_pca"][:, ::-1].copy()
        sc.pp.neighbors(cells, use_rep="X_pca_harmony")
        reference, new = cells[:120].copy(), cells[120:].copy()
        heat_sketch(reference, power=4, diagnose=False)
        place_cells(new, reference)
        fitted = hs.HeatSketch(2, power=4, random_state=0).fit(cells.obsm["X_pca_harmony"][:120])
        expected = fitted.transform(cells.obsm["X_pca_harmony"][120:])
        np.testing.assert_allclose(new.obsm["X_heatsketch"], expected, atol=1e-3 * np.ptp(expected))
        del new.obsm["X_pca_harmony"]
        with pytest.raises(ValueError, match=r"no obsm\['X_pca_harmony'\].* same space.*'X_pca'"):
            place_cells(new, reference)

    def test_record_of_an_earlier_embedding_is_removed(self, cells):
        reference, new = cells[:120].copy(), cells[120:].copy()
        sc.pp.pca(reference, n_comps=20)
        heat_sketch(reference, diagnose=False)
        heat_sketch(new, 3, use_rep="X_pca")
        place_cells(new, reference)
        assert new.obsm["X_heatsketch"].shape == (55, 2)
        assert "heatsketch_trust" not in new.obs
        for call in (model, lambda placed: place_cells(cells, placed)):
            with pytest.raises(ValueError, match="no record in uns\\['heatsketch'\\] of how it was made"):
                call(new)
        place_cells(reference, reference)
        assert "layout" in reference.uns["heatsketch"]

    def test_errors(self, cells):
        new = cells.copy()
        with pytest.raises(ValueError, match="X_heatsketch"):
            place_cells(new, cells)
        heat_sketch(cells, method="diffusion-maps", neighbors_key="neighbors")
        with pytest.raises(ValueError, match="graph"):
            place_cells(new, cells)
        heat_sketch(cells, method="diffusion-maps", power=4)
        with pytest.raises(ValueError, match="175"):
            place_cells(new, cells[:100])
        with pytest.raises(ValueError, match="genes"):
            place_cells(new[:, 1:].copy(), cells)
        changed = cells.copy()
        changed.X = changed.X + 1.0 * np.arange(changed.n_obs)[:, None]
        with pytest.raises(ValueError, match="X_pca"):
            place_cells(new, changed)
        changed = cells.copy()
        changed.obsm["X_heatsketch"] = 2 * changed.obsm["X_heatsketch"]
        with pytest.raises(ValueError, match="changed"):
            place_cells(new, changed)
        cells.obsm["X_other"] = cells.obsm["X_pca"]
        heat_sketch(cells, method="diffusion-maps", use_rep="X_other", power=4)
        with pytest.raises(ValueError, match="X_other"):
            place_cells(new, cells)
        new.obsm["X_other"] = new.obsm["X_pca"][:, :7]
        with pytest.raises(ValueError, match="7 columns"):
            place_cells(new, cells)


class TestModel:
    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"method": "gaussian-process", "n_components": 8, "n_pcs": 5, "weights_key": "size"},
            {"method": "diffusion-maps", "neighbors_key": "wide", "power": 4},
            {"n_neighbors": None, "bandwidth": "median", "metric": "manhattan"},
            {"kernel_params": {"tol": 1e-6}, "key_added": "map"},
        ],
        ids=str,
    )
    def test_embedding_is_that_of_the_cells(self, cells, given, tmp_path):
        cells.obs["size"] = 1 + np.arange(cells.n_obs) % 3
        heat_sketch(cells, diagnose=False, **given)
        cells.write_h5ad(tmp_path / "cells.h5ad")
        key = given.get("key_added")
        found = model(anndata.read_h5ad(tmp_path / "cells.h5ad"), key=key)
        assert isinstance(found, METHODS[given.get("method", "heatsketch")])
        np.testing.assert_array_equal(found.embedding_, cells.obsm[key or "X_heatsketch"])
        assert found.sample_names_.tolist() == cells.obs_names.tolist()
        pair = cells.obs_names[:2].tolist()
        distance = found.diffusion_distances([pair])
        np.testing.assert_allclose(distance, np.linalg.norm(np.diff(found.embedding_[:2], axis=0)), rtol=1e-5)

    def test_report(self, cells, tmp_path):
        pytest.importorskip("plotly")
        heat_sketch(cells, diagnose=False)
        found, columns = model(cells), cells.obs[["bulk_labels"]]
        page = hs.write_report(found, tmp_path / "cells.html", columns=columns, methods=False).read_text("utf-8")
        packed = re.search(r'<script type="text/plain" id="data">(.*?)</script>', page)[1]
        data = gzip.decompress(base64.b85decode(packed.replace(":", "<")))
        assert cells.obs_names[0].encode() in data
        assert b"bulk_labels" in data

    def test_errors(self, cells):
        with pytest.raises(ValueError, match="no embedding 'X_heatsketch'"):
            model(cells)
        heat_sketch(cells, diagnose=False)
        with pytest.raises(ValueError, match="100 cells"):
            model(cells[:100])
        changed = cells.copy()
        changed.obsm["X_pca"] = changed.obsm["X_pca"][::-1].copy()
        with pytest.raises(ValueError, match="give another embedding"):
            model(changed)
        changed = cells.copy()
        changed.obsm["X_heatsketch"] = changed.obsm["X_heatsketch"][:, :1]
        with pytest.raises(ValueError, match=r"has 1 components, and uns.* with 2"):
            model(changed)
        heat_sketch(cells, random_state=None, diagnose=False)
        with pytest.raises(ValueError, match="random_state was None"):
            model(cells)


class TestPseudotime:
    def test_time_of_the_model(self, cells, tmp_path):
        assert pseudotime(cells, root=3, interval=0.95, branches=True) is None
        model = hs.GaussianProcessEmbedding(1, random_state=0).fit(cells.obsm["X_pca"])
        found = model.pseudotime(3, interval=0.95)
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime"], found.time)
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime_low"], found.low)
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime_high"], found.high)
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime_branch"].astype(int), found.branches())
        record = cells.uns["heatsketch_pseudotime"]
        assert (record["unit"], record["across_gaps"], record["roots"].tolist()) == (found.unit, 0, [3])
        cells.write_h5ad(tmp_path / "cells.h5ad")

    def test_roots(self, cells):
        times = {}
        cells.uns["iroot"] = 3
        for name, root in {
            "uns": None,
            "number": 3,
            "name": cells.obs_names[3],
            "names": [cells.obs_names[3]],
            "mask": np.arange(cells.n_obs) == 3,
        }.items():
            pseudotime(cells, root, interval=None, key_added="t")
            times[name] = cells.obs["t"].to_numpy()
            assert times[name][3] == 0
            np.testing.assert_array_equal(times[name], times["uns"])
        assert "t_low" not in cells.obs

    def test_groups_as_roots(self, cells):
        group = cells.obs["bulk_labels"] == "CD34+"
        pseudotime(cells, group)
        assert (cells.obs["heatsketch_pseudotime"][group] == 0).all()
        assert (cells.obs["heatsketch_pseudotime"][~group] > 0).all()

    def test_columns_of_an_earlier_call_are_removed(self, cells):
        def columns():
            return {name for name in cells.obs if name.startswith("heatsketch_pseudotime")}

        pseudotime(cells, root=3, interval=0.95, branches=True)
        every = {f"heatsketch_pseudotime{end}" for end in ("", "_low", "_high", "_branch")}
        assert columns() == every
        assert cells.uns["heatsketch_pseudotime"]["kind"] == "geodesic"
        pseudotime(cells, root=3)
        assert columns() == {"heatsketch_pseudotime"}
        assert cells.uns["heatsketch_pseudotime"]["kind"] == "path"

    def test_length_of_the_shortest_branch(self, cells):
        counts = {}
        for min_length in (0.1, 0.5):
            pseudotime(cells, root=3, branches=True, min_length=min_length)
            counts[min_length] = cells.obs["heatsketch_pseudotime_branch"].nunique()
        assert counts[0.5] < counts[0.1]

    def test_sizes_of_metacells(self, cells):
        cells.obs["size"] = 1 + np.arange(cells.n_obs) % 3
        pseudotime(cells, root=3, kind="diffusion", weights_key="size")
        model = hs.GaussianProcessEmbedding(1, random_state=0).fit(cells.obsm["X_pca"], sample_weight=cells.obs["size"])
        found = model.pseudotime(3, kind="diffusion").time
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime"], found)

    def test_root_with_the_name_of_another_cell(self, cells):
        cells.obs_names = ["same"] * 2 + list(cells.obs_names[2:])
        with pytest.raises(ValueError, match="make_unique"):
            pseudotime(cells, root="same")

    def test_paths(self, cells):
        pseudotime(cells, root=3)
        by_default = cells.obs["heatsketch_pseudotime"].to_numpy()
        pseudotime(cells, root=3, kind="path")
        np.testing.assert_array_equal(cells.obs["heatsketch_pseudotime"], by_default)
        assert np.isfinite(by_default).all()
        with pytest.raises(ValueError, match="no law is known"):
            pseudotime(cells, root=3, kind="path", interval=0.95)

    def test_as_dpt_on_a_trajectory(self):
        rng = np.random.default_rng(0)
        true = np.sort(rng.uniform(size=300))
        X = np.column_stack([np.cos(3 * true), np.sin(3 * true)]) @ rng.standard_normal((2, 20))
        line = anndata.AnnData((X + 0.2 * rng.standard_normal(X.shape)).astype(np.float32))
        line.uns["iroot"] = 0
        sc.pp.neighbors(line, use_rep="X")
        sc.tl.diffmap(line)
        sc.tl.dpt(line)
        pseudotime(line)
        assert np.corrcoef(line.obs["heatsketch_pseudotime"], line.obs["dpt_pseudotime"])[0, 1] > 0.9
        assert np.corrcoef(line.obs["heatsketch_pseudotime"], true)[0, 1] > 0.95

    def test_finite_where_dpt_is_not(self):
        X = np.random.default_rng(0).normal(size=(200, 4))
        X[100:] += 40
        apart = anndata.AnnData(X.astype(np.float32))
        apart.uns["iroot"] = 0
        with pytest.warns(UserWarning, match="without a root"):
            pseudotime(apart)
        assert np.isfinite(apart.obs["heatsketch_pseudotime"]).all()
        assert apart.uns["heatsketch_pseudotime"]["across_gaps"] == 100
        np.testing.assert_array_equal(apart.obs["heatsketch_pseudotime_gaps"], np.arange(200) >= 100)
        assert apart.obs["heatsketch_pseudotime"][100:].min() > apart.obs["heatsketch_pseudotime"][:100].max()

    def test_errors(self, cells):
        with pytest.raises(ValueError, match="iroot"):
            pseudotime(cells)
        with pytest.raises(ValueError, match=rf"nobody.*{cells.obs_names[0]}.*root=adata.obs\['kind'\] == 'nobody'"):
            pseudotime(cells, "nobody")
        with pytest.raises(ValueError, match="no True among 175 cells"):
            pseudotime(cells, cells.obs["bulk_labels"] == "CD34")
        with pytest.raises(ValueError, match="root has 5000; the numbers of 175 cells lie between 0 and 174"):
            pseudotime(cells, 5000)
        with pytest.raises(ValueError, match="root of shape"):
            pseudotime(cells, 0.5)
        with pytest.raises(TypeError, match=r"pseudotime\(\) has no parameter 'roots'. Did you mean 'root'"):
            pseudotime(cells, roots=0)
        with pytest.raises(TypeError, match=r"'n_dcs'.* It accepts root, kind, .*n_pcs"):
            pseudotime(cells, 0, n_dcs=10)
        cells.uns["iroot"] = 5000
        with pytest.raises(ValueError, match=r"uns\['iroot'\] has 5000"):
            pseudotime(cells)
        with pytest.raises(ValueError, match="interval"):
            pseudotime(cells, 0, interval=2)
        assert "heatsketch_pseudotime" not in cells.obs


class TestNeighbors:
    def test_what_the_neighbours_were_computed_from(self, cells):
        cells.obsm["X_pca_harmony"] = cells.obsm["X_pca"] + 1
        sc.pp.neighbors(cells, use_rep="X_pca_harmony", n_pcs=5, metric="manhattan")
        neighbors(cells)
        expected = {"use_rep": "X_pca_harmony", "n_pcs": 5, "metric": "manhattan"}
        assert expected.items() <= cells.uns["neighbors"]["params"].items()
        graph = kneighbors_graph(cells.obsm["X_pca_harmony"][:, :5], 14, mode="distance", metric="manhattan")
        np.testing.assert_allclose(cells.obsp["distances"].toarray(), graph.toarray(), rtol=1e-3, atol=1e-3)
        neighbors(cells, use_rep="X_pca", metric="cosine")
        assert cells.uns["neighbors"]["params"]["metric"] == "cosine"

    def test_graphs_of_other_tools_are_kept(self, cells):
        cells.uns["neighbors"]["params"]["bbknn"] = {"batch_key": "batch"}
        with pytest.raises(ValueError, match="another tool"):
            neighbors(cells)
        neighbors(cells, use_rep="X_pca")
        assert "bbknn" not in cells.uns["neighbors"]["params"]

    def test_few_cells(self):
        with pytest.raises(ValueError, match="cells"):
            neighbors(anndata.AnnData(np.random.default_rng(0).normal(size=(6, 5))))

    def test_graphs(self, cells):
        neighbors(cells, 10, use_rep="X_pca", key_added="ours")
        D, C = cells.obsp["ours_distances"], cells.obsp["ours_connectivities"]
        expected = kneighbors_graph(cells.obsm["X_pca"], 9, mode="distance")
        np.testing.assert_allclose(D.toarray(), expected.toarray(), rtol=1e-3, atol=1e-3)
        assert (np.diff(D.indptr) == 9).all()
        assert abs(C - C.T).max() < 1e-6
        assert C.diagonal().max() == 0
        assert 0 < C.data.min()
        assert C.data.max() <= 1 + 1e-5
        linked = expected.toarray() > 0
        np.testing.assert_array_equal(C.toarray() > 0, linked | linked.T)
        K = hs.heat_kernel(cells.obsm["X_pca"], n_neighbors=9).affinity.operator @ np.eye(cells.n_obs)
        np.fill_diagonal(K, 0)
        np.testing.assert_allclose(C.toarray(), K, atol=1e-5)
        assert cells.uns["ours"]["params"]["use_rep"] == "X_pca"

    def test_scanpy_uses_it(self, cells):
        neighbors(cells)
        sc.tl.umap(cells)
        sc.tl.diffmap(cells)
        cells.uns["iroot"] = 0
        sc.tl.dpt(cells)
        cells.obs["half"] = pd.Categorical((cells.obsm["X_pca"][:, 0] > 0).astype(str))
        sc.tl.paga(cells, groups="half")
        assert np.isfinite(cells.obsm["X_umap"]).all()
        heat_sketch(cells, method="diffusion-maps", diagnose=False)
        assert cells.uns["heatsketch"]["params"]["use_rep"] == "X_pca"

    def test_leiden(self, cells):
        pytest.importorskip("igraph")
        neighbors(cells, key_added="ours")
        sc.tl.leiden(cells, flavor="igraph", n_iterations=2, directed=False, neighbors_key="ours")
        assert cells.obs["leiden"].nunique() > 1

    def test_errors(self, cells):
        with pytest.raises(ValueError, match="n_neighbors"):
            neighbors(cells, 1)
        with pytest.raises(ValueError, match="X_scVI"):
            neighbors(cells, use_rep="X_scVI")


class TestErrors:
    def test_missing_representations(self, cells):
        del cells.obsm["X_pca"]
        with pytest.raises(ValueError, match="X_pca"):
            heat_sketch(cells)
        with pytest.raises(ValueError, match="X_scVI"):
            heat_sketch(cells, use_rep="X_scVI")
        empty = anndata.AnnData(obs=cells.obs)
        with pytest.raises(ValueError, match="use_rep"):
            heat_sketch(empty)

    def test_arrays(self, cells):
        for call in (
            heat_sketch,
            lambda X: pseudotime(X, 0),
            neighbors,
            lambda X: place_cells(cells, X),
            model,
        ):
            with pytest.raises(TypeError, match="ndarray was given where AnnData is needed"):
                call(cells.obsm["X_pca"])

    @pytest.mark.parametrize("use_rep", ["X_pca", "X", "sparse"])
    def test_missing_values(self, cells, use_rep):
        if use_rep == "sparse":
            cells.obsm["sparse"] = sparse.csr_matrix(cells.obsm["X_pca"])
            cells.obsm["sparse"].data[45] = np.nan
        else:
            (cells.X if use_rep == "X" else cells.obsm[use_rep])[2, 5] = np.nan
        where = "X" if use_rep == "X" else rf"obsm\['{use_rep}'\]"
        for tool in (heat_sketch, neighbors):
            with pytest.raises(ValueError, match=rf"^{where} has missing .* in 1 of 175 cells, such as") as found:
                tool(cells, use_rep=use_rep)
            assert cells.obs_names[2] in str(found.value)

    def test_weights_without_columns(self, cells):
        cells.obs = cells.obs[[]].copy()
        with pytest.raises(ValueError, match="'nope' is not a column of obs; obs has no columns"):
            heat_sketch(cells, weights_key="nope")

    def test_missing_graphs(self, cells):
        with pytest.raises(ValueError, match="narrow"):
            heat_sketch(cells, neighbors_key="narrow")
        del cells.obsp["connectivities"]
        with pytest.raises(ValueError, match="neighbors"):
            heat_sketch(cells, neighbors_key="neighbors")
        with pytest.raises(ValueError, match="use_rep"):
            heat_sketch(cells, neighbors_key="neighbors", use_rep="X")

    def test_backed_cells(self, cells, tmp_path):
        cells.write_h5ad(tmp_path / "cells.h5ad")
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
        with pytest.raises(ValueError, match="to_memory"):
            heat_sketch(backed, use_rep="X")
        for tool in (heat_sketch, neighbors):
            with pytest.raises(ValueError, match="to_memory"):
                tool(backed, copy=True)
        heat_sketch(backed, method="diffusion-maps")  # components are in memory
        heat_sketch(cells, method="diffusion-maps")
        np.testing.assert_array_equal(backed.obsm["X_heatsketch"], cells.obsm["X_heatsketch"])
        backed.file.close()

    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ({"method": "umap"}, "umap"),
            ({"n_components": 0}, "n_components"),
            ({"use_labels": True}, "no parameter 'use_labels'"),
            (
                {"perplexity": 30},
                r"heat_sketch\(\) has no parameter 'perplexity'. It accepts n_comp.*neighbor_weight",
            ),
            ({"neighbour_weight": 0.5}, "Did you mean 'neighbor_weight'"),
            ({"metric": max}, "function"),
            ({"n_pcs": -1}, "n_pcs"),
            ({"n_pcs": 5, "use_rep": "X"}, "n_pcs"),
            ({"random_state": np.random.default_rng(0)}, "random_state"),
            ({"power": -1}, "power"),
        ],
    )
    def test_options(self, blood, given, word):
        with pytest.raises((ValueError, TypeError), match=word):
            heat_sketch(blood, **given)
        assert "heatsketch" not in blood.uns
