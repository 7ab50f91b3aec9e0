"""EfficientNet-Lite0 (Tan & Le 2019, ICML; the variant without squeeze-and-excitation).

ReLU6 instead of SiLU, no attention over channels, stem and head are not scaled. The weights come
from the TensorFlow original, and so do the conventions: convolutions with a step pad more at the
bottom right than at the top left (output size is the input size over the step, rounded up), and
BatchNorm adds 1e-3 to the variance.
"""

from __future__ import annotations

import re

import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-3
STAGES = (
    # kernel, blocks, first step, expansion, channels in and out
    (3, 1, 1, 1, 32, 16),
    (3, 2, 2, 6, 16, 24),
    (5, 2, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (5, 3, 1, 6, 80, 112),
    (5, 4, 2, 6, 112, 192),
    (3, 1, 1, 6, 192, 320),
)
TAPS = {2: "blocks.0", 4: "blocks.2", 8: "blocks.4", 16: "blocks.10", 32: "blocks.15"}
"""Last block of each stride."""
CHANNELS = {2: 16, 4: 24, 8: 40, 16: 112, 32: 320}


class SameConv2d(nn.Conv2d):
    """A convolution whose output has ``ceil(size / step)`` cells, padded as TensorFlow does."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of (batch, channels, height, width)."""
        pads: list[int] = []
        for n, k, s in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-n // s) - 1) * s + k - n, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads) if any(pads) else x)


class ConvNorm(nn.Module):
    """Convolution, BatchNorm and, unless it is a projection, ReLU6."""

    def __init__(
        self, inside: int, outside: int, kernel: int = 1, step: int = 1, groups: int = 1,
        act: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = SameConv2d(inside, outside, kernel, step, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outside, eps=EPS)
        self.act = nn.ReLU6() if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, outside, ceil(height / step), ceil(width / step))."""
        return self.act(self.norm(self.conv(x)))


class Block(nn.Module):
    """Inverted bottleneck: widen, filter each channel, project; added to its input if it fits."""

    def __init__(self, kernel: int, step: int, expansion: int, inside: int, outside: int) -> None:
        super().__init__()
        wide = inside * expansion
        self.expand = ConvNorm(inside, wide) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(wide, wide, kernel, step, groups=wide)
        self.project = ConvNorm(wide, outside, act=False)
        self.residual = step == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, (batch, outside, ...)."""
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """The whole network; `forward` is the part before the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 32, 3, 2)
        blocks = [
            Block(k, step if i == 0 else 1, wide, inside if i == 0 else outside, outside)
            for k, n, step, wide, inside, outside in STAGES
            for i in range(n)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(320, 1280)
        self.classifier = nn.Linear(1280, 1000)

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return the parts that, one after the other, are `forward`."""
        inner = [(f"blocks.{i}", b) for i, b in enumerate(self.blocks)]
        return [("stem", self.stem), *inner, ("head", self.head)]

    def forward(self, x: Tensor) -> Tensor:
        """Return the head's activations, (batch, 1280, height / 32, width / 32)."""
        return self.head(self.blocks(self.stem(x)))

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores of the 1000 ImageNet classes, (batch, 1000)."""
        return self.classifier(self(x).mean((2, 3)))


def renamed(name: str) -> str:
    """Return the name in this module of a tensor of the published file."""
    for pattern, new in (
        (r"^_conv_stem\.", "stem.conv."),
        (r"^_bn0\.", "stem.norm."),
        (r"^_conv_head\.", "head.conv."),
        (r"^_bn1\.", "head.norm."),
        (r"^_fc\.", "classifier."),
        (r"^_blocks\.(\d+)\._expand_conv\.", r"blocks.\1.expand.conv."),
        (r"^_blocks\.(\d+)\._bn0\.", r"blocks.\1.expand.norm."),
        (r"^_blocks\.(\d+)\._depthwise_conv\.", r"blocks.\1.depthwise.conv."),
        (r"^_blocks\.(\d+)\._bn1\.", r"blocks.\1.depthwise.norm."),
        (r"^_blocks\.(\d+)\._project_conv\.", r"blocks.\1.project.conv."),
        (r"^_blocks\.(\d+)\._bn2\.", r"blocks.\1.project.norm."),
    ):
        found, n = re.subn(pattern, new, name)
        if n:
            return found
    return name
