"""
Snapshots of a network, aligned
===============================

The same vertices at three times: drawn separately, a network jumps from picture to picture, and what changed cannot be
seen. `fit_aligned` embeds all three together, so that a vertex whose surroundings stayed keeps its place.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import heatsketch as hs

# %%
# Five communities of 60. At the second time half of the first community has joined the second, at the third all of it.

rng = np.random.default_rng(0)
home = np.repeat(np.arange(5), 60)
groups = [home.copy() for _ in range(3)]
groups[1][:30] = groups[2][:60] = 1


def snapshot(group):
    """A graph in which members of a group know each other more often than others."""
    chance = np.where(group[:, None] == group, 0.2, 0.004)
    return nx.from_numpy_array(np.triu(rng.random(chance.shape) < chance, 1).astype(int))


graphs = [snapshot(group) for group in groups]
estimator = hs.HeatSketch(affinity="precomputed", random_state=0)

# %%
# Above each time by itself, below all three aligned. Colours are the communities of the first time; the three pictures
# of a row have the same axes. At the third time the first two communities are one, and are shown as one.

separate = [hs.HeatSketch(affinity="precomputed", random_state=0).fit(graph) for graph in graphs]
aligned = hs.fit_aligned(estimator, graphs)
figure, axes = plt.subplots(2, 3, figsize=(11, 7), sharex="row", sharey="row", layout="constrained")
for row, (models, title) in enumerate(((separate, "separate"), (aligned, "aligned"))):
    for t, model in enumerate(models):
        dots = axes[row, t].scatter(*model.embedding_.T, c=home, cmap="tab10", vmax=9, s=8)
        axes[row, t].set(title=f"{title}, time {t + 1}", xticks=[], yticks=[], aspect="equal")
figure.legend(dots.legend_elements()[0], range(1, 6), title="community", loc="outside right center")

# %%
# How far vertices moved between the first time and the third, relative to the size of the picture. Those that joined
# another community stand out. :func:`heatsketch.compare_kernels` adds confidence intervals to such distances.

first, last = aligned[0].embedding_, aligned[2].embedding_
moved = np.linalg.norm(first - last, axis=1) / np.sqrt(np.square(first - first.mean(axis=0)).sum(axis=1).mean())
print(f"joined another community: {np.median(moved[:60]):.2f}; others: {np.median(moved[60:]):.2f}")
