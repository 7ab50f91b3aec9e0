"""What is done with a decoder of transformers here: scores of continuations, and writing them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from gazeattn.errors import DataError


def cache_name(model: Any) -> str:
    """Return the name under which a model takes its cache, which differs between releases."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in inspect.signature(inner.forward).parameters else "past_key_values"


def run(model: Any, cache: Any, **inputs: Any) -> Tensor:
    """Run a decoder with its cache and return the logits, (batch, kept, vocabulary)."""
    return model(**inputs, **{cache_name(model): cache}, use_cache=True).logits


def positions(mask: Tensor) -> Tensor:
    """Return the places of tokens from a mask (batch, length): padding is not counted."""
    return (mask.long().cumsum(-1) - 1).clamp_min(0)


def continuation_scores(
    model: Any, prompt: Tensor, continuations: list[list[int]]
) -> list[tuple[float, int]]:
    """Return log probability and number of tokens of each continuation of a prompt.

    The prompt is run once. A continuation's score does not depend on the others.

    Parameters
    ----------
    prompt : Tensor of int64, shape (n,)
    continuations : list of list of int
        Token ids, none empty.
    """
    from transformers import DynamicCache

    if not len(prompt) or not continuations or not all(continuations):
        raise DataError("a prompt and continuations have one token at least")
    n, most = len(continuations), max(map(len, continuations))
    ids = torch.zeros(n, most, dtype=torch.long, device=prompt.device)
    mask = torch.zeros(n, most, dtype=torch.long, device=prompt.device)
    for k, tokens in enumerate(continuations):
        ids[k, : len(tokens)] = torch.tensor(tokens, device=prompt.device)
        mask[k, : len(tokens)] = 1
    with torch.inference_mode():
        cache = DynamicCache()
        ones = torch.ones(1, len(prompt), dtype=torch.long, device=prompt.device)
        first = run(model, cache, input_ids=prompt[None], attention_mask=ones, logits_to_keep=1)
        cache.batch_repeat_interleave(n)
        whole = torch.cat([ones.expand(n, -1), mask], 1)
        place = positions(whole)[:, len(prompt) :]
        later = run(model, cache, input_ids=ids, attention_mask=whole, position_ids=place)
        logits = torch.cat([first.expand(n, -1, -1), later[:, :-1]], 1).float()
        each = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask
    return [(float(s), len(c)) for s, c in zip(each.double().sum(1), continuations, strict=True)]


def write(
    model: Any,
    embedded: Tensor,
    places: Tensor,
    *,
    end: set[int],
    longest: int = 32,
    beams: int = 1,
) -> list[int]:
    """Return the tokens that a decoder writes after some embeddings, without the end token.

    Parameters
    ----------
    embedded : Tensor, shape (n, width)
    places : Tensor of int64, shape (n,)
        Position of each embedding; what is written goes on after the last one.
    end : set of int
        Tokens that end the text.
    longest
        Tokens that are written at most.
    beams
        1: the best token each time. More: the best of so many texts by mean log probability.
    """
    from transformers import DynamicCache

    embed = model.get_input_embeddings()
    device = embedded.device
    done: list[tuple[float, list[int]]] = []
    with torch.inference_mode():
        cache = DynamicCache()
        mask = torch.ones(1, len(embedded), dtype=torch.long, device=device)
        logits = run(model, cache, inputs_embeds=embedded[None], position_ids=places[None],
                     attention_mask=mask, logits_to_keep=1)  # fmt: skip
        texts: list[list[int]] = [[]]
        totals = torch.zeros(1, device=device)
        for step in range(longest):
            found = totals[:, None] + logits[:, -1].float().log_softmax(-1)
            width = found.shape[1]
            best = found.flatten().topk(min(2 * beams, found.numel()))
            rows: list[int] = []
            kept: list[list[int]] = []
            values: list[float] = []
            for value, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                row, token = divmod(at, width)
                if token in end:
                    if len(rows) < beams:
                        done.append((value / (len(texts[row]) + 1), texts[row]))
                    if beams == 1:
                        return texts[row]
                elif len(rows) < beams:
                    rows.append(row)
                    kept.append([*texts[row], token])
                    values.append(value)
            texts, totals = kept, torch.tensor(values, device=device)
            if len(done) >= beams or not texts or step == longest - 1:
                break
            order: Any = torch.tensor(rows, device=device)
            cache.reorder_cache(order)
            last = torch.tensor([t[-1] for t in texts], device=device)[:, None]
            mask = torch.ones(len(texts), len(embedded) + step + 1, dtype=torch.long, device=device)
            place = places[-1] + 1 + step
            logits = run(model, cache, inputs_embeds=embed(last), attention_mask=mask,
                         position_ids=place.expand(len(texts), 1))  # fmt: skip
    done += [(v / max(len(t), 1), t) for v, t in zip(totals.tolist(), texts, strict=True)]
    return max(done, key=lambda d: d[0])[1]
