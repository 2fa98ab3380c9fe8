"""
Which parts of a picture to believe
===================================

A torus cannot be flattened. Every picture of it in the plane shows some points side by side that are far apart, and the
picture itself does not say which. heatsketch asks an independent sketch of the same kernel, which knows how sure each
distance is: neighbours in the picture whose true distance is certainly too large are *unsupported*.
"""

import matplotlib.pyplot as plt

import heatsketch as hs

X = hs.datasets.stretched_torus(700, random_state=0)
options = {"n_components": 2, "power": 4, "bandwidth": 0.5}
models = [hs.DiffusionMaps(**options), hs.HeatSketch(random_state=0, **options)]

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, model in zip(axes, models, strict=True):
    support = model.fit(X).unsupported_neighbors(n_neighbors=15)
    support.plot(ax)
    ax.set_title(type(model).__name__)
    print(f"{type(model).__name__}: {support}")

# %%
# Would it come out the same again?
# ---------------------------------
#
# ``stability`` repeats the embedding with other random numbers, or with a part of the data left out, lays the repetitions
# over the picture and reports for every point how many of its neighbours it keeps. Diffusion maps have no random numbers, so
# here is what happens to them when a fifth of the data is left out.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, (model, under) in zip(axes, [(models[0], "data"), (models[1], "seed")], strict=True):
    stability = model.stability(under, n_repeats=2)
    stability.plot(ax)
    ax.set_title(f"{type(model).__name__}, other {under}")
    print(f"{type(model).__name__}: {stability}")

# %%
# Diffusion maps are stable here, and wrong: what is repeated faithfully need not be true. That is why both questions are
# asked.
