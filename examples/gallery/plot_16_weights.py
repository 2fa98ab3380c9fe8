"""
Counted rows instead of repeated ones
=====================================

Measurements with few digits repeat: of 60,000 rows 2,400 may be different. Count them and pass the counts as
`sample_weight`. The result is that of all rows, because a weight is a mass of the measure that the kernel is made from.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

# %%
# Two groups of different density, joined by a bridge, recorded on a grid.

rng = np.random.default_rng(0)
left, right = rng.normal((-2.0, 0.0), 0.6, (45_000, 2)), rng.normal((2.0, 0.0), 0.6, (12_000, 2))
bridge = np.column_stack([rng.uniform(-2, 2, 3000), rng.normal(0, 0.1, 3000)])
rows = np.round(np.vstack([left, right, bridge]), 1)

X, counts = np.unique(rows, axis=0, return_counts=True)
print(f"{len(rows)} rows, {len(X)} of them different")

# %%
# Diffusion maps of the counted rows are those of all rows, to rounding, in a fraction of the time.

settings = {"n_components": 2, "power": 8}
hs.DiffusionMaps(**settings).fit(X)  # the first fit of a process loads compiled code
start = time.perf_counter()
counted = hs.DiffusionMaps(**settings).fit(X, sample_weight=counts)
middle = time.perf_counter()
every = hs.DiffusionMaps(**settings).fit(rows)
end = time.perf_counter()
print(f"counted {middle - start:.2f} s, all rows {end - middle:.2f} s")

_, first = np.unique(rows, axis=0, return_index=True)
difference = np.abs(np.abs(counted.embedding_) - np.abs(every.embedding_[first])).max()
print(f"largest difference, relative: {difference / np.abs(counted.embedding_).max():.1e}")

# %%
# Without the counts a bin with one row has as much say as a bin with a hundred, and heat crosses the bridge more easily.

unweighted = hs.DiffusionMaps(**settings).fit(X)
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
bins = axes[0].scatter(*X.T, c=counts, norm="log", s=3)
axes[0].set(title="the data")
figure.colorbar(bins, ax=axes[0], label="rows in the bin", location="bottom")
for ax, model, title in ((axes[1], counted, "with counts"), (axes[2], unweighted, "without")):
    points = ax.scatter(*model.embedding_.T, c=X[:, 0], cmap="coolwarm", s=3)
    ax.set(title=f"{title}: first eigenvalue {model.eigenvalues_[0]:.4f}", xticks=[], yticks=[])
    figure.colorbar(points, ax=ax, label="first coordinate of the data", location="bottom")
