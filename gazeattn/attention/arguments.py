"""What a comparison can be asked for, and the check that every name is known."""

from __future__ import annotations

from collections.abc import Sequence

from gazeattn import registry
from gazeattn.attention.human import check_measures
from gazeattn.attention.scores import PARTIAL
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.agreement import metric_names
from gazeattn.tables import MEASURES

METHODS = (
    "raw",
    "raw_last",
    "rollout",
    "value_norm",
    "grad_attention",
    "input_gradient",
    "entropy",
    "distance",
)
DEFAULT_MEASURES = ("total_reading_time", *(m for m in MEASURES if m != "total_reading_time"))
BASELINES = ("uniform", "random", "position", "length", "frequency", "surprisal")
METRICS = (
    "spearman",
    "kendall",
    "pearson",
    "cosine",
    "js_divergence",
    "topk_overlap",
    "kappa_topk",
)
CONTROLS = ("length", "frequency", "position")
LEVELS = ("mean", "reader")
AVERAGES = ("mean", "fisher_z")


def check_arguments(
    *,
    measures: Sequence[str] = DEFAULT_MEASURES,
    methods: Sequence[str] = METHODS,
    baselines: Sequence[str] = BASELINES,
    metrics: Sequence[str] = METRICS,
    head_metrics: Sequence[str] = ("spearman",),
    controls: Sequence[str] = CONTROLS,
    level: str = "reader",
    average: str = "mean",
    topk: int | float = 0.2,
) -> None:
    """Raise at the first name that nothing is known under, before any work is done.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    DataError
        No measure or no metric is asked for, or `topk` is neither a share nor a whole number.
    """
    known_methods = [*registry.attention_methods.names(), "surprisal"]
    known_baselines = registry.baselines.names()
    known_metrics = [*metric_names(), PARTIAL]
    check_measures(measures)
    for kind, names, known in (
        ("attention method", methods, known_methods),
        ("baseline", baselines, known_baselines),
        ("metric", metrics, known_metrics),
        ("metric", head_metrics, known_metrics),
        ("control", controls, known_baselines),
        ("level", [level], LEVELS),
        ("rule for averages", [average], AVERAGES),
    ):
        for name in names:
            if name not in known:
                raise UnknownNameError(kind, name, known)
    for what, given in (("measure", measures), ("metric", metrics)):
        if len(tuple(given)) == 0:
            raise DataError(f"no {what} is asked for", expected="at least one name")
    if not topk > 0 or (topk >= 1 and topk % 1 != 0):
        raise DataError(
            "topk is neither a share nor a number of words",
            expected="a share above 0 and below 1, or a whole number of words",
            found=topk,
        )
    if PARTIAL in (*metrics, *head_metrics) and not controls:
        raise DataError(f"{PARTIAL!r} needs controls", expected="names of baselines")
