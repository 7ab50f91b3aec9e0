"""The attention methods that come with the package."""

from __future__ import annotations

from typing import Any

import torch

from gazeattn.lm._method import (
    Method,
    MethodResult,
    Run,
    conventions,
    excluded,
    finished,
    mean,
    stack,
)
from gazeattn.lm.gradients import predicted
from gazeattn.registry import register_attention


class _PerHead(Method):
    """One number per head and word; the aggregate is the mean over layers and heads."""

    key = ""
    direction = ""

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        scores, heads = run.words.scores[self.key], run.plan.options.heads
        stacked = stack(scores, heads)
        how = conventions(
            run, scores, direction=self.direction, aggregate="mean over layers and heads"
        )
        self.describe(run, how)
        lost = excluded(run, run.words.lost["received"], heads)
        return finished(run, mean(stacked, (0, 1)), stacked, how, lost, mean(stacked, 1))

    def describe(self, run: Run, how: dict[str, Any]) -> None:
        """Add what is special about the method."""


@register_attention(
    "raw",
    description="Attention received, mean over layers and heads",
    citation="Clark et al. (2019), What does BERT look at?, BlackboxNLP",
    family="attention",
)
class Raw(_PerHead):
    """Attention that each word receives from the words that can see it."""

    quantities = ("received",)
    key = "received"
    direction = "received by the word"


@register_attention(
    "raw_last",
    description="Attention received in the last layer, mean over heads",
    citation="Clark et al. (2019), What does BERT look at?, BlackboxNLP",
    family="attention",
)
class RawLast(Method):
    """The last (selected) layer of `Raw`."""

    quantities = ("received",)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        scores, heads = run.words.scores["received"], run.plan.options.heads
        last = max(scores)
        one = {last: scores[last]}
        how = conventions(run, one, direction="received by the word", aggregate="mean over heads")
        weights = mean(stack(one, heads), (0, 1))
        return finished(
            run, weights, None, how, excluded(run, {last: run.words.lost["received"][last]}, heads)
        )


@register_attention(
    "rollout",
    description="Attention rollout: heads averaged, residual added, layers multiplied",
    citation="Abnar and Zuidema (2020), Quantifying attention flow in transformers, ACL",
    family="attention",
)
class Rollout(Method):
    """Rollout up to each layer, received like raw attention; the weights are the last layer's."""

    quantities = ("rollout",)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        everything = run.words.scores["rollout"]
        kept = run.words.layers
        scores = {k: v for k, v in everything.items() if kept is None or k in kept}
        stacked = stack(scores, None)
        how = conventions(
            run,
            scores,
            direction="received by the word",
            aggregate=f"rollout up to layer {max(scores)}",
            heads="mean of all",
            residual="identity added, rows normalised",
        )
        lost = excluded(run, {k: run.words.lost["rollout"][k] for k in scores}, None)
        return finished(run, stacked[-1, 0], stacked, how, lost, stacked[:, 0])


@register_attention(
    "value_norm",
    description="Norm of the attention-weighted, projected values, received like raw attention",
    citation="Kobayashi et al. (2020), Attention is not only a weight, EMNLP",
    family="attention",
)
class ValueNorm(Method):
    """Per head |a W_O v|; per layer the norm of the sum over all heads, then the layer mean."""

    quantities = ("value_norm",)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        scores, heads = run.words.scores["value_norm"], run.plan.options.heads
        summed = run.words.scores["value_norm_sum"]
        stacked, layers = stack(scores, heads), stack(summed, None)[:, 0]
        how = conventions(
            run,
            scores,
            direction="received by the word",
            aggregate="norm of the sum over all heads, mean over layers",
            output_bias="not included",
        )
        lost = excluded(run, run.words.lost["value_norm_sum"], None)
        return finished(run, mean(layers, 0), stacked, how, lost, layers)


@register_attention(
    "entropy",
    description="Entropy of the attention of each word: how widely it looks back",
    citation="Clark et al. (2019), What does BERT look at?, BlackboxNLP",
    family="attention",
)
class Entropy(_PerHead):
    """Entropy of each query word's rows over the scored keys."""

    quantities = ("entropy",)
    key = "entropy"
    direction = "of the word as query"

    def describe(self, run: Run, how: dict[str, Any]) -> None:
        """Add the unit."""
        unit = run.plan.options.entropy_unit
        how["unit"] = "nats / ln(number of visible keys)" if unit == "normalised" else unit
        how["renormalise"], how["causal"] = True, "none: a value per query"
        how["subword"] = "mean over the word's tokens"


