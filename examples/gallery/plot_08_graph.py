"""
A graph with names
==================

A graph needs no coordinates: its adjacency is the affinity. The characters of *Les Misérables* are joined by the number
of chapters in which they appear together. networkx and igraph graphs, and sparse matrices, need no conversion.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import heatsketch as hs

graph = nx.les_miserables_graph()
names = np.array(graph.nodes)  # rows of the embedding are in this order

# %%
# Characters who share chapters with the same people come close.

model = hs.HeatSketch(n_components=2, affinity="precomputed", random_state=0).fit(graph)
print(f"log L = {model.distortion().log:.2f}")

degree = np.array([graph.degree(name, weight="weight") for name in names])
position = dict(zip(names, model.embedding_, strict=True))
figure, ax = plt.subplots(figsize=(10, 7), layout="constrained")
nx.draw_networkx_edges(graph, position, ax=ax, alpha=0.15)
ax.scatter(*model.embedding_.T, s=8 + 2 * degree, c=np.log(degree), cmap="viridis", zorder=2)
for name in ("Valjean", "Cosette", "Marius", "Javert", "Thenardier", "Fantine", "Enjolras", "Myriel", "Mabeuf"):
    ax.annotate(name, position[name], xytext=(4, 4), textcoords="offset points", fontsize=9)
ax.set(xticks=[], yticks=[], title="Les Misérables: size and colour by the number of shared chapters")

# %%
# Distances have intervals here too: who is closest to Cosette, and how sure is it?

cosette = int(np.flatnonzero(names == "Cosette")[0])
others = np.flatnonzero(names != "Cosette")
_, low, high = model.diffusion_distances(np.column_stack([np.full(len(others), cosette), others]), interval=0.95)
for index in np.argsort(high)[:5]:
    print(f"{names[others[index]]:16} {low[index]:.3f} to {high[index]:.3f}")

# %%
# Diffusion maps spend their first coordinates on what hangs by a thread: a vertex of degree one far from the rest is a
# slowly decaying mode. The distortion shows it.

maps = hs.DiffusionMaps(n_components=2, affinity="precomputed").fit(graph)
print(f"diffusion maps: log L = {maps.distortion().log:.1f}")
