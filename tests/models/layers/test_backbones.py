"""Backbones: one interface, frozen, weights by strict names, conventions of the originals."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from gazeattn.downloads import find_asset, folder_of
from gazeattn.errors import (
    CapabilityError,
    DataError,
    MissingAssetError,
    UnknownNameError,
)
from gazeattn.models.layers import _densenet, _efficientnet, _vgg
from gazeattn.models.layers._weights import load_strictly, read_state, sum_of
from gazeattn.models.layers.backbones import Backbone, load_backbone


def published(name: str) -> str:
    """Return the published name of a tensor of EfficientNet-Lite0, written out by hand."""
    if name.startswith("blocks."):
        _, i, part, kind, leaf = name.split(".")
        inner = {
            ("expand", "conv"): "_expand_conv",
            ("expand", "norm"): "_bn0",
            ("depthwise", "conv"): "_depthwise_conv",
            ("depthwise", "norm"): "_bn1",
            ("project", "conv"): "_project_conv",
            ("project", "norm"): "_bn2",
        }[part, kind]
        return f"_blocks.{i}.{inner}.{leaf}"
    for mine, theirs in (
        ("stem.conv", "_conv_stem"),
        ("stem.norm", "_bn0"),
        ("head.conv", "_conv_head"),
        ("head.norm", "_bn1"),
        ("classifier", "_fc"),
    ):
        if name.startswith(mine):
            return theirs + name[len(mine) :]
    raise AssertionError(name)


@pytest.fixture(scope="module")
def lite_state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {published(k): v for k, v in _efficientnet.EfficientNetLite0().state_dict().items()}


@pytest.fixture(scope="module")
def lite(lite_state: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    path = tmp_path_factory.mktemp("lite") / "lite.pth"
    torch.save(lite_state, path)
    return load_backbone(weights=path)


@pytest.fixture(scope="module")
def real() -> Backbone:
    if not folder_of(find_asset("efficientnet-lite0")).is_dir():
        pytest.skip("efficientnet-lite0 is not installed")
    return load_backbone()


def test_maps_have_the_stated_strides_and_channels(lite: Backbone) -> None:
    maps = lite(torch.rand(2, 3, 64, 96))
    assert lite.strides == (2, 4, 8, 16, 32)
    assert {s: tuple(m.shape) for s, m in maps.items()} == {
        s: (2, c, 64 // s, 96 // s) for s, c in lite.channels.items()
    }


def test_parameters_are_those_of_the_published_network() -> None:
    # 4.652 M parameters, Tan & Le's table for Lite0
    count = sum(p.numel() for p in _efficientnet.EfficientNetLite0().parameters())
    assert count == 4_652_008


@pytest.mark.parametrize(("n", "pads"), [(5, (1, 1)), (6, (0, 1)), (7, (1, 1)), (8, (0, 1))])
def test_steps_pad_as_tensorflow_does(n: int, pads: tuple[int, int]) -> None:
    """Kernel 3, step 2: the output has ceil(n / 2) cells and the odd pad stands at the end."""
    layer = _efficientnet.SameConv2d(1, 1, 3, 2, bias=False)
    layer.requires_grad_(False).weight.fill_(1.0)
    x = torch.zeros(1, 1, n, n)
    x[..., 0, :] = 1  # only the first row
    y = layer(x)
    assert y.shape[-2:] == (-(-n // 2), -(-n // 2))
    # the first window covers rows -pads[0] .. 2 - pads[0]; in the middle it has three columns
    assert float(y[0, 0, 0, 1]) == 3.0
    last = torch.zeros(1, 1, n, n)
    last[..., n - 1, :] = 1
    assert float(layer(last)[0, 0, -1, 1]) == 3.0
    second = torch.zeros(1, 1, n, n)
    second[..., 2 - pads[0], :] = 1  # last row of the first window
    assert float(layer(second)[0, 0, 0, 1]) == 3.0
    third = torch.zeros(1, 1, n, n)
    third[..., 3 - pads[0], :] = 1  # outside the first window
    assert float(layer(third)[0, 0, 0, 1]) == 0.0


def test_batchnorm_and_activation_are_those_of_the_original() -> None:
    net = _efficientnet.EfficientNetLite0()
    assert {m.eps for m in net.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}
    stem = net.eval().stem
    out = stem(torch.full((1, 3, 32, 32), 1e4))
    assert float(out.detach().max()) <= 6.0
    assert not any(isinstance(m, nn.SiLU | nn.ReLU) for m in net.modules())


def test_normalisation_by_hand(lite: Backbone) -> None:
    x = torch.tensor([0.0, 127 / 255, 1.0]).view(1, 1, 1, 3).expand(1, 3, 1, 3)
    got = lite.normalised(x)[0, 0, 0].tolist()
    assert got == pytest.approx([-127 / 128, 0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize(
    "images",
    [
        torch.rand(3, 32, 32),
        torch.rand(1, 1, 32, 32),
        torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        torch.rand(1, 3, 32, 32) * 255,
        torch.full((1, 3, 32, 32), float("nan")),
        torch.full((1, 3, 32, 32), -0.5),
    ],
    ids=["no batch", "grey", "bytes", "0..255", "nan", "negative"],
)
def test_wrong_pictures_are_refused(lite: Backbone, images: Tensor) -> None:
    with pytest.raises(DataError, match="efficientnet_lite0"):
        lite(images)


def test_training_mode_changes_nothing(lite: Backbone) -> None:
    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eyes, self.readout = lite, nn.Linear(2, 2)

    parent = Parent()
    x = torch.rand(2, 3, 32, 32)
    before = {k: v.clone() for k, v in lite.state_dict().items()}
    expected = lite(x)[32]
    parent.train()
    assert parent.readout.training and not any(m.training for m in lite.modules())
    assert torch.equal(lite(x)[32], expected)
    assert all(torch.equal(before[k], v) for k, v in lite.state_dict().items())
    assert not any(p.requires_grad for p in lite.parameters())
    lite.train(True)
    assert not lite.training


def test_activations_by_name_and_unknown_names(lite: Backbone) -> None:
    x = torch.rand(1, 3, 32, 32)
    names = ("blocks.15", "blocks.4.expand.conv", "head")
    found = lite.activations(x, names)
    assert torch.equal(found["blocks.15"], lite(x)[32])
    assert found["head"].shape == (1, 1280, 1, 1)
    assert not any(m._forward_hooks for m in lite.modules())
    with pytest.raises(UnknownNameError, match=r"blocks\.15"):
        lite.activations(x, ["block.15"])
    with pytest.raises(UnknownNameError):
        lite.activations(x, [""])
    with pytest.raises(DataError, match="classifier"):
        lite.activations(x, ["classifier"])  # does not run


def test_some_strides_alone(lite: Backbone) -> None:
    x = torch.rand(1, 3, 32, 32)
    found = lite(x, (32, 4))
    assert set(found) == {4, 32} and torch.equal(found[4], lite(x)[4])
    with pytest.raises(CapabilityError, match="no map of stride 7"):
        lite(x, [7])


def test_hooks_are_removed_after_an_error(lite: Backbone) -> None:
    bad = lite.replaced({"blocks.3": nn.Linear(3, 3)})
    with pytest.raises(RuntimeError):
        bad(torch.rand(1, 3, 32, 32))
    assert not any(m._forward_hooks for m in bad.modules())


def test_stages_one_after_the_other_are_the_network(lite: Backbone) -> None:
    x = torch.rand(1, 3, 64, 32)
    y = lite.normalised(x)
    seen = {}
    for name, part in lite.stages():
        y = seen[name] = part(y)
    maps = lite(x)
    assert all(torch.equal(seen[lite.taps[s]], maps[s]) for s in lite.strides)


def test_replaced_modules_leave_the_original_alone(lite: Backbone) -> None:
    x = torch.rand(1, 3, 32, 32)
    before, mark = lite(x)[32], lite.fingerprint
    other = lite.replaced({"blocks.14": nn.Identity(), "blocks.15.project.act": nn.Tanh()})
    assert float(other(x)[32].abs().max()) <= 1
    assert "blocks.15.project.act" in dict(other.network.named_modules())
    assert torch.equal(lite(x)[32], before) and lite.fingerprint == mark
    assert other.fingerprint != mark
    assert lite.replaced({}).fingerprint == mark
    with pytest.raises(UnknownNameError):
        lite.replaced({"blocks.99": nn.Identity()})


def test_fingerprint_follows_weights_and_name(
    lite: Backbone, lite_state: dict[str, Tensor], tmp_path: Path
) -> None:
    assert lite.fingerprint.startswith("efficientnet_lite0-")
    changed = dict(lite_state)
    changed["_blocks.7._bn1.running_var"] = changed["_blocks.7._bn1.running_var"] * 1.001
    torch.save(changed, tmp_path / "changed.pth")
    torch.save(lite_state, tmp_path / "same.pth")
    assert load_backbone(weights=tmp_path / "changed.pth").fingerprint != lite.fingerprint
    assert load_backbone(weights=tmp_path / "same.pth").fingerprint == lite.fingerprint
    net = lite.network
    facts = {"taps": lite.taps, "channels": lite.channels}
    marks = {
        Backbone("a", net, **facts).fingerprint,
        Backbone("b", net, **facts).fingerprint,
        Backbone("a", net, **facts, mean=(0.5, 0.5, 0.5)).fingerprint,
    }
    assert len(marks) == 3


# ------------------------------------------------------------------------- weights


def test_missing_and_unexpected_names_are_listed(
    lite_state: dict[str, Tensor], tmp_path: Path
) -> None:
    state = dict(lite_state)
    state["_blocks.3._se_reduce.weight"] = torch.zeros(1)
    del state["_fc.bias"], state["_blocks.0._bn1.weight"]
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(DataError) as caught:
        load_backbone(weights=tmp_path / "w.pth")
    text = str(caught.value)
    assert "unexpected: _blocks.3._se_reduce.weight" in text
    assert "classifier.bias" in text and "blocks.0.depthwise.norm.weight" in text


def test_shapes_and_numbers_of_weights_are_checked(
    lite_state: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save(lite_state | {"_fc.bias": torch.zeros(10)}, tmp_path / "shape.pth")
    with pytest.raises(DataError, match=r"_fc\.bias: expected \(1000,\), found \(10,\)"):
        load_backbone(weights=tmp_path / "shape.pth")
    torch.save(lite_state | {"_fc.bias": torch.full((1000,), torch.nan)}, tmp_path / "nan.pth")
    with pytest.raises(DataError, match=r"not finite.*_fc\.bias"):
        load_backbone(weights=tmp_path / "nan.pth")


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("__import__('os').mkdir('ran')",)


@pytest.mark.parametrize("kind", ["code", "text", "empty", "cut", "list", "safetensors"])
def test_files_that_are_no_weights(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pth")
    if kind == "code":
        path.write_bytes(pickle.dumps({"a": _Trap()}))
    elif kind == "list":
        torch.save([1, 2], path)
    elif kind == "cut":
        torch.save({"a": torch.zeros(1000)}, path)
        path.write_bytes(path.read_bytes()[:2000])
    else:
        path.write_bytes(b"" if kind == "empty" else b"not weights at all")
    with pytest.raises(DataError, match="w\\."):
        read_state(path)
    assert not (tmp_path / "ran").exists()


def test_missing_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="gazeattn fetch efficientnet-lite0"):
        load_backbone(root=tmp_path)
    for name in ("vgg16", "densenet201"):
        with pytest.raises(MissingAssetError, match=f"{name}.pth"):
            load_backbone(name, root=tmp_path)
    with pytest.raises(MissingAssetError, match="nowhere"):
        load_backbone("vgg16", weights=tmp_path / "nowhere.pth")
    with pytest.raises(UnknownNameError, match="efficientnet_lite0"):
        load_backbone("efficientnet_lite")


# ------------------------------------------------------------------------- VGG, DenseNet

VGG_SHAPES = {0: (64, 3), 2: (64, 64), 5: (128, 64), 7: (128, 128), 10: (256, 128),
              12: (256, 256), 14: (256, 256), 17: (512, 256), 19: (512, 512), 21: (512, 512),
              24: (512, 512), 26: (512, 512), 28: (512, 512)}  # fmt: skip


def vgg_state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    state: dict[str, Tensor] = {}
    for i, (out, inside) in VGG_SHAPES.items():
        state[f"features.{i}.weight"] = torch.randn(out, inside, 3, 3) * (2 / (9 * inside)) ** 0.5
        state[f"features.{i}.bias"] = torch.zeros(out)
    return state


def test_vgg16_takes_torchvision_names_and_its_poolings_can_be_exchanged(tmp_path: Path) -> None:
    state = vgg_state()
    folder = tmp_path / "models" / "vgg16"
    folder.mkdir(parents=True)
    # of the classifier the names alone count
    torch.save(state | {k: torch.zeros(1) for k in _vgg.UNUSED}, folder / "vgg16.pth")
    net = load_backbone("vgg16", root=tmp_path)
    x = torch.rand(1, 3, 64, 32)
    maps = net(x)
    assert {s: tuple(m.shape[1:]) for s, m in maps.items()} == {
        2: (64, 32, 16), 4: (128, 16, 8), 8: (256, 8, 4), 16: (512, 4, 2), 32: (512, 2, 1)
    }  # fmt: skip
    kinds = [type(m).__name__ for _, m in net.stages()]
    assert [f"features.{i}" for i, k in enumerate(kinds) if k == "MaxPool2d"] == list(_vgg.POOLS)
    # tap of a convolution holds negative values: the ReLU after it works on a copy
    assert float(net.activations(x, ["features.28"])["features.28"].min()) < 0
    other = net.replaced({name: nn.AvgPool2d(2, 2) for name in _vgg.POOLS})
    first = net.activations(x, ["features.3"])["features.3"]
    assert torch.allclose(other(x)[2], nn.functional.avg_pool2d(first, 2))
    assert torch.equal(net(x)[32], maps[32])
    state["features.30.weight"] = state.pop("features.28.weight")
    torch.save(state, folder / "vgg16.pth")
    with pytest.raises(
        DataError, match=r"missing: features\.28\.weight; unexpected: features\.30\.weight"
    ):
        load_backbone("vgg16", root=tmp_path)


def test_densenet201_gives_the_activations_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    state = _densenet.DenseNet().state_dict()
    assert sum(v.numel() for k, v in state.items() if k.endswith(("weight", "bias"))) == 18_092_928
    # the first published files have another spelling and no counters
    old = {
        k.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): v
        for k, v in state.items()
        if not k.endswith("num_batches_tracked")
    }
    old |= {"classifier.weight": torch.zeros(1), "classifier.bias": torch.zeros(1)}
    torch.save(old, tmp_path / "old.pth")
    net = load_backbone("densenet201", weights=tmp_path / "old.pth")
    assert sum_of(net.network) == sum_of(_with(state))
    x = torch.rand(1, 3, 64, 64)
    block = "features.denseblock4."
    names = [block + "denselayer32.norm1", block + "denselayer32.conv1",
             block + "denselayer31.conv2"]  # fmt: skip
    found = net.activations(x, names)
    assert [found[n].shape[1] for n in names] == [1888, 128, 32]  # 2048 in all
    assert all(found[n].shape[2:] == (2, 2) for n in names)
    assert float(found[names[0]].min()) < 0  # before the ReLU
    maps = net(x)
    assert {s: m.shape[1] for s, m in maps.items()} == net.channels
    assert {s: m.shape[-1] for s, m in maps.items()} == {s: 64 // s for s in net.strides}
    # the last block: what layer 31 adds stands before what layer 32 adds
    y = net.normalised(x)
    for _, part in net.stages():
        y = part(y)
    assert torch.equal(y, maps[32])


def _with(state: dict[str, Tensor]) -> nn.Module:
    net = _densenet.DenseNet()
    net.load_state_dict(state)
    return net


def test_dense_layers_see_all_before_them() -> None:
    """With convolutions that copy, a block's output is its input and what each layer adds."""
    block = _densenet.DenseBlock(2, 3, 2)
    x = torch.rand(1, 3, 4, 4)
    out = block.eval()(x)
    assert out.shape[1] == 3 + 2 * 2
    assert torch.equal(out[:, :3], x)
    assert torch.equal(out[:, 3:5], block.denselayer1(x))
    assert torch.equal(out[:, 5:], block.denselayer2(out[:, :5]))


