"""
A first picture
===============

1,797 images of handwritten digits, 64 pixels each, in the plane. Three lines are enough, and there is nothing to tune.
"""

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

images, digits = hs.datasets.digits()
model = hs.HeatSketch(random_state=0).fit(images)

# %%
# Labels are used for colours only. Each digit has its name at the middle of its images.

figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
hs.plot_embedding(model, color=digits, categorical=True, legend=False, ax=ax)
for digit in range(10):
    x, y = np.median(model.embedding_[digits == digit], axis=0)
    ax.text(x, y, digit, fontsize=14, ha="center", va="center", bbox={"color": "white", "alpha": 0.7, "pad": 1})
ax.set(xlabel="", ylabel="", xticks=[], yticks=[], title="Handwritten digits, HeatSketch")

# %%
# How much does it keep? Trustworthiness is 1 if all neighbours in the picture are neighbours in the data.

from sklearn.manifold import trustworthiness

print(f"trustworthiness {trustworthiness(images, model.embedding_, n_neighbors=15):.3f}")

# %%
# What to believe
# ---------------
#
# The digits have about five dimensions, and a plane has two: something must be folded or cut. ``diagnose`` says so, and
# ``unsupported_neighbors`` finds the neighbours in the picture that are false. Dark points have many of them.

print(model.diagnose())
support = model.unsupported_neighbors()
print(support)
support.plot()

# %%
# New images take their places without a new fit:

placed = hs.HeatSketch(random_state=0).fit(images[:1500]).transform(images[1500:])
print(placed.shape)
