"""How well a saliency map meets human fixations, or a map of them.

Ours or the model's map comes first, the human side second.
"""

from __future__ import annotations

from gazeattn.metrics.saliency._inputs import locate
from gazeattn.metrics.saliency.conditional import cauc, cauc_hat, cig, cnss, per_step
from gazeattn.metrics.saliency.conventions import convention, metric_names, undefined_reason
from gazeattn.metrics.saliency.distribution import cc, emd, emd_block, kl_div, sim, to_density
from gazeattn.metrics.saliency.gold import (
    GoldStandard,
    cross_validated_bandwidth,
    default_bandwidths,
    gold_standard,
)
from gazeattn.metrics.saliency.location import (
    auc,
    auc_judd,
    auc_per_fixation,
    information_gain,
    information_gain_per_fixation,
    log_likelihood,
    nss,
    nss_per_fixation,
    shuffled_auc,
)
from gazeattn.metrics.saliency.many import Scores, score_many
from gazeattn.metrics.saliency.maps import (
    centre_bias,
    count_map,
    fixation_map,
    fixations_from_map,
    gaussian_centre,
    pixels_per_degree,
)

__all__ = [
    "GoldStandard",
    "Scores",
    "auc",
    "auc_judd",
    "auc_per_fixation",
    "cauc",
    "cauc_hat",
    "cc",
    "centre_bias",
    "cig",
    "cnss",
    "convention",
    "count_map",
    "cross_validated_bandwidth",
    "default_bandwidths",
    "emd",
    "emd_block",
    "fixation_map",
    "fixations_from_map",
    "gaussian_centre",
    "gold_standard",
    "information_gain",
    "information_gain_per_fixation",
    "kl_div",
    "locate",
    "log_likelihood",
    "metric_names",
    "nss",
    "nss_per_fixation",
    "per_step",
    "pixels_per_degree",
    "score_many",
    "shuffled_auc",
    "sim",
    "to_density",
    "undefined_reason",
]
