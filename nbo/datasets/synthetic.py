"""Random data sets."""

from __future__ import annotations

import numpy as np

from nbo._validation import integer, real, validate_random_state
from nbo.datasets.dataset import Dataset

#: Standard deviation of the noise on the linear response.
NOISE = 0.1


def make_synthetic_logistic(
    n_train: int = 16_000,
    n_val: int = 4_000,
    p: int = 50,
    r: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
) -> Dataset:
    r"""Make the synthetic data of the NBO paper, Section 4.1.

    Samples have independent entries from :math:`N(0, r^2)`. With weights :math:`w` and noise :math:`z`, both
    standard normal, a label is +1 if :math:`a_i^\top w + 0.1 z_i` exceeds the median over all rows, training and
    validation together, and -1 otherwise. The paper leaves open what :math:`w` and the median are taken from; these
    are the choices made here.

    Parameters
    ----------
    n_train, n_val : int
        Numbers of rows.
    p : int
        Number of features.
    r : float
        Standard deviation of the samples, :math:`r'` in the paper, which uses 0.5, 1 and 2.
    random_state : int, numpy.random.Generator or None
        Seed of all draws.

    Returns
    -------
    Dataset
        A binary set without a test part.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, or `r` no positive number.

    References
    ----------
    Dong, Yang, Yao and Zhang, *Efficient Curvature-Aware Hypergradient Approximation for Bilevel Optimization*,
    ICML 2025, Section 4.1 and Appendix C.1.

    Examples
    --------
    >>> from nbo import datasets
    >>> datasets.make_synthetic_logistic(n_train=80, n_val=20, p=5)
    <Dataset synthetic_logistic: binary, 80 training + 20 validation rows of 5 features>
    """
    n_train = integer("n_train", n_train, minimum=1)
    n_val = integer("n_val", n_val, minimum=1)
    p, r = integer("p", p, minimum=1), real("r", r, positive=True)
    validate_random_state(random_state)
    rng = np.random.default_rng(random_state)
    weights = rng.standard_normal(p)
    A = r * rng.standard_normal((n_train + n_val, p))
    if not np.abs(A).max() < 1e150:
        raise ValueError(f"r: found {r:g}; expected a standard deviation below about 1e149")
    response = A @ weights + NOISE * rng.standard_normal(n_train + n_val)
    b = np.where(response > np.median(response), 1.0, -1.0)
    return Dataset(
        A=A[:n_train],
        b=b[:n_train],
        A_val=A[n_train:],
        b_val=b[n_train:],
        A_test=None,
        b_test=None,
        name="synthetic_logistic",
        description=f"random logistic data of {p} features with standard deviation {r:g}",
        source="nbo.datasets.make_synthetic_logistic",
        task="binary",
        classes=np.array([-1.0, 1.0]),
    )
