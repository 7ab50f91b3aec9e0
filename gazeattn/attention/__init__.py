"""Human and model attention side by side: profiles, baselines, comparison.

Importing this package registers the built-in baselines.
"""

from __future__ import annotations

from gazeattn.attention.baselines import baseline_profile
from gazeattn.attention.comparing import compare
from gazeattn.attention.comparison import Comparison
from gazeattn.attention.human import human_profiles, mean_profile

__all__ = ["Comparison", "baseline_profile", "compare", "human_profiles", "mean_profile"]
