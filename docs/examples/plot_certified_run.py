"""
A run against its convergence proof
===================================

NBO-GD with the parameters of the convergence theorem, started near the border of the region that the theorem allows.
The Lyapunov function falls in every iteration by more than is promised, and with a step a hundred times too large
it does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import nbo

# %%
# A problem with known constants
# ------------------------------
# Its solutions are known in closed form, and its third derivatives do not vanish.

problem, x0 = nbo.problems.NonQuadratic.family(kappa=4), np.array([0.5, 0.5])
constants = problem.constants()
print(constants)

# %%
# Two runs
# --------
# ``certify_run`` chooses start and parameters and checks each iteration.

for factor in (1, 100):
    print(nbo.theory.certify_run(problem, x0, start="edge", step_factor=factor), end="\n\n")

# %%
# What the checks see
# -------------------
# The callback behind them keeps its numbers. The promised decrease has four parts, of which at first that of y
# is the largest, and later that of the gradient of Phi.

parameters = nbo.theory.theoretical_parameters(constants, "nbo-gd")
start = nbo.initialization.box1(problem, x0)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for factor, colour in ((1, "C0"), (100, "C3")):
    alpha = factor * parameters.alpha
    tracker = nbo.theory.Lyapunov(problem, phi_star=0.0, step_size=alpha, start=(x0, start.y, start.u))
    solver = nbo.NBOGD(step_size=alpha, inner_step_size=parameters.gamma, n_inner=parameters.T)
    nbo.minimize(problem, x0, y0=start.y, u0=start.u, method=solver, tol=0.0, max_iter=150, callback=tracker)
    left.plot([row.V for row in tracker.rows], color=colour, label=f"{factor} alpha")
    right.plot([row.slack / row.terms for row in tracker.rows[:-1]], color=colour, label=f"{factor} alpha")
left.set(xlabel="iteration", ylabel="V", title="Lyapunov function")
right.axhline(0, color="grey", linewidth=0.8)
right.set(xlabel="iteration", ylabel="slack of the descent", title="below zero: violated", ylim=(-1, 1))
left.legend()
plt.show()

# %%
# How costs grow
# --------------
# The same parameters for growing condition numbers; powers are fitted to the costs until the gradient is small.

study = nbo.theory.complexity_study(kappas=(2, 4, 8), eps=1e-3)
print(study.table())
study.plot()
plt.show()
