"""An encoder of the BERT family driven layer by layer, so that gaze can enter at any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch, ReadingInputs
from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm import LanguageModel
from gazeattn.lm.tokens import added_specials
from gazeattn.losses import LossLog
from gazeattn.models.reading.base import ReadingNetwork

CACHE_BYTES = 1 << 30
"""States of texts under frozen layers are kept up to this size, then the cache starts afresh."""


class Encoder(nn.Module):
    """A pretrained encoder whose layers are called one by one.

    Parameters
    ----------
    name
        See `gazeattn.LanguageModel.load`.
    train_layers
        How many of the last layers are trained; 0: none; -1: all, and the embeddings. What is
        not trained runs without dropout.

    Raises
    ------
    CapabilityError
        Not of the BERT family (BERT, RoBERTa, XLM-RoBERTa, ...): learned absolute position
        embeddings and a list of layers are needed.
    """

    embeddings: Any
    layers: Any

    def __init__(self, name: str, train_layers: int = 0) -> None:
        super().__init__()
        lm = LanguageModel.load(name, device="cpu")
        body = lm.model.base_model
        embeddings: Any = getattr(body, "embeddings", None)
        layers: Any = None
        if getattr(body, "encoder", None) is not None:
            layers = getattr(body.encoder, "layer", None)
        tables = [getattr(embeddings, f"{k}_embeddings", None) for k in ("word", "position")]
        width = int(body.config.hidden_size)
        fits = all(isinstance(t, nn.Embedding) and t.embedding_dim == width for t in tables)
        norm = getattr(embeddings, "LayerNorm", None)
        if not fits or norm is None or not isinstance(layers, nn.ModuleList) or lm.info["causal"]:
            raise CapabilityError(
                f"{name!r} ({lm.info['architecture']}) is no encoder of the BERT family, with "
                "learned position embeddings and a list of layers, where gaze could enter"
            )
        if not -1 <= train_layers <= len(layers):
            raise DataError(
                "number of trained layers", expected=f"-1 to {len(layers)}", found=train_layers
            )
        self.width, self.train_layers = width, int(train_layers)
        self.sha = str(lm.info.get("sha") or "")
        self.end_id = int(added_specials(lm.tokenizer)[1][-1])
        self.embeddings, self.layers = embeddings, layers
        # RoBERTa-like tables keep their first rows for padding
        padding = embeddings.position_embeddings.padding_idx
        self.offset = 0 if padding is None else int(padding) + 1
        stated = lm.info.get("context_length") or 10**9
        self.limit = min(embeddings.position_embeddings.num_embeddings - self.offset, int(stated))
        self.requires_grad_(False)
        for module in self._trained():
            module.requires_grad_(True)
        self._cache: dict[tuple[int, bytes], Tensor] = {}
        self._cached = 0

    def _trained(self) -> list[nn.Module]:
        if self.train_layers < 0:
            return [self.embeddings, self.layers]
        return list(self.layers)[len(self.layers) - self.train_layers :]

    def train(self, mode: bool = True) -> Encoder:
        """Switch dropout on in the layers that are trained, off in all others."""
        super().train(False)
        self.training = mode
        for module in self._trained():
            module.train(mode)
        return self

    def frozen_below(self, layer: int) -> bool:
        """Say whether nothing under a layer is trained."""
        first = len(self.layers) - self.train_layers
        return self.train_layers >= 0 and layer <= first

    def check(self, batch: ReadingBatch) -> None:
        """Raise `DataError` unless the batch has tokens that this encoder can take."""
        if not batch.ids.shape[0]:
            raise DataError("the batch has no tokens", hint="reading_inputs(..., encoder=...)")
        if batch.ids.shape[1] > self.limit:
            raise DataError(
                "a text is longer than the encoder's positions",
                expected=f"at most {self.limit} tokens",
                found=batch.ids.shape[1],
                hint=f"TextEncoder(..., limit={self.limit})",
            )
        size = self.embeddings.word_embeddings.num_embeddings
        if int(batch.ids.max()) >= size:
            raise DataError(
                "tokens of another language model", expected=f"ids below {size}",
                found=int(batch.ids.max()),
            )  # fmt: skip

    # -- positions and embeddings ----------------------------------------------------------------

    def positions(self, n_tokens: int) -> Tensor:
        """Return the position embeddings of the tokens of a text, (n_tokens, width)."""
        return self.embeddings.position_embeddings.weight[self.offset : self.offset + n_tokens]

    def first_type(self) -> Tensor:
        """Return the embedding of the first token type, (width,); 0 where there are no types."""
        types = getattr(self.embeddings, "token_type_embeddings", None)
        if types is None:
            return torch.zeros_like(self.embeddings.position_embeddings.weight[0])
        return types.weight[0]

    def normed(self, embedded: Tensor) -> Tensor:
        """Apply what follows the sum of the embeddings: norm and dropout."""
        return self.embeddings.dropout(self.embeddings.LayerNorm(embedded))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the states under the first layer, (n_texts, n_tokens, width)."""
        words = self.embeddings.word_embeddings(ids)
        return self.normed(words + self.positions(ids.shape[1]) + self.first_type())

    def word_positions(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the mean position embeddings of the tokens of each word.

        Returns
        -------
        means : Tensor, shape (batch, n_words, width)
        there : Tensor of bool, shape (batch, n_words)
            Words that have a token.
        """
        n_words, (n_texts, n_tokens) = batch.word_mask.shape[1], batch.token_word.shape
        slot = torch.where(batch.token_word >= 0, batch.token_word, n_words).clamp_max(n_words)
        counts = torch.zeros(n_texts, n_words + 1, device=slot.device)
        counts.scatter_add_(1, slot, torch.ones_like(slot, dtype=counts.dtype))
        table = self.positions(n_tokens)
        sums = table.new_zeros(n_texts, n_words + 1, self.width).scatter_add(
            1, slot[..., None].expand(-1, -1, self.width), table.expand(n_texts, -1, -1)
        )
        means = (sums / counts.clamp_min(1)[..., None])[:, :n_words]
        return means[batch.which], counts[batch.which, :n_words] > 0

    # -- layers ----------------------------------------------------------------------------------

    def run(self, states: Tensor, mask: Tensor, begin: int, end: int) -> Tensor:
        """Return the states after layers ``begin`` to ``end - 1``.

        Parameters
        ----------
        states : Tensor, shape (batch, n, width)
        mask : Tensor of bool, shape (batch, n)
        """
        added = _additive(mask, states.dtype)
        for layer in list(self.layers)[begin:end]:
            out = layer(states, added)
            states = out[0] if isinstance(out, tuple) else out
        return states

    def summary(self, states: Tensor, mask: Tensor, begin: int) -> Tensor:
        """Return the state of the first slot after all layers from ``begin`` on, (batch, width).

        Padding is taken out and rows of like length run together: an encoder does not know where
        in a tensor a slot stands. In the last layer only the first slot is worked out: nothing
        else is read.
        """
        lengths = mask.sum(1)
        order = (~mask).to(torch.int8).argsort(dim=1, stable=True)
        out = states.new_empty(len(states), self.width)
        for rows in like_lengths(lengths.tolist()):
            at = torch.tensor(rows, device=states.device)
            longest = int(lengths[at].max())
            kept = order[at, :longest, None].expand(-1, -1, self.width)
            some = torch.arange(longest, device=states.device) < lengths[at, None]
            found = self._first(states[at].gather(1, kept), some, begin)
            out = out.index_put((at,), found)
        return out

    def _first(self, states: Tensor, mask: Tensor, begin: int) -> Tensor:
        states = self.run(states, mask, begin, len(self.layers) - 1)
        layer = self.layers[-1]
        own: Any = getattr(getattr(layer, "attention", None), "self", None)
        if not (hasattr(own, "scaling") and hasattr(layer, "intermediate")):
            return self.run(states, mask, len(self.layers) - 1, len(self.layers))[:, 0]
        first = states[:, :1]

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2)

        attended = F.scaled_dot_product_attention(
            heads(own.query(first)),
            heads(own.key(states)),
            heads(own.value(states)),
            attn_mask=mask[:, None, None, :],
            dropout_p=own.dropout.p if own.training else 0.0,
            scale=own.scaling,
        )
        hidden = layer.attention.output(attended.transpose(1, 2).flatten(2), first)
        return layer.output(layer.intermediate(hidden), hidden)[:, 0]

    def text_states(self, batch: ReadingBatch, layer: int) -> Tensor:
        """Return the states of the distinct texts under a layer, seen by themselves.

        Where nothing below is trained, they are worked out once per text and kept.

        Returns
        -------
        Tensor, shape (n_texts, n_tokens, width)
        """
        self.check(batch)
        if layer == 0 or not self.frozen_below(layer):
            return self.run(self.embed(batch.ids), batch.token_mask, 0, layer)
        lengths = batch.token_mask.sum(1).tolist()
        ids = batch.ids.cpu().numpy()
        keys = [(layer, row[:n].tobytes()) for row, n in zip(ids, lengths, strict=True)]
        if any(k not in self._cache for k in keys):
            self._fill(batch, keys, lengths, layer)
        states = [self._cache[k].to(batch.ids.device) for k in keys]
        return nn.utils.rnn.pad_sequence(states, batch_first=True)

    def _fill(
        self, batch: ReadingBatch, keys: list[tuple[int, bytes]], lengths: list[int], layer: int
    ) -> None:
        lacking = [i for i, k in enumerate(keys) if k not in self._cache]
        size = 4 * self.width * sum(lengths)
        if self._cached + size > CACHE_BYTES:
            self._cache.clear()
            self._cached, lacking = 0, list(range(len(keys)))
        for part in like_lengths([lengths[i] for i in lacking]):
            rows = [lacking[k] for k in part]
            n = max(lengths[i] for i in rows)
            # states from inference mode could not be used in training later
            with torch.inference_mode(False), torch.no_grad():
                states = self.embed(batch.ids[rows, :n].clone())
                states = self.run(states, batch.token_mask[rows, :n].clone(), 0, layer)
            for row, i in enumerate(rows):
                kept = states[row, : lengths[i]].cpu().clone()
                self._cache[keys[i]] = kept
                self._cached += kept.numel() * 4


def like_lengths(lengths: Sequence[int], least: float = 0.8) -> list[list[int]]:
    """Return positions in groups whose shortest is at least a share of their longest."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        if groups and lengths[i] >= least * lengths[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to be added to scores, which every kind of attention takes."""
    added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return added.masked_fill(~mask, torch.finfo(dtype).min)[:, None, None, :]


class EncoderNetwork(ReadingNetwork):
    """A network that runs an encoder itself; its checkpoints leave out what is not trained.

    Parameters
    ----------
    target, widths
        See `ReadingNetwork`.
    encoder, train_layers
        See `Encoder`.
    encoder_rate
        Learning rate of the encoder over that of the other parameters.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`. Biases and norms do not decay.
    """

    text_use: ClassVar[str] = "tokens"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        encoder: str,
        train_layers: int,
        encoder_rate: float,
        lr: float,
        weight_decay: float,
        warmup_epochs: float,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.encoder = Encoder(encoder, train_layers)
        self.encoder.train(True)
        self.encoder_rate = float(encoder_rate)

    def frozen_keys(self) -> set[str]:
        """Return the names of the encoder's parameters that are not trained."""
        return {f"encoder.{n}" for n, p in self.encoder.named_parameters() if not p.requires_grad}

    def state_dict(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state without the frozen part of the encoder, which comes by its name."""
        found = super().state_dict(*args, **kwargs)
        for key in self.frozen_keys() & set(found):
            del found[key]
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load what `state_dict` gave; anything else that lacks is an error."""
        result = super().load_state_dict(state_dict, strict=False, assign=assign)
        lacking = sorted(set(result.missing_keys) - self.frozen_keys())
        if strict and (lacking or result.unexpected_keys):
            raise DataError(
                "the checkpoint does not fit the model",
                expected=", ".join(lacking[:4]) or "no more",
                found=", ".join(result.unexpected_keys[:4]) or "nothing",
            )
        return type(result)(lacking, result.unexpected_keys)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Note which weights the frozen part had."""
        checkpoint["encoder_sha"] = self.encoder.sha

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raise `DataError` where the encoder's weights are others than in training."""
        known = str(checkpoint.get("encoder_sha") or "")
        if known and self.encoder.sha and known != self.encoder.sha:
            raise DataError(
                "the language model is another than the one in training",
                expected=known[:12], found=self.encoder.sha[:12],
            )  # fmt: skip

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW with the encoder's own rate, and no decay of biases and norms."""
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, p in self.named_parameters():
            if p.requires_grad:
                rate = self.encoder_rate if name.startswith("encoder.") else 1.0
                decay = self.weight_decay if p.ndim > 1 else 0.0
                groups.setdefault((rate, decay), []).append(p)
        made = [
            {"params": ps, "lr": self.lr * rate, "weight_decay": decay, "rate": rate}
            for (rate, decay), ps in groups.items()
        ]
        return torch.optim.AdamW(made, lr=self.lr, betas=(0.9, 0.98), eps=1e-6)

    def on_train_epoch_start(self) -> None:
        """Set the learning rates of the epoch."""
        super().on_train_epoch_start()
        for optimizer in self.trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= group.get("rate", 1.0)


class Head(nn.Sequential):
    """RoBERTa's head: dropout, linear, tanh, dropout, linear."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__(
            nn.Dropout(dropout), nn.Linear(width, width), nn.Tanh(),
            nn.Dropout(dropout), nn.Linear(width, outputs),
        )  # fmt: skip


def without_tokens(inputs: ReadingInputs, lost: LossLog) -> int:
    """Count what an encoder cannot place, and say so in a log.

    Parameters
    ----------
    inputs
        Trials with tokens.
    lost
        Receives the words that have no token (nothing visible, or behind the limit of the text),
        and the fixations on them: those count as off the text.

    Returns
    -------
    int
        Fixations on such words.
    """
    if inputs.token_of is None:
        raise DataError("the inputs have no tokens", hint="reading_inputs(..., encoder=...)")
    trials, placed = inputs.trials, np.zeros(int(inputs.trials.n_words.sum()), dtype=bool)
    for begin, words in _words_of(inputs):
        placed[begin + words] = True
    first = np.repeat(trials.word_starts[:-1], trials.lengths)
    on = trials.word >= 0
    row = np.where(on, first + trials.word, 0)
    missed = on & ~placed[row] if len(placed) else np.zeros(len(row), dtype=bool)
    names = trials.trial[np.unique(trials.of[missed])]
    lost.add("encoder", "undefined", "words without a token of the language model",
             int((~placed).sum()), "words")  # fmt: skip
    lost.add("encoder", "undefined", "fixations on words without a token, taken as off the text",
             int(missed.sum()), "fixations", names)  # fmt: skip
    return int(missed.sum())


def _words_of(inputs: ReadingInputs) -> Iterator[tuple[int, np.ndarray]]:
    """Return of each trial where its words begin, and which of them have a token."""
    of: Sequence[np.ndarray] = [np.unique(t.word_of[t.word_of >= 0]) for t in inputs.tokens]
    assert inputs.token_of is not None
    for begin, which in zip(inputs.trials.word_starts[:-1], inputs.token_of, strict=True):
        yield int(begin), of[which]
