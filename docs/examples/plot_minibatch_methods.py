"""
Minibatch methods against samples
=================================

Four minibatch methods choose one penalty per feature for the breast cancer data: with and without inner steps, and
with plain and with SAGA estimates. What they cost is compared by the samples that their oracles went over.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import nbo

# %%
# Data
# ----
# 569 rows are few: one pass over all of them is cheap, and the full-batch methods are the better choice here. The
# example shows how to compare methods.

bunch = load_breast_cancer()
labels = np.where(bunch.target == 1, 1.0, -1.0)
A, A_val, b, b_val = train_test_split(bunch.data, labels, test_size=0.25, stratify=labels, random_state=0)
scaler = StandardScaler().fit(A)
A, A_val = scaler.transform(A), scaler.transform(A_val)
problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, prior=(np.full(A.shape[1], -5.0), 1.0))
start = np.full(A.shape[1], -3.0)

# %%
# The value to reach
# ------------------
# A full-batch method that needs no step size finds it.

reference = nbo.minimize(problem, start, method="nbo-cholesky", tol=1e-8)
print(f"{reference.status}: {reference.fun:.6f}")

# %%
# Four runs
# ---------
# All with the same constant steps and batches of 32. The first iteration of a SAGA method fills its memory, an epoch
# of samples. Nothing here was tuned: other steps give other curves.

options = {"step_size": 2.5, "inner_step_size": 0.25, "batch_size": 32, "eval_every": 100}
results = {
    name: nbo.minimize(problem, start, method=name, options=options, max_iter=6000, random_state=0)
    for name in ("soba", "saba", "nsbo-sgd", "nsbo-saga")
}
for name, result in results.items():
    print(f"{name:<10} value {result.fun:.6f}, {sum(result.samples.as_dict().values()):,d} samples")

# %%
# Distance against samples
# ------------------------
# The columns of the history that begin with ``samples_`` count component samples by oracle; their sum is the work.
# Shown is the distance of :math:`f(x, y)` from the value of the full-batch method. With constant steps the plain
# estimates of ``soba`` and ``nsbo-sgd`` stop at the level of their noise, unless the steps decay
# (:class:`nbo.schedules.PowerDecay`); SAGA's noise vanishes.

fig, ax = plt.subplots()
for name, result in results.items():
    history = result.history
    samples = sum(history[column] for column in history if column.startswith("samples_"))
    ax.plot(samples, np.abs(history.value - reference.fun), label=name)
ax.set(xlabel="samples", ylabel="distance from the full-batch value", yscale="log")
ax.grid(True, alpha=0.3)
ax.legend()
plt.show()
