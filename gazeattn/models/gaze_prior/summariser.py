"""A language model that learns to summarise code, with a gaze prior inside."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gazeattn.datamodules.code_summaries import (
    GazeExample,
    SummaryBatch,
    SummaryExample,
    collate,
)
from gazeattn.errors import DataError
from gazeattn.lm import LanguageModel
from gazeattn.models.gaze_prior.attach import Attached, attach, blocks_of, load_prior
from gazeattn.models.gaze_prior.base import kl_each
from gazeattn.models.network import Network
from gazeattn.registry import gaze_priors
from gazeattn.storage import atomic_folder, write_json

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ADAPTER, FACTS, FORMAT = "adapter", "summariser.json", "gazeattn-summariser-1"
Floats = NDArray[np.float64]


class _Enough(Exception):
    """All that is needed of a pass has been computed."""


class Summariser(Network):
    """Low-rank adapters and a gaze prior, trained together on summaries and on gaze.

    The loss is ``L_LM + lambda L_gaze``: the cross entropy of the tokens of the summary and its
    end, and KL(reading || gaze) of readings of other code (Hu et al. 2022, ICLR, LoRA; Zhang et
    al. 2026, ICPC, EyeLayer; formula of this package). At the start it is the model it was.

    Parameters
    ----------
    lm
        A causal one. It is changed: adapters stand in it afterwards.
    prior
        Name of a gaze prior that works behind a block, such as ``"eyelayer"``; None: adapters
        alone.
    options
        Of the prior.
    layer
        Block that it stands behind, see `gazeattn.models.gaze_prior.attach.place_of`.
    rank, alpha, dropout
        Of the adapters, on all linear layers of attention and MLP; the scale is alpha / rank.
    first
        First block with adapters: blocks below stay as they are, and no gradient goes there.
    gaze_weight
        lambda.
    lr, prior_lr, weight_decay
        Of AdamW, for the adapters and for the prior.
    warmup
        Share of the steps in which the rates rise; they fall linearly to 0 after it.
    seed
        Of the first weights.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        prior: str | None = "eyelayer",
        options: Mapping[str, Any] | None = None,
        layer: float | int | str | None = None,
        rank: int = 16,
        alpha: int = 32,
        dropout: float = 0.0,
        first: int = 0,
        gaze_weight: float = 0.1,
        lr: float = 1e-4,
        prior_lr: float = 5e-4,
        weight_decay: float = 0.01,
        warmup: float = 0.03,
        seed: int = 0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay)
        from peft import LoraConfig, get_peft_model

        lm.require("causal", "lm_head", by="written summaries")
        self.strict_loading = False  # what is not trained is in no checkpoint
        self.arguments: dict[str, Any] = {
            "prior": prior, "options": dict(options or {}), "layer": layer, "rank": rank,
            "alpha": alpha, "dropout": dropout, "first": first, "gaze_weight": gaze_weight,
            "lr": lr, "prior_lr": prior_lr, "weight_decay": weight_decay, "warmup": warmup,
            "seed": seed,
        }  # fmt: skip
        self.gaze_weight, self.prior_lr, self.warmup = gaze_weight, prior_lr, warmup
        self.lm_name, self.sha = lm.name, str(lm.info.get("sha") or "")
        self.tokenizer = lm.tokenizer
        n = len(blocks_of(lm.model))
        if not 0 <= first < n:
            raise DataError("first block with adapters", expected=f"0 to {n - 1}", found=first)
        names = {k.rpartition(".")[2] for k, m in lm.model.named_modules()
                 if isinstance(m, nn.Linear)}  # fmt: skip
        parts = [p for p in PARTS if p in names]
        if not parts:
            raise DataError("no layer for an adapter", expected=", ".join(PARTS),
                            found=", ".join(sorted(names)))  # fmt: skip
        config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=parts,
            layers_to_transform=list(range(first, n)), task_type="CAUSAL_LM",
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model: Any = get_peft_model(lm.model, config)
            self.attached: Attached | None = None
            if prior is not None:
                kind = gaze_priors.get(prior).obj
                if kind.place != "block":
                    raise DataError("a prior that stands behind a block",
                                    expected="eyelayer", found=prior)  # fmt: skip
                width = lm.model.config.hidden_size
                self.attached = attach(lm.model, kind(width, **(options or {})), layer)
        # a part of this module, so that it is trained; the model does not own it
        self.prior = None if self.attached is None else self.attached.prior
        self.end = end_token(lm)
        pad = self.tokenizer.pad_token_id
        self.pad = self.end if pad is None else int(pad)

    # -- one batch -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _told(self, batch: SummaryBatch) -> Iterator[None]:
        if self.attached is None:
            yield
            return
        with self.attached.code(batch.code, batch.start, batch.letters):
            yield

    def token_losses(self, batch: SummaryBatch) -> Tensor:
        """Return the cross entropy of each token of the summaries, (batch, written); 0 before."""
        assert batch.labels is not None
        with self._told(batch):
            logits = self.model(
                input_ids=batch.ids, attention_mask=batch.mask, position_ids=batch.places,
                logits_to_keep=batch.labels.shape[1] + 1, use_cache=False,
            ).logits[:, :-1]  # fmt: skip
        flat = F.cross_entropy(
            logits.float().flatten(0, 1), batch.labels.flatten(), ignore_index=-100,
            reduction="none",
        )  # fmt: skip
        return flat.view(batch.labels.shape)

    def log_gaze(self, batch: SummaryBatch) -> Tensor:
        """Return the logarithm of gaze at the end of the prompts, (batch, length).

        Nothing above the prior's block is computed.

        Raises
        ------
        DataError
            There is no prior.
        """
        if self.attached is None:
            raise DataError("no gaze is predicted: there are adapters alone")

        def stop(_m: Any, _i: Any, _o: Any) -> None:
            raise _Enough

        handle = self.attached.model.get_submodule(self.attached.block).register_forward_hook(stop)
        try:
            with self._told(batch):
                with contextlib.suppress(_Enough):
                    self.model(
                        input_ids=batch.ids, attention_mask=batch.mask,
                        position_ids=batch.places, use_cache=False,
                    )  # fmt: skip
                log_g = self.attached.log_g
        finally:
            handle.remove()
        assert log_g is not None
        return log_g

    def training_loss(self, batch: SummaryBatch) -> dict[str, Tensor]:
        """Return the loss of a batch and its parts, ``lm`` and ``gaze``."""
        losses = self.token_losses(batch)
        assert batch.labels is not None
        lm = losses.sum() / (batch.labels >= 0).sum()
        found = {"loss": lm, "lm": lm}
        if batch.gaze is not None and self.learns_gaze:
            read = batch.gaze
            assert read.target is not None
            gaze = kl_each(read.target, self.log_gaze(read), read.code).mean()
            found |= {"loss": lm + self.gaze_weight * gaze, "gaze": gaze}
        return found

    @property
    def learns_gaze(self) -> bool:
        """Whether readings change it."""
        return self.gaze_weight > 0 and getattr(self.prior, "mixture", None) is not None

    def batch_weight(self, batch: SummaryBatch) -> int:
        """Return the number of tokens that the loss is the mean of."""
        assert batch.labels is not None
        return int((batch.labels >= 0).sum())

    # -- training ------------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """Return AdamW with a rate for adapters and one for the prior, and their course."""
        own = [] if self.prior is None else list(self.prior.parameters())
        ids = {id(p) for p in own}
        rest = [p for p in self.model.parameters() if p.requires_grad and id(p) not in ids]
        groups = [{"params": rest, "lr": self.lr}]
        if own:
            groups.append({"params": own, "lr": self.prior_lr})
        optimizer = torch.optim.AdamW(groups, weight_decay=self.weight_decay)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        rise = max(1, round(self.warmup * total))

        def factor(step: int) -> float:
            if step < rise:
                return (step + 1) / (rise + 1)
            return max(0.0, (total - step) / max(1, total - rise))

        course = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": course, "interval": "step"},
        }

    def on_train_epoch_start(self) -> None:
        """Leave the rates to their course by step."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what is trained alone."""
        kept = {k for k, p in self.named_parameters() if p.requires_grad}
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {k: v for k, v in state.items() if k in kept}

    @property
    def n_trained(self) -> int:
        """Number of trained parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    # -- writing and scoring -------------------------------------------------------------------

    def _batches(
        self, examples: Sequence[Any], size: int, written: bool
    ) -> Iterator[tuple[list[int], SummaryBatch]]:
        lengths = [len(e.prompt.ids) for e in examples]
        order = np.argsort(lengths, kind="stable").tolist()
        device = next(self.parameters()).device
        for k in range(0, len(order), size):
            rows = order[k : k + size]
            yield rows, collate([examples[i] for i in rows], self.pad, written).to(device)

    def losses_of(
        self, examples: Sequence[SummaryExample], batch_size: int = 8
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return the summed cross entropy of each summary with its end, nats, and its tokens."""
        total, n = np.zeros(len(examples)), np.zeros(len(examples), dtype=np.int64)
        self.eval()
        with torch.inference_mode():
            for rows, batch in self._batches(examples, batch_size, True):
                total[rows] = self.token_losses(batch).double().sum(1).cpu().numpy()
                n[rows] = [len(examples[i].summary) for i in rows]
        return total, n

    def write(
        self, examples: Sequence[SummaryExample], *, beams: int = 1, longest: int = 32,
        batch_size: int = 16,
    ) -> list[str]:  # fmt: skip
        """Return the first line that is written for each prompt; greedy with one beam.

        Parameters
        ----------
        examples
        beams
        longest
            Most tokens.
        batch_size
        """
        from transformers import GenerationConfig

        out = [""] * len(examples)
        settings = GenerationConfig(
            max_new_tokens=longest, num_beams=beams, do_sample=False, eos_token_id=self.end,
            pad_token_id=self.pad,
        )  # fmt: skip
        self.eval()
        with torch.inference_mode():
            for rows, batch in self._batches(examples, batch_size, False):
                with self._told(batch):
                    found = self.model.generate(
                        input_ids=batch.ids, attention_mask=batch.mask,
                        generation_config=settings,
                    )  # fmt: skip
                for i, ids in zip(rows, found[:, batch.ids.shape[1] :].tolist(), strict=True):
                    text = str(self.tokenizer.decode(ids, skip_special_tokens=True))
                    lines = text.strip().splitlines()
                    out[i] = " ".join(lines[0].split()) if lines else ""
        return out

    def gaze_losses(self, examples: Sequence[GazeExample], batch_size: int = 4) -> Floats:
        """Return KL(reading || gaze) of each reading, nats."""
        out = np.zeros(len(examples))
        self.eval()
        with torch.inference_mode():
            for rows, batch in self._batches(examples, batch_size, False):
                assert batch.target is not None
                found = kl_each(batch.target, self.log_gaze(batch), batch.code)
                out[rows] = found.double().cpu().numpy()
        return out

    # -- files ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the adapters as peft does, the prior beside them, and what else is needed."""
        path = Path(folder)
        facts = {"format": FORMAT, "lm": self.lm_name, "sha": self.sha,
                 "arguments": self.arguments}  # fmt: skip
        with atomic_folder(path) as new:
            self.model.save_pretrained(str(new / ADAPTER), save_embedding_layers=False)
            if self.attached is not None:
                self.attached.save(new / ADAPTER)
            write_json(new / FACTS, facts)
        return path

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], lm: LanguageModel | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> Summariser:  # fmt: skip
        """Read what `save` wrote, into a fresh language model.

        Raises
        ------
        DataError
            The folder holds none, is damaged, or was made with another language model.
        """
        from peft import set_peft_model_state_dict
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = Path(folder)
        if not (path / FACTS).is_file():
            raise DataError("the folder holds no summariser", source=path, expected=FACTS)
        try:
            facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise DataError("format of a summariser", source=path, expected=FORMAT,
                                found=facts["format"])  # fmt: skip
            lm = LanguageModel.load(facts["lm"], root=root) if lm is None else lm
            sha = str(lm.info.get("sha") or "")
            if facts["sha"] and sha and facts["sha"] != sha:
                raise DataError(
                    "the language model is another than the one in training", source=path,
                    expected=facts["sha"][:12], found=sha[:12],
                )  # fmt: skip
            arguments = facts["arguments"]
            made = cls(lm, **arguments)
            tensors = load_file(path / ADAPTER / "adapter_model.safetensors")
            state: Any = set_peft_model_state_dict(made.model, tensors)
            if state.unexpected_keys or not tensors:
                raise DataError("the adapters do not fit the model", source=path,
                                found=", ".join(state.unexpected_keys[:3]))  # fmt: skip
        except (
            KeyError, TypeError, ValueError, OSError, RuntimeError, SafetensorError
        ) as error:  # fmt: skip
            if isinstance(error, DataError):
                raise
            raise DataError("the summariser is damaged", source=path, found=str(error)) from None
        if made.attached is not None:
            made.attached.remove()
            made.attached = load_prior(lm.model, path / ADAPTER)
            made.prior = made.attached.prior
        made.eval()
        return made


def end_token(lm: LanguageModel) -> int:
    """Return the token that ends a text.

    Raises
    ------
    DataError
        The tokenizer has none.
    """
    end = lm.model.generation_config.eos_token_id
    found = [*(end if isinstance(end, list) else [end]), lm.tokenizer.eos_token_id]
    known = [int(e) for e in found if e is not None]
    if not known:
        raise DataError("the tokenizer has no token that ends a text", source=lm.name)
    return known[0]
