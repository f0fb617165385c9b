"""
When finer penalties pay: columns of noise
==========================================

Finer penalties seldom beat one shared penalty. Here they do: a hundred columns of noise stand beside the thirty
measurements of the breast cancer set, and it is known which columns belong together. One shared penalty has to be
strong for the noise and weak for the measurements. Two penalties, one a group, are tuned by the same five folds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nbo.sklearn import BilevelLogisticRegression

N_NOISE = 100
groups = np.repeat([0, 1], [30, N_NOISE])
X, y = load_breast_cancer(return_X_y=True)

# %%
# Three structures on ten splits
# ------------------------------
# The test rows are those that no model has seen. One penalty a feature does not know what belongs together: its prior
# keeps it from doing harm, and there is little to gain.

structures = {"shared": "shared", "two groups": groups, "one a feature": "feature"}
losses = {name: [] for name in structures}
for seed in range(10):
    noise = np.random.default_rng(seed).standard_normal((len(X), N_NOISE))
    A, A_test, b, b_test = train_test_split(np.hstack([X, noise]), y, test_size=0.3, stratify=y, random_state=seed)
    for name, penalty in structures.items():
        model = make_pipeline(StandardScaler(), BilevelLogisticRegression(penalty, random_state=seed)).fit(A, b)
        losses[name].append(log_loss(b_test, model.predict_proba(A_test)))
        if seed == 0 and name == "two groups":
            print(model[-1].report_)

ratios = {name: np.array(found) / losses["shared"] for name, found in losses.items() if name != "shared"}
for name, ratio in ratios.items():
    print(f"{name}: test loss {ratio.mean():.3f} of the shared penalty's, at worst {ratio.max():.3f}")

# %%
# Split by split
# --------------

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, ratio in ratios.items():
    ax.plot(np.sort(ratio), "o-", label=name)
ax.axhline(1, color="grey", linewidth=0.8)
ax.set(xlabel="splits, in order", ylabel="test loss / that of the shared penalty", ylim=(0, 1.2))
ax.legend()
plt.show()
