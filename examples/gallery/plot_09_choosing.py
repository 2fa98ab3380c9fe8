"""
Nothing to choose: all times against one
========================================

Diffusion distances usually need a bandwidth and a diffusion time. Here a rolled-up sheet, on which the true distances
are known, shows what a single time does to them, what all times at once do, and what ``diagnose`` says of bad numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.datasets import make_swiss_roll

import heatsketch as hs

X, angle = make_swiss_roll(1000, random_state=0)

# %%
# Distances along the sheet: unrolled, it is a rectangle whose sides are arc length and height.

arc = (angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)) / 2
along = pdist(np.column_stack([arc, X[:, 1]]))

# %%
# Exact diffusion distances at three single times, and with all times at once, against distances along the sheet. One
# time tells apart what is about as far as its heat has spread: early ones saturate, late ones have lost the short side
# of the sheet. All times together grow with the distance at every scale.

kernel = hs.heat_kernel(X)
filters = {"time 4": 4, "time 64": 64, "time 1024": 1024, "all times": "multiscale"}
shown = np.random.default_rng(0).choice(len(along), 5000, replace=False)
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for ax, (name, power) in zip(axes, filters.items(), strict=True):
    distances = hs.diffusion_distances(kernel, power)
    ax.plot(along[shown], distances[shown], ".", ms=1, alpha=0.5)
    rank = spearmanr(along, distances).statistic
    ax.set(title=f"{name}: rank correlation {rank:.2f}", xlabel="along the sheet", ylim=(0, None), yticks=[])
    print(f"{name:10} rank correlation {rank:.3f}")
axes[0].set_ylabel("diffusion distance")

# %%
# The last time follows from the kernel:

print(hs.multiscale(kernel))

# %%
# Numbers can be given all the same, to repeat the paper or to look at one scale. ``diagnose`` says if they look wrong.
# Half of the points, in the plane:

settings = {
    "too narrow": {"bandwidth": 0.1, "power": 8},
    "too wide": {"bandwidth": 1e4, "power": 8},
    "too late": {"power": 8000},
    "nothing given": {},
}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for ax, (name, options) in zip(axes, settings.items(), strict=True):
    model = hs.HeatSketch(n_components=2, random_state=0, **options).fit(X[::2])
    ax.scatter(*model.embedding_.T, c=angle[::2], s=6)
    ax.set(title=name, xticks=[], yticks=[])
    ax.axis("equal")
    print(f"{name}:\n{model.diagnose()}\n")
