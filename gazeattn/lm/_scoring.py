"""The number that attribution methods explain, as a function of the input embeddings."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from gazeattn.errors import CapabilityError
from gazeattn.lm._method import MethodResult, Run, finished
from gazeattn.lm._plan import Plan
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import base_of
from gazeattn.lm.gradients import LOGIT_ROWS, check_head, choose_target, head_of, predicted
from gazeattn.lm.tokens import Encoded

TARGETS = {
    "next_token": "sum of the log-probabilities of the text's own next tokens",
    "pooled_norm": "squared norm of the mean-pooled output",
}


class Scorer:
    """Target value of one text, for many perturbed copies at a time.

    The labels stay the tokens of the unchanged text, so that the target is one function of the
    input embeddings.

    Attributes
    ----------
    embeddings : Tensor, shape (n_tokens, hidden)
    baseline : Tensor, shape (n_tokens, hidden)
        The same with every scored word token replaced by the baseline embedding; all other
        tokens keep theirs.
    target : str
    rows : int
        Copies that go through the model at a time.
    """

    def __init__(self, lm: Any, encoded: Encoded, plan: Plan) -> None:
        self.model, self.encoded, self.plan = lm.model, encoded, plan
        options = plan.options
        self.base = base_of(lm.model)
        self.target = choose_target(dict(lm.info), options.target)
        if "inputs_embeds" not in inspect.signature(self.base.forward).parameters:
            raise CapabilityError(f"{type(self.base).__name__} does not take input embeddings")
        batch = Batch(self.base, [encoded], options.padding_side)
        self.ids = batch.inputs["input_ids"][0]
        self.extra = {k: v for k, v in batch.inputs.items() if k == "use_cache"}
        if self.target == "next_token":
            check_head(lm.model, batch)
            self.head: Any = head_of(lm.model)
            self.at = predicted(encoded).to(self.ids.device)
        layer = self.base.get_input_embeddings()  # type: ignore[operator]
        with torch.no_grad():
            self.embeddings = layer(self.ids[None])[0].detach()
            blank = torch.zeros_like(self.embeddings[0])
            if options.baseline == "mean":
                # through the layer, because some layers scale what they return
                ids = torch.arange(layer.weight.shape[0], device=self.ids.device)
                blank = torch.stack([layer(part).sum(0) for part in ids.split(16384)]).sum(0)
                blank = blank / len(ids)
        self.baseline = torch.where(plan.scored[:, None], blank, self.embeddings)
        self.rows = max(1, options.attribution_tokens // len(self.ids))
        self._full: torch.Tensor | None = None

    def __call__(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the target of each copy, shape (n,); with gradients where they are on.

        Parameters
        ----------
        embeddings : Tensor, shape (n, n_tokens, hidden)
        """
        hidden = self.base(inputs_embeds=embeddings, **self.extra)[0]
        if self.target == "pooled_norm":
            return hidden.float().mean(1).square().sum(-1)
        n = len(hidden)
        chosen = hidden[:, self.at - 1].reshape(-1, hidden.shape[-1])
        return self.log_probabilities(chosen, self.ids[self.at].repeat(n)).view(n, -1).sum(-1)

    def log_probabilities(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of each label, shape (n,), a block of logits at a time."""

        def block(h: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            x = self.head(h)
            return x.gather(-1, label[:, None])[:, 0] - x.logsumexp(-1)

        pairs = zip(hidden.split(LOGIT_ROWS), labels.split(LOGIT_ROWS), strict=True)
        if torch.is_grad_enabled() and hidden.requires_grad:
            parts = [checkpoint(block, h, y, use_reentrant=False) for h, y in pairs]
        else:
            parts = [block(h, y) for h, y in pairs]
        return torch.cat(parts) if parts else hidden.new_zeros(0, dtype=torch.float32)

    @torch.no_grad()
    def masks(self, present: torch.Tensor) -> torch.Tensor:
        """Return the target with the absent words at the baseline, shape (n,), float64.

        Each distinct row of `present` is run once.

        Parameters
        ----------
        present : Tensor, shape (n, n_words), bool
        """
        rows, back = torch.unique(present.to(self.ids.device), dim=0, return_inverse=True)
        out = []
        word = self.plan.key_word.clamp_max(self.plan.n_words - 1)
        for part in rows.split(self.rows):
            keep = part[:, word] | ~self.plan.scored
            out.append(self(torch.where(keep[..., None], self.embeddings, self.baseline)))
        return torch.cat(out).double()[back].cpu()

    @torch.no_grad()
    def edited(self, texts: Sequence[Encoded], origins: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return how much the target falls in each edited text, shape (n,), float64.

        With next-token targets only the predictions that both texts have are compared: tokens
        that stayed and still have something before them.

        Parameters
        ----------
        texts
            Edited copies of the text; they may differ in length.
        origins
            Position in the unchanged text of each of their tokens; -1 for new tokens.
        """
        side = self.plan.options.padding_side
        full = self._unchanged()
        out = torch.full((len(texts),), torch.nan, dtype=torch.float64)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i].input_ids))
        for at in range(0, len(order), self.rows):
            group = [i for i in order[at : at + self.rows] if len(texts[i].input_ids)]
            if not group:
                continue
            batch = Batch(self.base, [texts[i] for i in group], side)
            hidden = self.base(**batch.inputs)[0]
            if self.target == "pooled_norm":
                for row, (i, span) in enumerate(zip(group, batch.spans, strict=True)):
                    mean = hidden[row, slice(*span)].float().mean(0)
                    out[i] = float(full) - float(mean.square().sum())
                continue
            states, labels, old, row_of = [], [], [], []
            for row, (i, (start, _)) in enumerate(zip(group, batch.spans, strict=True)):
                place = predicted(texts[i])
                place = place[torch.isin(origins[i][place], self.at.cpu())]
                states.append(hidden[row, start + place - 1])
                labels.append(batch.inputs["input_ids"][row, start + place])
                old.append(full[origins[i][place]])
                row_of += [i] * len(place)
            new = self.log_probabilities(torch.cat(states), torch.cat(labels)).double().cpu()
            index = torch.tensor(row_of, dtype=torch.int64)
            out[group] = 0.0
            out.index_add_(0, index, torch.cat(old) - new)
        return out

    def _unchanged(self) -> torch.Tensor:
        """Return the log-probability of every token, NaN where none, or the pooled norm."""
        if self._full is None:
            if self.target == "pooled_norm":
                self._full = self(self.embeddings[None])[0].double().cpu()
            else:
                hidden = self.base(inputs_embeds=self.embeddings[None], **self.extra)[0][0]
                found = self.log_probabilities(hidden[self.at - 1], self.ids[self.at])
                self._full = torch.full((len(self.ids),), torch.nan, dtype=torch.float64)
                self._full[self.at.cpu()] = found.double().cpu()
        return self._full


