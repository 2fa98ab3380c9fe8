"""
All scales at once
==================

The diffusion time is a scale. Early, heat has spread over the nearest points only; later it has filled small groups, then
large ones. By default an embedding keeps all times at once. ``at_powers`` gives single times from one pass over the
kernel, and ``scales`` says what each of them keeps. The data here are clusters of clusters: three groups of three.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs

rng = np.random.default_rng(0)
turns = np.exp(2j * np.pi * np.arange(3) / 3)
centres = (3.2 * turns[:, None] + 1.1 * turns[None, :]).ravel()
group = np.repeat(np.arange(9), 50)
X = np.column_stack([centres[group].real, centres[group].imag]) + rng.normal(scale=0.3, size=(450, 2))

model = hs.GaussianProcessEmbedding(n_components=32, bandwidth=0.8, n_exact="auto", random_state=0).fit(X)
print(model.power_)
times = [1, 8, 64]
embeddings = dict(zip([f"time {t}" for t in times], model.at_powers(times), strict=True))
embeddings["all times"] = model.embedding_

# %%
# The data, and the distances between all points, groups side by side. Dark is near. At first there are nine groups, each
# as far from all others; then the nine are told apart within three; then only three are left. With all times, points are
# near within their group, farther within the three, and farthest beyond.

figure, axes = plt.subplots(1, 5, figsize=(15, 3.3), layout="constrained")
axes[0].scatter(*X.T, c=group, cmap="tab10", s=8)
axes[0].set(title="the data", aspect="equal", xticks=[], yticks=[])
for ax, (name, Y) in zip(axes[1:], embeddings.items(), strict=True):
    ax.imshow(squareform(pdist(Y)), cmap="inferno")
    ax.set(title=f"distances, {name}", xticks=[], yticks=[])

# %%
# What each time keeps
# --------------------
#
# The effective dimension counts the modes that matter. Of nine groups that can be told apart eight
# modes are left, of three two; traces are estimated, so the last few are counted roughly.

scales = model.scales()
print(scales)
axes = scales.plot()