@register_attention(
    "distance",
    description="Mean distance that each word attends over",
    citation="Vig and Belinkov (2019), Analyzing the structure of attention, BlackboxNLP",
    family="attention",
)
class Distance(_PerHead):
    """Mean distance between each query word and the words it attends to."""

    quantities = ("distance",)
    key = "distance"
    direction = "of the word as query"

    def describe(self, run: Run, how: dict[str, Any]) -> None:
        """Add the unit."""
        how["unit"] = run.plan.options.distance_unit
        how["renormalise"], how["causal"] = True, "none: a value per query"
        how["subword"] = "mean over the word's tokens"


_TARGETS = {
    "next_token": "sum of the log-probabilities of the text's own next tokens",
    "pooled_norm": "squared norm of the mean-pooled output",
}


@register_attention(
    "grad_attention",
    description="Attention times its gradient, received like raw attention",
    citation="Chefer et al. (2021), Generic attention-model explainability, ICCV",
    family="gradient",
)
class GradAttention(Method):
    """Per head A * dF/dA, the positive part by default, mean over layers and heads."""

    quantities = ("grad_attention",)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        assert run.gradient is not None
        scores, heads = run.gradient.scores, run.plan.options.heads
        stacked = stack(scores, heads)
        how = conventions(
            run,
            scores,
            direction="received by the word",
            aggregate="mean over layers and heads",
            target=_TARGETS[run.target],
            target_value=run.target_value,
            sign=run.plan.options.gradient_sign,
            recomputed_layers=run.n_recomputed,
        )
        # the size of a row's gradient says how much the row matters, so rows keep it
        how["renormalise"] = False
        lost = excluded(run, run.gradient.lost, heads)
        return finished(run, mean(stacked, (0, 1)), stacked, how, lost, mean(stacked, 1))


class _InputGradient(Method):
    quantities = ("input_gradient",)
    sign = ""

    def per_token(self, product: torch.Tensor) -> torch.Tensor:
        """Reduce embedding times gradient, shape (n_tokens, hidden), to tokens."""
        raise NotImplementedError

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        assert run.embeddings is not None and run.input_gradient is not None
        plan = run.plan
        token = self.per_token(run.embeddings.float() * run.input_gradient.float())
        word = plan.sum_keys(token)
        there = plan.has_key
        rule = "none"
        if run.target == "next_token":
            # a word can only change predictions made at its first token or later
            at = predicted(run.encoded).to(plan.device) - 1
            seen_by = (at[:, None] >= plan.first_key[None, :]).sum(0)
            there = there & (seen_by > 0)
            if plan.options.causal == "visible_mean":
                word, rule = word / seen_by.clamp_min(1), "visible_mean"
        weights = torch.where(there, word, torch.nan).cpu().numpy()
        how = {
            "sink": plan.options.sink,
            "causal": f"{rule} over predictions" if rule != "none" else rule,
            "subword": "sum over the word's tokens",
            "sign": self.sign,
            "target": _TARGETS[run.target],
            "target_value": run.target_value,
            "start_token": plan.has_start,
            "recomputed_layers": run.n_recomputed,
        }
        return finished(run, weights, None, how, {})


@register_attention(
    "input_gradient",
    description="Norm of input embedding times gradient",
    citation="Denil et al. (2014), Extraction of salient sentences; Li et al. (2016), NAACL",
    family="gradient",
)
class InputGradient(_InputGradient):
    """L2 norm of embedding times gradient per token, summed over the word's tokens."""

    sign = "L2 norm over the embedding"

    def per_token(self, product: torch.Tensor) -> torch.Tensor:
        """Return the norm."""
        return product.norm(dim=-1)


@register_attention(
    "input_gradient_signed",
    description="Signed sum of input embedding times gradient",
    citation="Shrikumar et al. (2016), Not just a black box; Denil et al. (2014)",
    family="gradient",
)
class InputGradientSigned(_InputGradient):
    """Sum of embedding times gradient per token, summed over the word's tokens."""

    sign = "signed sum over the embedding"

    def per_token(self, product: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        return product.sum(-1)
