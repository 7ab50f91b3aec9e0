"""Gaze on code, learned from the states of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.experiments._gaze_baselines import (
    Fitting,
    Floats,
    Prior,
    Snippet,
    log_shares,
    means_of,
    token_class,
)
from gazeattn.models.gaze_prior.base import kl_each
from gazeattn.models.gaze_prior.mixture import GazeMixture

FACTS = 4


class StateScale:
    """Principal components of training states, of unit variance, beside facts of the tokens.

    Parameters
    ----------
    snippets
        Of training.
    components
    classes
        Prior of the kinds of tokens, from the same training readings: one of the facts.
    """

    def __init__(self, snippets: list[Snippet], components: int, classes: Prior) -> None:
        self.classes = classes
        states = np.concatenate([s.states for s in snippets])
        self.mean = states.mean(0)
        _, _, axes = np.linalg.svd(states - self.mean, full_matrices=False)
        self.axes = axes[:components].T
        self.size = ((states - self.mean) @ self.axes).std(0) + 1e-6
        facts = np.concatenate([self.facts(s) for s in snippets])
        self.centre, self.spread = facts.mean(0), facts.std(0) + 1e-6
        self.n = self.axes.shape[1] + FACTS

    def facts(self, s: Snippet) -> Floats:
        """Return letters, white space, start of a line, and gaze on the token's kind, (n, 4)."""
        kind = self.classes(s) + np.log(len(s.position))
        parts = [np.log1p(s.letters), s.letters == 0, s.line_start, kind]
        return np.stack(parts, 1).astype(np.float64)

    def tokens(self, s: Snippet) -> Floats:
        """Return what is told of each code token, (n, `n` columns)."""
        known = (s.states - self.mean) @ self.axes / self.size
        return np.concatenate([known, (self.facts(s) - self.centre) / self.spread], 1)

    def query(self, s: Snippet) -> Floats:
        """Return what is told of the end of the prompt, (`n` columns,)."""
        known = (s.query - self.mean) @ self.axes / self.size
        # the end of the prompt is far from all code: directions count, not sizes
        known = known / max(float(np.abs(known).max()), 1.0)
        return np.concatenate([known, np.zeros(FACTS)])


def batch_of(snippets: list[Snippet], scale: StateScale) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries (b, 1, k), tokens (b, longest, k) and the mask of code (b, longest)."""
    longest = max(len(s.position) for s in snippets)
    tokens = np.zeros((len(snippets), longest, scale.n))
    code = np.zeros((len(snippets), longest), dtype=bool)
    for k, s in enumerate(snippets):
        tokens[k, : len(s.position)] = scale.tokens(s)
        code[k, : len(s.position)] = True
    query = np.stack([scale.query(s) for s in snippets])[:, None]
    return (
        torch.tensor(query, dtype=torch.float32),
        torch.tensor(tokens, dtype=torch.float32),
        torch.tensor(code),
    )


def fit_one(
    train: list[Snippet], targets: Mapping[str, Floats], n: Mapping[str, int],
    valid: list[Snippet], valid_targets: Mapping[str, Floats], valid_n: Mapping[str, int],
    options: Mapping[str, Any], seed: int,
) -> Prior:  # fmt: skip
    """Return a learned prior, stopped on validation readings."""
    scale = StateScale(train, int(options["states"]), token_class(train, targets, n))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = GazeMixture(
            scale.n,
            int(options["components"]),
            int(options["hidden"]),
            int(options["content"]),
            normalise=False,
        )
    if net.content:  # it starts from what the kinds of tokens tell
        with torch.no_grad():
            net.own.weight[0, -1] = float(scale.spread[-1])
    inputs, held = batch_of(train, scale), batch_of(valid, scale)
    a, w = _targets(train, targets, n, inputs[2])
    b, v = _targets(valid, valid_targets, valid_n, held[2])
    optimiser = torch.optim.AdamW(
        net.parameters(), float(options["lr"]), weight_decay=float(options["weight_decay"])
    )
    best, state, since = np.inf, {k: t.clone() for k, t in net.state_dict().items()}, 0
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for _ in range(int(options["steps"])):
            with torch.no_grad():
                loss = _loss(net, held, b, v, 0.0)
            if float(loss) < best - 1e-5:
                best, since = float(loss), 0
                state = {k: t.clone() for k, t in net.state_dict().items()}
            else:
                since += 1
                if since > int(options["patience"]):
                    break
            optimiser.zero_grad()
            _loss(net, inputs, a, w, float(options["dropout"])).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    net.load_state_dict(state)
    net.eval()

    def prior(s: Snippet) -> Floats:
        query, tokens, code = batch_of([s], scale)
        with torch.no_grad():
            return net(query, code, net.keys(tokens))[0, 0].double().numpy()

    return prior


def _targets(
    snippets: list[Snippet], targets: Mapping[str, Floats], n: Mapping[str, int], code: Tensor
) -> tuple[Tensor, Tensor]:
    out = torch.zeros(code.shape)
    for k, s in enumerate(snippets):
        out[k, : len(s.position)] = torch.tensor(targets[s.name], dtype=torch.float32)
    return out, torch.tensor([float(n[s.name]) for s in snippets])


def _loss(
    net: GazeMixture, inputs: tuple[Tensor, Tensor, Tensor], target: Tensor, weight: Tensor,
    dropout: float,
) -> Tensor:  # fmt: skip
    query, tokens, code = inputs
    if dropout:
        tokens = torch.nn.functional.dropout(tokens, dropout)
        query = torch.nn.functional.dropout(query, dropout)
    log_g = net(query, code, net.keys(tokens))[:, 0]
    return (kl_each(target, log_g, code) * weight).sum() / weight.sum()


def fit_ensemble(
    data: Fitting, train: NDArray[np.bool_], people: NDArray[np.int64], items: NDArray[np.int64],
    options: Mapping[str, Any], seed: int,
) -> Prior:  # fmt: skip
    """Return the mean of priors that were each stopped on other developers and other code.

    Parameters
    ----------
    data
        Readings, targets and snippets.
    train
        Readings to learn from; a part of them, with developers and code of its own, tells each
        member when to stop.
    people, items
        Fold of the developer and of the code of each reading.
    options
        See conf/benchmark_gaze_fit.yaml.
    seed
    """
    members: list[Prior] = []
    for k, (i, j) in enumerate(
        (i, j) for i in np.unique(people[train]) for j in np.unique(items[train])
    ):
        valid = train & (people == i) & (items == j)
        inner = train & (people != i) & (items != j)
        if not valid.any() or not inner.any():
            continue
        a, n = means_of(data, inner)
        b, m = means_of(data, valid)
        known, held = ([data.snippets[s] for s in part] for part in (a, b))
        members.append(fit_one(known, a, n, held, b, m, options, seed + k))
    return lambda s: log_shares(np.exp(np.mean([p(s) for p in members], axis=0)))
