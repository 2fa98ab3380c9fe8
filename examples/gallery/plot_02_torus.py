"""
Small structure that diffusion maps cut off
===========================================

The stretched torus is a small circle times a large one. Its leading six eigenfunctions see only the large circle, so
diffusion maps in up to six dimensions are blind to the small one: points that lie opposite each other on it fall
together. A random sketch combines *all* eigenfunctions in each coordinate, and HeatSketch, asked for the worst
distance, chooses the combination that distorts it least. (Section 2.2 and Figure 2 of Gilbert and O'Neill, with the paper's parameters.)
"""

import matplotlib.pyplot as plt

import heatsketch as hs

X = hs.datasets.stretched_torus(500, random_state=0)
options = {"power": 10, "bandwidth": 0.3}
dimensions = [2, 3, 4, 8]

# %%
# In three dimensions, coloured by the angle on the small circle. The 500 points that were fitted are joined by 3,000 new
# ones, placed by ``transform``, to make the surface visible. Diffusion maps mix the colours; the other two keep them
# apart.

methods = {
    "diffusion maps": lambda k: hs.DiffusionMaps(k, **options),
    "Gaussian process": lambda k: hs.GaussianProcessEmbedding(k, random_state=0, **options),
    "HeatSketch": lambda k: hs.HeatSketch(k, objective="bilipschitz", random_state=0, **options),
}
models = {name: {k: make(k).fit(X) for k in dimensions} for name, make in methods.items()}
more, parameters = hs.datasets.stretched_torus(3000, random_state=1, return_parameters=True)
figure = plt.figure(figsize=(11, 3.8), layout="constrained")
for column, (name, fitted) in enumerate(models.items(), start=1):
    Y = fitted[3].transform(more)
    ax = figure.add_subplot(1, 3, column, projection="3d")
    ax.scatter(*Y.T, c=parameters[:, 0], cmap="twilight_shifted", s=4, linewidths=0)
    ax.set(title=name, xticks=[], yticks=[], zticks=[])

# %%
# The number that tells them apart is log L, the logarithm of the largest over the smallest ratio of embedded to diffusion
# distance. Zero is perfect; each unit is a factor of e between the best and the worst pair.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, fitted in models.items():
    distortion = [fitted[k].distortion().log for k in dimensions]
    ax.plot(dimensions, distortion, marker="o", label=name)
    print(f"{name:17}", "  ".join(f"{value:4.1f}" for value in distortion))
ax.set(xlabel="components", ylabel="log L", xticks=dimensions, ylim=(0, None))
ax.legend(frameon=False)
