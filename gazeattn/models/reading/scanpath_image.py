"""The scanpath as a picture, read by a network for pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_features import chosen
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import CapabilityError, DataError, MissingAssetError
from gazeattn.models.reading._scanpath_raster import CHANNELS, Canvas, draw, text_box
from gazeattn.models.reading.ahn import dense
from gazeattn.models.reading.base import ReadingNetwork
from gazeattn.registry import register_reading_model

FEATURES = ("duration", "x", "y")
RANGE_OF_MEDIAN = 0.5
"""Interquartile range of fixation durations in reading over their median, about."""
UNUSED = ("pooler.", "mask_token")
"""Parts of vision models that are not run here."""


class SmallCNN(nn.Module):
    """Strided convolutions with group norm; mean and largest value over the picture.

    Group norm looks at one picture alone, so that a trial's output does not depend on its company.
    """

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = len(CHANNELS)
        for after in channels:
            groups = 4 if after % 4 == 0 else 1
            layers += [
                nn.Conv2d(before, after, 3, stride=2, padding=1),
                nn.GroupNorm(groups, after),
                nn.ReLU(),
            ]
            before = after
        self.layers = nn.Sequential(*layers)
        self.width = 2 * before

    def forward(self, pictures: Tensor) -> Tensor:
        """Return (batch, width)."""
        maps = self.layers(pictures)
        return torch.cat([maps.mean((2, 3)), maps.amax((2, 3))], dim=1)


class VisionBackbone(nn.Module):
    """A vision model of transformers behind learned colours.

    Parameters
    ----------
    source
        Hub id or folder with a model whose input is ``pixel_values``: ViT, DINOv2, ConvNeXt, ...
    config
        The model's configuration, as a checkpoint of ours keeps it: built without its weights,
        which the checkpoint has.
    trainable
        Whether its weights are trained; the colours always are.
    """

    def __init__(
        self, source: str, config: Mapping[str, Any] | None = None, trainable: bool = True
    ) -> None:
        super().__init__()
        from transformers import AutoConfig, AutoModel

        made: Any
        if config is None:
            made = _pretrained(source)
        else:
            plain = dict(config)
            kind = str(plain.pop("model_type"))
            made = AutoModel.from_config(AutoConfig.for_model(kind, **plain))
        self.model: nn.Module = made
        facts = made.config
        self.config = json.loads(facts.to_json_string(use_diff=False))
        self.colours = nn.Conv2d(len(CHANNELS), 3, 1)
        sizes = getattr(facts, "hidden_sizes", None)
        self.width = int(sizes[-1] if sizes else facts.hidden_size)
        self.trainable = trainable
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(trainable and not any(u in name for u in UNUSED))
        self.options: dict[str, Any] = {}
        if facts.model_type in ("vit", "deit", "ijepa", "vit_mae"):
            self.options["interpolate_pos_encoding"] = True  # pictures of any size

    def train(self, mode: bool = True) -> VisionBackbone:
        """Set the mode; a frozen model stays as in prediction."""
        super().train(mode)
        if not self.trainable:
            self.model.eval()
        return self

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the mean over tokens, or what a convolutional model pools, (batch, width)."""
        out = self.model(pixel_values=self.colours(pictures), **self.options)
        states = out.last_hidden_state
        if states.ndim == 3:
            return states.mean(1)
        pooled = getattr(out, "pooler_output", None)
        return states.mean((2, 3)) if pooled is None else pooled.flatten(1)


