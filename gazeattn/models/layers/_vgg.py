"""VGG16, the part before the classifier (Simonyan & Zisserman 2015, ICLR)."""

from __future__ import annotations

from torch import Tensor, nn

PLAN = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of each convolution; 0 is a pooling by 2."""
POOLS = ("features.4", "features.9", "features.16", "features.23", "features.30")
TAPS = dict(zip((2, 4, 8, 16, 32), POOLS, strict=True))
CHANNELS = {2: 64, 4: 128, 8: 256, 16: 512, 32: 512}
UNUSED = tuple(f"classifier.{i}.{part}" for i in (0, 3, 6) for part in ("weight", "bias"))
"""Tensors of the published file that belong to the classifier."""


class VGG16(nn.Module):
    """Thirteen convolutions with ReLU and five poolings, numbered in ``features``.

    Convolutions are 0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28; each is followed by its ReLU;
    the poolings are 4, 9, 16, 23, 30.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inside = 3
        for channels in PLAN:
            if channels:
                layers += [nn.Conv2d(inside, channels, 3, padding=1), nn.ReLU()]
                inside = channels
            else:
                layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return all layers in order."""
        return [(f"features.{i}", layer) for i, layer in enumerate(self.features)]

    def forward(self, x: Tensor) -> Tensor:
        """Return the last pooling, (batch, 512, height // 32, width // 32)."""
        return self.features(x)
