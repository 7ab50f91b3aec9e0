"""Attribution by gradients: saliency, integrated gradients, gradient SHAP, DeepLIFT."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from gazeattn.lm._method import Method, MethodResult, Run
from gazeattn.lm._scoring import Scorer, scorer_of, word_result
from gazeattn.lm.gradients import frozen, recompute_layers
from gazeattn.registry import register_attention

SUBWORD = "sum over the word's tokens"


@contextmanager
def _differentiable(scorer: Scorer, again: bool = True) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(frozen(scorer.model))
        stack.enter_context(torch.enable_grad())
        if again:
            stack.enter_context(recompute_layers(scorer.base))
        yield


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators that captum draws from, and put their states back."""
    before, torch_state = np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        torch.random.set_rng_state(torch_state)


class _Gradient(Method):
    """Attribution of every embedding value, reduced to tokens and words."""

    evaluates = True
    name = ""

    def attribute(self, scorer: Scorer) -> torch.Tensor:
        """Return the attribution, shape (n_tokens, hidden)."""
        raise NotImplementedError

    def facts(self, scorer: Scorer) -> dict[str, Any]:
        """Return what is special about the method."""
        return {"baseline": scorer.plan.options.baseline}

    def evaluate(self, lm: Any, run: Run) -> None:
        """Run the model for one text."""
        scorer = scorer_of(lm, run)
        token = self.attribute(scorer).detach().float().sum(-1)
        run.found[self.name] = (token, self.facts(scorer), _gap(scorer, token))

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        token, facts, lost = run.found[self.name]
        how = {"subword": SUBWORD, **facts}
        return word_result(run, run.plan.sum_keys(token), how, lost)


def _gap(scorer: Scorer, token: torch.Tensor) -> dict[str, Any]:
    """Return how far the attributions are from adding up to the change of the target."""
    with torch.no_grad():
        both = scorer(torch.stack([scorer.embeddings, scorer.baseline])).double().cpu()
    change, total = float(both[0] - both[1]), float(token.double().sum())
    share = abs(total - change) / abs(change) if change else float("nan")
    return {
        "target_change": change,
        "attribution_sum": total,
        "completeness_gap": total - change,
        "completeness_gap_share": share,
    }


@register_attention(
    "saliency",
    description="Norm of the gradient with respect to the input embedding",
    citation="Simonyan et al. (2014), Deep inside convolutional networks; Li et al. (2016), NAACL",
    family="gradient",
)
class GradientNorm(Method):
    """L2 norm of the gradient per token, summed over the word's tokens."""

    evaluates = True

    def evaluate(self, lm: Any, run: Run) -> None:
        """Run the model for one text."""
        from captum.attr import Saliency

        scorer = scorer_of(lm, run)
        with _differentiable(scorer):
            x = scorer.embeddings[None].clone().requires_grad_(True)
            gradient = Saliency(scorer).attribute(x, abs=False)
        run.found["saliency"] = gradient[0].detach().float().norm(dim=-1)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        how = {"subword": SUBWORD, "sign": "L2 norm over the embedding"}
        return word_result(run, run.plan.sum_keys(run.found["saliency"]), how, {})


@register_attention(
    "integrated_gradients",
    description="Integrated gradients from words at a baseline embedding",
    citation="Sundararajan et al. (2017), Axiomatic attribution for deep networks, ICML",
    family="gradient",
)
class Integrated(_Gradient):
    """Gradients at midpoints of the straight path; ``lost`` says how well they add up."""

    name = "integrated_gradients"

    def attribute(self, scorer: Scorer) -> torch.Tensor:
        """Return the attribution, shape (n_tokens, hidden)."""
        from captum.attr import IntegratedGradients

        with _differentiable(scorer):
            found = IntegratedGradients(scorer).attribute(
                scorer.embeddings[None],
                scorer.baseline[None],
                n_steps=scorer.plan.options.attribution_steps,
                method="riemann_middle",
                internal_batch_size=scorer.rows,
            )
        return found[0]

    def facts(self, scorer: Scorer) -> dict[str, Any]:
        """Return what is special about the method."""
        return {**super().facts(scorer), "steps": scorer.plan.options.attribution_steps}


