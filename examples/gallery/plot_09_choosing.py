"""
Choosing bandwidth and time
===========================

Two numbers decide a diffusion embedding: how far a step goes (the bandwidth) and how many there are (the diffusion time).
Here is what goes wrong with bad ones, what ``diagnose`` says of it, and what the data choose by themselves.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_s_curve

import heatsketch as hs

X, position = make_s_curve(400, noise=0.02, random_state=0)

# %%
# Too narrow, too wide, too late, and chosen by the data:

settings = {
    "too narrow": {"bandwidth": 0.01, "power": 8},
    "too wide": {"bandwidth": 500.0, "power": 8},
    "too late": {"bandwidth": 0.1, "power": 1024},
    "auto": {"bandwidth": "auto", "power": "auto"},
}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for ax, (name, options) in zip(axes, settings.items(), strict=True):
    model = hs.HeatSketch(n_components=2, objective="log-stress", random_state=0, **options).fit(X)
    ax.scatter(*model.embedding_.T, c=position, s=8)
    ax.set(title=name, xticks=[], yticks=[])
    ax.axis("equal")
    print(f"{name}: bandwidth {model.bandwidth_:.3g}, diffusion time {model.power_:g}")
    print(f"{model.diagnose()}\n")

# %%
# How the choice is made: on a sample, diffusion distances are compared with shortest paths over neighbouring points, at
# several bandwidths and all times. The winner's figures are kept.

print(model.power_choice_.rule, model.kernel_.bandwidth_rule)

# %%
# The rules for the bandwidth alone, for a time of your own:

for rule in ("neighbor", "median", "slope"):
    found = hs.estimate_bandwidth(X, rule)
    print(f"{rule:9} epsilon {found.epsilon:.2f}, intrinsic dimension {found.dimension:.1f}")
