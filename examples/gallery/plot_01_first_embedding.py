"""
A first embedding
=================

Five hundred images of handwritten digits, 64 pixels each, are placed in the plane so that straight-line distances follow
the *diffusion distance*: two images are close if many short steps lead from one to the other through the data.

Three lines are enough. There is nothing to tune: each point has a scale of its own, and all diffusion times are kept at
once.
"""

import heatsketch as hs

images, digits = hs.datasets.digits()
images, digits = images[:500], digits[:500]

model = hs.HeatSketch(n_components=2, random_state=0).fit(images)
print(model.kernel_.affinity.description, model.power_, sep="; ")

# %%
# Labels are used for colours only.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
points = ax.scatter(*model.embedding_.T, c=digits, cmap="tab10", vmin=-0.5, vmax=9.5, s=14, linewidths=0)
figure.colorbar(points, ax=ax, ticks=range(10), label="digit")
ax.set(aspect="equal", title="500 digits, HeatSketch")

# %%
# What looks wrong?
# -----------------
#
# Ten kinds of digits do not fit into a plane, and the embedding knows it: ``diagnose`` names what commonly goes wrong,
# with the figure that was measured and the remedy.

print(model.diagnose())

# %%
# The distortion says by how much: the ratio of embedded to diffusion distance varies over all pairs by the factor L.
# Leaving out the hundredth of pairs at either end shows what is typical.

distortion = model.distortion()
print(f"L = {distortion.constant:.0f}; for the central 98% of pairs {distortion.central[0.01]:.1f}")

# %%
# More components keep more distances. The same kernel in eight dimensions:

more = hs.HeatSketch(n_components=8, random_state=0).fit(images)
print(f"L = {more.distortion().constant:.1f} in eight dimensions")
