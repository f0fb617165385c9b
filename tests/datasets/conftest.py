"""A data home that the tests of this folder fill from the mirror."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from nbo import datasets


@pytest.fixture(scope="session")
def load_real(data_mirror, tmp_path_factory) -> Callable[..., datasets.Dataset]:
    """``nbo.datasets.load`` on a data home of its own; the files are copied from the mirror when first asked for."""
    home = tmp_path_factory.mktemp("data-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NBO_DATA_MIRROR", str(data_mirror))
        yield functools.partial(datasets.load, data_home=home)
