"""Tables of a corpus as batches of tensors: ragged, padded with a mask, bucketed by length."""

from gazeattn.datamodules.scanpaths import (
    ScanpathBatch,
    ScanpathDataModule,
    Scanpaths,
    Stimulus,
    collate,
    scanpaths_of,
)

__all__ = [
    "ScanpathBatch",
    "ScanpathDataModule",
    "Scanpaths",
    "Stimulus",
    "collate",
    "scanpaths_of",
]
