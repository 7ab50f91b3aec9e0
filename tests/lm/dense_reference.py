"""Plain float64 reference of the attention methods: whole maps, loops over words."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from gazeattn.lm.methods import AttentionOptions
from gazeattn.lm.tokens import Encoded

NAN = float("nan")


def text(words: list[int], ids: list[int] | None = None, n_words: int | None = None) -> Encoded:
    """Build a text from word numbers and s(tart), x (special), c(ontext), g(ap)."""
    role = {"s": 1, "x": 2, "c": 3, "g": 4}
    roles = np.array([role.get(w, 0) if isinstance(w, str) else 0 for w in words], dtype=np.int8)
    word_of = np.array([-1 if isinstance(w, str) else w for w in words])
    if ids is None:
        ids = [5 + (7 * i) % 150 for i in range(len(words))]
    n = n_words if n_words is not None else int(word_of.max()) + 1
    unscored = tuple(int(w) for w in range(n) if w not in set(word_of.tolist()))
    return Encoded(np.array(ids), word_of, roles, tuple(map(str, words)), n, unscored)


def wrap(model: Any) -> SimpleNamespace:
    """Make what the methods expect of a language model."""
    name = type(model).__name__
    causal = "Bert" not in name
    return SimpleNamespace(
        model=model, info={"causal": causal, "lm_head": "CausalLM" in name or "LMHead" in name}
    )


def eager_maps(model: Any, encoded: Encoded) -> np.ndarray:
    """Return all maps of the model's own eager attention, (layers, heads, tokens, tokens)."""
    old = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            out = model(input_ids=torch.tensor(encoded.input_ids)[None], output_attentions=True)
    finally:
        model.set_attn_implementation(old)
    return torch.stack(out.attentions)[:, 0].double().numpy()


class Dense:
    """Word scores of one text from whole maps."""

    def __init__(self, encoded: Encoded, options: AttentionOptions, visible: np.ndarray) -> None:
        self.e, self.o, self.visible = encoded, options, visible
        self.n, self.w = len(encoded.input_ids), encoded.n_words
        self.word = [
            int(w) if r == 0 and w >= 0 else None
            for w, r in zip(encoded.word_of, encoded.role, strict=True)
        ]
        self.tokens = {w: [i for i in range(self.n) if self.word[i] == w] for w in range(self.w)}
        there = [w for w in range(self.w) if self.tokens[w]]
        self.dropped = there[0] if options.sink == "first_word" and there else None
        self.scored = [w is not None and w != self.dropped for w in self.word]
        self.in_row = [
            s or (options.sink == "keep" and r == 1)
            for s, r in zip(self.scored, encoded.role, strict=True)
        ]

    def counts(self, q: int, s: int) -> bool:
        """Whether the pair of query and key is not excluded as a word's attention to itself."""
        return self.o.include_self or self.word[q] is None or self.word[q] != self.word[s]

    def row(self, a: np.ndarray, q: int) -> tuple[np.ndarray, float]:
        """Return a row without excluded self-attention, and its mass."""
        row = np.array([a[q, s] if self.counts(q, s) else 0.0 for s in range(self.n)])
        return row, float(sum(row[s] for s in range(self.n) if self.in_row[s]))

    def received(
        self, a: np.ndarray, renormalise: bool | None = None, last: int | None = None
    ) -> np.ndarray:
        """Return the score of each word for one map (tokens, tokens)."""
        renormalise = self.o.renormalise if renormalise is None else renormalise
        num, seen, used = np.zeros(self.w), np.zeros(self.w), 0.0
        for q in range(self.n):
            if self.word[q] is None or (last is not None and q > last):
                continue
            c = 1 / len(self.tokens[self.word[q]])
            row, mass = self.row(a, q)
            if renormalise:
                if mass < 1e-6:
                    continue
                row = row / mass
            used += c
            for w in range(self.w):
                keys = [s for s in self.tokens[w] if self.scored[s]]
                num[w] += c * sum(row[s] for s in keys)
                seen[w] += c * any(self.visible[q, s] and self.counts(q, s) for s in keys)
        by = seen if self.o.causal == "visible_mean" else np.full(self.w, used)
        return np.array([num[w] / by[w] if seen[w] > 0 else NAN for w in range(self.w)])

    def _queries(self, value: list[float]) -> np.ndarray:
        result = []
        for w in range(self.w):
            v = [value[i] for i in self.tokens[w] if not math.isnan(value[i])]
            result.append(sum(v) / len(v) if v else NAN)
        return np.array(result)

    def entropy(self, a: np.ndarray) -> np.ndarray:
        """Return the entropy of each word's rows."""
        value = []
        for q in range(self.n):
            row, mass = self.row(a, q)
            if self.word[q] is None or mass < 1e-6:
                value.append(NAN)
                continue
            p = [row[s] / mass for s in range(self.n) if self.in_row[s] and row[s] > 0]
            h = -sum(x * math.log(x) for x in p)
            k = sum(
                self.in_row[s] and self.visible[q, s] and self.counts(q, s) for s in range(self.n)
            )
            if self.o.entropy_unit == "normalised":
                h = h / math.log(k) if k > 1 else NAN
            elif self.o.entropy_unit == "bits":
                h = h / math.log(2)
            value.append(h)
        return self._queries(value)

    def distance(self, a: np.ndarray) -> np.ndarray:
        """Return the mean distance of each word's rows."""
        value = []
        for q in range(self.n):
            row, _ = self.row(a, q)
            keys = [s for s in range(self.n) if self.scored[s]]
            mass = sum(row[s] for s in keys)
            if self.word[q] is None or mass < 1e-6:
                value.append(NAN)
                continue
            at = self.word if self.o.distance_unit == "words" else list(range(self.n))
            value.append(sum(row[s] * abs(at[q] - at[s]) for s in keys) / mass)
        return self._queries(value)


def projected_values(model: Any, encoded: Encoded) -> list[np.ndarray]:
    """Return W_O^h v^h of every layer, (heads, tokens, hidden), from hooks on the projections."""
    config, caught = model.config, []
    heads = config.num_attention_heads
    name = type(model).__name__
    if "Llama" in name:
        layers = [
            (m.self_attn.v_proj, m.self_attn.o_proj.weight.T) for m in model.base_model.layers
        ]
        kv = config.num_key_value_heads
    elif "GPT2" in name:
        layers = [(m.attn.c_attn, m.attn.c_proj.weight) for m in model.base_model.h]
        kv = heads
    else:
        layers = [
            (m.attention.self.value, m.attention.output.dense.weight.T)
            for m in model.base_model.encoder.layer
        ]
        kv = heads
    hooks = [
        m.register_forward_hook(lambda _, __, out: caught.append(out.detach())) for m, _ in layers
    ]
    with torch.no_grad():
        model(input_ids=torch.tensor(encoded.input_ids)[None])
    for h in hooks:
        h.remove()
    result = []
    for (_, weight), out in zip(layers, caught, strict=True):
        v = out[0][:, -out.shape[-1] // 3 :] if "GPT2" in name else out[0]
        v = v.view(len(encoded.input_ids), kv, -1).repeat_interleave(
            heads // kv, 1
        )  # tokens, heads, d
        w = weight.detach().reshape(heads, v.shape[-1], -1)
        result.append(torch.einsum("thd,hdo->hto", v.double(), w.double()).numpy())
    return result
