"""
Two outliers
============

A circle of 198 points and two points far from it. An eigenvector of the heat kernel that sits on a single point has a
large eigenvalue, so each outlier takes one coordinate of diffusion maps. In the plane nothing is left for the
circle. (Figure 3 of Gilbert and O'Neill.)
"""

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

X = hs.datasets.circle_with_outliers(200, random_state=0)
outlier = np.linalg.norm(X, axis=1) > 1.5
angle = np.arctan2(X[:, 1], X[:, 0])
options = {"n_components": 2, "power": 4, "bandwidth": 0.5}

models = [
    hs.DiffusionMaps(**options),
    hs.GaussianProcessEmbedding(random_state=0, **options),
    hs.HeatSketch(objective="bilipschitz", random_state=0, **options),
]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
axes[0].scatter(*X[:, :2].T, c=angle, cmap="twilight", s=12)
axes[0].scatter(*X[outlier, :2].T, marker="^", c="tab:red", s=60)
axes[0].set(title=f"the data, {outlier.sum()} outliers", aspect="equal")
for ax, model in zip(axes[1:], models, strict=True):
    Y = model.fit_transform(X)
    ax.scatter(*Y.T, c=angle, cmap="twilight", s=12)
    ax.scatter(*Y[outlier].T, marker="^", c="tab:red", s=60)
    ax.set(title=f"{type(model).__name__}\nlog L = {model.distortion().log:.2f}", xticks=[], yticks=[])
    ax.axis("equal")

# %%
# ``diagnose`` finds it: a leading direction of which a single point has the better part.

print(models[0].diagnose())

# %%
# With four components diffusion maps have room for the circle too, and are excellent: what they lose is not accuracy but
# the order in which it comes.

for k in (2, 3, 4):
    maps = hs.DiffusionMaps(k, power=4, bandwidth=0.5).fit(X)
    print(f"diffusion maps, {k} components: log L = {maps.distortion().log:.2f}")
