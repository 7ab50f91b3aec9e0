"""How alike two scanpaths are. Ours or the model's path comes first, the human reference second."""

from __future__ import annotations

from gazeattn.metrics.scanpath._packed import in_milliseconds
from gazeattn.metrics.scanpath.behaviour import (
    Behaviour,
    BehaviourDifference,
    behaviour_difference,
    search_behaviour,
)
from gazeattn.metrics.scanpath.clusters import (
    Clusters,
    fit_clusters,
    load_clusters,
    save_clusters,
)
from gazeattn.metrics.scanpath.distances import (
    DiscOverlap,
    disc_overlap,
    euclidean,
    eyenalysis,
    hausdorff,
    mannan,
    mannan_similarity,
)
from gazeattn.metrics.scanpath.embedding import (
    scaled_time_delay_embedding,
    stde,
    tde,
    time_delay_embedding,
)
from gazeattn.metrics.scanpath.heatmatch import (
    HeatMatch,
    heatmatch,
)
from gazeattn.metrics.scanpath.multimatch import (
    MultiMatch,
    multimatch,
    multimatch_simplify,
)
from gazeattn.metrics.scanpath.pairwise import (
    pairs_within,
    pairwise,
    undefined_reason,
)
from gazeattn.metrics.scanpath.recurrence import (
    Recurrence,
    auto_recurrence,
    auto_recurrence_paths,
    cross_recurrence,
)
from gazeattn.metrics.scanpath.saccades import (
    Distribution,
    Saccades,
    amplitude_distance,
    amplitude_distribution,
    direction_distance,
    direction_distribution,
    saccades,
)
from gazeattn.metrics.scanpath.scanmatch import (
    scanmatch,
    scanmatch_strings,
)
from gazeattn.metrics.scanpath.scasim import (
    scasim,
)
from gazeattn.metrics.scanpath.score_distributions import (
    ScoreDistributions,
    pair_scores,
    score_distribution_kl,
)
from gazeattn.metrics.scanpath.search import (
    TargetFixation,
    probability_mismatch,
    scanpath_ratio,
    scanpath_ratios,
    steps_to_target,
    target_fixation_auc,
    target_fixation_probability,
)
from gazeattn.metrics.scanpath.semantic import (
    semantic_fixation_edit_distance,
    semantic_fixation_edit_distance_many,
    semantic_sequence_score,
    semantic_sequence_score_many,
)
from gazeattn.metrics.scanpath.sequences import (
    AgainstMany,
    fixation_edit_distance,
    fixation_edit_distance_many,
    sequence_score,
    sequence_score_many,
)
from gazeattn.metrics.scanpath.strings import (
    damerau_levenshtein,
    grid_strings,
    levenshtein,
    levenshtein_similarity,
)
from gazeattn.metrics.scanpath.warping import (
    discrete_frechet,
    dtw,
)

__all__ = [
    "AgainstMany",
    "Behaviour",
    "BehaviourDifference",
    "Clusters",
    "DiscOverlap",
    "Distribution",
    "HeatMatch",
    "MultiMatch",
    "Recurrence",
    "Saccades",
    "ScoreDistributions",
    "TargetFixation",
    "amplitude_distance",
    "amplitude_distribution",
    "auto_recurrence",
    "auto_recurrence_paths",
    "behaviour_difference",
    "cross_recurrence",
    "damerau_levenshtein",
    "direction_distance",
    "direction_distribution",
    "disc_overlap",
    "discrete_frechet",
    "dtw",
    "euclidean",
    "eyenalysis",
    "fit_clusters",
    "fixation_edit_distance",
    "fixation_edit_distance_many",
    "grid_strings",
    "hausdorff",
    "heatmatch",
    "in_milliseconds",
    "levenshtein",
    "levenshtein_similarity",
    "load_clusters",
    "mannan",
    "mannan_similarity",
    "multimatch",
    "multimatch_simplify",
    "pair_scores",
    "pairs_within",
    "pairwise",
    "probability_mismatch",
    "saccades",
    "save_clusters",
    "scaled_time_delay_embedding",
    "scanmatch",
    "scanmatch_strings",
    "scanpath_ratio",
    "scanpath_ratios",
    "scasim",
    "score_distribution_kl",
    "search_behaviour",
    "semantic_fixation_edit_distance",
    "semantic_fixation_edit_distance_many",
    "semantic_sequence_score",
    "semantic_sequence_score_many",
    "sequence_score",
    "sequence_score_many",
    "stde",
    "steps_to_target",
    "target_fixation_auc",
    "target_fixation_probability",
    "tde",
    "time_delay_embedding",
    "undefined_reason",
]
