"""GGUF files: converted once to a safetensors folder, tokenizer included."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm.tokens import added_specials
from gazeattn.storage import atomic_folder, data_root, sha256, write_json

CONVERTER = 1
"""Raised when the conversion changes, so that older folders are not used."""

MANIFEST = "converted.json"
CHECK_TEXTS = (
    "Café déjà vu — 123",
    "\U0001f469\u200d\U0001f4bb and cafe\u0301, a\u200bb",
    "def f(x):\n    return {'a': x[0] + 42}\n\n1. It's 2024,  12 words; don't!",
)
"""Texts on which two tokenizers are compared: accents, a dash, digits, emoji, code, blanks."""

log = logging.getLogger(__name__)
PathLike = str | os.PathLike[str]

# Pre-tokenisation that a file names in `tokenizer.ggml.pre`: the split pattern, or digits one by
# one before the pattern of GPT-2. The patterns are those published with the models' tokenizers.
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_PLAIN = ("gpt-2", "phi-2", "mpt", "olmo", "jais")
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
}


def converted_folder(path: PathLike, root: PathLike | None = None, sha: str | None = None) -> Path:
    """Return the folder that holds (or will hold) the conversion of a GGUF file.

    Its name is made of the file's SHA-256, of this converter's version and of that of
    `transformers`, so that a changed file or program never meets an old conversion.
    """
    digest = sha or sha256(path)
    major = version("transformers").split(".")[0]
    return data_root(root) / "converted" / f"{digest[:24]}-c{CONVERTER}-t{major}"


def convert(path: PathLike, root: PathLike | None = None, sha: str | None = None) -> Path:
    """Convert a GGUF file to a folder of float32 weights and a tokenizer, once; return the folder.

    A conversion that is there is used after a check of its files; a damaged or incomplete one is
    made again.

    Raises
    ------
    DataError
        The file is not a GGUF file or is cut short.
    CapabilityError
        `transformers` does not know the architecture.
    """
    path = Path(path)
    digest = sha or sha256(path)
    folder = converted_folder(path, root, digest)
    wrong = _problem(folder, digest)
    if not wrong:
        return folder
    if folder.exists():
        log.warning("the converted model in %s is made again: %s", folder, wrong)
    with atomic_folder(folder) as temporary:
        facts = _write(path, temporary)
        write_json(temporary / MANIFEST, {"source": digest, "converter": CONVERTER, **facts})
    _record(folder)
    return folder


def manifest(folder: PathLike) -> dict[str, Any]:
    """Return what is recorded of a conversion; empty where the folder is none."""
    try:
        data = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _problem(folder: Path, digest: str) -> str:
    """Return why the conversion cannot be used, or an empty string."""
    if not folder.is_dir():
        return "it is not there"
    record = manifest(folder)
    files = record.get("files")
    if record.get("source") != digest or record.get("converter") != CONVERTER:
        return "its record does not belong to this file"
    if not isinstance(files, dict) or not files:
        return "its record names no files"
    moved = False
    for name, fact in files.items():
        try:
            size, changed, expected = int(fact[0]), int(fact[1]), str(fact[2])
            stat = (folder / name).stat()
        except OSError:
            return f"{name} is missing"
        except (TypeError, ValueError, IndexError):
            return "its record is damaged"
        if stat.st_size != size:
            return f"{name} has {stat.st_size} bytes instead of {size}"
        if stat.st_mtime_ns != changed:
            if sha256(folder / name) != expected:
                return f"{name} has changed"
            moved = True
    if moved:
        _record(folder)
    return ""


def _record(folder: Path) -> None:
    """Write size, time and content hash of each file into the manifest."""
    files = {}
    for file in sorted(folder.iterdir()):
        if file.name != MANIFEST and not file.name.startswith("."):
            stat = file.stat()
            files[file.name] = [stat.st_size, stat.st_mtime_ns, sha256(file)]
    try:
        write_json(folder / MANIFEST, {**manifest(folder), "files": files})
    except OSError as error:  # a folder that was copied to a read-only place still works
        log.info("the record of %s is not renewed: %s", folder, error)


def _write(path: Path, folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    fields = read_fields(path)
    log.info("converting %s, once", path.name)
    try:
        with _no_bar():
            model = AutoModelForCausalLM.from_pretrained(
                str(path.parent), gguf_file=path.name, dtype=torch.float32, local_files_only=True
            )
            tokenizer = AutoTokenizer.from_pretrained(
                str(path.parent), gguf_file=path.name, local_files_only=True
            )
    except (ValueError, KeyError, NotImplementedError, AttributeError) as error:
        kind = fields.get("general.architecture")
        raise CapabilityError(
            f"{path.name} (architecture {kind!r}) cannot be converted: {error}"
        ) from error
    facts = repair_tokenizer(tokenizer, fields)
    # The weights are plain numbers by now; what is left of the quantisation blocks saving.
    setattr(model, "hf_quantizer", None)  # noqa: B010
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    again = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    kept = first_difference(again, tokenizer)
    if kept:
        raise DataError(
            "the tokenizer changes when it is saved and read again", source=path.name, found=kept
        )
    return facts


@contextlib.contextmanager
def _no_bar() -> Iterator[None]:
    """Silence the bar of the tensor conversion, which has no switch of its own."""
    from transformers import modeling_gguf_pytorch_utils as module

    bar = getattr(module, "tqdm", None)
    if bar is not None:
        module.tqdm = lambda items, *args, **kwargs: items
    try:
        yield
    finally:
        if bar is not None:
            module.tqdm = bar


def read_fields(path: PathLike) -> dict[str, Any]:
    """Return the key-value fields of a GGUF file.

    Raises
    ------
    DataError
        The file is not a GGUF file or is cut short.
    """
    from gguf import GGUFReader

    path = Path(path)
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise DataError(
            "this is not a GGUF file", source=path.name, expected="b'GGUF'", found=repr(magic)
        )
    try:
        reader = GGUFReader(path)
        return {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise DataError(
            "the GGUF file cannot be read, it may be cut short",
            source=path.name,
            found=str(error) or type(error).__name__,
            hint="Fetch it again",
        ) from error


def repair_tokenizer(tokenizer: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Make the tokenizer follow the file: its way to split text and its start-token setting.

    Returns
    -------
    dict
        ``tokenizer_check``: a sentence, with the first text whose ids changed;
        ``tokenizer_start``: what the file says on the start token.
    """
    core = tokenizer.backend_tokenizer
    rule = str(fields.get("tokenizer.ggml.pre", "not stated"))
    facts: dict[str, Any] = {}
    if fields.get("tokenizer.ggml.model") != "gpt2":
        kind = fields.get("tokenizer.ggml.model")
        facts["tokenizer_check"] = f"not checked: tokenizer of kind {kind!r}"
    elif (wanted := _pre_tokenizer(rule)) is None:
        facts["tokenizer_check"] = f"not checked: no reference for the split rule {rule!r}"
    else:
        before = [_ids(tokenizer, t) for t in CHECK_TEXTS]
        core.pre_tokenizer = wanted
        after = [_ids(tokenizer, t) for t in CHECK_TEXTS]
        changed = [i for i in range(len(CHECK_TEXTS)) if before[i] != after[i]]
        facts["tokenizer_check"] = (
            f"the file's split rule {rule!r} gives other ids than the plain conversion, and is "
            f"used: {_describe(CHECK_TEXTS[changed[0]], after[changed[0]], before[changed[0]])}"
            if changed
            else f"agrees with the file's split rule {rule!r}"
        )
    start = fields.get("tokenizer.ggml.add_bos_token")
    facts["tokenizer_start"] = "not stated" if start is None else f"add_bos_token={bool(start)}"
    if start is not None:
        _set_start(tokenizer, bool(start))
    return facts


