"""Public corpora and the user's own tables."""

from gazeattn.datasets.base import GazeDataset

__all__ = ["GazeDataset"]
