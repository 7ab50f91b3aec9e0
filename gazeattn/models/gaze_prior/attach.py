"""Puts a gaze prior into a language model by one call, and takes it out again without a trace."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.gaze_prior.base import CodeBatch, GazePrior
from gazeattn.registry import gaze_priors
from gazeattn.storage import atomic_path, sha256, write_json

WEIGHTS, FACTS, FORMAT = "gaze_prior.safetensors", "gaze_prior.json", "gazeattn-gaze-prior-1"
DEPTH = 0.6
"""Share of the blocks below a layer whose place is not named."""


def blocks_of(model: nn.Module) -> nn.ModuleList:
    """Return the blocks of a transformer: its longest list of modules.

    Raises
    ------
    CapabilityError
        There is none.
    """
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m)]
    # experts of one block are a list as well: those of the model hold all the others
    outer = [m for m in lists if not any(m is not o and _inside(m, o) for o in lists)]
    if not outer:
        raise CapabilityError(f"{type(model).__name__} has no list of blocks to stand between")
    return max(outer, key=len)


def _inside(inner: nn.Module, outer: nn.Module) -> bool:
    return any(m is inner for m in outer.modules())


def place_of(model: nn.Module, layer: int | float | str | None) -> tuple[str, int]:
    """Return name and number of the block that a layer stands behind.

    Parameters
    ----------
    model
    layer
        Number of the block from 0 (negative: from the end); a share of the depth, 0.6, also as
        text; the dotted name of the block; None: behind block ``round(0.6 L)``.

    Raises
    ------
    DataError
        There is no such block.
    """
    blocks = blocks_of(model)
    names = {id(m): n for n, m in model.named_modules()}
    n = len(blocks)
    if isinstance(layer, str) and not _is_number(layer):
        for k, block in enumerate(blocks):
            if names[id(block)] == layer or names[id(block)].endswith("." + layer):
                return names[id(block)], k
        ends = f"{names[id(blocks[0])]} to {names[id(blocks[n - 1])]}"
        raise DataError("no block of the model has this name", expected=ends, found=layer)
    number = DEPTH if layer is None else float(layer)
    share = layer is None or isinstance(layer, float) or (isinstance(layer, str) and "." in layer)
    k = min(round(number * n), n - 1) if share else int(number)
    if share and not 0 <= number <= 1:
        raise DataError("a share of the depth", expected="0 to 1", found=layer)
    if not -n <= k < n:
        raise DataError("number of a block", expected=f"0 to {n - 1}", found=layer)
    return names[id(blocks[k % n])], k % n


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class Attached:
    """A gaze prior inside a model.

    Attributes
    ----------
    model : Module
        The model, whose blocks call the prior; it does not own the prior: its parameters, its
        state dict and its files are what they were.
    prior : GazePrior
    block, layer : str, int
        Name and number of the block.
    """

    def __init__(self, model: nn.Module, prior: GazePrior, layer: int | float | str | None) -> None:
        if prior.place == "block":
            self.block, self.layer = place_of(model, layer)
        else:
            self.block, self.layer = "", -1
        self.model, self.prior = model, prior
        self._handles = self._hooks()

    def _hooks(self) -> list[Any]:
        prior = self.prior
        if prior.place != "block":
            return list(prior.hooks(self.model))  # type: ignore[operator]

        def after(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            if isinstance(output, Tensor):
                return prior(output)
            return (prior(output[0]), *output[1:])

        return [self.model.get_submodule(self.block).register_forward_hook(after)]

    @property
    def inside(self) -> bool:
        """Whether it has not been removed."""
        return bool(self._handles)

    @property
    def log_g(self) -> Tensor | None:
        """Logarithm of gaze at the end of the prompts in the last forward pass."""
        return self.prior.log_g

    @contextlib.contextmanager
    def code(
        self, code: Tensor, start: Tensor, weights: Tensor | None = None
    ) -> Iterator[Attached]:
        """Tell which tokens are code for what runs inside; outside the prior does nothing.

        Parameters
        ----------
        code : Tensor of bool, shape (batch, length)
        start : Tensor of int64, shape (batch,)
            Place of the last token of the prompt.
        weights : Tensor, shape (batch, length), optional
            What a prior that is not learned needs, see `gazeattn.models.gaze_prior.base.PRIORS`.
        """
        if not self.inside:
            raise DataError("the prior has been removed from the model")
        self.prior.begin(CodeBatch(code, start, weights))
        try:
            yield self
        finally:
            self.prior.end()

    def loss(self, target: Tensor, has: Tensor | None = None) -> Tensor:
        """Return the loss of gaze in the last forward pass, inside `code`."""
        return self.prior.gaze_loss(target, has)

    def remove(self) -> None:
        """Take the prior out: the model's outputs are what they were, to the bit."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.prior.end()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``gaze_prior.safetensors`` and ``gaze_prior.json`` beside other adapters."""
        from safetensors.torch import save_file

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        state = {k: v.detach().cpu().contiguous() for k, v in self.prior.state_dict().items()}
        with atomic_path(path / WEIGHTS) as new:
            save_file(state, new)
        name = next(e.name for e in gaze_priors if e.obj is type(self.prior))
        write_json(path / FACTS, {
            "format": FORMAT, "prior": name, "arguments": self.prior.arguments(),
            "layer": self.layer, "block": self.block, "sha256": sha256(path / WEIGHTS),
        })  # fmt: skip


def attach(model: nn.Module, prior: GazePrior, layer: int | float | str | None = None) -> Attached:
    """Put a gaze prior into a Hugging Face model.

    Parameters
    ----------
    model
        Decoder or encoder; a peft model as well.
    prior
    layer
        Block that it stands behind, see `place_of`; for priors of ``place`` "block".

    Returns
    -------
    Attached
        Handle to tell it of code, to save it and to take it out.

    Raises
    ------
    CapabilityError, DataError
        No such block; or the model's states are of another width.
    """
    width = prior.arguments().get("width")
    own = getattr(getattr(model, "config", None), "hidden_size", width)
    if width is not None and own is not None and int(own) != int(width):
        raise DataError("width of the model's states", expected=width, found=own)
    return Attached(model, prior, layer)


def load_prior(
    model: nn.Module, folder: str | os.PathLike[str], *, device: str | torch.device = "cpu"
) -> Attached:
    """Put a saved prior into a model, where it stood.

    Raises
    ------
    DataError
        Files are missing or damaged, or are not of this model.
    """
    from safetensors.torch import load_file

    path = Path(folder)
    for name in (WEIGHTS, FACTS):
        if not (path / name).is_file():
            raise DataError("the folder holds no gaze prior", source=path, expected=name)
    try:
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise DataError("format of a gaze prior", source=path, expected=FORMAT,
                            found=facts["format"])  # fmt: skip
        if facts["sha256"] != sha256(path / WEIGHTS):
            raise DataError("the weights are not those that were saved", source=path / WEIGHTS)
        kind = gaze_priors.get(str(facts["prior"])).obj
        prior = kind(**facts["arguments"])
        prior.load_state_dict(load_file(path / WEIGHTS))
        block, layer = str(facts["block"]), int(facts["layer"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("the file is damaged", source=path, found=str(error)) from None
    return attach(model, prior.to(device), layer if block else None)
