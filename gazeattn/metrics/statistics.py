"""Uncertainty around agreement: permutation tests, ceilings, bootstrap, corrections.

What is undefined is NaN, with a reason or a note beside it; averages leave it out and count it.
"""

from __future__ import annotations

from gazeattn.metrics._bootstrap import BootstrapResult, clustered_bootstrap
from gazeattn.metrics._corrections import (
    Summary,
    adjust,
    benjamini_hochberg,
    cohens_d_paired,
    correlation_test,
    fisher_mean,
    hedges_g,
    max_t,
    summarise,
)
from gazeattn.metrics._permutation import (
    AveragedTest,
    PermutationResult,
    TestResult,
    mean_null,
    permutation_pvalues,
    sign_flip_test,
    tail_probability,
    two_sample_test,
)
from gazeattn.metrics._raters import cohen_kappa, fleiss_kappa, icc
from gazeattn.metrics._reliability import (
    NoiseCeiling,
    SplitHalf,
    mean_of_others,
    mean_pairwise,
    noise_ceiling,
    pearson_ci,
    relative,
    spearman_brown,
    split_half,
)
from gazeattn.metrics.mixed import MixedResult, mixed_effects

__all__ = [
    "AveragedTest",
    "BootstrapResult",
    "MixedResult",
    "NoiseCeiling",
    "PermutationResult",
    "SplitHalf",
    "Summary",
    "TestResult",
    "adjust",
    "benjamini_hochberg",
    "clustered_bootstrap",
    "cohen_kappa",
    "cohens_d_paired",
    "correlation_test",
    "fisher_mean",
    "fleiss_kappa",
    "hedges_g",
    "icc",
    "max_t",
    "mean_null",
    "mean_of_others",
    "mean_pairwise",
    "mixed_effects",
    "noise_ceiling",
    "pearson_ci",
    "permutation_pvalues",
    "relative",
    "sign_flip_test",
    "spearman_brown",
    "split_half",
    "summarise",
    "tail_probability",
    "two_sample_test",
]
