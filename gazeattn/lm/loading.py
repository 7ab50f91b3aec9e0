"""Language models by name, folder, GGUF file or hub id."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gazeattn.assets import find_asset
from gazeattn.downloads import asset_path, fetch
from gazeattn.errors import CapabilityError, DataError, MissingAssetError, UnknownNameError
from gazeattn.lm.conversion import convert, manifest
from gazeattn.lm.tokens import added_specials, encode_words
from gazeattn.registry import models, register_model
from gazeattn.storage import sha256

if TYPE_CHECKING:
    import torch

PathLike = str | os.PathLike[str]
HASH_LIMIT = 2 << 30
"""Weights of a local folder are hashed up to this many bytes."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FETCHED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]


def _facts(name: str) -> dict[str, str]:
    asset = find_asset(name)
    return {
        "licence": asset.licence,
        "citation": asset.citation,
        "description": asset.description,
        "hub_id": asset.hub_id,
    }


@register_model(
    "smollm2-135m",
    task="causal language model",
    size="135 M parameters (Instruct, 4-bit weights), 30 layers x 9 heads",
    weights="SmolLM2-135M-Instruct, 4-bit weights (Q4_1) as float32",
    asset="smollm2-135m",
    **_facts("smollm2-135m"),
)
def smollm2_135m(root: PathLike | None = None) -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct."""
    return asset_path("smollm2-135m", root) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@register_model(
    "minilm",
    task="text encoder",
    size="22 M parameters, 6 layers x 12 heads",
    weights="all-MiniLM-L6-v2",
    asset="minilm",
    **_facts("minilm"),
)
def minilm(root: PathLike | None = None) -> Path:
    """Return the folder of all-MiniLM-L6-v2."""
    return asset_path("minilm", root)


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes
    ----------
    name : str
        Name for tables: the registered name, the hub id, or the name of the folder or file.
    path : Path or None
        Local folder or GGUF file; None for a hub id.
    facts : dict
        ``licence, citation`` and the like, as far as known.
    sha : str or None
        SHA-256 of the weights file, where it is known without reading it.
    """

    name: str
    path: Path | None
    facts: dict[str, Any]
    sha: str | None = None


def find_model(name: PathLike, root: PathLike | None = None, get: bool = False) -> Source:
    """Say what a name means: a registered model, a local path, or a hub id.

    Parameters
    ----------
    name
        Registered names win over paths, paths over hub ids.
    root
        Data folder, see `gazeattn.storage.data_root`.
    get
        Fetch a registered model that is not installed.

    Raises
    ------
    UnknownNameError
        The name is none of these.
    MissingAssetError
        A registered model is not installed (the message says which command fetches it), or a
        path does not exist.
    """
    text = os.fspath(name)
    if isinstance(name, str) and text in models:
        entry = models.get(text)
        asset = entry.info.get("asset")
        if get and asset:
            fetch(asset, root)
        path = Path(entry.obj(root))
        known = {m.name: m.sha256 for m in find_asset(asset).members.values()} if asset else {}
        single = path.name if path.is_file() else "model.safetensors"
        return Source(text, path, dict(entry.info), known.get(single))
    path = Path(text).expanduser()
    if path.exists():
        return Source(path.stem if path.suffix == ".gguf" else path.resolve().name, path, {})
    looks_local = (
        not isinstance(name, str)
        or text.startswith((".", "~", os.sep))
        or path.suffix == ".gguf"
        or text.count("/") > 1
        or "\\" in text
    )
    if looks_local:
        raise MissingAssetError(f"there is no model folder or GGUF file {text!r}")
    if not _HUB_ID.fullmatch(text):
        raise UnknownNameError("model", text, models.names())
    return Source(text, None, {"hub_id": text})


