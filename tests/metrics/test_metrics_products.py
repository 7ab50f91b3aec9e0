"""Products in pieces are the product."""

from __future__ import annotations

import numpy as np
import pytest

from gazeattn.metrics.products import ONE_THREAD, product


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (0, 3, 2),
        (3, 0, 2),
        (1, 1, 1),
        (1, 300_000, 1),
        (300, 110, 101),
        (14, 2016, 99),
        (2, 9, ONE_THREAD),
    ],
)
def test_a_product_in_pieces_is_the_product(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)).astype(float), rng.integers(-3, 4, (k, n)).astype(float)
    np.testing.assert_array_equal(product(a, b), a @ b)
    single = product(a.astype(np.float32), b.astype(np.float32))
    assert single.dtype == np.float32
