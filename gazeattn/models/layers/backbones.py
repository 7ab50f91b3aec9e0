"""Backbones: frozen networks that turn a picture into maps of features.

All have one interface. ``backbone(images)`` takes RGB pictures with values from 0 to 1 and
returns maps by their stride (pixels of the picture per cell of the map); it normalises the
pictures itself. Any inner activation is read by the name of its module
(`Backbone.activations`), and modules can be exchanged (`Backbone.replaced`).

==================  ===========================================  ===========================
name                strides: channels                            weights
==================  ===========================================  ===========================
efficientnet_lite0  2: 16, 4: 24, 8: 40, 16: 112, 32: 320        gazeattn fetch
                                                                 efficientnet-lite0
resnet50            4: 256, 8: 512, 16: 1024, 32: 2048           hub id or local folder
dinov2              14: 384 (small)                              hub id or local folder
densenet201         2: 64, 4: 256, 8: 512, 16: 1792, 32: 1920    a file, torchvision's names
vgg16               2: 64, 4: 128, 8: 256, 16: 512, 32: 512      a file, torchvision's names
==================  ===========================================  ===========================

Weights of one's own lie in the data folder: ``models/NAME/NAME.pth`` (or ``.safetensors``) for
``densenet201`` and ``vgg16``, the folder ``models/NAME`` for ``resnet50`` and ``dinov2``. All
commands find them there; in Python `weights` names another place. The name of a backbone may also
be a hub id (``facebook/dinov2-base``) or a local folder of a DINOv2 or ResNet model.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.downloads import asset_path
from gazeattn.errors import (
    CapabilityError,
    DataError,
    GazeattnError,
    MissingAssetError,
    UnknownNameError,
)
from gazeattn.models.layers import _densenet, _efficientnet, _vgg
from gazeattn.models.layers._weights import load_strictly, read_state, sum_of
from gazeattn.storage import data_root

PathLike = str | os.PathLike[str]
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
HUB = {"dinov2": "facebook/dinov2-small", "resnet50": "microsoft/resnet-50"}
REVISION = 1
"""Part of every fingerprint; goes up when the same weights give other numbers."""


class Backbone(nn.Module):
    """A frozen network over pictures.

    It has no trainable parameters and is always in evaluation mode: ``train()`` changes nothing,
    so that BatchNorm keeps the statistics it was trained with. Activations are read with hooks;
    do not call one backbone from two threads at once.

    Parameters
    ----------
    name
        Part of the fingerprint.
    network
        Takes normalised pictures (batch, 3, height, width). Its ``stages()``, where it has them,
        are its parts in order.
    taps
        Module whose output is the map of each stride.
    channels
        Channels of the map of each stride.
    mean, std
        Per channel, for values from 0 to 1.

    Attributes
    ----------
    strides : tuple of int
        Increasing.
    channels : dict of int to int
    fingerprint : str
        Changes with the name, the weights, or what is done to a picture.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        name: str,
        network: nn.Module,
        *,
        taps: Mapping[int, str],
        channels: Mapping[int, int],
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        self.name, self.network = name, network
        self.taps, self.channels = dict(sorted(taps.items())), dict(sorted(channels.items()))
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)
        self._kind = f"{name} r{REVISION} mean {tuple(mean)} std {tuple(std)}"
        self._sum: str | None = None
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Backbone:
        """Stay in evaluation mode."""
        super().train(False)
        return self

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of the maps, increasing."""
        return tuple(self.taps)

    @property
    def fingerprint(self) -> str:
        """``NAME-`` and a SHA-256 of name, weights and normalisation."""
        if self._sum is None:
            text = f"{self._kind} {sum_of(self.network)}"
            self._sum = hashlib.sha256(text.encode()).hexdigest()
        short = "".join(c if c.isalnum() or c in "._" else "_" for c in self.name)
        return f"{short}-{self._sum}"

    def normalised(self, images: Tensor) -> Tensor:
        """Return pictures as the network wants them.

        Raises
        ------
        DataError
            Not (batch, 3, height, width), not floating point, or values outside 0..1.
        """
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise DataError(
                "a backbone takes RGB pictures",
                source=self.name,
                expected="floats (batch, 3, height, width) from 0 to 1",
                found=f"{images.dtype} {tuple(images.shape)}",
            )
        if images.numel() and not bool(((images >= 0) & (images <= 1)).all()):
            low, high = float(images.min()), float(images.max())
            raise DataError("values of a picture outside 0..1", source=self.name,
                            expected="0 to 1", found=f"{low:g} to {high:g}")  # fmt: skip
        x = (images - self.mean) / self.std
        # channels last is faster on a processor and gives the same numbers
        return x.contiguous(memory_format=torch.channels_last)

    def forward(self, images: Tensor, strides: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Return the map of every stride, or of some.

        Parameters
        ----------
        images : Tensor, shape (batch, 3, height, width)
            RGB from 0 to 1.
        strides
            Keeping fewer maps takes less memory.

        Returns
        -------
        dict of int to Tensor, shape (batch, channels, height / stride, width / stride)
        """
        unknown = [s for s in strides or () if s not in self.taps]
        if unknown:
            raise CapabilityError(
                f"{self.name} has no map of stride {', '.join(map(str, unknown))}; "
                f"it has {', '.join(map(str, self.strides))}"
            )
        chosen = {s: self.taps[s] for s in (self.strides if strides is None else strides)}
        found = self.activations(images, tuple(chosen.values()))
        return {stride: found[name] for stride, name in chosen.items()}

    def activations(self, images: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the outputs of modules by name, as in ``dict(network.named_modules())``.

        Raises
        ------
        UnknownNameError
            There is no such module.
        DataError
            The module did not run, or did not return one tensor.
        """
        modules = dict(self.network.named_modules())
        for name in names:
            if name not in modules or not name:
                raise UnknownNameError(f"module of {self.name}", name, [m for m in modules if m])
        x = self.normalised(images)
        found: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[..., None]:
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                found[name] = output

            return hook

        handles = [modules[n].register_forward_hook(keep(n)) for n in dict.fromkeys(names)]
        try:
            self.network(x)
        finally:
            for handle in handles:
                handle.remove()
        for name in names:
            if not isinstance(found.get(name), Tensor):
                raise DataError(f"module {name!r} gave no tensor", source=self.name)
        return found

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return the parts of the network in order, with the names that `replaced` takes.

        ``x = backbone.normalised(images)``, then ``x = part(x)`` for each, is the network.

        Raises
        ------
        CapabilityError
            The network is not a chain of parts.
        """
        stages = getattr(self.network, "stages", None)
        if stages is None:
            raise CapabilityError(f"{self.name} is not a chain of parts")
        return stages()

    def replaced(self, modules: Mapping[str, nn.Module]) -> Backbone:
        """Return a copy in which some modules are others, such as another kind of pooling.

        The strides are those of before: a new module should keep the size of its output. The
        fingerprint takes the new modules in by their printed form and their tensors.
        """
        known = [n for n, _ in self.network.named_modules() if n]
        new = copy.deepcopy(self)
        for name, module in modules.items():
            if name not in known:
                raise UnknownNameError(f"module of {self.name}", name, known)
            new.network.set_submodule(name, module)
            new._kind += f" {name}={module!r}"
        new._sum = None
        new.requires_grad_(False)
        new.train()
        return new


class _Tokens(Backbone):
    """A vision transformer: its last tokens, without those that are not patches, as a map."""

    def __init__(self, name: str, network: nn.Module, patch: int, extra: int, **facts: Any) -> None:
        super().__init__(name, network, **facts)
        self.patch, self.extra = patch, extra

    def forward(self, images: Tensor, strides: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Return the map of patches, (batch, channels, height / patch, width / patch)."""
        height, width = images.shape[-2:]
        if height % self.patch or width % self.patch:
            near = tuple(max(1, round(n / self.patch)) * self.patch for n in (width, height))
            raise DataError(
                "a picture does not divide into patches",
                source=self.name,
                expected=f"multiples of {self.patch}",
                found=f"width {width}, height {height}",
                hint=f"Use the size {near}",
            )
        tokens = self.activations(images, ["layernorm"])["layernorm"][:, self.extra :]
        grid = (height // self.patch, width // self.patch)
        return {self.patch: tokens.transpose(1, 2).unflatten(2, grid)}


class _Chain(nn.Module):
    """The convolutional part of a transformers ResNet."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.embedder, self.encoder = model.embedder, model.encoder

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return the stem and the four stages."""
        inner = [(f"encoder.stages.{i}", s) for i, s in enumerate(self.encoder.stages)]  # type: ignore[union-attr,arg-type]
        return [("embedder", self.embedder), *inner]  # type: ignore[list-item]

    def forward(self, x: Tensor) -> Tensor:
        """Return the map of the last stage."""
        for _, part in self.stages():
            x = part(x)
        return x


def load_backbone(
    name: str = "efficientnet_lite0", *, root: PathLike | None = None,
    weights: PathLike | None = None,
) -> Backbone:  # fmt: skip
    """Return a backbone with its weights.

    Parameters
    ----------
    name
        See the table of this module; a hub id or a local folder also does.
    root
        Data folder, see `gazeattn.storage.data_root`.
    weights
        File of a state dictionary (``dinov2``, ``resnet50``: a folder or hub id).

    Raises
    ------
    UnknownNameError
        No backbone has this name.
    MissingAssetError
        The weights are not on this machine; the message says how to get them.
    DataError
        The weights are not those of the network: missing and unexpected names are listed.
    """
    if name in _OWN:
        return _OWN[name](root, weights)
    if name in HUB:
        local = data_root(root) / "models" / name
        chosen = (
            str(weights) if weights is not None else str(local) if local.is_dir() else HUB[name]
        )
        return _from_transformers(name, chosen, local)
    if "/" in name or os.sep in name or Path(name).is_dir():
        # a folder is known by its last part: where it lies is no part of the fingerprint
        label = Path(name).resolve().name if Path(name).is_dir() else name
        return _from_transformers(label, name if weights is None else str(weights))
    raise UnknownNameError("backbone", name, [*_OWN, *HUB])


def _efficientnet_lite0(root: PathLike | None, weights: PathLike | None) -> Backbone:
    if weights is None:
        weights = asset_path("efficientnet-lite0", root) / "efficientnet-lite0-57934424.pth"
    network = _efficientnet.EfficientNetLite0()
    load_strictly(network, _state(weights), source=weights, rename=_efficientnet.renamed)
    return Backbone("efficientnet_lite0", network, taps=_efficientnet.TAPS,
                    channels=_efficientnet.CHANNELS, mean=LITE_MEAN, std=LITE_STD)  # fmt: skip


def _vgg16(root: PathLike | None, weights: PathLike | None) -> Backbone:
    network, path = _vgg.VGG16(), _user_file("vgg16", root, weights)
    load_strictly(network, _state(path), source=path, unused=_vgg.UNUSED)
    return Backbone("vgg16", network, taps=_vgg.TAPS, channels=_vgg.CHANNELS)


def _densenet201(root: PathLike | None, weights: PathLike | None) -> Backbone:
    network, path = _densenet.DenseNet(), _user_file("densenet201", root, weights)
    load_strictly(
        network,
        _state(path),
        source=path,
        rename=_densenet.renamed,
        unused=_densenet.UNUSED,
    )
    return Backbone("densenet201", network, taps=_densenet.TAPS, channels=_densenet.CHANNELS)


_OWN = {"efficientnet_lite0": _efficientnet_lite0, "densenet201": _densenet201, "vgg16": _vgg16}
NAMES = (*_OWN, *HUB)
"""Backbones with a name; others are hub ids or folders."""


def _state(path: PathLike) -> dict[str, Tensor]:
    try:
        return read_state(path)
    except GazeattnError:
        raise
    except Exception as error:  # the reader of pickles raises whatever it stumbles over
        raise DataError("weights cannot be read", source=path, found=error) from error


def _user_file(name: str, root: PathLike | None, weights: PathLike | None) -> Path:
    if weights is not None:
        return Path(weights)
    folder = data_root(root) / "models" / name
    for path in (folder / f"{name}.safetensors", folder / f"{name}.pth"):
        if path.is_file():
            return path
    raise MissingAssetError(
        f"the weights of {name} are not on this machine: put the state dictionary with "
        f"torchvision's names at {folder / name}.pth (in Python, load_backbone also takes "
        "weights=FILE)"
    )


def _from_transformers(name: str, source: str, local: Path | None = None) -> Backbone:
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise MissingAssetError(
            f"the backbone {name} is not on this machine and {source!r} cannot be loaded "
            f"({error}). With a network connection the hub id is fetched on first use; without "
            "one, a folder with config.json and model.safetensors "
            + ("can be the name of the backbone" if local is None else f"belongs at {local}")
        ) from error
    if config.model_type not in ("dinov2", "dinov2_with_registers", "resnet"):
        raise CapabilityError(
            f"{source} is a {config.model_type} model; backbones from folders and the hub are "
            "dinov2, dinov2_with_registers and resnet"
        )
    try:
        model, info = AutoModel.from_pretrained(
            source, output_loading_info=True, dtype=torch.float32
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise MissingAssetError(f"no weights of {name} in {source!r}: {error}") from error
    wrong = sorted(map(str, info["missing_keys"])) + sorted(map(str, info["mismatched_keys"]))
    if wrong:
        raise DataError("weights are missing or of another shape", source=source,
                        found=", ".join(wrong))  # fmt: skip
    facts = _normalisation(source)
    if config.model_type == "resnet":
        if config.downsample_in_first_stage:
            raise CapabilityError(f"{source} halves the picture in its first stage")
        sizes = dict(zip((4, 8, 16, 32), config.hidden_sizes, strict=True))
        taps = {4 * 2**i: f"encoder.stages.{i}" for i in range(4)}
        return Backbone(name, _Chain(model), taps=taps, channels=sizes, **facts)
    patch, extra = int(config.patch_size), 1 + int(getattr(config, "num_register_tokens", 0))
    return _Tokens(name, model, patch, extra, taps={patch: "layernorm"},
                   channels={patch: int(config.hidden_size)}, **facts)  # fmt: skip


def _normalisation(source: str) -> dict[str, tuple[float, ...]]:
    """Return mean and std of the model's own picture processor, else those of ImageNet."""
    from transformers import ImageProcessingMixin

    try:
        facts, _ = ImageProcessingMixin.get_image_processor_dict(source)
    except (OSError, ValueError):
        return {}
    if not ("image_mean" in facts and "image_std" in facts):
        return {}
    return {"mean": tuple(facts["image_mean"]), "std": tuple(facts["image_std"])}