def load_model(
    name: PathLike,
    root: PathLike | None = None,
    device: str = "cpu",
    dtype: str | torch.dtype = "float32",
    trust: bool = False,
    get: bool = False,
) -> tuple[Any, Any, dict[str, Any]]:
    """Load a language model and its tokenizer, ready to be measured.

    The model is in evaluation mode (no dropout) and its weights ask for no gradient. Weights
    come from safetensors files, or from PyTorch files read as plain tensors.

    Parameters
    ----------
    name
        Registered name, local Hugging Face folder, ``.gguf`` file or hub id.
    root
        Data folder; GGUF files are converted below it once, see `gazeattn.lm.conversion`.
    device
        PyTorch device.
    dtype
        Name of a floating-point type of torch, or the type itself.
    trust
        Run Python code that a model folder brings along. Never needed for models that
        `transformers` knows.
    get
        Fetch a registered model that is not installed.

    Returns
    -------
    model, tokenizer, info
        `info` holds the capabilities ``causal, lm_head, mlm_head, offsets`` and ``n_layers,
        n_heads, n_kv_heads, context_length, adds_start_token, name, licence, citation, dtype,
        device, parameters, architecture, sha, source``.

    Raises
    ------
    MissingAssetError, UnknownNameError
        See `find_model`; also a hub id that is not on this machine while the hub is out of reach.
    DataError
        The folder is no model, or its weights are damaged or incomplete.
    CapabilityError
        The architecture cannot be used: an encoder-decoder, or code of its own without `trust`.
    """
    source = find_model(name, root, get)
    facts = dict(source.facts)
    path, sha = source.path, source.sha
    if path is None:
        path = _from_hub(source.name)
        sha = path.name  # a snapshot folder is named by its commit
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(path.glob("*.gguf"))
        if len(files) != 1:
            raise DataError(
                "this folder holds no model",
                source=source.name,
                expected="config.json and weights, or one .gguf file",
                found=", ".join(sorted(f.name for f in path.iterdir())[:8]) or "nothing",
            )
        path = files[0]
    if path.is_file():
        if path.suffix != ".gguf":
            raise DataError(
                "a model is a folder or a .gguf file", source=source.name, found=path.name
            )
        sha = sha or sha256(path)
        with quiet():
            path = convert(path, root, sha)
        facts.update({k: v for k, v in manifest(path).items() if k.startswith("tokenizer_")})
        facts["format"] = "GGUF, converted"
    with quiet():
        model, tokenizer, loaded = _load_folder(path, source.name, _dtype(dtype), trust)
    model.to(device)
    model.eval()
    model.requires_grad_(False)
    tokenizer.name_or_path = source.name
    info = describe(model, tokenizer)
    info.update(
        name=source.name,
        source=source.name if source.path is None or source.name in models else str(name),
        licence=facts.pop("licence", "") or "not stated",
        citation=facts.pop("citation", ""),
        sha=sha or _folder_sha(path),
        device=str(device),
        **{k: v for k, v in facts.items() if k not in ("asset", "task", "size")},
        **loaded,
    )
    return model, tokenizer, info


