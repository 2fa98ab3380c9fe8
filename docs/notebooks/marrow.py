"""Make ``marrow.h5ad``: counts of 1,000 cells of human bone marrow.

The counts are those that Palantir has in its source distribution, under the MIT
licence (``marrow.LICENSE``): CD34+ cells of Setty et al., Characterization of cell fate
probabilities in single-cell data with Palantir, Nature Biotechnology 37, 2019. Of the
4,142 cells 1,000 are drawn at random, with the genes found in at least 30 of them.

    pip download --no-deps --no-binary palantir palantir==1.4.2
    python docs/notebooks/marrow.py palantir-1.4.2.tar.gz docs/notebooks/marrow.h5ad
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import anndata
import h5py
import numpy as np

CELLS, FEWEST = 1000, 30
SOURCE = "palantir-1.4.2/data/marrow_sample_scseq_counts.h5ad"


def main(archive: str, target: str) -> None:
    """Draw cells, leave out genes found in few of them, and write the counts."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as files:
            files.extract(SOURCE, folder, filter="data")
        cells = anndata.read_h5ad(Path(folder, SOURCE))
    drawn = np.sort(np.random.default_rng(0).choice(cells.n_obs, CELLS, replace=False))
    counts = cells.X[drawn].toarray().astype(np.uint16)
    found = (counts > 0).sum(axis=0)
    kept = np.argsort(-found, kind="stable")[: (found >= FEWEST).sum()]
    sample = anndata.AnnData(counts[:, kept])
    sample.obs_names, sample.var_names = cells.obs_names[drawn], cells.var_names[kept]
    with h5py.File(target, "w") as file:
        # Dense counts compress better than sparse ones with their indices.
        options = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
        anndata.io.write_elem(file, "/", sample, dataset_kwargs=options)


if __name__ == "__main__":
    main(*sys.argv[1:])
