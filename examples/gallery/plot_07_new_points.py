"""
Placing new points
==================

Every embedding here is linear in the heat kernel, ``Y = h(A) M``. A point that was not fitted has a row of the kernel too,
and is placed by it: one product, no new fit, and a training point lands exactly where it was.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll

import heatsketch as hs

X, position = make_swiss_roll(900, noise=0.2, random_state=0)
seen, new = X[:600], X[600:]

model = hs.HeatSketch(n_components=2, random_state=0).fit(seen)
placed = model.transform(new)
print(np.allclose(model.transform(seen[:5]), model.embedding_[:5]))

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
axes[0].scatter(X[:, 0], X[:, 2], c=position, s=6)
axes[0].set(title="the roll, seen from the side", aspect="equal")
axes[1].scatter(*model.embedding_.T, c="0.85", s=6)
axes[1].scatter(*placed.T, c=position[600:], s=12)
axes[1].set(title="600 fitted (grey), 300 new (coloured)", aspect="equal")

# %%
# How well are they placed? ``distortion`` measures it against the diffusion distances between the new points' own kernel
# rows, which the fit has never seen.

for name, distortion in {"fitted": model.distortion(), "new": model.distortion(new)}.items():
    print(f"{name:7} central 98% of pairs: L = {distortion.central[0.01]:.1f}")

# %%
# A point far from all data is placed among those that are nearest to it, since the kernel's rows sum to one wherever they
# are. That place means little. What shows it is the distance to the nearest point, in units of that point's own scale.

far = np.array([[0.0, 10.0, 60.0]])
squared = ((seen - far) ** 2).sum(axis=1)
nearest = squared.argmin()
print(f"placed at {model.transform(far)[0].round(2)},")
print(f"but its nearest point is {np.sqrt(squared[nearest] / model.bandwidth_[nearest]):.0f} times its scale away")
