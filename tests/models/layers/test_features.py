"""Features of pictures: how files are read, what the cache promises."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor, nn

from gazeattn.datamodules import Stimulus
from gazeattn.errors import CapabilityError, DataError
from gazeattn.losses import LossLog
from gazeattn.models.layers import features
from gazeattn.models.layers.backbones import Backbone
from gazeattn.models.layers.features import FeatureStore, image_features, read_picture


class Counting(nn.Module):
    """Means over squares of 4 and 8 pixels; counts pictures, and scales what it returns."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.four, self.eight = nn.AvgPool2d(4), nn.AvgPool2d(2)
        self.scale = nn.Parameter(torch.tensor(scale))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.eight(self.four(x * self.scale))


def counting(scale: float = 1.0, name: str = "means") -> tuple[Backbone, Counting]:
    net = Counting(scale)
    backbone = Backbone(name, net, taps={4: "four", 8: "eight"}, channels={4: 3, 8: 3},
                        mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))  # fmt: skip
    return backbone, net


@dataclass(frozen=True)
class Spec:
    backbone: str = "means"
    size: tuple[int, int] = (16, 8)
    strides: tuple[int, ...] = (4, 8)
    taps: tuple[str, ...] = ()


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (16, 8)) -> Path:
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(values).save(path)
    return path


def get(backbone: Backbone, paths: list[Path], root: Path, **more: Any) -> dict[str, Any]:
    return image_features(
        backbone, paths, **{"size": (16, 8), "strides": (4, 8), "root": root} | more
    )


# ------------------------------------------------------------------------- reading


def test_values_and_axes_by_hand(tmp_path: Path) -> None:
    values = np.zeros((2, 3, 3), dtype=np.uint8)
    values[0, 2] = (255, 51, 0)  # first row, last column
    Image.fromarray(values).save(tmp_path / "a.png")
    found = read_picture(tmp_path / "a.png")
    assert found.shape == (3, 2, 3) and found.dtype == torch.float32
    assert found[:, 0, 2].tolist() == pytest.approx([1.0, 0.2, 0.0])
    assert float(found.sum()) == pytest.approx(1.2)


def modes(path: Path) -> dict[str, Path]:
    """Return a picture of one colour, grey 102 of 255 (0.4), in many kinds of file."""
    grey = np.full((4, 4), 102, dtype=np.uint8)
    made: dict[str, Image.Image] = {
        "L.png": Image.fromarray(grey),
        "RGB.png": Image.fromarray(grey).convert("RGB"),
        "RGBA.png": Image.fromarray(grey).convert("RGBA"),
        "LA.png": Image.fromarray(grey).convert("LA"),
        "P.png": Image.fromarray(grey).convert("RGB").quantize(4),
        "P.gif": Image.fromarray(grey).convert("RGB").quantize(4),
        "I16.png": Image.fromarray(np.full((4, 4), 26214, dtype=np.uint16)),
        "I16.tif": Image.fromarray(np.full((4, 4), 26214, dtype=np.uint16)),
        "F.tif": Image.fromarray(np.full((4, 4), 0.4, dtype=np.float32)),
        "CMYK.tif": Image.new("CMYK", (4, 4), (0, 0, 0, 153)),
        "CMYK.jpg": Image.new("CMYK", (4, 4), (0, 0, 0, 153)),
        "YCbCr.jpg": Image.fromarray(grey).convert("YCbCr"),
        "L.webp": Image.fromarray(grey).convert("RGB"),
    }
    for name, image in made.items():
        image.save(path / name)
    return {name: path / name for name in made}


def test_every_kind_of_file_gives_the_same_colour(tmp_path: Path) -> None:
    for name, path in modes(tmp_path).items():
        found = read_picture(path)
        assert found.shape == (3, 4, 4), name
        assert float((found - 0.4).abs().max()) <= 2 / 255, name