def _dtype(dtype: Any) -> Any:
    import torch

    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise DataError(
            "unknown number type of the weights",
            expected="float32, bfloat16, float16 or float64",
            found=repr(dtype),
        )
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and load reports of `transformers`; errors still come through."""
    from transformers.utils import logging as hf_logging

    level = hf_logging.get_verbosity()
    bars = hf_logging.is_progress_bar_enabled()
    root = logging.getLogger("huggingface_hub")
    hub_level = root.level
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hf_logging.set_verbosity(level)
        root.setLevel(hub_level)
        if bars:
            hf_logging.enable_progress_bar()


def _from_hub(name: str) -> Path:
    """Return the local snapshot of a hub id: from the cache, else from the hub if reachable."""
    from huggingface_hub import HfApi, snapshot_download

    try:
        folder = Path(snapshot_download(name, allow_patterns=_FETCHED, local_files_only=True))
        if any(folder.glob("*.safetensors")):
            return folder
    except Exception as error:
        log_reason = f"{type(error).__name__}"
    else:
        log_reason = "only a part of it is in the cache"
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    advice = (
        "Give a local folder or a .gguf file, or one of the models that need no hub: "
        f"{', '.join(models.names())} (gazeattn fetch NAME)"
    )
    if offline:
        raise MissingAssetError(
            f"model {name!r} is not on this machine and HF_HUB_OFFLINE is set. {advice}"
        )
    try:  # one short question first: downloads would repeat theirs for minutes without network
        files = HfApi().model_info(name, timeout=10).siblings or []
        patterns = list(_FETCHED)
        if not any(f.rfilename.endswith(".safetensors") for f in files):
            patterns.append("pytorch_model*.bin")
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        raise MissingAssetError(
            f"model {name!r} is not on this machine ({log_reason}) and the hub does not give it: "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}. {advice}"
        ) from error


def _load_folder(path: Path, name: str, dtype: Any, trust: bool) -> tuple[Any, Any, dict[str, Any]]:
    import transformers as tf

    if not trust and _own_code(path):
        raise CapabilityError(
            f"model {name!r} brings Python code of its own; load it with trust=True if you trust it"
        )
    options = {"local_files_only": True, "trust_remote_code": trust}
    try:
        config = tf.AutoConfig.from_pretrained(path, **options)
    except (ValueError, KeyError, OSError) as error:
        raise DataError(
            "the model's config.json cannot be used", source=name, found=_first_line(error)
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        raise CapabilityError(
            f"model {name!r} is an encoder-decoder; a decoder or an encoder is needed"
        )
    auto = getattr(tf, _auto_class(config))
    try:
        model, report = auto.from_pretrained(
            path, config=config, dtype=dtype, output_loading_info=True, **options
        )
    except Exception as error:
        raise DataError(
            "the model's weights cannot be loaded", source=name, found=_first_line(error)
        ) from error
    missing = sorted(map(str, report.get("missing_keys", ())))
    # A pooler is never read here, so that a random one does no harm.
    serious = [k for k in missing if "pooler" not in k]
    wrong = sorted(map(str, report.get("mismatched_keys", ())))
    if serious or wrong:
        raise DataError(
            "weights are missing: they would be random numbers"
            if serious
            else "weights have another shape than the configuration says",
            source=name,
            found=", ".join((serious or wrong)[:4]) + f" ({len(serious or wrong)} in all)",
        )
    try:
        tokenizer = tf.AutoTokenizer.from_pretrained(path, **options)
    except Exception as error:
        raise DataError(
            "the model's tokenizer cannot be loaded", source=name, found=_first_line(error)
        ) from error
    return model, tokenizer, {"missing_weights": missing} if missing else {}


def _own_code(path: Path) -> bool:
    import json

    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    from transformers import CONFIG_MAPPING

    return "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def _auto_class(config: Any) -> str:
    """Choose the class that has the heads which the weights were saved with."""
    from transformers.models.auto import modeling_auto as auto

    kind = config.model_type
    causal = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    names = " ".join(getattr(config, "architectures", None) or ())
    if re.search(r"(ForCausalLM|LMHeadModel)", names) and causal:
        return "AutoModelForCausalLM"
    if re.search(r"(ForMaskedLM|ForPreTraining)", names) and masked:
        return "AutoModelForMaskedLM"
    return "AutoModel"


def describe(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return the capabilities and sizes of a model, as `load_model` reports them.

    Whether the model is causal is measured, not taken from its name: the first token's state
    must not depend on the last token.
    """
    config = model.config.get_text_config()
    causal = _is_causal(model)
    head = model.get_output_embeddings() is not None
    heads = int(getattr(config, "num_attention_heads", 0) or 0)  # 0: a model without attention
    first, _ = added_specials(tokenizer)
    probe = encode_words(tokenizer, ["The", "reader's", "end."], add_start="tokenizer")
    return {
        "causal": causal,
        "lm_head": causal and head,
        "mlm_head": not causal and head and tokenizer.mask_token_id is not None,
        "offsets": probe.how["alignment"] == "offsets",
        "n_layers": int(getattr(config, "num_hidden_layers", 0) or 0),
        "n_heads": heads,
        "n_kv_heads": int(getattr(config, "num_key_value_heads", None) or heads),
        "context_length": context_length(model, tokenizer),
        "adds_start_token": bool(first) and first[0] != getattr(tokenizer, "cls_token_id", None),
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "parameters": int(sum(p.numel() for p in model.parameters())),
        "architecture": type(model).__name__,
    }


def context_length(model: Any, tokenizer: Any = None) -> int | None:
    """Return how many tokens the model takes, specials included; None where nothing limits it."""
    config = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_ctx", None)
    for name, module in model.named_modules():
        # RoBERTa-like models count positions from padding_idx + 1
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            limit = module.num_embeddings - module.padding_idx - 1
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and 0 < stated < 10**9:
        limit = min(int(stated), int(limit)) if limit else int(stated)
    return int(limit) if limit else None


def _is_causal(model: Any) -> bool:
    import torch

    base = model.base_model
    size = model.get_input_embeddings().weight.shape[0]
    ids = (torch.arange(1, 9, device=model.device) * 7919 % size)[None]
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % size
    with torch.no_grad():
        a, b = (base(input_ids=x).last_hidden_state[0, 0].float() for x in (ids, other))
    return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5))


def _folder_sha(path: Path) -> str | None:
    """Return one hash over the weights files, or None where they are larger than `HASH_LIMIT`."""
    import hashlib

    files = sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
    if not files or sum(f.stat().st_size for f in files) > HASH_LIMIT:
        return None
    sums = [sha256(f) for f in files]
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