def _pre_tokenizer(rule: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if rule in _PLAIN:
        return plain
    if rule in _DIGITS:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    if rule in _PATTERNS:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_PATTERNS[rule]), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    return None


def _set_start(tokenizer: Any, wanted: bool) -> None:
    from tokenizers import processors

    first, _ = added_specials(tokenizer)
    if bool(first) == wanted:
        return
    core = tokenizer.backend_tokenizer
    if not wanted:
        core.post_processor = processors.ByteLevel(trim_offsets=False)
        return
    if tokenizer.bos_token is None:
        raise DataError("the file asks for a start token but names none")
    core.post_processor = processors.TemplateProcessing(
        single=f"{tokenizer.bos_token} $A",
        pair=f"{tokenizer.bos_token} $A $B:1",
        special_tokens=[(tokenizer.bos_token, tokenizer.bos_token_id)],
    )


def first_difference(tokenizer: Any, original: Any, texts: Sequence[str] = CHECK_TEXTS) -> str:
    """Return the first place where two tokenizers give other ids, or an empty string."""
    for text in texts:
        got, wanted = _ids(tokenizer, text), _ids(original, text)
        if got != wanted:
            return _describe(text, wanted, got)
    return ""


def _ids(tokenizer: Any, text: str) -> list[int]:
    return [int(i) for i in tokenizer(text, verbose=False)["input_ids"]]


def _describe(text: str, wanted: list[int], got: list[int]) -> str:
    n = min(len(wanted), len(got))
    at = next((i for i in range(n) if wanted[i] != got[i]), n)
    show = [x[at] if at < len(x) else "no further token" for x in (wanted, got)]
    return f"{text!r}, token {at}: expected id {show[0]}, found {show[1]}"
