"""Models that predict where people look, one after the other.

Every model is registered by name and has the interface of `ScanpathModel`.
"""

from gazeattn.models.scanpath.base import (
    FeatureSpec,
    NetworkModel,
    ScanpathModel,
    log_density_of,
)

__all__ = ["FeatureSpec", "NetworkModel", "ScanpathModel", "log_density_of"]
