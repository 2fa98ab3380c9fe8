"""
From the picture back to data
=============================

``inverse_transform`` says which data belong to a place in the embedding, by local linear regression over the embedded
points next to it. A grid of places over a picture of handwritten digits becomes a grid of images. Each region has its
digit, and within a region the handwriting changes from one side to the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

import heatsketch as hs

images, digits = hs.datasets.digits()
seen, unseen = images[:1200], images[1200:]
model = hs.HeatSketch(n_components=2, random_state=0).fit(seen)
Y = model.embedding_

# %%
# Places far from all points say little, and are left out.

low, high = Y.min(axis=0), Y.max(axis=0)
grid = np.stack(np.meshgrid(*np.linspace(low, high, 24).T), axis=-1).reshape(-1, 2)
step = (high - low) / 23
distance = NearestNeighbors(n_neighbors=1).fit(Y / step).kneighbors(grid / step)[0].ravel()
grid = grid[distance < 0.7]
found = model.inverse_transform(grid).reshape(-1, 8, 8)

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharex=True, sharey=True)
points = axes[0].scatter(*Y.T, c=digits[:1200], cmap="tab10", s=6)
axes[0].legend(*points.legend_elements(), title="digit", fontsize="small", ncols=2)
axes[0].set(title="1,200 images")
for place, image in zip(grid, found, strict=True):
    left, bottom = place - step / 2
    axes[1].imshow(image, cmap="gray_r", extent=(left, left + step[0], bottom, bottom + step[1]), vmin=0, vmax=16)
(left, bottom), (right, top) = low - step, high + step
axes[1].set(title="the image at each place", xlim=(left, right), ylim=(bottom, top))
for axis in axes:
    axis.set_aspect(step[0] / step[1])  # images are square

# %%
# How much of an image does its place keep? Of images that were not fitted, the error as a share of their variance, beside
# that of two principal components:

for name, other in {"HeatSketch": model, "PCA": PCA(2).fit(seen)}.items():
    back = other.inverse_transform(other.transform(unseen))
    error = ((back - unseen) ** 2).sum() / ((unseen - seen.mean(axis=0)) ** 2).sum()
    print(f"{name:10} {error:.2f}")