@register_attention(
    "gradient_shap",
    description="Expected gradients over the text's own words in random order",
    citation="Lundberg and Lee (2017), NeurIPS; Erion et al. (2021), Nature Machine Intelligence",
    family="gradient",
)
class ExpectedGradients(_Gradient):
    """Gradients at random points of paths from random baselines, without added noise."""

    name = "gradient_shap"

    def attribute(self, scorer: Scorer) -> torch.Tensor:
        """Return the attribution, shape (n_tokens, hidden)."""
        from captum.attr import GradientShap

        options, x = scorer.plan.options, scorer.embeddings
        n = options.attribution_samples or 64
        draw = torch.Generator().manual_seed(options.attribution_seed)
        at = torch.nonzero(scorer.plan.scored).flatten()
        total, done = torch.zeros_like(x, dtype=torch.float32), 0
        # all random numbers are drawn one sample at a time: independent of the batch size
        others = [at[torch.randperm(len(at), generator=draw).to(at.device)] for _ in range(n)]
        with _differentiable(scorer), _seeded(options.attribution_seed):
            while done < n:
                baselines = x.expand(1, -1, -1).clone()
                baselines[0, at] = x[others[done]]
                found = GradientShap(scorer).attribute(x[None], baselines, n_samples=1, stdevs=0.0)
                total += found[0].detach().float()
                done += 1
        return total / n

    def facts(self, scorer: Scorer) -> dict[str, Any]:
        """Return what is special about the method."""
        options = scorer.plan.options
        return {
            "baseline": "the text's own word tokens in random order",
            "samples": options.attribution_samples or 64,
            "seed": options.attribution_seed,
        }


class _Wrapped(nn.Module):
    """The target as a module, with the model below it for captum's hooks."""

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self.model, self.scorer = scorer.model, scorer

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the target of each copy."""
        return self.scorer(embeddings)


def activations(model: nn.Module) -> list[type[nn.Module]]:
    """Return the classes of element-wise activations of a model."""
    found = []
    for module in model.modules():
        kind = type(module)
        name = kind.__name__.lower()
        if any(True for _ in module.children()) or any(True for _ in module.parameters()):
            continue
        if any(word in name for word in ("silu", "gelu", "relu", "tanh", "sigmoid", "mish")):
            found.append(kind)
    return list(dict.fromkeys(found))


@contextmanager
def _rescaled(kinds: list[type[nn.Module]]) -> Iterator[None]:
    """Give captum's rescale rule to activation classes that it does not list."""
    from captum.attr._core import deep_lift as rules

    known = rules.SUPPORTED_NON_LINEAR
    added = [k for k in kinds if k not in known]
    try:
        for kind in added:
            known[kind] = rules.nonlinear
        yield
    finally:
        for kind in added:
            known.pop(kind, None)


@register_attention(
    "deeplift",
    description="DeepLIFT: rescale rule at activations, gradients elsewhere",
    citation="Shrikumar et al. (2017), Learning important features, ICML",
    family="gradient",
)
class Deep(_Gradient):
    """Rescale rule at element-wise activation modules.

    Attention, gates and normalisation are no element-wise modules; they fall back to gradients,
    so that the attributions need not add up. ``lost`` gives the difference.
    """

    name = "deeplift"

    def attribute(self, scorer: Scorer) -> torch.Tensor:
        """Return the attribution, shape (n_tokens, hidden)."""
        from captum.attr import DeepLift

        # a layer that is computed again would run captum's hooks twice
        kinds = activations(scorer.model)
        with _differentiable(scorer, again=False), _rescaled(kinds), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about the hooks it sets and removes
            found = DeepLift(_Wrapped(scorer)).attribute(
                scorer.embeddings[None].clone(), scorer.baseline[None].clone()
            )
        return found[0]

    def facts(self, scorer: Scorer) -> dict[str, Any]:
        """Return what is special about the method."""
        kinds = sorted(k.__name__ for k in activations(scorer.model))
        fallback = {
            type(m).__name__
            for m in scorer.base.modules()
            if "norm" in type(m).__name__.lower() or "attention" in type(m).__name__.lower()
        }
        rest = ["products of gates", "log-softmax or norm of the target"]
        return {
            **super().facts(scorer),
            "rescale_rule": kinds,
            "gradient_fallback": [*sorted(fallback), *rest],
        }
