"""Loading by name, folder, GGUF file and hub id; damaged files; the conversion cache."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gazeattn.errors import CapabilityError, DataError, MissingAssetError, UnknownNameError
from gazeattn.lm import conversion
from gazeattn.lm.conversion import convert, first_difference, manifest, read_fields
from gazeattn.lm.loading import find_model, load_model, quiet
from gazeattn.lm.model import LanguageModel
from gazeattn.lm.tokens import encode_words
from gazeattn.registry import models

WORDS = ["The", "reader", "looks", "at", "12", "words."]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def folder(tiny_llama_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(tiny_llama_folder, tmp_path / "model"))


# -- names -------------------------------------------------------------------------------------


def test_registered_models_have_their_facts() -> None:
    assert {"smollm2-135m", "minilm"} <= set(models.names())
    for name in ("smollm2-135m", "minilm"):
        info = models.get(name).info
        for key in ("task", "size", "licence", "citation", "hub_id", "description"):
            assert info[key], (name, key)


@pytest.mark.parametrize("name", ["smolm2-135m", "SmolLM2_135M", "smollm2", "minilmm", "mini-lm"])
def test_misspelt_names_have_suggestions(name: str, root: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        load_model(name, root)


@pytest.mark.parametrize("name", ["smollm2-135m", "minilm"])
def test_missing_models_say_which_command_fetches_them(name: str, root: Path) -> None:
    with pytest.raises(MissingAssetError, match=f"gazeattn fetch {name}"):
        LanguageModel.load(name, root=root)


@pytest.mark.parametrize("name", ["./nowhere", "nowhere.gguf", "/no/such/folder", "~/nothing-here"])
def test_missing_paths_are_not_looked_up_on_the_hub(name: str, root: Path) -> None:
    with pytest.raises(MissingAssetError, match="no model folder or GGUF file"):
        load_model(name, root)


def test_hub_ids_fail_at_once_when_offline(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    began = time.monotonic()
    with pytest.raises(MissingAssetError, match=r"HF_HUB_OFFLINE.*gazeattn fetch"):
        load_model("no-such-owner/no-such-model", root)
    assert time.monotonic() - began < 10


def test_an_unreachable_hub_is_a_missing_model(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*args: Any, **options: Any) -> Any:
        assert options.get("timeout")
        raise ConnectionError("no route to host")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(MissingAssetError, match="no route to host"):
        load_model("no-such-owner/no-such-model", root)


def test_find_model_order(tiny_llama_folder: Path, root: Path) -> None:
    found = find_model(tiny_llama_folder, root)
    assert (found.name, found.path) == ("llama", tiny_llama_folder)
    assert find_model("owner/name", root).path is None


# -- folders -----------------------------------------------------------------------------------


def test_folder_loads_ready_to_be_measured(tiny_llama_folder: Path, tiny_llama: Any) -> None:
    model, tokenizer, info = load_model(tiny_llama_folder)
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())
    ids = torch.arange(2, 12)[None]
    torch.testing.assert_close(model(ids).logits, tiny_llama(ids).logits)
    expected = {
        "causal": True,
        "lm_head": True,
        "mlm_head": False,
        "offsets": True,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "context_length": 64,
        "adds_start_token": True,
        "dtype": "float32",
        "name": "llama",
        "licence": "not stated",
        "architecture": "LlamaForCausalLM",
    }
    assert {k: info[k] for k in expected} == expected
    assert info["parameters"] == sum(p.numel() for p in tiny_llama.parameters())
    assert len(info["sha"]) == 64
    assert tokenizer.name_or_path == "llama"  # no path of this machine in profiles


def test_dtype(tiny_llama_folder: Path) -> None:
    assert load_model(tiny_llama_folder, dtype="bfloat16")[2]["dtype"] == "bfloat16"
    assert load_model(tiny_llama_folder, dtype=torch.float64)[2]["dtype"] == "float64"
    for wrong in ("int32", "int8", "flaot32", None):
        with pytest.raises(DataError, match="number type"):
            load_model(tiny_llama_folder, dtype=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fixture", "causal", "lm_head", "mlm_head"),
    [
        ("tiny_gpt2", True, True, False),
        ("tiny_bert", False, False, False),
        ("tiny_bert_mlm", False, False, True),
    ],
)
def test_heads_are_found(
    fixture: str, causal: bool, lm_head: bool, mlm_head: bool, tmp_path: Path, request: Any
) -> None:
    request.getfixturevalue(fixture).save_pretrained(tmp_path / "m")
    name = "bert_tokenizer" if "bert" in fixture else "byte_tokenizer"
    request.getfixturevalue(name).save_pretrained(tmp_path / "m")
    model, _, info = load_model(tmp_path / "m")
    assert (info["causal"], info["lm_head"], info["mlm_head"]) == (causal, lm_head, mlm_head)
    assert type(model) is type(request.getfixturevalue(fixture))


def test_a_decoder_without_its_head_is_causal(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    tiny_llama.model.save_pretrained(tmp_path / "m")
    byte_tokenizer.save_pretrained(tmp_path / "m")
    info = load_model(tmp_path / "m")[2]
    assert (info["causal"], info["lm_head"]) == (True, False)


def test_context_of_models_that_count_positions_from_the_pad_token(
    tmp_path: Path, bert_tokenizer: Any
) -> None:
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=34,
        pad_token_id=1,
    )
    RobertaForMaskedLM(config).save_pretrained(tmp_path / "m")
    bert_tokenizer.save_pretrained(tmp_path / "m")
    lm = LanguageModel.load(tmp_path / "m", device="cpu")
    assert lm.info["context_length"] == 32
    profile = lm.surprisal(WORDS * 10)
    assert profile.how["windows"] > 1
    assert np.isfinite(profile.weights).all()


def test_models_without_attention_load_and_say_so(tmp_path: Path, byte_tokenizer: Any) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=420, hidden_size=16, state_size=4, num_hidden_layers=1)
    MambaForCausalLM(config).save_pretrained(tmp_path / "m")
    byte_tokenizer.save_pretrained(tmp_path / "m")
    with quiet():
        lm = LanguageModel.load(tmp_path / "m", device="cpu")
        assert lm.info["n_heads"] == 0
        assert lm.capabilities["causal"]
        assert np.isfinite(lm.surprisal(WORDS).weights).all()
        with pytest.raises(CapabilityError):
            lm.attention(WORDS)


def test_dropout_is_off(tmp_path: Path, tiny_bert: Any, bert_tokenizer: Any) -> None:
    assert tiny_bert.config.hidden_dropout_prob > 0
    tiny_bert.save_pretrained(tmp_path / "m")
    bert_tokenizer.save_pretrained(tmp_path / "m")
    model, _, _ = load_model(tmp_path / "m")
    ids = torch.arange(5, 20)[None]
    assert torch.equal(model(ids).last_hidden_state, model(ids).last_hidden_state)


def test_loading_is_quiet(tiny_llama_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_model(tiny_llama_folder)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_quiet_puts_everything_back() -> None:
    from transformers.utils import logging as hf

    before = hf.get_verbosity(), hf.is_progress_bar_enabled()
    with pytest.raises(RuntimeError), quiet():
        raise RuntimeError
    assert (hf.get_verbosity(), hf.is_progress_bar_enabled()) == before


def rewrite_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def damage_cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def damage_drop_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop("model.layers.1.self_attn.q_proj.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


DAMAGE = {
    "cut weights": damage_cut_weights,
    "missing weight": damage_drop_weight,
    "no weights": lambda f: (f / "model.safetensors").unlink(),
    "broken config": lambda f: (f / "config.json").write_text("{"),
    "other shape": lambda f: rewrite_config(f, hidden_size=64),
    "no tokenizer": lambda f: [p.unlink() for p in f.glob("tokenizer*")],
    "unknown architecture": lambda f: rewrite_config(f, model_type="no-such-model"),
    "no config": lambda f: (f / "config.json").unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_folders_raise_and_never_load_random_weights(kind: str, folder: Path) -> None:
    DAMAGE[kind](folder)
    with pytest.raises((DataError, CapabilityError)) as caught:
        load_model(folder)
    assert "model" in str(caught.value)


def test_weights_as_pickled_code_are_not_run(folder: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    (folder / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="cannot be loaded"):
        load_model(folder)
    assert not (tmp_path / "ran").exists()


def test_own_code_is_not_run_without_trust(folder: Path) -> None:
    (folder / "own.py").write_text("raise SystemExit('was run')\n")
    rewrite_config(
        folder,
        model_type="own-model",
        auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"},
    )
    with pytest.raises(CapabilityError, match="trust=True"):
        load_model(folder)


def test_encoder_decoders_are_refused(folder: Path) -> None:
    rewrite_config(folder, model_type="t5", architectures=["T5ForConditionalGeneration"])
    with pytest.raises(CapabilityError, match="encoder-decoder"):
        load_model(folder)


# -- GGUF --------------------------------------------------------------------------------------


def write_gguf(path: Path, model: Any, tokenizer: Any, pre: str, start: bool | None) -> None:
    """Write a tiny llama with a byte-level tokenizer as GGUF."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    core = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(core["vocab"], key=core["vocab"].get)
    tokens += [f"[unused{i}]" for i in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in ("<s>", "</s>") else 1 for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in core["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if start is not None:
        writer.add_add_bos_token(start)
    state = model.state_dict()
    heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}

    def put(name: str, key: str, n: int | None = None) -> None:
        array = state[key].float().numpy()
        if n:  # rotary positions are stored in another order in this format
            array = array.reshape(n, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(name, np.ascontiguousarray(array))

    put("token_embd.weight", "model.embed_tokens.weight")
    put("output_norm.weight", "model.norm.weight")
    put("output.weight", "lm_head.weight")
    for i in range(config.num_hidden_layers):
        a, b = f"blk.{i}.", f"model.layers.{i}."
        put(a + "attn_norm.weight", b + "input_layernorm.weight")
        put(a + "ffn_norm.weight", b + "post_attention_layernorm.weight")
        put(a + "attn_q.weight", b + "self_attn.q_proj.weight", heads["q"])
        put(a + "attn_k.weight", b + "self_attn.k_proj.weight", heads["k"])
        put(a + "attn_v.weight", b + "self_attn.v_proj.weight")
        put(a + "attn_output.weight", b + "self_attn.o_proj.weight")
        for x in ("gate", "up", "down"):
            put(a + f"ffn_{x}.weight", b + f"mlp.{x}_proj.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def gguf_file(tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama, byte_tokenizer, "smollm", None)
    return path


def test_gguf_is_converted_once_and_equals_the_model(
    gguf_file: Path, root: Path, tiny_llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, info = load_model(gguf_file, root)
    ids = torch.arange(2, 40)[None]
    torch.testing.assert_close(model(ids).logits, tiny_llama(ids).logits, rtol=1e-4, atol=1e-4)
    assert info["name"] == "tiny"
    assert info["format"] == "GGUF, converted"
    converted = list((root / "converted").iterdir())
    assert len(converted) == 1
    monkeypatch.setattr(conversion, "_write", lambda *a: pytest.fail("converted twice"))
    again, _, second = load_model(gguf_file, root)
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert second == info
    assert list((root / "converted").iterdir()) == converted


def test_converting_is_quiet(
    gguf_file: Path, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    load_model(gguf_file, root)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_a_changed_file_never_meets_an_old_conversion(
    gguf_file: Path, root: Path, tiny_gpt2: Any, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    first = convert(gguf_file, root)
    write_gguf(gguf_file, tiny_llama, byte_tokenizer, "gpt-2", None)
    second = convert(gguf_file, root)
    assert first != second
    assert manifest(first)["source"] != manifest(second)["source"]


def spoil_bit(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


SPOILT = {
    "a changed bit": spoil_bit,
    "cut weights": damage_cut_weights,
    "no weights": lambda f: (f / "model.safetensors").unlink(),
    "no tokenizer": lambda f: (f / "tokenizer.json").unlink(),
    "no record": lambda f: (f / "converted.json").unlink(),
    "broken record": lambda f: (f / "converted.json").write_text("{"),
    "odd record": lambda f: (f / "converted.json").write_text("[]"),
    "empty record": lambda f: (f / "converted.json").write_text("{}"),
    "older converter": lambda f: (f / "converted.json").write_text(
        json.dumps({**manifest(f), "converter": 0})
    ),
    "record without sums": lambda f: (f / "converted.json").write_text(
        json.dumps({**manifest(f), "files": {"model.safetensors": [1]}})
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_damaged_conversion_is_made_again(kind: str, gguf_file: Path, root: Path) -> None:
    folder = convert(gguf_file, root)
    right = (folder / "model.safetensors").read_bytes()
    SPOILT[kind](folder)
    assert convert(gguf_file, root) == folder
    assert (folder / "model.safetensors").read_bytes() == right
    assert (folder / "tokenizer.json").is_file()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_an_interrupted_conversion_leaves_nothing(
    gguf_file: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, folder: Path) -> Any:
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            convert(gguf_file, root)
    assert list((root / "converted").iterdir()) == []
    load_model(gguf_file, root)


def test_a_copied_conversion_is_used(gguf_file: Path, root: Path, tmp_path: Path) -> None:
    folder = convert(gguf_file, root)
    other = tmp_path / "other"
    shutil.copytree(root, other, copy_function=shutil.copy)  # with new file times
    before = (other / "converted" / folder.name / "model.safetensors").stat().st_mtime_ns
    assert convert(gguf_file, other).name == folder.name
    after = (other / "converted" / folder.name / "model.safetensors").stat().st_mtime_ns
    assert before == after


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"not a model", b"GGUF\x03\x00\x00\x00" + b"\xff" * 40]
)
def test_files_that_are_no_gguf_raise(content: bytes, tmp_path: Path, root: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"odd\.gguf"):
        load_model(path, root)
    assert not (root / "converted").exists() or not list((root / "converted").iterdir())


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_cut_gguf_files_raise(share: float, gguf_file: Path, root: Path) -> None:
    data = gguf_file.read_bytes()
    gguf_file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(DataError, match=r"tiny\.gguf"):
        load_model(gguf_file, root)


def test_a_folder_with_one_gguf_file_loads(gguf_file: Path, root: Path) -> None:
    assert load_model(gguf_file.parent, root)[2]["format"] == "GGUF, converted"


# -- the tokenizer of a GGUF file --------------------------------------------------------------


@pytest.mark.parametrize("pre", ["smollm", "starcoder", "gpt-2", "llama-bpe", "qwen2"])
def test_converted_tokenizer_follows_the_split_rule_of_the_file(
    pre: str, tmp_path: Path, root: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama, byte_tokenizer, pre, None)
    _, tokenizer, info = load_model(path, root)
    split = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a  12345\n\n1")
    pieces = [p for p, _ in split]
    assert ("123" in pieces) == (pre == "llama-bpe")
    assert (pieces.count("1") > 1) == (pre in ("smollm", "starcoder", "qwen2"))
    assert f"{pre!r}" in info["tokenizer_check"]
    encoded = encode_words(tokenizer, WORDS)
    assert encoded.unscored == ()


def test_unknown_split_rules_are_said_not_guessed(
    tmp_path: Path, root: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama, byte_tokenizer, "rule-of-tomorrow", None)
    info = load_model(path, root)[2]
    assert "not checked" in info["tokenizer_check"]
    assert "rule-of-tomorrow" in info["tokenizer_check"]


@pytest.mark.parametrize("start", [True, False, None])
def test_start_token_setting_is_read_from_the_file(
    start: bool | None, tmp_path: Path, root: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama, byte_tokenizer, "gpt-2", start)
    _, tokenizer, info = load_model(path, root)
    if start is not None:
        assert info["adds_start_token"] is start
    encoded = encode_words(tokenizer, WORDS)
    assert (encoded.input_ids == 0).sum() == 1  # added by the tokenizer or by us: once
    assert encoded.input_ids[0] == 0


def test_first_difference_of_tokenizers_is_reported(
    byte_tokenizer: Any, start_tokenizer: Any, bert_tokenizer: Any
) -> None:
    assert first_difference(byte_tokenizer, byte_tokenizer) == ""
    said = first_difference(start_tokenizer, byte_tokenizer, ["the"])
    assert "'the', token 0: expected id" in said
    assert "found 0" in said
    assert first_difference(bert_tokenizer, byte_tokenizer)


def test_read_fields(gguf_file: Path) -> None:
    fields = read_fields(gguf_file)
    assert fields["general.architecture"] == "llama"
    assert fields["tokenizer.ggml.pre"] == "smollm"


# -- real --------------------------------------------------------------------------------------


def test_real_models(smollm2: LanguageModel, minilm: LanguageModel) -> None:
    i = smollm2.info
    assert (i["n_layers"], i["n_heads"], i["n_kv_heads"]) == (30, 9, 3)
    assert (i["context_length"], i["adds_start_token"]) == (8192, False)
    assert smollm2.capabilities == {
        "causal": True,
        "lm_head": True,
        "mlm_head": False,
        "offsets": True,
    }
    assert i["licence"] == "Apache-2.0"
    assert "smollm" in i["tokenizer_check"]
    assert i["tokenizer_start"] == "add_bos_token=False"
    j = minilm.info
    assert (j["n_layers"], j["n_heads"], j["context_length"]) == (6, 12, 512)
    assert not any(minilm.capabilities[k] for k in ("causal", "lm_head", "mlm_head"))


def test_real_tokenizer_splits_digits_and_keeps_blank_lines_before_them(
    smollm2: LanguageModel,
) -> None:
    t = smollm2.tokenizer
    assert t.tokenize("vu \u2014 123") == [
        "v",
        "u",
        "\u0120\u00e2\u0122\u0136",
        "\u0120",
        "1",
        "2",
        "3",
    ]
    assert t.tokenize("\n\n1") == ["\u010a\u010a", "1"]