def _pretrained(source: str) -> Any:
    from transformers import AutoModel

    try:
        model, info = AutoModel.from_pretrained(
            source, output_loading_info=True, dtype=torch.float32
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise MissingAssetError(
            f"the vision model {source!r} is not on this machine and cannot be loaded ({error}). "
            "With a network connection a hub id is fetched on first use; without one, pass a "
            "folder with config.json and model.safetensors as backbone"
        ) from error
    if getattr(model, "main_input_name", "") != "pixel_values":
        raise CapabilityError(f"{source} is a {model.config.model_type} model, not one of pictures")
    lacking = (*info["missing_keys"], *info["mismatched_keys"])
    wrong = sorted(str(k) for k in lacking if not any(u in str(k) for u in UNUSED))
    if wrong:
        raise DataError("weights are missing or of another shape", source=source,
                        found=", ".join(wrong))  # fmt: skip
    return model


@register_reading_model(
    "scanpath_image",
    description="the scanpath drawn as a picture, read by a small CNN or a vision model",
    citation="Shubi, Hadar & Berzak 2025, ACL",
    kind="network",
    needs=("words",),
)
class ScanpathImage(ReadingNetwork):
    """A picture of the scanpath: discs for fixations, lines for saccades.

    The area of a disc grows with the duration of the fixation, its shade tells its place in the
    order, and saccades are drawn apart by their direction: same word, forward, return sweep, back,
    back to an earlier line, and to or from a place off the text. Each has a channel of its own
    (`gazeattn.models.reading._scanpath_raster.CHANNELS`) where the paper mixes colours: nothing
    hides what lies under it. No text is drawn.

    Positions are scaled by the text's box, for which the box around the trial's own fixations on
    words stands, at least one interquartile range of training wide and high. Its width and height
    are given to the output layers beside the picture, and so is the share of fixations that have
    no position and are not drawn: those that stand at exactly 0 in x and y, as missing values do
    after scaling. Fixations far outside the box are drawn at the edge of the picture.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    image_size
        Height and width of the picture in pixels.
    margin, radius, most
        See `gazeattn.models.reading._scanpath_raster.Canvas`.
    channels
        Of the small CNN's layers, each of which halves the picture.
    backbone
        Hub id or folder of a vision model of transformers, run in place of the small CNN.
    trainable
        Whether the backbone is trained.
    backbone_config
        Filled in by the model for its checkpoints, which hold all weights.
    dense_size
        Hidden layer before the output.
    dropout
        Before each linear layer.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.

    Raises
    ------
    DataError
        Durations or positions are missing throughout training.

    References
    ----------
    Shubi, O., Hadar, Y., & Berzak, Y. (2025). Decoding reading goals from eye movements. ACL.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        image_size: Sequence[int] = (48, 96),
        margin: float = 0.1,
        radius: float = 0.03,
        most: float = 0.08,
        channels: Sequence[int] = (16, 32, 64),
        backbone: str | None = None,
        trainable: bool = True,
        backbone_config: Mapping[str, Any] | None = None,
        dense_size: int = 32,
        dropout: float = 0.3,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        found = self.widths.get("fixation", 0)
        if found != len(FEATURES):
            raise DataError(
                "a picture needs duration, x and y of fixations", expected=len(FEATURES),
                found=found, hint="some are missing in all training trials, or the inputs were "
                "not made with the features of ScanpathImage.choice",
            )  # fmt: skip
        height, width = (int(v) for v in image_size)
        self.canvas = Canvas(height, width, margin, radius, most)
        self.encoder: SmallCNN | VisionBackbone
        if backbone is None:
            self.encoder = SmallCNN(channels)
        else:
            self.encoder = VisionBackbone(backbone, backbone_config, trainable)
            self.hparams["backbone_config"] = self.encoder.config
        self.head = dense([self.encoder.width + 3, dense_size, self.target.outputs], dropout)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return duration and position, linear in what was measured."""
        return FeatureChoice(
            fixation=FEATURES, gaze=(), text=(), sets=(), squash=False, flags=False
        )

    def pictures(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return pictures (batch, channels, height, width) and three numbers beside each."""
        # all wanted features are there (see the constructor), in their own order
        column = {n: k for k, n in enumerate(chosen("fixation", FEATURES))}
        fixations = batch.fixations.masked_fill(~batch.mask[..., None], 0.0)
        positions = fixations[..., [column["x"], column["y"]]]
        there = batch.mask & (positions != 0).any(-1)
        duration = 1 + RANGE_OF_MEDIAN * fixations[..., column["duration"]]
        middle, size = text_box(positions, there & (batch.word >= 0))
        share = (positions - middle[:, None]) / size[:, None] + 0.5
        drawn = draw(share, duration.clamp_min(0.1), batch.word, there, batch.mask, self.canvas)
        unplaced = 1 - there.sum(1) / batch.mask.sum(1).clamp_min(1)
        return drawn, torch.cat([size.log1p(), unplaced[:, None]], dim=1)

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, target.outputs)."""
        drawn, numbers = self.pictures(batch)
        return self.head(torch.cat([self.encoder(drawn), numbers], dim=1))
