"""
Error bars for distances
========================

A random sketch with k columns estimates each diffusion distance with a law that is known exactly: k times the squared
ratio of estimate to truth is chi-square with k degrees of freedom, whatever the data. So every distance has a confidence
interval, and the number of columns for a wanted error can be computed beforehand.
"""

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

X = hs.datasets.klein_bottle(500, random_state=0)
options = {"power": 4, "bandwidth": 2.0, "random_state": 0}
pairs = np.random.default_rng(0).integers(500, size=(60, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]

# %%
# Sixty pairs, 32 columns. Dots are estimates, bars intervals at 95%, crosses the exact distances, which cost far more.

model = hs.GaussianProcessEmbedding(n_components=32, **options).fit(X)
estimate, low, high = model.diffusion_distances(pairs, interval=0.95)
exact = hs.diffusion_distances(model.kernel_, power=4, pairs=pairs)

order = np.argsort(exact)
place = np.arange(len(pairs))
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
ax.vlines(place, low[order], high[order], color="tab:blue", alpha=0.4, lw=3, label="95% interval")
ax.plot(place, estimate[order], ".", color="tab:blue", label="estimate")
ax.plot(place, exact[order], "x", color="k", ms=5, label="exact")
ax.set(xlabel="pair", ylabel="diffusion distance")
ax.legend(frameon=False)
inside = ((low <= exact) & (exact <= high)).mean()
print(f"{inside:.0%} of the exact distances lie in their interval")

# %%
# How many columns?
# -----------------
#
# For each pair, or for all pairs of a data set at once.

for error in (0.2, 0.1, 0.05):
    single, all_pairs = hs.components_for(error), hs.components_for(error, n_samples=500)
    print(f"within {error:.0%}: {single:5} components for each pair, {all_pairs:5} for all pairs at once")

# %%
# A fitted model can be sharpened until an error is reached. The columns that are there stay.

model.add_components(distance_error=0.1)
print(f"{model.n_components_} components, error {model.distance_error_:.2f}")

# %%
# Where a few directions carry the distances, taking these exactly and sketching only the remainder is far cheaper. The
# intervals then hold for the remainder, and are just as exact.

circle = hs.datasets.circle(300, random_state=0)
for n_exact in (0, "auto"):
    short = hs.GaussianProcessEmbedding(8, power=8, bandwidth=0.25, n_exact=n_exact, random_state=0).fit(circle)
    estimate, low, high = short.diffusion_distances([[0, 150]], interval=0.95)
    print(f"{short.n_exact_} exact directions of 8: {low[0]:.4f} to {high[0]:.4f}")