def test_one_bit_pictures(tmp_path: Path) -> None:
    Image.new("1", (2, 2), 1).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").unique().tolist() == [1.0]


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "rgba.png")
    Image.new("LA", (2, 2), (0, 0)).save(tmp_path / "la.png")
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.save(tmp_path / "p.png", transparency=0)
    Image.new("RGB", (2, 2), (1, 2, 3)).save(tmp_path / "rgb.png", transparency=(1, 2, 3))
    for name in ("rgba", "la", "p", "rgb"):
        assert read_picture(tmp_path / f"{name}.png").unique().tolist() == [1.0], name
    Image.new("RGBA", (2, 2), (0, 0, 0, 51)).save(tmp_path / "half.png")
    assert float(read_picture(tmp_path / "half.png")[0, 0, 0]) == pytest.approx(0.8, abs=0.003)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(orientation: int, tmp_path: Path) -> None:
    """The stored picture is upright for orientation 1; viewers turn the others."""
    stored = np.zeros((8, 16, 3), dtype=np.uint8)
    stored[:4, :8] = 255  # top left quarter is white
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(stored).save(tmp_path / "a.png", exif=exif)
    found = read_picture(tmp_path / "a.png")
    turned = orientation >= 5
    assert found.shape[1:] == ((16, 8) if turned else (8, 16))
    right, bottom = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1),
                     5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}[orientation]  # fmt: skip
    corner = found[0, -1 if bottom else 0, -1 if right else 0]
    assert float(corner) == 1.0 and float(found[0].mean()) == pytest.approx(0.25)


def test_stretching_averages_over_what_a_pixel_covers(tmp_path: Path) -> None:
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    found = read_picture(tmp_path / "a.png", (8, 4))
    assert found.shape == (3, 4, 8)
    assert float((found - 0.5).abs().max()) < 0.02  # without antialiasing: 0 or 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 255))
def test_any_size_stretches_and_keeps_one_colour(width: int, height: int, grey: int) -> None:
    import io

    file = io.BytesIO()
    Image.new("L", (width, height), grey).save(file, "PNG")
    found = read_picture(file, (16, 8))  # type: ignore[arg-type]
    assert found.shape == (3, 8, 16)
    assert found.unique().tolist() == pytest.approx([grey / 255])


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "cut", "folder", "range", "nan"])
def test_pictures_that_cannot_be_read_are_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("bad.tif" if kind in ("range", "nan") else "bad.png")
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("<html>404</html>")
    elif kind == "cut":
        picture(path, size=(64, 64))
        path.write_bytes(path.read_bytes()[:600])
    elif kind == "folder":
        path.mkdir()
    elif kind in ("range", "nan"):
        value = 300.0 if kind == "range" else np.nan
        Image.fromarray(np.full((2, 2), value, dtype=np.float32)).save(path)
    with pytest.raises(DataError, match=r"bad\."):
        read_picture(path)
    backbone, _ = counting()
    with pytest.raises(DataError, match=r"bad\."):
        get(backbone, [path], tmp_path / "root")


# ------------------------------------------------------------------------- maps


def test_maps_by_hand(tmp_path: Path) -> None:
    values = np.zeros((8, 16, 3), dtype=np.uint8)
    values[:4, 12:] = 255  # top right square of 4
    Image.fromarray(values).save(tmp_path / "a.png")
    backbone, _ = counting()
    maps = get(backbone, [tmp_path / "a.png"], tmp_path)[str(tmp_path / "a.png")]
    assert list(maps) == ["stride4", "stride8"]
    assert maps["stride4"].dtype == torch.float16
    assert maps["stride4"][0].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert maps["stride8"][0].tolist() == [[0, 0.25]]
    assert all(m.is_contiguous() for m in maps.values())


def test_taps_come_with_the_maps(tmp_path: Path) -> None:
    backbone, _ = counting()
    path = picture(tmp_path / "a.png")
    more = {"strides": (8,), "taps": ("four",)}
    for _ in range(2):
        maps = get(backbone, [path], tmp_path, **more)[str(path)]
        assert list(maps) == ["stride8", "four"] and maps["four"].shape == (3, 2, 4)
    assert "four" not in get(backbone, [path], tmp_path, strides=(8,))[str(path)]


@pytest.mark.parametrize("size", [(17, 8), (16, 12), (0, 8), (16,), (16.5, 8)])
def test_sizes_divide_by_the_strides(size: tuple[Any, ...], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="multiple"):
        get(counting()[0], [picture(tmp_path / "a.png")], tmp_path, size=size)