def test_strict_loading_ignores_only_counters() -> None:
    net = nn.Sequential(nn.BatchNorm2d(2))
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    load_strictly(net, state | {"0.weight": torch.tensor([2.0, 3.0])}, source="x")
    assert net[0].weight.tolist() == [2.0, 3.0]
    with pytest.raises(DataError, match=r"missing: 0\.running_mean"):
        load_strictly(net, {k: v for k, v in state.items() if k != "0.running_mean"}, source="x")


# ------------------------------------------------------------------------- the real weights


def test_the_published_weights_know_what_is_in_photographs(
    real: Backbone, shared_data: Path
) -> None:
    """Conventions of padding and BatchNorm that are not the original's lose confidence."""
    files = sorted((shared_data / "osie" / "stimuli").glob("*.jpg"))[::44]
    if not files:
        pytest.skip("no photographs")
    crops = []
    for file in files:
        image = Image.open(file).convert("RGB").resize((341, 256), Image.Resampling.BICUBIC)
        crops.append(np.asarray(image.crop((58, 16, 282, 240)), dtype=np.float32) / 255)
    x = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2)
    net = real.network
    assert isinstance(net, _efficientnet.EfficientNetLite0)
    with torch.no_grad():
        p = net.logits(real.normalised(x)).softmax(1)
        q = net.logits(real.normalised(x.flip(3))).softmax(1)
    assert float(p.max(1).values.mean()) > 0.25  # chance 0.001
    assert len(set(p.argmax(1).tolist())) > len(files) // 2
    assert float((p.argmax(1) == q.argmax(1)).float().mean()) > 0.6
