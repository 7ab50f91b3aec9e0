"""Backbones from folders and the hub, with tiny models of random weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gazeattn.errors import CapabilityError, DataError, GazeattnError, MissingAssetError
from gazeattn.models.layers import backbones
from gazeattn.models.layers.backbones import load_backbone


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import transformers as t

    torch.manual_seed(0)
    base = tmp_path_factory.mktemp("hub")
    dino = t.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                          image_size=28, patch_size=14)  # fmt: skip
    t.Dinov2Model(dino).save_pretrained(base / "dinov2")
    registers = t.Dinov2WithRegistersConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
        num_register_tokens=4,
    )  # fmt: skip
    t.Dinov2WithRegistersModel(registers).save_pretrained(base / "registers")
    res = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    t.ResNetForImageClassification(res).save_pretrained(base / "resnet")
    bert = t.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                        intermediate_size=8, vocab_size=9)  # fmt: skip
    t.BertModel(bert).save_pretrained(base / "bert")
    (base / "resnet" / "preprocessor_config.json").write_text(
        '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25],'
        ' "image_processor_type": "ConvNextImageProcessor"}'
    )
    return {p.name: p for p in base.iterdir()}


def test_dinov2_from_a_folder(folders: dict[str, Path]) -> None:
    net = load_backbone("dinov2", weights=folders["dinov2"])
    assert net.strides == (14,) and net.channels == {14: 16}
    other = load_backbone(str(folders["dinov2"]))  # by its path, which is no part of the name
    assert other.name == "dinov2" and other.fingerprint == net.fingerprint
    x = torch.rand(1, 3, 28, 42)
    maps = net(x)[14]
    assert maps.shape == (1, 16, 2, 3)
    tokens = net.network(net.normalised(x)).last_hidden_state
    assert torch.allclose(maps[0, :, 1, 2], tokens[0, 1 + 1 * 3 + 2], atol=1e-6)  # row by row
    with pytest.raises(DataError, match=r"multiples of 14.*\(28, 28\)"):
        net(torch.rand(1, 3, 32, 30))
    with pytest.raises(CapabilityError):
        net.stages()


def test_register_tokens_are_not_patches(folders: dict[str, Path]) -> None:
    net = load_backbone(str(folders["registers"]))
    x = torch.rand(1, 3, 28, 28)
    tokens = net.network(net.normalised(x)).last_hidden_state
    assert tokens.shape[1] == 1 + 4 + 4
    assert torch.allclose(net(x)[14][0, :, 0, 0], tokens[0, 5], atol=1e-6)


def test_resnet_from_a_folder_with_its_own_normalisation(folders: dict[str, Path]) -> None:
    net = load_backbone("resnet50", weights=folders["resnet"])
    assert net.channels == {4: 8, 8: 16, 16: 24, 32: 32}
    x = torch.rand(1, 3, 64, 32)
    assert {s: tuple(m.shape[1:]) for s, m in net(x).items()} == {
        s: (c, 64 // s, 32 // s) for s, c in net.channels.items()
    }
    assert float(net.normalised(torch.ones(1, 3, 1, 1))[0, 0]) == 2.0
    y = net.normalised(x)
    for _, part in net.stages():
        y = part(y)
    assert torch.equal(y, net(x)[32])
    net.train()
    assert not any(m.training for m in net.modules())


def test_folders_that_cannot_serve(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="bert"):
        load_backbone(str(folders["bert"]))
    with pytest.raises(GazeattnError, match="empty"):
        (tmp_path / "empty").mkdir()
        load_backbone("dinov2", weights=tmp_path / "empty")
    from safetensors.torch import load_file, save_file

    copy = tmp_path / "half"
    copy.mkdir()
    (copy / "config.json").write_bytes((folders["dinov2"] / "config.json").read_bytes())
    state = load_file(folders["dinov2"] / "model.safetensors")
    name = next(k for k in state if k.endswith("layernorm.weight"))
    state.pop(name)
    save_file(state, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"layernorm\.weight"):
        load_backbone("dinov2", weights=copy)


def test_without_network_the_message_names_the_hub_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    for name, hub in backbones.HUB.items():
        with pytest.raises(MissingAssetError, match=f"{hub}.*no network"):
            load_backbone(name, root=tmp_path)