def test_strides_that_a_backbone_lacks(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="no map of stride 32; it has 4, 8"):
        get(counting()[0], [picture(tmp_path / "a.png")], tmp_path, size=(32, 32), strides=(32,))


def test_large_values_stay_32_bits(tmp_path: Path) -> None:
    Image.new("RGB", (16, 8), "white").save(tmp_path / "a.png")
    for scale, kind in ((65504.0, torch.float16), (65520.0, torch.float32), (-1e5, torch.float32)):
        backbone, _ = counting(scale)
        for _ in range(2):  # computed, then from the cache
            maps = get(backbone, [tmp_path / "a.png"], tmp_path)[str(tmp_path / "a.png")]
            assert maps["stride8"].dtype == kind
            assert maps["stride8"].unique().tolist() == [scale]
    backbone, _ = counting(float("inf"))
    with pytest.raises(DataError, match=r"not finite|a\.png"):
        get(backbone, [tmp_path / "a.png"], tmp_path)


# ------------------------------------------------------------------------- cache


def test_a_picture_is_computed_once_by_content(tmp_path: Path) -> None:
    backbone, net = counting()
    a, b = picture(tmp_path / "a.png"), picture(tmp_path / "b.png", 1)
    (tmp_path / "copy.png").write_bytes(a.read_bytes())
    steps: list[tuple[int, int]] = []
    first = get(backbone, [a, b, tmp_path / "copy.png", a], tmp_path,
                progress=lambda *s: steps.append(s))  # fmt: skip
    assert net.seen == 2 and list(first) == [str(a), str(b), str(tmp_path / "copy.png")]
    assert steps == [(0, 2), (1, 2), (2, 2)]
    again = get(backbone, [b, a], tmp_path)
    assert net.seen == 2
    for path in (a, b):
        for name, value in first[str(path)].items():
            assert torch.equal(again[str(path)][name], value)
    picture(a, 5)  # same name, other content
    changed = get(backbone, [a], tmp_path)
    assert net.seen == 3
    assert not torch.equal(changed[str(a)]["stride4"], first[str(a)]["stride4"])
    assert get(backbone, [], tmp_path) == {}


