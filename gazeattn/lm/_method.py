"""What an attention method is, what it is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gazeattn.lm._plan import Plan, pick
from gazeattn.lm._reduce import Observer, WordReducer
from gazeattn.lm.gradients import GradientReducer
from gazeattn.lm.tokens import Encoded


@dataclass
class MethodResult:
    """Word weights of one method and one text.

    Attributes
    ----------
    weights : ndarray, shape (n_words,), float64
        NaN where there is no score.
    heads : ndarray, shape (n_layers, n_heads, n_words), float32, or None
        Methods without heads have one per layer. Only the selected layers and heads.
    how : dict
        Every convention the numbers depend on.
    lost : dict
        Mean share of attention on excluded keys (``start_token``, ``special``, ``context``,
        ``gap``, ``first_word``, ``own_word``), the same ``per_layer``, ``missing_rows`` (share
        of query tokens without a score), ``words_without_token``, ``words_without_score``,
        ``zero_heads`` (heads whose scores are all 0).
    layers : ndarray, shape (n_layers, n_words), float32, or None
        The method's own value per layer: the mean over heads, or the norm of the sum of heads.
    """

    weights: np.ndarray
    heads: np.ndarray | None
    how: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, Any] = field(default_factory=dict)
    layers: np.ndarray | None = None


@dataclass
class Run:
    """Everything that was computed for one text; methods turn it into a `MethodResult`.

    Attributes
    ----------
    plan : Plan
    encoded : Encoded
    words : WordReducer
        Forward quantities by layer.
    gradient : GradientReducer or None
    embeddings, input_gradient : Tensor or None, shape (n_tokens, hidden)
    target : str
        Target of the gradients.
    target_value : float
    n_recomputed : int
    own : dict
        Results of a method's own observer, by method name.
    found : dict
        What methods with `Method.evaluates` found, by method name; ``"scorer"`` is shared.
    """

    plan: Plan
    encoded: Encoded
    words: WordReducer
    gradient: GradientReducer | None = None
    embeddings: torch.Tensor | None = None
    input_gradient: torch.Tensor | None = None
    target: str = ""
    target_value: float = float("nan")
    n_recomputed: int = 0
    own: dict[str, Observer] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)


class Method:
    """Base of the attention methods. A new one needs `quantities` or `observer`, and `finish`.

    Attributes
    ----------
    quantities : tuple of str
        What has to be computed: ``received, value_norm, entropy, distance, rollout`` (forward),
        ``grad_attention, input_gradient`` (with gradients).
    needs_projection : bool
        Its observer needs the output projection of every layer.
    needs_input : bool
        Its observer has ``take_input``, which gets the input of every attention module,
        (n_tokens, hidden), before ``begin``.
    evaluates : bool
        It runs the model itself, in `evaluate`, and needs none of the shared passes.
    """

    quantities: tuple[str, ...] = ()
    needs_projection: bool = False
    needs_input: bool = False
    evaluates: bool = False

    def evaluate(self, lm: Any, run: Run) -> None:
        """Run the model for one text and leave what was found in ``run.found``."""
        raise NotImplementedError

    def observer(self, plan: Plan) -> Observer | None:
        """Return an observer of attention blocks for one text, or None."""
        return None

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        raise NotImplementedError


def mean(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Mean over what is there, NaN where nothing is."""
    there = np.isfinite(values)
    n = there.sum(axis)
    total = np.where(there, values, 0).sum(axis, dtype=np.float64)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def stack(scores: dict[int, torch.Tensor], heads: tuple[int, ...] | None) -> np.ndarray:
    """Stack layers in order, shape (n_layers, n_heads, n_words), the selected heads only."""
    stacked = torch.stack([scores[layer] for layer in sorted(scores)]).numpy()
    return stacked[:, pick(heads, stacked.shape[1], "head")]


def excluded(
    run: Run, by_layer: dict[int, dict[str, torch.Tensor]], heads: tuple[int, ...] | None
) -> dict[str, Any]:
    """Summarise excluded mass."""
    result: dict[str, Any] = {}
    per_layer: dict[str, list[float]] = {}
    for layer in sorted(by_layer):
        for kind, values in by_layer[layer].items():
            chosen = values[pick(heads, len(values), "head")]
            per_layer.setdefault(kind, []).append(float(chosen.mean()))
    for kind, means in per_layer.items():
        result[kind] = float(np.mean(means))
    result["per_layer"] = per_layer
    return result


def conventions(run: Run, scores: dict[int, torch.Tensor], **more: Any) -> dict[str, Any]:
    o = run.plan.options
    n_heads = next(iter(scores.values())).shape[0]
    return {
        "sink": o.sink,
        "causal": o.causal,
        "subword": o.subword,
        "renormalise": o.renormalise,
        "include_self": o.include_self,
        "layers": sorted(scores),
        "heads": more.pop("heads", None) or pick(o.heads, n_heads, "head"),
        "start_token": run.plan.has_start,
        **more,
    }


def finished(
    run: Run,
    weights: np.ndarray,
    heads: np.ndarray | None,
    how: dict[str, Any],
    lost: dict[str, Any],
    layers: np.ndarray | None = None,
) -> MethodResult:
    weights = np.asarray(weights, dtype=np.float64)
    lost = {
        **lost,
        "words_without_token": len(run.encoded.unscored),
        "words_without_score": int(np.isnan(weights).sum()),
    }
    if heads is not None:
        heads = np.ascontiguousarray(heads, dtype=np.float32)
        lost["zero_heads"] = int((mean(np.abs(heads), -1) == 0).sum())
    if layers is not None:
        layers = np.asarray(layers, dtype=np.float32)
    return MethodResult(weights, heads, how, lost, layers)
