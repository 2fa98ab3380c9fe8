"""
A table with units, categories and gaps
=======================================

Distances need columns that can be compared. ``TableEncoder`` standardises numbers of different units, gives every category the
weight of one standardised column, and fills missing values in.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import heatsketch as hs

# %%
# Units
# -----
# Chemical analyses of wines from three cultivars. One of the 13 columns, proline, is a thousand times larger than others and decides
# every distance. The embedding says so.

wine, cultivar = load_wine(as_frame=True, return_X_y=True)
raw = hs.HeatSketch(random_state=0).fit(wine)
print(raw.diagnose())

# %%
# With an encoder in front, every column counts alike.

pipeline = make_pipeline(hs.TableEncoder(), hs.HeatSketch(random_state=0)).fit(wine)
print(*pipeline[0].notes_, sep="\n")

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, model, title in zip(axes, (raw, pipeline[-1]), ("as they are", "standardised"), strict=True):
    points = ax.scatter(*model.embedding_.T, c=cultivar, cmap="viridis", s=14)
    accuracy = cross_val_score(KNeighborsClassifier(10), model.embedding_, cultivar).mean()
    ax.set(title=f"{title}: {accuracy:.0%} by neighbours", xticks=[], yticks=[])
axes[0].legend(*points.legend_elements(), title="cultivar")

# %%
# Categories and missing values
# -----------------------------
# A simulated table of customers in three groups, which differ in their plan, their age and the number of their visits. Income differs
# from person to person only.

rng = np.random.default_rng(0)
group = rng.integers(0, 3, 400)
usual = np.array(["basic", "plus", "family"])
customers = pd.DataFrame(
    {
        "age": np.array([28, 45, 45])[group] + 8 * rng.standard_normal(400),
        "visits": rng.poisson(np.array([3, 3, 12])[group]),
        "income": rng.lognormal(10.5, 0.4, 400).round(),
        "plan": np.where(rng.random(400) < 0.8, usual[group], rng.choice(usual, 400)),
        "name": [f"customer {i}" for i in range(400)],
    }
)
customers.loc[rng.random(400) < 0.1, "age"] = np.nan

model = make_pipeline(hs.TableEncoder(impute="median"), hs.HeatSketch(random_state=0)).fit(customers)
print(*model[0].notes_, sep="\n")

# %%
# The neighbours of a customer in the embedding of all columns, and in one of the income, the column with the largest numbers:

income = hs.HeatSketch(random_state=0).fit_transform(customers[["income"]])
for words, Y in {"all columns": model[-1].embedding_, "income alone": income}.items():
    print(
        f"{words}: {cross_val_score(KNeighborsClassifier(10), Y, group).mean():.0%} of the groups are named by neighbours"
    )

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
for plan, rows in customers.groupby("plan").groups.items():
    ax.scatter(*model[-1].embedding_[rows].T, s=14, label=plan)
ax.set(xticks=[], yticks=[])
ax.legend(title="plan")

# %%
# The pipeline embeds new customers as they come, with gaps, in any order of columns, and
# ``hs.save_model(model, "customers.heatsketch")`` keeps all of it in a file.

new = pd.DataFrame({"plan": ["plus", "family"], "income": [31e3, 64e3], "visits": [2, 14], "age": [np.nan, 39]})
print(model.transform(new))
