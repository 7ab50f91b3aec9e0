"""What a model attends to while it reads a prompt and while it writes after it (Kou et al. 2024).

Stages: ``reading`` is the step that writes the first token, ``coding`` that of the last one.
Weights are over the tokens of the prompt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm.model import LanguageModel

Floats = NDArray[np.float64]
STAGES = ("reading", "coding")
ATTENTION = ("first", "last", "all")
GRADIENT = ("saliency", "inputxgradient")
METHODS = tuple(
    f"{a}_{b}" for a, b in [(s, n) for s in STAGES for n in ATTENTION]
    + [(n, s) for n in GRADIENT for s in STAGES]
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A prompt and what a model wrote after it, as tokens.

    Attributes
    ----------
    prompt, new : ndarray of int64
    offsets : ndarray of int64, shape (len(prompt), 2)
        Characters of each token of the prompt; (0, 0) where it has none.
    text : str
        What was written.
    """

    prompt: NDArray[np.int64]
    new: NDArray[np.int64]
    offsets: NDArray[np.int64]
    text: str


def write_after(lm: LanguageModel, prompt: str, longest: int = 48) -> Written:
    """Return a prompt as tokens with what the model writes after it, greedily.

    Raises
    ------
    CapabilityError
        The model writes no text, or its tokenizer does not tell where tokens stand.
    DataError
        The prompt has no token, or nothing was written.
    """
    lm.require("causal", "lm_head", "offsets", by="stages of writing")
    from transformers import GenerationConfig

    made = lm.tokenizer(prompt, return_offsets_mapping=True)
    ids = torch.tensor([made["input_ids"]])
    if not ids.numel():
        raise DataError("the prompt has no token", found=repr(prompt[:40]))
    end = lm.tokenizer.eos_token_id
    settings = GenerationConfig(
        max_new_tokens=int(longest), do_sample=False, eos_token_id=end, pad_token_id=end or 0
    )
    device = next(lm.model.parameters()).device
    with torch.inference_mode():
        found = lm.model.generate(
            input_ids=ids.to(device), attention_mask=torch.ones_like(ids).to(device),
            generation_config=settings,
        )  # fmt: skip
    new = found[0, ids.shape[1] :].cpu().numpy().astype(np.int64)
    if not len(new):
        raise DataError("the model wrote nothing", found=repr(prompt[-40:]))
    return Written(
        ids[0].numpy().astype(np.int64), new,
        np.array(made["offset_mapping"], dtype=np.int64).reshape(-1, 2),
        str(lm.tokenizer.decode(new.tolist(), skip_special_tokens=True)),
    )  # fmt: skip


def stage_weights(
    lm: LanguageModel, written: Written, methods: Sequence[str] = METHODS
) -> dict[str, Floats]:
    """Return one weight per token of the prompt for each method.

    Parameters
    ----------
    methods
        ``STAGE_first``, ``STAGE_last`` and ``STAGE_all``: attention of the step, heads averaged, in
        the first layer, in the last, and summed over all layers (as the paper defines them; its
        code takes heads of the first layer). ``saliency_STAGE``: length of the gradient of the
        written token's logit by each token's embedding; ``inputxgradient_STAGE``: length of
        embedding times gradient.

    Raises
    ------
    UnknownNameError
        No such method.
    """
    for name in methods:
        if name not in METHODS:
            raise UnknownNameError("method of a stage", name, METHODS)
    n = len(written.prompt)
    whole = torch.from_numpy(np.concatenate([written.prompt, written.new]))[None]
    whole = whole.to(next(lm.model.parameters()).device)
    steps = {"reading": n - 1, "coding": n + len(written.new) - 2}
    out: dict[str, Floats] = {}
    wanted = [m for m in methods if m.partition("_")[0] in STAGES]
    if wanted:
        rows = attention_rows(lm, whole, sorted(set(steps.values())))
        for name in wanted:
            stage, _, layers = name.partition("_")
            mine = rows[steps[stage]][:, :, :n].mean(1)  # (layers, prompt)
            chosen = {"first": mine[0], "last": mine[-1], "all": mine.sum(0)}
            out[name] = chosen[layers].double().cpu().numpy()
    for stage in STAGES:
        kinds = [k for k in GRADIENT if f"{k}_{stage}" in methods]
        if not kinds:
            continue
        gradient, embedded = token_gradient(lm, whole, steps[stage])
        values = {"saliency": gradient, "inputxgradient": gradient * embedded}
        for kind in kinds:
            out[f"{kind}_{stage}"] = values[kind][:n].norm(dim=-1).double().cpu().numpy()
    return {m: out[m] for m in methods}


