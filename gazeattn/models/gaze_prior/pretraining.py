"""Stage A: a gaze prior learns readings of code while the language model stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import xlogy
from torch import Tensor

from gazeattn.datamodules.code_summaries import GazeExample
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.gaze_prior.base import CodeBatch, kl_each
from gazeattn.models.gaze_prior.eyelayer import EyeLayer


@dataclass(frozen=True)
class GazeTraining:
    """How a prior is trained on readings alone.

    Attributes
    ----------
    epochs : int
        0: not at all.
    lr, weight_decay : float
        Of AdamW.
    batch : int
        Readings of a step.
    patience : int
        Epochs without a lower loss of held-out readings before it ends.
    dropout : float
        Share of the numbers of a state that are taken away in training.
    """

    epochs: int = 20
    lr: float = 1e-3
    weight_decay: float = 0.1
    batch: int = 16
    patience: int = 5
    dropout: float = 0.3

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> GazeTraining:
        """Return settings from a mapping, with defaults for what it lacks."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownNameError("setting of stage A", str(name), known)
        made = cls(**options)
        if made.epochs < 0 or made.batch < 1:
            raise DataError("stage A", expected="epochs of 0 or more, batch of 1 or more",
                            found=(made.epochs, made.batch))  # fmt: skip
        return made


def fit_gaze(
    prior: EyeLayer,
    states: Mapping[str, NDArray[Any]],
    train: Sequence[GazeExample],
    held: Sequence[GazeExample],
    settings: GazeTraining,
    seed: int = 0,
) -> pd.DataFrame:
    """Train the mixture of a prior on readings; it keeps what does best on held-out ones.

    Parameters
    ----------
    prior
        Its mixture is changed.
    states
        Of each piece of code, (length of its prompt, width), behind the prior's block.
    train, held
        Readings; other developers and other code in the latter, which tell when to stop.
    settings
    seed

    Returns
    -------
    DataFrame
        ``epoch``, ``train`` and ``held``: mean KL(reading || gaze), nats. Epoch 0 is the start.

    Raises
    ------
    DataError
        The prior is not learned, or a part has no reading.
    """
    mixture = prior.mixture
    if mixture is None:
        raise DataError("a prior that is not learned has no stage A", found=prior.prior)
    if not train or not held:
        raise DataError("stage A needs readings to learn from and others to stop at",
                        found=(len(train), len(held)))  # fmt: skip
    optimizer = torch.optim.AdamW(
        mixture.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    best, kept, since = np.inf, {}, 0
    rows = []
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for epoch in range(settings.epochs + 1):
            losses = []
            if epoch:
                order = np.random.default_rng([seed, epoch]).permutation(len(train))
                for k in range(0, len(order), settings.batch):
                    part = [train[i] for i in order[k : k + settings.batch]]
                    loss = _loss(prior, states, part, settings.dropout)
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    losses += [float(loss.detach())] * len(part)
            with torch.no_grad():
                found = float(_loss(prior, states, held, 0.0))
            rows.append({"epoch": epoch, "train": np.mean(losses) if losses else np.nan,
                         "held": found})  # fmt: skip
            if found < best:
                best, since = found, 0
                kept = {k: v.clone() for k, v in mixture.state_dict().items()}
            else:
                since += 1
                if since > settings.patience:
                    break
    mixture.load_state_dict(kept)
    return pd.DataFrame(rows)


def _loss(
    prior: EyeLayer,
    states: Mapping[str, NDArray[Any]],
    part: Sequence[GazeExample],
    dropout: float,
) -> Tensor:
    """Return the mean KL of some readings; each piece of code is worked on once."""
    names = sorted({e.stimulus for e in part})
    first = {e.stimulus: e for e in part}
    size = max(len(first[n].prompt.ids) for n in names)
    width = next(iter(states.values())).shape[1]
    own = torch.zeros(len(names), size, width)
    code = torch.zeros(len(names), size, dtype=torch.bool)
    start = torch.zeros(len(names), dtype=torch.long)
    for k, name in enumerate(names):
        prompt = first[name].prompt
        own[k, : len(prompt.ids)] = torch.from_numpy(states[name])
        code[k, : len(prompt.ids)] = torch.from_numpy(prompt.code)
        start[k] = prompt.start
    own = torch.nn.functional.dropout(own, dropout, training=dropout > 0)
    told = CodeBatch(code, start)
    asked = own[torch.arange(len(names)), start][:, None]
    assert prior.mixture is not None
    log_g = prior.gaze(asked, told, prior.mixture.keys(own))[:, 0]
    of = torch.tensor([names.index(e.stimulus) for e in part])
    target = torch.zeros(len(part), size)
    for k, e in enumerate(part):
        target[k, : len(e.target)] = torch.from_numpy(e.target)
    return kl_each(target, log_g[of], code[of]).mean()


def uniform_loss(examples: Sequence[GazeExample]) -> NDArray[np.float64]:
    """Return KL(reading || uniform) of each reading, nats: what is lost by knowing nothing."""
    out = []
    for e in examples:
        a = e.target[e.prompt.code].astype(np.float64)
        out.append(float(xlogy(a, a).sum() + np.log(len(a))))
    return np.array(out)
