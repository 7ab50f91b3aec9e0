"""DenseNet-201, the part before the classifier (Huang et al. 2017, CVPR)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

GROWTH = 32
BLOCKS = (6, 12, 48, 32)
TAPS = {
    2: "features.relu0",
    4: "features.denseblock1",
    8: "features.denseblock2",
    16: "features.denseblock3",
    32: "features.norm5",
}
CHANNELS = {2: 64, 4: 256, 8: 512, 16: 1792, 32: 1920}
UNUSED = ("classifier.weight", "classifier.bias")


class DenseLayer(nn.Module):
    """BatchNorm, ReLU, 1x1 convolution, BatchNorm, ReLU, 3x3 convolution to 32 new channels.

    No ReLU works in place, so that what is read of ``norm1`` is the output of the BatchNorm with
    its negative values, not what the ReLU made of it.
    """

    def __init__(self, inside: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inside)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(inside, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the new channels."""
        return self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))


class DenseBlock(nn.Sequential):
    """Layers that each see the output of all before them."""

    def __init__(self, n: int, inside: int, growth: int) -> None:
        layers = [(f"denselayer{i + 1}", DenseLayer(inside + i * growth, growth)) for i in range(n)]
        super().__init__(OrderedDict(layers))

    def forward(self, x: Tensor) -> Tensor:
        """Return the input and the new channels of all layers, concatenated."""
        found = [x]
        for layer in self:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


def _transition(inside: int, outside: int) -> nn.Sequential:
    parts = [
        ("norm", nn.BatchNorm2d(inside)),
        ("relu", nn.ReLU()),
        ("conv", nn.Conv2d(inside, outside, 1, bias=False)),
        ("pool", nn.AvgPool2d(2, 2)),
    ]
    return nn.Sequential(OrderedDict(parts))


class DenseNet(nn.Module):
    """The features of a DenseNet; by default those of DenseNet-201."""

    def __init__(
        self, blocks: Sequence[int] = BLOCKS, growth: int = GROWTH, start: int = 2 * GROWTH
    ) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, start, 7, 2, 3, bias=False),
            norm0=nn.BatchNorm2d(start),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, 2, 1),
        )
        channels = start
        for i, n in enumerate(blocks, 1):
            layers[f"denseblock{i}"] = DenseBlock(n, channels, growth)
            channels += n * growth
            if i < len(blocks):
                layers[f"transition{i}"] = _transition(channels, channels // 2)
                channels //= 2
        layers["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(layers)

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return the parts that, one after the other, are `forward`."""
        return [(f"features.{k}", m) for k, m in self.features.named_children()]

    def forward(self, x: Tensor) -> Tensor:
        """Return the last BatchNorm, (batch, 1920, height / 32, width / 32)."""
        return self.features(x)


def renamed(name: str) -> str:
    """Return the present name of a tensor; the first published files wrote ``norm.1``."""
    return re.sub(r"(denselayer\d+\.)(norm|conv)\.([12])\.", r"\1\2\3.", name)
