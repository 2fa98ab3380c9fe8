"""Single-cell data: what is read from AnnData objects, what is written to them, and new cells."""

from __future__ import annotations

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
from heatsketch.scanpy import heat_sketch, place_cells

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
        heat_sketch(backed, method="diffusion-maps")  # components are in memory
        heat_sketch(cells, method="diffusion-maps")
        np.testing.assert_array_equal(backed.obsm["X_heatsketch"], cells.obsm["X_heatsketch"])
        backed.file.close()

    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ({"method": "umap"}, "umap"),
            ({"n_components": 0}, "n_components"),
            ({"perplexity": 30}, "perplexity"),
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