def attention_rows(lm: LanguageModel, ids: Tensor, rows: Sequence[int]) -> dict[int, Tensor]:
    """Return the attention of some tokens to all, (layers, heads, length) each.

    The maps of one layer exist at a time.
    """
    from gazeattn.lm.capture import base_of

    kept: dict[int, list[Tensor]] = {r: [] for r in rows}

    def keep(_module: Any, _inputs: Any, output: Any) -> Any:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if weights is None:
            raise CapabilityError("the model does not return its attention")
        for r in rows:
            kept[r].append(weights[0, :, r].detach().float())
        return output

    base = base_of(lm.model)
    modules = [
        m
        for name, m in base.named_modules()
        if name.endswith((".self_attn", ".attn", "attention.self"))
    ]
    if not modules:
        raise CapabilityError(f"no attention module is known in {type(lm.model).__name__}")
    with _eager(lm.model), torch.inference_mode():
        handles = [m.register_forward_hook(keep) for m in modules]
        try:
            base(input_ids=ids[:, : max(rows) + 1], use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
    return {r: torch.stack(v) for r, v in kept.items()}


@contextlib.contextmanager
def _eager(model: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def token_gradient(lm: LanguageModel, ids: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Return the gradient of the logit that a step writes, and the embeddings, (step + 1, width).

    Parameters
    ----------
    ids : Tensor, shape (1, length)
    step
        Place of the token after which ``ids[0, step + 1]`` is written.
    """
    with torch.enable_grad():
        embedded = lm.model.get_input_embeddings()(ids[:, : step + 1]).detach().requires_grad_()
        logits = lm.model(inputs_embeds=embedded, use_cache=False, logits_to_keep=1).logits
        (gradient,) = torch.autograd.grad(logits[0, -1, int(ids[0, step + 1])], embedded)
    return gradient[0], embedded.detach()[0]


def text_losses(
    lm: LanguageModel, prompts: Sequence[str], new: NDArray[np.int64], batch_size: int = 16
) -> Floats:
    """Return the cross entropy of the same written tokens after each of several prompts, nats."""
    coded = [lm.tokenizer(p)["input_ids"] for p in prompts]
    order = np.argsort([len(c) for c in coded], kind="stable")
    pad = lm.tokenizer.pad_token_id or lm.tokenizer.eos_token_id or 0
    out = np.zeros(len(prompts))
    device = next(lm.model.parameters()).device
    labels = torch.from_numpy(new).to(device)
    for k in range(0, len(order), batch_size):
        mine = [coded[i] for i in order[k : k + batch_size]]
        size = max(map(len, mine)) + len(new)
        ids = torch.full((len(mine), size), int(pad))
        mask = torch.zeros_like(ids)
        for row, c in enumerate(mine):
            ids[row, size - len(c) - len(new) :] = torch.tensor([*c, *new.tolist()])
            mask[row, size - len(c) - len(new) :] = 1
        places = (mask.cumsum(1) - 1).clamp_min(0)
        with torch.inference_mode():
            logits = lm.model(
                input_ids=ids.to(device), attention_mask=mask.to(device),
                position_ids=places.to(device), logits_to_keep=len(new) + 1, use_cache=False,
            ).logits[:, :-1]  # fmt: skip
            each = logits.float().log_softmax(-1).gather(
                -1, labels[None, :, None].expand(len(mine), -1, 1)
            )  # fmt: skip
        out[order[k : k + batch_size]] = -each.sum((1, 2)).double().cpu().numpy()
    return out


def likely_words(lm: LanguageModel, prompt: str, spans: NDArray[np.int64]) -> list[str]:
    """Return the word that the model finds most likely at each span, from what stands before it.

    It is the most likely next token after the text up to the span, as a word: letters alone, the
    first of the most likely tokens that has some; ``it`` where none has.
    """
    made = lm.tokenizer(prompt, return_offsets_mapping=True)
    ids = torch.tensor([made["input_ids"]]).to(next(lm.model.parameters()).device)
    with torch.inference_mode():
        logits = lm.model(input_ids=ids, use_cache=False).logits[0]
        best = logits.topk(min(20, logits.shape[-1]), -1).indices.cpu().numpy()
    starts = np.array([a for a, _ in made["offset_mapping"]])
    out = []
    for a, b in spans.tolist():
        at = int(np.searchsorted(starts, a, "right")) - 1  # the token that holds the first letter
        word = prompt[a:b]
        found = "it"
        for token in best[max(at - 1, 0)]:
            text = str(lm.tokenizer.decode([int(token)])).strip()
            if text.isalpha() and text.lower() != word.lower():
                found = text
                break
        out.append(found)
    return out
