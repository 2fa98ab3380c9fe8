"""
Fifty thousand points
=====================

The kernel of 50,000 points has 2.5 billion entries. The estimators keep to 15 neighbours of each point, found with a
recall that is measured, and memory grows like N. Nothing changes in the code.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll

import heatsketch as hs

X, position = make_swiss_roll(50_000, noise=0.3, random_state=0)
X = X.astype(np.float32)

# %%
# What would it take? ``estimate`` answers before anything is started. (Its seconds are for this machine.)

plan = hs.estimate(X, n_components=32, power=4096)
print(f"{plan.held}, about {plan.memory / 2**20:.0f} MiB")

# %%
# By default all times up to 512 are kept, which tell apart what is up to some 60 steps away. With 50,000 points steps are
# short, and the roll is several times as long. To see all of it, we look at a single later time. A diffusion time of
# 4,096 takes far fewer products than that: the power is applied as a Chebyshev polynomial.

model = hs.GaussianProcessEmbedding(n_components=32, power=4096, random_state=0).fit(X)
print(model.kernel_.affinity.description)

# %%
# The distance of every point from the innermost one: straight through the air on the left, by diffusion along the roll
# on the right. Every fifth point is drawn.

inner = position.argmin()
distances = {
    "straight-line distance": np.linalg.norm(X - X[inner], axis=1),
    "diffusion distance": np.linalg.norm(model.embedding_ - model.embedding_[inner], axis=1),
}
part = slice(None, None, 5)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for ax, (name, distance) in zip(axes, distances.items(), strict=True):
    ax.scatter(X[part, 0], X[part, 2], c=distance[part], s=2)
    ax.scatter(X[inner, 0], X[inner, 2], marker="*", c="tab:red", s=120)
    ax.set(title=f"{name} from the star", aspect="equal", xticks=[], yticks=[])