def test_other_backbones_sizes_and_maps_do_not_mix(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    backbone, net = counting()
    kinds: list[tuple[Backbone, dict[str, Any]]] = [
        (backbone, {}),
        (backbone, {"size": (8, 16)}),
        (backbone, {"strides": (4,)}),
        (backbone, {"taps": ("eight",)}),
        (counting(2.0)[0], {}),
        (counting(1.0, "other")[0], {}),
    ]
    found = [get(b, [path], tmp_path, **more)[str(path)] for b, more in kinds]
    files = list((tmp_path / "features").rglob("*.safetensors"))
    assert len(files) == len(kinds) and net.seen == 5  # taps take a second pass
    assert torch.equal(found[4]["stride4"], (found[0]["stride4"].float() * 2).half())


@pytest.mark.parametrize("fault", ["cut", "empty", "text", "bit", "other names"])
def test_damaged_files_are_computed_again_and_counted(fault: str, tmp_path: Path) -> None:
    backbone, net = counting()
    paths = [picture(tmp_path / f"{i}.png", i) for i in range(3)]
    first = get(backbone, paths, tmp_path)
    files = sorted((tmp_path / "features").rglob("*.safetensors"))
    assert len(files) == 3
    for file in files[:2]:
        content = file.read_bytes()
        if fault == "cut":
            file.write_bytes(content[:-7])
        elif fault == "empty":
            file.write_bytes(b"")
        elif fault == "text":
            file.write_text("no features")
        elif fault == "bit":
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        else:
            features._keep(file, {"stride4": torch.zeros(1)})
    lost = LossLog()
    with pytest.warns(UserWarning, match="2 damaged"):
        again = get(backbone, paths, tmp_path, lost=lost)
    assert [(x.kind, x.count) for x in lost] == [("repaired", 2)]
    assert net.seen == 5
    for path in map(str, paths):
        assert all(torch.equal(again[path][k], v) for k, v in first[path].items())
    assert get(backbone, paths, tmp_path) and net.seen == 5  # whole again, no warning


def test_a_broken_off_run_keeps_what_it_had(tmp_path: Path) -> None:
    backbone, net = counting()
    good = [picture(tmp_path / f"{i}.png", i) for i in range(2)]
    bad = tmp_path / "bad.png"
    bad.write_text("no")
    with pytest.raises(DataError, match=r"bad\.png"):
        get(backbone, [*good, bad], tmp_path)
    assert net.seen == 2
    get(backbone, good, tmp_path)
    assert net.seen == 2
    assert not list((tmp_path / "features").rglob("*.part*"))


def test_a_folder_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(features, "atomic_path", refuse)
    path = picture(tmp_path / "a.png")
    assert get(counting()[0], [path], tmp_path)[str(path)]["stride4"].shape == (3, 2, 4)
    assert "not kept" in caplog.text


def _work(root: str, paths: list[str], out: str) -> None:
    torch.set_num_threads(1)
    found = image_features(counting()[0], paths, size=(16, 8), strides=(4, 8), root=root)
    text = features._sum_of({f"{p} {k}": v for p, m in found.items() for k, v in m.items()})
    Path(out).write_text(text)


def test_two_processes_at_once(tmp_path: Path) -> None:
    paths = [str(picture(tmp_path / f"{i}.png", i)) for i in range(30)]
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    outs = [str(tmp_path / f"out{i}") for i in range(2)]
    workers = [context.Process(target=_work, args=(str(tmp_path), paths, o)) for o in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0, 0]
    assert len({Path(o).read_text() for o in outs}) == 1
    assert len(list((tmp_path / "features").rglob("*.safetensors"))) == 30
    backbone, net = counting()
    get(backbone, [Path(p) for p in paths], tmp_path)
    assert net.seen == 0


def test_cache_files_lie_under_the_content(tmp_path: Path) -> None:
    backbone, _ = counting()
    path = picture(tmp_path / "a.png")
    get(backbone, [path], tmp_path)
    folder = features.cache_folder(backbone, size=(16, 8), strides=(8, 4), root=tmp_path)
    name = hashlib.sha256(path.read_bytes()).hexdigest()
    assert [p.name for p in folder.iterdir()] == [f"{name}.safetensors"]
    assert folder.parent.name.startswith("means-")


# ------------------------------------------------------------------------- store


def test_store_serves_stimuli_from_memory(tmp_path: Path) -> None:
    backbone, net = counting()
    store = FeatureStore(Spec(taps=("four",)), tmp_path, backbone=backbone)
    assert store.channels == {"stride4": 3, "stride8": 3, "four": 3}
    net.seen = 0
    a, b = picture(tmp_path / "a.png"), picture(tmp_path / "b.png", 1)
    stimuli = [
        Stimulus("a", (16.0, 8.0), str(a)),
        Stimulus("b", (16.0, 8.0), str(b)),
        Stimulus("a as well", (16.0, 8.0), str(a)),
    ]
    all_maps = store.fill(stimuli)
    assert net.seen == 4  # maps and taps of two pictures
    assert list(all_maps) == ["a", "b", "a as well"]
    for file in (tmp_path / "features").rglob("*.safetensors"):
        file.unlink()
    maps = store(stimuli[0])
    assert net.seen == 4 and torch.equal(maps["stride8"], all_maps["a as well"]["stride8"])
    maps.clear()  # the caller's own mapping
    assert store(stimuli[0])
    picture(a, 9)
    os.utime(a, ns=(1, 1))
    assert not torch.equal(store(stimuli[0])["four"], all_maps["a"]["four"])


def test_store_without_a_picture(tmp_path: Path) -> None:
    store = FeatureStore(Spec(), tmp_path, backbone=counting()[0])
    with pytest.raises(CapabilityError, match="'s' has no picture"):
        store(Stimulus("s", (1.0, 1.0)))
    with pytest.raises(DataError, match=r"gone\.png"):
        store(Stimulus("s", (1.0, 1.0), str(tmp_path / "gone.png")))


def test_store_loads_the_backbone_of_its_specification(tmp_path: Path) -> None:
    from gazeattn.errors import MissingAssetError

    store = FeatureStore(Spec("efficientnet_lite0", (32, 32), (32,)), tmp_path)
    with pytest.raises(MissingAssetError, match="gazeattn fetch efficientnet-lite0"):
        store(Stimulus("s", (16.0, 8.0), str(picture(tmp_path / "a.png"))))
