"""A language model as people use it here: words in, attention and surprisal profiles out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm.loading import describe, load_model
from gazeattn.lm.surprisal import (
    BOUNDARY_RULE,
    CHUNK,
    LEFT_RULE,
    MASKED_RULE,
    surprisal,
    word_openers,
)
from gazeattn.lm.tokens import Encoded, StartRule, encode_words
from gazeattn.lm.windows import DEFAULT_OVERLAP, LongText, Plan, merge_words, plan_windows
from gazeattn.profiles import AttentionProfile, Units
from gazeattn.registry import attention_methods

CAPABILITIES = ("causal", "lm_head", "mlm_head", "offsets")
TEXT_OPTIONS = ("add_start", "separator", "long_text", "overlap", "max_tokens")
"""Options of texts, beside those of `gazeattn.lm.methods.AttentionOptions`."""


class LanguageModel:
    """A decoder or encoder with its tokenizer.

    Parameters
    ----------
    model, tokenizer
        Objects of `transformers`.
    info
        Facts as `gazeattn.lm.loading.load_model` returns them; found out where not given.

    Examples
    --------
    >>> lm = LanguageModel.load("smollm2-135m")                      # doctest: +SKIP
    >>> lm.attention("The old man sat down .".split()).weights       # doctest: +SKIP
    """

    def __init__(self, model: Any, tokenizer: Any, info: dict[str, Any] | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        if info is None:
            info = {"name": type(model).__name__, **describe(model, tokenizer)}
        self.info = info

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        device: str | None = None,
        dtype: Any = None,
        fetch: bool = False,
        trust: bool = False,
    ) -> LanguageModel:
        """Load a model by registered name, local folder, ``.gguf`` file or hub id.

        Parameters
        ----------
        name
            See `gazeattn.lm.loading.find_model`.
        root
            Data folder, see `gazeattn.storage.data_root`.
        device
            PyTorch device; by default a CUDA device where there is one, else the CPU.
        dtype
            Number type of the weights, float32 by default.
        fetch
            Fetch a registered model that is not installed.
        trust
            Run Python code that the model folder brings along.

        Raises
        ------
        UnknownNameError, MissingAssetError, DataError, CapabilityError
            See `gazeattn.lm.loading.load_model`.
        """
        if device is None:
            import torch

            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(*load_model(name, root, device, dtype or "float32", trust, get=fetch))

    @property
    def name(self) -> str:
        """Name for tables and files."""
        return str(self.info["name"])

    @property
    def capabilities(self) -> dict[str, bool]:
        """What the model can do: ``causal, lm_head, mlm_head, offsets``."""
        return {k: bool(self.info[k]) for k in CAPABILITIES}

    def require(self, *needs: str, by: str) -> None:
        """Raise `CapabilityError` unless the model has every named capability."""
        lacking = [n for n in needs if not self.info.get(n)]
        if lacking:
            raise CapabilityError(
                f"{by} needs {', '.join(lacking)}, which model {self.name!r} does not have"
            )

    def __repr__(self) -> str:
        i = self.info
        kind = "decoder" if i["causal"] else "encoder"
        head = "" if i["lm_head"] or i["mlm_head"] else ", no language-model head"
        return (
            f"LanguageModel({self.name!r}, {kind}, {i['n_layers']} layers x {i['n_heads']} heads, "
            f"{i['parameters'] / 1e6:.0f} M parameters, context {i['context_length']}{head})"
        )

    def encode(
        self,
        words: Sequence[str] | Units,
        context: str | None = None,
        add_start: StartRule | None = None,
        separator: str = " ",
        max_tokens: int | None = None,
    ) -> Encoded:
        """Tokenise words, see `gazeattn.lm.tokens.encode_words`.

        `add_start` is ``"auto"`` for a decoder and ``"tokenizer"`` for an encoder by default.
        """
        if add_start is None:
            add_start = "auto" if self.info["causal"] else "tokenizer"
        return encode_words(
            self.tokenizer,
            _units(words).texts,
            context=context,
            add_start=add_start,
            separator=separator,
            max_tokens=max_tokens,
        )

    def attention(
        self,
        words: Sequence[str] | Units,
        method: str = "raw",
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        context: str | None = None,
        **options: Any,
    ) -> AttentionProfile:
        """Return the attention that the model pays to each word.

        Parameters
        ----------
        words
            Words in reading order, or units of a data set.
        method
            Name of a registered attention method.
        layers, heads
            Which ones the profile's weights average over; all by default.
        context
            Text before the words (for example the reader's question); it gets no scores.
        **options
            Fields of `gazeattn.lm.methods.AttentionOptions` (``sink, causal, subword, ...``) and
            ``add_start, separator, long_text, overlap`` (see `gazeattn.lm.windows`).

        Returns
        -------
        AttentionProfile
            With ``heads`` of shape (layers, heads, words) where the method has them, every
            convention in ``how`` and what was left out in ``lost``.

        Raises
        ------
        UnknownNameError
            No such method or option.
        CapabilityError
            The method needs what this model does not have.
        DataError
            The text is too long under ``long_text="error"``, or `words` are no words.
        """
        options.update(layers=layers, heads=heads)
        return self.attentions(words, [method], context=context, **options)[method]

    def attentions(
        self,
        words: Sequence[str] | Units,
        methods: Sequence[str],
        context: str | None = None,
        **options: Any,
    ) -> dict[str, AttentionProfile]:
        """Return one profile per method; methods that can share one model pass do."""
        return self.attend([_units(words)], methods, contexts=[context], **options)[0]

    def attend(
        self,
        texts: Sequence[Units | Sequence[str]],
        methods: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        batch_size: int = 1,
        **options: Any,
    ) -> list[dict[str, AttentionProfile]]:
        """Return the profiles of many texts.

        Parameters
        ----------
        texts
            Units or word lists.
        methods
            Registered attention methods, and ``"surprisal"``.
        contexts
            One context, or None, per text.
        batch_size
            Texts (or windows of texts) that are padded and run together; results do not depend
            on it.
        **options
            See `attention`.

        Returns
        -------
        list of dict
            In the order of `texts`: method name to profile.
        """
        from gazeattn.lm import methods as method_module

        units = [_units(t) for t in texts]
        methods = list(dict.fromkeys([methods] if isinstance(methods, str) else methods))
        for method in methods:
            if method != "surprisal" and method not in attention_methods:
                raise UnknownNameError(
                    "attention method", method, [*attention_methods.names(), "surprisal"]
                )
        contexts = _contexts(contexts, len(units))
        about_text, about_method = _split_options(options, method_module.AttentionOptions)
        settings = method_module.AttentionOptions(**about_method)
        if about_text.get("add_start") is None and getattr(settings, "sink", "") == "first_word":
            about_text["add_start"] = "tokenizer"
        plans, encoded = self._plan(units, contexts, about_text)
        out: list[dict[str, AttentionProfile]] = [{} for _ in units]
        if "surprisal" in methods and "surprisal" not in attention_methods:
            for i, profile in enumerate(self._surprisals(units, encoded, plans, batch_size)):
                out[i]["surprisal"] = profile
            methods = [m for m in methods if m != "surprisal"]
        if methods:
            results = self._compute(plans, methods, settings, batch_size)
            for i, parts in enumerate(results):
                for m in methods:
                    out[i][m] = self._profile(
                        m, units[i], encoded[i], plans[i], [p[m] for p in parts]
                    )
        return out

    def surprisal(
        self,
        words: Sequence[str] | Units,
        context: str | None = None,
        *,
        boundary: str = "none",
        chunk: int = CHUNK,
        batch_size: int = 8,
        **options: Any,
    ) -> AttentionProfile:
        """Return how unexpected each word is, in bits.

        A decoder gives ``-log2 p(word | words before)``, a masked language model the
        pseudo-surprisal with the whole word masked; see `gazeattn.lm.surprisal.surprisal`. In
        texts longer than the context each word keeps the most left context that a window gives.

        Parameters
        ----------
        words, context
            See `attention`.
        boundary : {"none", "leading_space"}
            ``"leading_space"`` (decoders): the blank before a word counts as the end of the
            word before it, see `gazeattn.lm.surprisal.surprisal`.
        chunk
            Positions whose logits are held at a time.
        batch_size
            Masked copies of the text that run at a time.
        **options
            ``add_start, separator, long_text, overlap``.

        Raises
        ------
        CapabilityError
            The model has neither a language-model nor a masked-language-model head.
        """
        unknown = [k for k in options if k not in TEXT_OPTIONS]
        if unknown:
            raise UnknownNameError("option", unknown[0], TEXT_OPTIONS)
        if boundary not in ("none", "leading_space"):
            raise UnknownNameError("boundary rule", str(boundary), ("none", "leading_space"))
        units = [_units(words)]
        plans, encoded = self._plan(units, [context], options)
        return self._surprisals(units, encoded, plans, batch_size, chunk, boundary)[0]

    # -- steps ---------------------------------------------------------------------------------

    def _plan(
        self, units: list[Units], contexts: list[str | None], options: dict[str, Any]
    ) -> tuple[list[Plan], list[Encoded]]:
        options = dict(options)
        long_text: LongText = options.pop("long_text", "window")
        overlap = options.pop("overlap", DEFAULT_OVERLAP)
        limit = options.pop("max_tokens", None)
        context_length = self.info["context_length"]
        limits = [x for x in (limit, context_length) if x is not None]
        encoded = [self.encode(u, c, **options) for u, c in zip(units, contexts, strict=True)]
        plans = [
            plan_windows(e, min(limits) if limits else None, long_text=long_text, overlap=overlap)
            for e in encoded
        ]
        return plans, encoded

    def _compute(
        self, plans: list[Plan], methods: list[str], settings: Any, batch_size: int
    ) -> list[list[dict[str, Any]]]:
        """Run all windows of all texts, `batch_size` at a time."""
        from gazeattn.lm.methods import compute

        windows = [w for plan in plans for w in plan.windows]
        done = iter(compute(self, windows, methods, settings, batch_size=batch_size))
        return [[next(done) for _ in plan.windows] for plan in plans]

    def _profile(
        self, method: str, units: Units, encoded: Encoded, plan: Plan, parts: list[Any]
    ) -> AttentionProfile:
        heads = None
        if all(p.heads is not None for p in parts):
            heads = merge_words([p.heads for p in parts], plan.owner)
        weights = merge_words([p.weights for p in parts], plan.owner)
        return AttentionProfile(
            units=units,
            weights=weights,
            kind="model",
            name=method,
            how={"model": self.name, **encoded.how, **parts[0].how, **plan.how},
            lost={
                **_mean_facts([p.lost for p in parts]),
                **_missing(encoded, weights),
                **plan.lost,
            },
            heads=heads,
        )

    def _surprisals(
        self,
        units: list[Units],
        encoded: list[Encoded],
        plans: list[Plan],
        batch_size: int,
        chunk: int = CHUNK,
        boundary: str = "none",
    ) -> list[AttentionProfile]:
        if not (self.info["lm_head"] or self.info["mlm_head"]):
            kind = "a decoder" if self.info["causal"] else "an encoder"
            missing = "language-model" if self.info["causal"] else "masked-language-model"
            raise CapabilityError(
                f"surprisal needs word probabilities, and model {self.name!r} is {kind} without "
                f"a {missing} head (capability {'lm_head' if self.info['causal'] else 'mlm_head'})"
            )
        causal = bool(self.info["causal"])
        openers = None
        rule = LEFT_RULE if causal else MASKED_RULE
        if boundary == "leading_space":
            self.require("lm_head", by="boundary='leading_space'")
            size = int(self.model.get_output_embeddings().weight.shape[0])
            openers, rule = word_openers(self.tokenizer, size), rule + BOUNDARY_RULE
        profiles = []
        for u, e, plan in zip(units, encoded, plans, strict=True):
            parts = surprisal(
                self.model,
                plan.windows,
                kind="causal" if causal else "masked",
                mask_id=getattr(self.tokenizer, "mask_token_id", None),
                chunk=chunk,
                batch_size=max(batch_size, 8),
                openers=openers,
            )
            weights = merge_words(parts, plan.owner)
            profiles.append(
                AttentionProfile(
                    units=u,
                    weights=weights,
                    kind="model",
                    name="surprisal",
                    how={
                        "model": self.name,
                        **e.how,
                        "unit": "bits",
                        "rule": rule,
                        "boundary": boundary,
                        **plan.how,
                    },
                    lost={**_missing(e, weights), **plan.lost},
                )
            )
        return profiles


def _units(words: Sequence[str] | Units) -> Units:
    if isinstance(words, Units):
        return words
    if isinstance(words, str | bytes):
        raise DataError(
            "words must be a sequence of strings, not one string",
            found=repr(words[:30]),
            hint="Split it first, for example text.split()",
        )
    words = list(words)
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise DataError("a word is not a string", row=i, expected="str", found=repr(word))
    return Units.from_words(words)


def _contexts(contexts: Sequence[str | None] | None, n: int) -> list[str | None]:
    if contexts is None:
        return [None] * n
    if isinstance(contexts, str) or len(contexts) != n:
        found = "one string" if isinstance(contexts, str) else f"{len(contexts)} contexts"
        raise DataError("one context per text is needed", expected=f"{n} contexts", found=found)
    return list(contexts)


def _split_options(options: dict[str, Any], cls: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = [f.name for f in dataclasses.fields(cls)]
    for key in options:
        if key not in fields and key not in TEXT_OPTIONS:
            raise UnknownNameError("option", key, [*fields, *TEXT_OPTIONS])
    text = {k: v for k, v in options.items() if k in TEXT_OPTIONS}
    # None stands for "not given", so that the field's own default holds.
    method = {k: v for k, v in options.items() if k in fields and v is not None}
    return text, method


def _missing(encoded: Encoded, weights: np.ndarray) -> dict[str, Any]:
    return {
        "words_without_token": len(encoded.unscored),
        "words_without_score": int(np.isnan(weights).sum()),
        "unscored_words": [int(i) for i in np.flatnonzero(np.isnan(weights))],
    }


def _mean_facts(parts: list[Any]) -> Any:
    """Average the numbers of several windows, in dicts and lists too; the rest is the first's."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, dict):
        keys = [k for k in first if all(isinstance(p, dict) and k in p for p in parts)]
        return {**first, **{k: _mean_facts([p[k] for p in parts]) for k in keys}}
    if isinstance(first, list) and all(isinstance(p, list) and len(p) == len(first) for p in parts):
        return [_mean_facts(list(column)) for column in zip(*parts, strict=True)]
    if all(isinstance(p, int | float | np.number) and not isinstance(p, bool) for p in parts):
        there = [float(p) for p in parts if p == p]
        return sum(there) / len(there) if there else float("nan")
    return first
