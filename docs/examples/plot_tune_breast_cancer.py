"""
Penalties for the breast cancer data
====================================

Tune the penalties of a logistic regression on validation data: first one for all features, then one for each
feature under a prior around the shared one. The data come with scikit-learn: 569 rows of 30 measurements.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import nbo
from nbo import plotting

# %%
# Data
# ----
# Training rows fit the model, validation rows choose the penalties. This example looks at the optimisation; to
# judge models, keep test rows aside as well, as ``nbo tune`` does. The model has no intercept, to keep the
# example short.

bunch = load_breast_cancer()
labels = np.where(bunch.target == 1, 1.0, -1.0)
A, A_val, b, b_val = train_test_split(bunch.data, labels, test_size=0.25, stratify=labels, random_state=0)
scaler = StandardScaler().fit(A)
A, A_val = scaler.transform(A), scaler.transform(A_val)

# %%
# One shared penalty
# ------------------
# The upper-level variable is the log of the penalty. ``nbo-cg`` takes Newton directions from a few conjugate
# gradient steps and needs no step size.

problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, penalty="shared")
shared = nbo.minimize(problem, [-np.log(len(b))], method="nbo-cg")
print(f"{shared.status} after {shared.nit} iterations, {shared.counts.lower_hvp} products")
print(f"penalty {np.exp(shared.x[0]):.2g}, validation loss {shared.fun:.4f}")

# %%
# One penalty per feature
# -----------------------
# Thirty penalties would overfit the validation rows. The prior adds
# :math:`\|x - x_{\text{shared}}\|^2 / (2 N')` for the :math:`N'` validation rows to the upper level: a penalty
# leaves the shared value only where the data ask for it.

center = np.full(A.shape[1], shared.x[0])
problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, prior=(center, 1.0))
tuned = nbo.minimize(problem, center, y0=shared.y, u0=shared.u, method="nbo-cg")
print(f"{tuned.status} after {tuned.nit} iterations, {tuned.counts.lower_hvp} products")
print(f"penalties from {np.exp(tuned.x.min()):.2g} to {np.exp(tuned.x.max()):.2g}")

# %%
# Convergence
# -----------
# The norm of the hypergradient against the number of Hessian-vector products.

ax = plotting.convergence(shared.history, against="lower_hvp", label="shared")
plotting.convergence(tuned.history, ax, against="lower_hvp", label="per feature")
ax.legend()
plt.show()

# %%
# Penalties
# ---------
# Features with small penalties are those that the validation rows want the model to use more freely.

plotting.penalties(tuned.x, list(bunch.feature_names), float(shared.x[0]))
plt.show()
