"""What every entry of this package in the registry of metrics carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gazeattn.registry import register_metric

T = TypeVar("T")

INFINITE = float("inf")

BYLINSKII = "Bylinskii et al. (2019), IEEE Transactions on Pattern Analysis 41(3)"
KUEMMERER = "Kuemmerer, Wallis, Bethge (2015), PNAS 112(52)"
YANG = "Yang et al. (2024), CVPR"


def register(
    name: str,
    *,
    inputs: str,
    bounds: tuple[float, float],
    higher: bool,
    description: str,
    formula: str,
    citation: str,
    chance: float = float("nan"),
    symmetric: bool = False,
    **more: Any,
) -> Callable[[T], T]:
    """Register a saliency metric.

    `inputs` says what the second argument is: "fixations", "map", or "steps" (one map and one
    fixation per step). `chance` is the value of a map without contrast, NaN where it is undefined
    or depends on the reference.
    """
    return register_metric(
        name,
        task="saliency",
        inputs=inputs,
        bounds=bounds,
        higher_is_better=higher,
        symmetric=symmetric,
        description=description,
        formula=formula,
        citation=citation,
        chance=chance,
        **more,
    )
