"""Weights published with TPP-Gaze (``model_rnn.pth``, ``model_transformer.pth``), name by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gazeattn.errors import CapabilityError, DataError, MissingAssetError
from gazeattn.models.layers._weights import read_state

if TYPE_CHECKING:
    from gazeattn.models.scanpath.tpp_gaze import TPPGaze

__all__ = ["PUBLISHED_NAMES", "LoadReport", "read_published"]

PUBLISHED_NAMES = (
    ("context.context_init", "history.start"),
    ("context.rnn.", "history.rnn."),
    ("context.encoder.encoder.marks_linear.", "history.marks."),
    ("context.encoder.encoder.layer_stack.", "history.layers."),
    ("context.encoder.rnn.rnn.", "history.rnn."),
    ("context.encoder.rnn.projection.", "history.projection."),
    *((f"metadata.conv{i + 1}.", f"readout.convolutions.{i}.") for i in range(3)),
    *((f"metadata.image_norm{i + 1}.", f"readout.norms.{i}.") for i in range(3)),
    ("metadata.fc1.", "readout.linear."),
    ("inter_time_dist.linear.", "time."),
    ("marks_dist.linear.", "position."),
)
"""Starts of names in the file and here.

Unverified: worked out from the published modules' attributes (commit 59cf572), not from the files
of weights, which were not at hand.
"""

UNUSED = ("metadata.backbone.", "context.encoder.alpha", "context.encoder.beta")
"""The frozen DenseNet-201, which is a backbone of its own here, and two numbers that the published
code stores and never uses."""

KEPT = ("log_mean", "log_sd", "totals", "longest")
"""What a published file does not hold; the scale of durations is that of the paper."""


@dataclass(frozen=True)
class LoadReport:
    """What became of the names of a file.

    Attributes
    ----------
    loaded
        Names here that were filled.
    unused
        Names of the file that have no part here on purpose.
    missing, unexpected
        Names here without a weight, and names of the file that nothing is known about.
    shapes
        Names whose tensors have another shape, with both shapes.
    note
        What is known to differ from the published program.
    """

    loaded: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    shapes: tuple[str, ...]
    note: str = ""


def _renamed(name: str) -> str | None:
    for theirs, ours in PUBLISHED_NAMES:
        if name.startswith(theirs):
            return ours + name[len(theirs) :]
    return None


def read_published(model: TPPGaze, path: str | Path) -> LoadReport:
    """Fill a model of the published architecture with published weights; all of them or none."""
    settings = model.hparams
    wrong = [
        f"{name}={settings[name]!r} (published: {value!r})"
        for name, value in (("readout", "paper"), ("glimpse", False), ("radius_from", 0.5))
        if settings[name] != value
    ]
    if model.stop is not None:
        wrong.append("horizon='stop' (published: 3000)")
    if wrong:
        raise CapabilityError("published weights do not fit this model: " + ", ".join(wrong))
    try:
        state = read_state(path)
    except MissingAssetError:
        raise DataError("there is no such file", source=path) from None
    except DataError:
        raise
    except Exception as error:  # the reader of pickles raises whatever it stumbles over
        raise DataError("weights cannot be read", source=path, found=error) from error
    known: dict[str, Tensor] = {}
    unused, unexpected = [], []
    for name, value in state.items():
        ours = _renamed(name)
        if name.startswith(UNUSED):
            unused.append(name)
        elif ours is None:
            unexpected.append(name)
        else:
            known[ours] = value
    wanted = {k: v for k, v in model.state_dict().items() if k not in KEPT}
    unexpected += [k for k in known if k not in wanted]
    missing = [k for k in wanted if k not in known]
    shapes = [
        f"{k}: {tuple(known[k].shape)}, here {tuple(v.shape)}"
        for k, v in wanted.items()
        if k in known and known[k].shape != v.shape
    ]
    if missing or unexpected or shapes:
        found = {"missing": missing, "unexpected": unexpected, "of another shape": shapes}
        raise DataError(
            "weights do not fit the published TPP-Gaze",
            source=path,
            found="; ".join(f"{k}: {', '.join(v)}" for k, v in found.items() if v),
            hint='history has to be "gru" for model_rnn.pth, "transformer" for '
            "model_transformer.pth, with features of densenet201 (2048 channels)",
        )
    model.load_state_dict(known, strict=False)
    with torch.no_grad():
        model.log_mean.fill_(-1.512609601020813 + math.log(1000.0))
        model.log_sd.fill_(0.5891745090484619)
    note = (
        "the published program attends over the batch instead of over the events; here attention "
        "is over the events, so its published figures will not be met exactly"
        if settings["history"] == "transformer"
        else ""
    )
    return LoadReport(tuple(wanted), tuple(unused), (), (), (), note)
