"""Published checkpoints of HAT: every tensor is accounted for, or the file is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from gazeattn.datamodules import Stimulus
from gazeattn.errors import DataError
from gazeattn.models.scanpath._hat_checkpoint import load_published, our_name
from gazeattn.models.scanpath.hat import HAT

SIZE = (64, 32)


def published_state(tasks: int = 1, width: int = 24, decoder: int = 16) -> dict[str, Tensor]:
    """A state dict with the names of the published files and made-up numbers."""
    g = torch.Generator().manual_seed(0)
    made: dict[str, Tensor] = {}

    def add(name: str, *shape: int) -> None:
        made[name] = torch.randn(*shape, generator=g) * 0.1

    def linear(name: str, outputs: int, inputs: int, *kernel: int, bias: bool = True) -> None:
        add(f"{name}.weight", outputs, inputs, *kernel)
        if bias:
            add(f"{name}.bias", outputs)

    def norm(name: str, size: int) -> None:
        add(f"{name}.weight", size)
        add(f"{name}.bias", size)

    linear("encoder.backbone.stem.conv1", 8, 3, 7, 7, bias=False)
    p = "encoder.pixel_decoder."
    for i, c in enumerate((12, 10, 8)):  # strides 32, 16, 8
        linear(f"{p}input_proj.{i}.0", decoder, c, 1, 1)
        norm(f"{p}input_proj.{i}.1", decoder)
    add(f"{p}transformer.level_embed", 3, decoder)
    for i in range(2):
        q = f"{p}transformer.encoder.layers.{i}."
        linear(f"{q}self_attn.sampling_offsets", 8 * 3 * 4 * 2, decoder)
        linear(f"{q}self_attn.attention_weights", 8 * 3 * 4, decoder)
        linear(f"{q}self_attn.value_proj", decoder, decoder)
        linear(f"{q}self_attn.output_proj", decoder, decoder)
        norm(f"{q}norm1", decoder)
        linear(f"{q}linear1", 32, decoder)
        linear(f"{q}linear2", decoder, 32)
        norm(f"{q}norm2", decoder)
    linear(f"{p}mask_features", decoder, decoder, 1, 1)
    linear(f"{p}lateral_convs.adapter_1", decoder, 6, 1, 1, bias=False)
    norm(f"{p}lateral_convs.adapter_1.norm", decoder)
    linear(f"{p}output_convs.layer_1", decoder, decoder, 3, 3, bias=False)
    norm(f"{p}output_convs.layer_1.norm", decoder)
    linear("input_proj", width, decoder, 1, 1)
    add("query_embed.weight", tasks, width)
    add("query_pos.weight", tasks, width)
    for i in range(2):
        for kind, inner in (
            ("self_attention_layers", "self_attn"),
            ("cross_attention_layers_dorsal", "multihead_attn"),
        ):
            q = f"transformer_{kind}.{i}."
            add(f"{q}{inner}.in_proj_weight", 3 * width, width)
            add(f"{q}{inner}.in_proj_bias", 3 * width)
            linear(f"{q}{inner}.out_proj", width, width)
            norm(f"{q}norm", width)
        linear(f"transformer_ffn_layers.{i}.linear1", 20, width)
        linear(f"transformer_ffn_layers.{i}.linear2", width, 20)
        norm(f"transformer_ffn_layers.{i}.norm", width)
    q = "working_memory_encoder.layers.0."
    add(f"{q}self_attn.in_proj_weight", 3 * width, width)
    add(f"{q}self_attn.in_proj_bias", 3 * width)
    linear(f"{q}self_attn.out_proj", width, width)
    linear(f"{q}linear1", 20, width)
    linear(f"{q}linear2", width, 20)
    norm(f"{q}norm1", width)
    norm(f"{q}norm2", width)
    norm("decoder_norm", width)
    for name, inputs, outputs in (
        ("termination_predictor", width + 1, 1),
        ("fixation_embed", width, width),
    ):
        for i in range(3):
            out = outputs if i == 2 else width
            linear(f"{name}.layers.{i}", out, inputs if i == 0 else width)
    half = width // 2
    den = torch.exp(-torch.arange(0, half, 2) * np.log(10000) / half)
    for axis, n in (("w", 16), ("h", 8)):
        angle = torch.arange(n)[:, None] * den
        table = torch.zeros(n, half)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        made[f"pixel_loc_emb.pos_{axis}_embedding"] = table
    add("fix_ind_emb.weight", 6, width)
    add("dorsal_ind_emb.weight", 2, width)
    add("ventral_ind_emb.weight", 1, width)
    return made


def test_published_file_loads_with_every_tensor_accounted_for(tmp_path: Path) -> None:
    state = published_state()
    torch.save({"model": state, "step": 3}, tmp_path / "HAT_FV.pt")
    made, report = HAT.load_published(tmp_path / "HAT_FV.pt", image_size=SIZE)
    told = len(report.loaded) + len(report.unused) + len(report.checked) + len(report.backbone)
    assert told == len(state)
    assert list(report.backbone) == ["stem.conv1.weight"]
    assert "decoder_norm.weight" in report.unused
    own = made.state_dict()
    for name, ours in report.loaded.items():
        assert torch.equal(own[ours], state[name]), name
    assert set(own) - set(report.loaded.values()) == {"prior", "prior_factor", "stop_weight"}
    assert (made.tasks, made.start, made.stop) == (["free_viewing"], "center", "threshold")
    assert made.hparams["channels"] == {"stride4": 6, "stride8": 8, "stride16": 10, "stride32": 12}
    g = torch.Generator().manual_seed(0)
    maps = {
        k: torch.randn(c, 32 // int(k[6:]), 64 // int(k[6:]), generator=g)
        for k, c in made.hparams["channels"].items()
    }
    found = made.sample(Stimulus("a", (64.0, 32.0), features=maps), 2, g)
    assert all(1 <= len(p) <= 6 for p in found)


def test_published_files_of_search_have_named_tasks(tmp_path: Path) -> None:
    torch.save(published_state(tasks=18), tmp_path / "HAT_TP.pt")
    made, _ = load_published(tmp_path / "HAT_TP.pt", image_size=SIZE)
    assert len(made.tasks) == 18
    assert made.tasks == sorted(made.tasks)
    assert made.task_of([Stimulus("a", (8.0, 8.0), target="bottle")]).tolist() == [0]


@pytest.mark.parametrize("kind", ["missing", "shape", "unknown", "positions", "layers"])
def test_published_file_that_does_not_fit(tmp_path: Path, kind: str) -> None:
    state = published_state()
    name = "transformer_ffn_layers.1.linear2.weight"
    if kind == "missing":
        del state[name]
    elif kind == "shape":
        state[name] = state[name].T.contiguous()
    elif kind == "unknown":
        name = "saliency_embed.layers.0.weight"
        state[name] = torch.zeros(2)
    elif kind == "positions":
        name = "pixel_loc_emb.pos_w_embedding"
        state[name] = state[name] + 0.1
    else:
        name = "encoder.pixel_decoder.transformer.encoder.layers.1.norm2.bias"
        del state[name]
    torch.save({"model": state}, tmp_path / "m.pt")
    shown = name if kind in ("shape", "unknown", "positions") else our_name(name)
    with pytest.raises(DataError, match=str(shown).replace(".", r"\.")):
        load_published(tmp_path / "m.pt", image_size=SIZE)


def test_published_file_with_other_objects_is_refused(tmp_path: Path) -> None:
    torch.save({"model": {"a": Path("x")}}, tmp_path / "m.pt")
    with pytest.raises(DataError, match="safe"):
        load_published(tmp_path / "m.pt")
    (tmp_path / "n.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError):
        load_published(tmp_path / "n.pt")
    torch.save({"model": {}}, tmp_path / "o.pt")
    with pytest.raises(DataError, match=r"query_embed\.weight"):
        load_published(tmp_path / "o.pt")


@pytest.mark.parametrize("kind", ["text", "empty", "absent", "folder", "list", "bytes"])
def test_a_path_that_is_no_published_file_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "HAT_FV.pt"
    if kind == "text":
        path.write_text("these are no weights\n" * 20)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "list":
        torch.save([torch.zeros(2)], path)
    elif kind == "bytes":
        path.write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match=r"HAT_FV\.pt"):
        HAT.load_published(path, image_size=SIZE)


@pytest.mark.parametrize(
    "name",
    [
        "query_embed.weight",
        "encoder.pixel_decoder.input_proj.0.0.weight",
        "encoder.pixel_decoder.input_proj.1.0.weight",
        "encoder.pixel_decoder.transformer.encoder.layers.0.linear1.weight",
        "transformer_ffn_layers.0.linear1.weight",
        "fix_ind_emb.weight",
    ],
)
def test_tensors_of_wrong_dimensions_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "HAT_FV.pt"
    for wrong in (torch.zeros(7), torch.zeros(()), torch.zeros(0, 3)):
        torch.save({"model": {**published_state(), name: wrong}}, path)
        with pytest.raises(DataError, match=rf"HAT_FV\.pt.*{name}".replace(".0", r"\.0")):
            HAT.load_published(path, image_size=SIZE)


def test_sizes_of_which_no_model_can_be_built(tmp_path: Path) -> None:
    state = published_state()
    state["query_embed.weight"] = torch.zeros(1, 7)  # 7 divides into no heads
    torch.save({"model": state}, tmp_path / "HAT_FV.pt")
    with pytest.raises(DataError, match=r"HAT_FV\.pt"):
        HAT.load_published(tmp_path / "HAT_FV.pt", image_size=SIZE)