def scorer_of(lm: Any, run: Run) -> Scorer:
    """Return the scorer of a text; methods of one call share it."""
    if "scorer" not in run.found:
        run.found["scorer"] = Scorer(lm, run.encoded, run.plan)
    return run.found["scorer"]


def word_result(
    run: Run, word: torch.Tensor, how: dict[str, Any], lost: dict[str, Any]
) -> MethodResult:
    """Turn word attributions into a result, with the rules of the input gradients.

    Parameters
    ----------
    word : Tensor, shape (n_words,)
    """
    plan, scorer = run.plan, run.found["scorer"]
    word = word.to(plan.device)
    there, rule = plan.has_key, "none"
    if scorer.target == "next_token":
        # a word can only change predictions made at its first token or later
        seen_by = (scorer.at[:, None] - 1 >= plan.first_key[None, :]).sum(0)
        there = there & (seen_by > 0)
        if plan.options.causal == "visible_mean":
            word, rule = word / seen_by.clamp_min(1), "visible_mean"
    if plan.options.attribution_sign == "absolute":
        word = word.abs()
    weights = torch.where(there, word, torch.nan).cpu().numpy()
    facts = {
        "sink": plan.options.sink,
        "causal": f"{rule} over predictions" if rule != "none" else rule,
        "sign": plan.options.attribution_sign,
        "target": TARGETS[scorer.target],
        "start_token": plan.has_start,
    }
    return finished(run, weights, None, {**facts, **how}, lost)
