"""Features of pictures, computed once and kept on disk.

A picture is read with its orientation applied, laid on white where it is transparent, stretched
to the wanted size with antialiasing, and given to a backbone. The maps are kept as 16-bit floats
under the content of the file, the backbone, the size and the maps wanted, so that a renamed
picture is found again and a changed one is not mistaken for the old.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from gazeattn.datamodules import Stimulus
from gazeattn.errors import CapabilityError, DataError
from gazeattn.losses import LossLog
from gazeattn.models.layers.backbones import Backbone, load_backbone
from gazeattn.storage import atomic_path, data_root

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], None]
Maps = dict[str, Tensor]
READING = 1
"""Part of every key; goes up when the same file gives another array."""
HALF_MAX = 65504.0
log = logging.getLogger(__name__)


class Spec(Protocol):
    """What `FeatureStore` needs to know; see `gazeattn.models.scanpath.base.FeatureSpec`."""

    @property
    def backbone(self) -> str:
        """Name of the backbone."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height the picture is stretched to."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Maps that are wanted."""


def read_picture(path: PathLike, size: tuple[int, int] | None = None) -> Tensor:
    """Return a picture as RGB from 0 to 1, (3, height, width), float32.

    Orientation of EXIF is applied; transparent parts lie on white; grey values of 16 bits are
    scaled by 65535, floating-point ones have to lie in 0..1; of an animation the first frame is
    taken.

    Parameters
    ----------
    size : (width, height), optional
        Stretch to this: bilinear, over the whole area that a new pixel covers.

    Raises
    ------
    DataError
        There is no such file, or it is no whole picture.
    """
    try:
        with Image.open(path) as opened:
            opened.load()
            image = _rgb(ImageOps.exif_transpose(opened), path)
    except FileNotFoundError as error:
        raise DataError("there is no such picture", source=path) from error
    except UnidentifiedImageError as error:
        raise DataError("not a picture that can be read", source=path) from error
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise DataError("a damaged picture", source=path, found=error) from error
    if size is not None and image.size != tuple(size):
        image = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
    values = np.asarray(image, dtype=np.float32) / 255
    return torch.from_numpy(values).permute(2, 0, 1).contiguous()


def _rgb(image: Image.Image, path: PathLike) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        top = 1.0 if image.mode == "F" else 65535.0
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > top:
            raise DataError("grey values of unknown range", source=path, expected=f"0 to {top:g}",
                            found=f"{values.min():g} to {values.max():g}")  # fmt: skip
        grey = np.floor(values * (255 / top) + 0.5).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    if image.has_transparency_data:
        over = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
    return image.convert("RGB")


def image_features(
    backbone: Backbone,
    paths: Iterable[PathLike],
    *,
    size: tuple[int, int],
    strides: Sequence[int],
    taps: Sequence[str] = (),
    root: PathLike | None = None,
    batch_size: int = 1,
    progress: Progress | None = None,
    lost: LossLog | None = None,
) -> dict[str, Maps]:
    """Return the maps of pictures, from the cache or computed and then kept there.

    Parameters
    ----------
    backbone
        See `gazeattn.models.layers.backbones.load_backbone`.
    paths
        Files.
    size : (width, height)
        Every picture is stretched to this; both are multiples of all strides.
    strides
        Maps wanted, named ``stride8`` and so on.
    taps
        Modules of the backbone whose output is wanted as well, named as they are.
    root
        Data folder; the cache is ``features`` in it.
    batch_size
        Pictures the backbone sees at once. On a processor one is fastest: its maps stay in the
        cache of the processor.
    progress
        Called with pictures done and pictures in all.
    lost
        Receives the number of damaged files of the cache that were computed again.

    Returns
    -------
    dict of str to dict of str to Tensor, shape (channels, height / stride, width / stride)
        By path as given. 16-bit floats; 32-bit where a value is too large for 16.

    Raises
    ------
    DataError
        A missing or damaged picture (the file is named), a size that does not divide.
    CapabilityError
        The backbone has no map of a stride.
    """
    lost = LossLog() if lost is None else lost
    _check(backbone, size, strides)
    names = list(dict.fromkeys(os.fspath(p) for p in paths))
    folder = cache_folder(backbone, size=size, strides=strides, taps=taps, root=root)
    wanted = _names(strides, taps)
    sums = {name: _content(name) for name in names}
    found: dict[str, Maps] = {}
    todo: dict[str, str] = {}
    damaged: list[str] = []
    for name, key in sums.items():
        if key in found or key in todo:
            continue
        maps = _cached(folder / f"{key}.safetensors", wanted, damaged)
        if maps is None:
            todo[key] = name
        else:
            found[key] = maps
    done, total = len(found), len(found) + len(todo)
    if progress is not None:
        progress(done, total)
    keys = list(todo)
    for start in range(0, len(keys), max(1, batch_size)):
        part = keys[start : start + max(1, batch_size)]
        rows = _computed(backbone, [todo[k] for k in part], size, strides, taps)
        for key, maps in zip(part, rows, strict=True):
            _keep(folder / f"{key}.safetensors", maps)
            found[key] = maps
        done += len(part)
        if progress is not None:
            progress(done, total)
    if damaged:
        reason = "damaged files of the feature cache, computed again"
        lost.add("features", "repaired", reason, len(damaged), "files")
        warnings.warn(f"{len(damaged)} {reason} ({damaged[0]})", stacklevel=2)
    return {name: found[key] for name, key in sums.items()}


def cache_folder(
    backbone: Backbone,
    *,
    size: tuple[int, int],
    strides: Sequence[int],
    taps: Sequence[str] = (),
    root: PathLike | None = None,
) -> Path:
    """Return where maps of this kind are kept, one file per picture."""
    width, height = size
    kind = f"r{READING}_{width}x{height}_s{'-'.join(map(str, sorted(set(strides))))}"
    if taps:
        kind += "_t" + hashlib.sha256("\n".join(sorted(set(taps))).encode()).hexdigest()[:16]
    name, _, code = backbone.fingerprint.rpartition("-")
    return data_root(root) / "features" / f"{name}-{code[:32]}" / kind


class FeatureStore:
    """Feature source for `gazeattn.datamodules.Scanpaths.with_features`.

    Parameters
    ----------
    spec
        Backbone, size, strides and, where it has them, ``taps``.
    root
        Data folder, for the weights and for the cache.
    weights
        See `gazeattn.models.layers.backbones.load_backbone`.
    backbone
        A loaded backbone, instead of the one the specification names.

    Attributes
    ----------
    channels : dict of str to int
        Channels of each map, as models take them.
    lost : LossLog
        Damaged files of the cache.
    """

    def __init__(
        self,
        spec: Spec,
        root: PathLike | None = None,
        *,
        weights: PathLike | None = None,
        backbone: Backbone | None = None,
    ) -> None:
        self.spec, self.root, self.weights = spec, root, weights
        self.lost = LossLog()
        self._backbone = backbone
        self._memory: dict[tuple[str, int, int], Maps] = {}

    @property
    def backbone(self) -> Backbone:
        """The backbone, loaded on first use."""
        if self._backbone is None:
            self._backbone = load_backbone(self.spec.backbone, root=self.root, weights=self.weights)
        return self._backbone

    @property
    def taps(self) -> tuple[str, ...]:
        """Names of further activations."""
        return tuple(getattr(self.spec, "taps", ()))

    @property
    def channels(self) -> dict[str, int]:
        """Channels of each map by its name."""
        _check(self.backbone, self.spec.size, self.spec.strides)
        found = {f"stride{s}": self.backbone.channels[s] for s in self.spec.strides}
        if self.taps:
            small = torch.zeros(
                1, 3, 2 * max(self.backbone.strides), 2 * max(self.backbone.strides)
            )
            with torch.no_grad():
                maps = self.backbone.activations(small, self.taps)
            found |= {name: maps[name].shape[1] for name in self.taps}
        return found

    def __call__(self, stimulus: Stimulus) -> Maps:
        """Return the maps of the picture of a stimulus.

        Raises
        ------
        CapabilityError
            It has no picture.
        DataError
            The picture is missing or damaged.
        """
        return self.fill([stimulus])[stimulus.name]

    def fill(
        self,
        stimuli: Iterable[Stimulus],
        *,
        batch_size: int = 1,
        progress: Progress | None = None,
    ) -> dict[str, Maps]:
        """Return the maps of many stimuli by name, with the backbone run on batches."""
        pictures = {s.name: _picture_of(s) for s in stimuli}
        keys = {path: _stamp(path) for path in dict.fromkeys(pictures.values())}
        new = [path for path, key in keys.items() if key not in self._memory]
        if new:
            found = image_features(
                self.backbone, new, size=self.spec.size, strides=self.spec.strides,
                taps=self.taps, root=self.root, batch_size=batch_size, progress=progress,
                lost=self.lost,
            )  # fmt: skip
            self._memory.update({keys[path]: maps for path, maps in found.items()})
        return {name: dict(self._memory[keys[path]]) for name, path in pictures.items()}


def _picture_of(stimulus: Stimulus) -> str:
    if stimulus.image is None:
        raise CapabilityError(f"stimulus {stimulus.name!r} has no picture")
    return os.fspath(stimulus.image)


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        info = os.stat(path)
    except OSError as error:
        raise DataError("there is no such picture", source=path) from error
    return path, info.st_size, info.st_mtime_ns


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError("there is no such picture", source=path, found=error) from error


def _names(strides: Sequence[int], taps: Sequence[str]) -> list[str]:
    return [f"stride{s}" for s in strides] + list(taps)


def _check(backbone: Backbone, size: Sequence[int], strides: Sequence[int]) -> None:
    unknown = [s for s in strides if s not in backbone.channels]
    if unknown:
        raise CapabilityError(
            f"{backbone.name} has no map of stride {', '.join(map(str, unknown))}; "
            f"it has {', '.join(map(str, backbone.strides))}"
        )
    whole = len(size) == 2 and all(int(n) == n and n >= 1 for n in size)
    if not whole or any(n % s for n in size for s in strides):
        raise DataError(
            "the size is not a multiple of the strides",
            source=backbone.name,
            expected=f"(width, height), multiples of {', '.join(map(str, strides))}",
            found=tuple(size),
        )


def _computed(
    backbone: Backbone,
    paths: Sequence[str],
    size: tuple[int, int],
    strides: Sequence[int],
    taps: Sequence[str],
) -> list[Maps]:
    images = torch.stack([read_picture(p, size) for p in paths]).to(backbone.mean.device)
    with torch.no_grad():
        maps: dict[str, Tensor] = {}
        if strides:
            by_stride = backbone(images, strides)
            maps |= {f"stride{s}": by_stride[s] for s in strides}
        if taps:
            found = backbone.activations(images, taps)
            maps |= {t: found[t] for t in taps}
    rows: list[Maps] = []
    for i, path in enumerate(paths):
        rows.append({name: _small(value[i].cpu(), name, path) for name, value in maps.items()})
    return rows


def _small(values: Tensor, name: str, path: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise DataError(f"features {name} are not finite", source=path)
    fits = float(values.abs().max()) <= HALF_MAX if values.numel() else True
    return values.to(torch.float16 if fits else torch.float32).clone(
        memory_format=torch.contiguous_format
    )


def _sum_of(maps: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(maps.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _cached(path: Path, names: Sequence[str], damaged: list[str]) -> Maps | None:
    from safetensors import safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts: Any = file.metadata() or {}
            maps = {name: file.get_tensor(name) for name in file.keys()}
    except Exception as error:  # the reader has its own error type and passes others on
        log.info("%s: %s", path, error)
        damaged.append(str(path))
        return None
    if facts.get("sum") != _sum_of(maps) or set(maps) != set(names):
        damaged.append(str(path))
        return None
    return {name: maps[name] for name in names}


def _keep(path: Path, maps: Maps) -> None:
    from safetensors.torch import save_file

    try:
        with atomic_path(path) as temporary:
            save_file({k: v.contiguous() for k, v in maps.items()}, temporary,
                      metadata={"sum": _sum_of(maps)})  # fmt: skip
    except OSError as error:  # a full disk or a folder of another user: go on without
        log.warning("features are not kept in %s: %s", path.parent, error)
