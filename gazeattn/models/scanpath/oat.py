"""OAT: which object of a display people look at next, and when they stop (Fang et al., 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gazeattn.datamodules import Scanpaths, Stimulus
from gazeattn.datamodules.objects import (
    ObjectBatch,
    ObjectScanpaths,
    centres_of,
    collate_objects,
    object_scanpaths,
)
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.layers.positions import sinusoid
from gazeattn.models.scanpath._oat_parts import (
    ALIKE,
    ORDERED,
    RELATIONS,
    CropEncoder,
    DecoderLayer,
    DistanceCode,
    ObjectHead,
    relations,
)
from gazeattn.models.scanpath.base import NetworkModel, Path
from gazeattn.registry import register_scanpath_model

TARGETS = ("none", "position", "appearance", "both")
APPEARANCES = ("none", "embedding", "crops")


@dataclass
class Encoded:
    """What is known of displays before the first fixation, one row per display.

    Attributes
    ----------
    tokens : Tensor, shape (n_displays, n_objects, width)
        Objects before the encoder: what the decoder is told when one was looked at.
    memory : Tensor, shape (n_displays, n, width)
        Objects, and where it is shown the target, after the encoder.
    present : Tensor of bool, shape (n_displays, n)
    alike : Tensor or None, shape (n_displays, n_objects)
        ``exp(-|p_j - p_target|^2 / 2)`` for a learned projection p of looks, in units of their
        spread over the display: what is alike depends on what else there is.
    """

    tokens: Tensor
    memory: Tensor
    present: Tensor
    alike: Tensor | None = None


@register_scanpath_model(
    "oat",
    description="object-level attention transformer: sequences of objects over a display",
    citation="Fang, Yu, Zhang, van der Lans & Shi 2024, ECCV, arXiv:2407.13335",
    needs=("objects",),
    kind="network",
)
class ObjectAttentionTransformer(NetworkModel):
    """A transformer whose classes are the objects of the display at hand, and stopping.

    Parameters
    ----------
    width, heads, inner, encoder_layers, decoder_layers, head_heads, dropout
        Sizes: of tokens, attention heads, the layers inside a block, numbers of blocks, heads of
        the last attention over objects.
    sigma, reach
        Of the position code, in units of the display (median width and height of its objects).
    target : {"position", "appearance", "both", "none"}
        What is told of the target: a mark on the object, so that its place is known from the
        start (published: both); or its look alone, without a place; or nothing.
    appearance : {"none", "embedding", "crops"}
        What ``Stimulus.features["appearance"]`` holds.
    appearance_width : int
        Of given embeddings.
    crop_grid : (rows, columns)
        See `CropEncoder`.
    relative : bool
        Add the relation of each candidate to the current object, and whether it was looked at
        before, and how much it looks like the target where that is shown, to the last
        attention. An extension; the published model has none.
    ordered : bool
        The rows of the objects are an order that people follow, as in a text.
    lr, weight_decay, warmup_epochs
        See `NetworkModel`.

    References
    ----------
    Fang, Yu, Zhang, van der Lans & Shi 2024, OAT: Object-level attention transformer for gaze
    scanpath prediction, ECCV, arXiv:2407.13335.

    Notes
    -----
    Stopping has a logit of its own, computed from the state of the decoder: it is no object, and
    looking at the target does not mean to stop. Padding is masked and no class. There is no
    density over pixels: `log_probabilities` has the probabilities of objects and of stopping.
    """

    durations: ClassVar[bool] = False
    density: ClassVar[bool] = False
    longest: Tensor

    def __init__(
        self,
        *,
        width: int = 512,
        heads: int = 4,
        inner: int = 512,
        encoder_layers: int = 4,
        decoder_layers: int = 4,
        head_heads: int = 2,
        dropout: float = 0.1,
        sigma: float = 2.0,
        reach: float = 40.0,
        target: str = "position",
        appearance: str = "none",
        appearance_width: int = 0,
        crop_grid: tuple[int, int] = (9, 5),
        relative: bool = True,
        ordered: bool = False,
        lr: float = 1e-4,
        weight_decay: float = 0.0,
        warmup_epochs: float = 0.0,
    ) -> None:
        if target not in TARGETS:
            raise UnknownNameError("way to tell the target", target, TARGETS)
        if appearance not in APPEARANCES:
            raise UnknownNameError("kind of appearance", appearance, APPEARANCES)
        if target in ("appearance", "both") and appearance == "none":
            raise DataError("a target told by its look needs appearance", found="none")
        if ordered and not relative:
            raise DataError("ordered is a relation of objects: it needs relative")
        super().__init__(lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs)
        self.save_hyperparameters()
        self.marked = target in ("position", "both")
        self.shown = target in ("appearance", "both")
        self.appearance, self.relative, self.ordered = appearance, relative, ordered
        self.code = DistanceCode(sigma, reach)
        self.place = nn.Linear(2 * self.code.width, width)
        self.mark = nn.Parameter(torch.randn(width) * 0.1)
        self.begin = nn.Parameter(torch.randn(width) * 0.1)
        self.look: nn.Module | None = None
        if appearance == "embedding":
            if appearance_width < 1:
                raise DataError("appearance_width must be that of the embeddings", found=0)
            self.look = nn.Sequential(
                nn.LayerNorm(appearance_width), nn.Linear(appearance_width, width)
            )
        elif appearance == "crops":
            self.look = CropEncoder(width, (int(crop_grid[0]), int(crop_grid[1])))
        if self.shown:
            self.wanted = nn.Parameter(torch.randn(width) * 0.1)
            self.match = nn.Linear(width, width)
            self.compare = nn.Linear(width, 8, bias=False)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, encoder_layers, enable_nested_tensor=False)
        self.decoder = nn.ModuleList(
            DecoderLayer(width, heads, inner, dropout) for _ in range(decoder_layers)
        )
        features = RELATIONS + ORDERED * ordered + ALIKE * self.shown if relative else 0
        self.head = ObjectHead(width, head_heads, features)
        self.width = width
        self.register_buffer("longest", torch.tensor(0))

    def fit_statistics(self, train: Scanpaths | ObjectScanpaths) -> None:
        """Keep the length of the longest training sequence: no sample is longer."""
        self.longest = torch.tensor(int(train.lengths.max()))

    # -- the display ------------------------------------------------------------------------------

    def encode(self, batch: ObjectBatch) -> Encoded:
        """Return the displays of a batch, encoded once each."""
        hidden = ~batch.present[..., None]
        far = batch.centres.masked_fill(hidden, -math.inf).amax(1)
        near = batch.centres.masked_fill(hidden, math.inf).amin(1)
        if bool((far - near > self.code.reach).any()):
            raise DataError(
                "a display is larger than the reach of the position code",
                expected=f"at most {self.code.reach:g} objects wide and high",
                found=f"{float((far - near).max()):.3g}",
                hint="set reach",
            )
        tokens = self._placed(batch.centres)
        if self.marked:
            tokens = tokens + batch.is_target[..., None] * self.mark
        entries, present, alike = tokens, batch.present, None
        if self.look is not None:
            if batch.appearance is None:
                raise DataError("the displays have no appearance", expected=self.appearance)
            looks = self.look(batch.appearance)
            tokens = entries = tokens + looks
            if self.shown:
                if batch.target is None:
                    raise DataError("the displays have no look of the target")
                wanted = self.look(batch.target)[:, None]
                tokens = tokens + self.match(looks * wanted)
                apart = self.compare((looks - wanted) / spread_of(looks, batch.present))
                alike = torch.exp(-(apart**2).sum(-1) / 2)
                entries = torch.cat([tokens, wanted + self.wanted], 1)
                present = F.pad(present, (0, 1), value=True)
        memory = self.encoder(entries, src_key_padding_mask=~present)
        return Encoded(tokens, memory, present, alike)

    def _placed(self, centres: Tensor) -> Tensor:
        return self.place(self.code(centres).flatten(-2))

    # -- the sequence -----------------------------------------------------------------------------

    def forward(self, batch: ObjectBatch) -> Tensor:
        """Return logits, (batch, length + 1, n_objects + 1); see `log_probabilities`."""
        shown = self.encode(batch)
        most = batch.centres.shape[1]
        tokens, memory = shown.tokens[batch.which], shown.memory[batch.which]
        past = tokens.gather(1, batch.looked[..., None].expand(-1, -1, self.width))
        begin = (self._placed(batch.origin) + self.begin)[:, None]
        x = torch.cat([begin, past], 1)
        x = x + self._order(x.shape[1])
        present = shown.present[batch.which]
        for layer in self.layers:
            x, _ = layer(x, layer.keys(memory), present)
        pairs = self._pairs(batch, shown.alike) if self.relative else x.new_zeros(0)
        present = batch.present[batch.which]
        logits = self.head(self.head.keys(memory[:, :most]), x, present, pairs)
        never = torch.zeros_like(logits, dtype=torch.bool)
        never[:, 0, -1] = True  # nobody stops before the first fixation
        return logits.masked_fill(never, -math.inf)

    @property
    def layers(self) -> list[DecoderLayer]:
        """Layers of the decoder."""
        return cast("list[DecoderLayer]", list(self.decoder))

    def _order(self, length: int, start: int = 0) -> Tensor:
        steps = torch.arange(start, start + length, device=self.begin.device)
        return sinusoid(steps, self.width) / math.sqrt(self.width)

    def _pairs(self, batch: ObjectBatch, alike: Tensor | None) -> Tensor:
        """Return `relations` before every fixation and after the last one."""
        centres = batch.centres[batch.which]
        length = batch.looked.shape[1]
        most = centres.shape[1]
        hit = F.one_hot(batch.looked, most).float() * batch.mask[..., None]
        times = F.pad(hit.cumsum(1), (0, 0, 1, 0))
        steps = torch.arange(length, device=hit.device).float()[None, :, None]
        when = torch.where(hit > 0, steps, -math.inf).cummax(1).values
        when = F.pad(when, (0, 0, 1, 0), value=-math.inf)
        now = torch.arange(-1, length, device=hit.device).float()[None, :, None]
        at = centres.gather(1, batch.looked[..., None].expand(-1, -1, 2))
        here = torch.cat([batch.origin[:, None], at], 1)
        goal = batch.is_target[batch.which].float() * self.marked
        order = None
        if self.ordered:
            rows = torch.arange(most, device=hit.device).float()
            current = F.pad(batch.looked.float(), (1, 0))
            order = rows - current[..., None]
        alike = None if alike is None else alike[batch.which]
        return relations(centres, here, now - when, times, goal, order, alike)

    def log_probabilities(self, batch: ObjectBatch) -> Tensor:
        """Return the log-probabilities of each object and, last, of stopping.

        Returns
        -------
        Tensor, shape (batch, length + 1, n_objects + 1)
            Row t is given fixations 0..t-1; it sums to 1. Padding objects have -inf. Rows behind
            the end of a sequence mean nothing.
        """
        return self(batch).log_softmax(-1)

    def training_loss(self, batch: ObjectBatch) -> dict[str, Tensor]:  # type: ignore[override]
        """Return the cross-entropy per fixation and end, and its part of objects."""
        found, ends = batch_scores(self.log_probabilities(batch), batch)
        objects = -found[batch.mask]
        if not len(objects):
            return {}
        everything = torch.cat([objects, -ends[batch.finished]])
        return {"loss": everything.mean(), "objects": objects.mean()}

    # -- sampling ---------------------------------------------------------------------------------

    @torch.no_grad()
    def sample_objects(
        self,
        stimulus: Stimulus,
        n: int,
        generator: torch.Generator | None = None,
        *,
        greedy: bool = False,
        origin: tuple[float, float] = (0.5, 0.5),
        longest: int | None = None,
    ) -> list[NDArray[np.int64]]:
        """Draw sequences of rows of ``stimulus.objects``, all n of them side by side.

        Parameters
        ----------
        stimulus, n
        generator
            Source of all chance; not needed where `greedy`.
        greedy
            Take the most probable object (or stop) at each step: n times the same sequence.
        origin
            Where the gaze starts, as shares of the display.
        longest
            Sequences that have not stopped are cut here; by default the longest of training.
        """
        if generator is None and not greedy:
            raise DataError("drawing needs a generator")
        limit = int(self.longest) if longest is None else longest
        if limit < 1:
            raise DataError("the longest sequence is not known", hint="call fit_statistics")
        training = self.training
        self.eval()
        try:
            return self._draw(stimulus, n, generator if not greedy else None, origin, limit)
        finally:
            self.train(training)

    def _draw(
        self,
        stimulus: Stimulus,
        n: int,
        generator: torch.Generator | None,
        origin: tuple[float, float],
        limit: int,
    ) -> list[NDArray[np.int64]]:
        paths = object_scanpaths([[0]], [stimulus.name], {stimulus.name: stimulus}, origin=origin)
        batch = collate_objects(paths).to(self.begin.device)
        shown = self.encode(batch)
        most = batch.centres.shape[1]
        memory, allowed = shown.memory.expand(n, -1, -1), shown.present.expand(n, -1)
        kept = [layer.keys(memory) for layer in self.layers]
        keys = self.head.keys(shown.memory[:, :most]).expand(n, -1, -1, -1)
        centres, present = batch.centres.expand(n, -1, -1), batch.present.expand(n, -1)
        goal = batch.is_target.float().expand(n, -1) * self.marked
        last = torch.full((n, most), math.inf, device=memory.device)
        times = torch.zeros_like(last)
        here = batch.origin.expand(n, 2)
        current = torch.zeros(n, device=memory.device)
        x = (self._placed(here) + self.begin)[:, None]
        past: list[tuple[Tensor, Tensor] | None] = [None] * len(kept)
        rows = torch.arange(n, device=memory.device)
        stopped = torch.zeros(n, dtype=torch.bool, device=memory.device)
        drawn = []
        for t in range(limit):
            x = x + self._order(1, t)
            for k, layer in enumerate(self.layers):
                x, past[k] = layer(x, kept[k], allowed, past[k])
            pairs = x.new_zeros(0)
            if self.relative:
                order = torch.arange(most, device=x.device) - current[:, None, None]
                pairs = relations(
                    centres, here[:, None], last[:, None], times[:, None], goal,
                    order if self.ordered else None,
                    None if shown.alike is None else shown.alike.expand(n, -1),
                )  # fmt: skip
            logits = self.head(keys, x, present, pairs)[:, 0]
            if t == 0:
                logits[:, -1] = -math.inf
            chosen = pick(logits, generator)
            stopped = stopped | (chosen == most)
            if bool(stopped.all()):
                break
            chosen = chosen.clamp(max=most - 1)  # those that stopped go on unseen
            drawn.append(torch.where(stopped, -1, chosen))
            last = last + 1
            last[rows, chosen] = 0
            times = times.clone()
            times[rows, chosen] += 1
            here, current = centres[rows, chosen], chosen.float()
            x = shown.tokens[0, chosen][:, None]
        found = torch.stack(drawn, 1).cpu().numpy() if n else np.zeros((0, 0), dtype=np.int64)
        return [row[row >= 0] for row in found]

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths: the centres of the boxes of `sample_objects`, in pixels."""
        centres = centres_of(stimulus)
        return [centres[s] for s in self.sample_objects(stimulus, n, generator)]


def spread_of(looks: Tensor, present: Tensor) -> Tensor:
    """Return the standard deviation of each feature over the objects of a display.

    Parameters
    ----------
    looks : Tensor, shape (n_displays, n_objects, width)
    present : Tensor of bool, shape (n_displays, n_objects)

    Returns
    -------
    Tensor, shape (n_displays, 1, width)
        With a small constant, so that displays of one object or of equal ones have none of 0.
    """
    there = present[..., None].to(looks.dtype)
    count = there.sum(1, keepdim=True)
    mean = (looks * there).sum(1, keepdim=True) / count
    variance = ((looks - mean) ** 2 * there).sum(1, keepdim=True) / count
    return (variance + 1e-4).sqrt()


def pick(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw one class per row, with one number of chance per row; None takes the most probable."""
    if generator is None:
        return logits.argmax(-1)
    below = logits.double().softmax(-1).cumsum(-1)
    chance = torch.rand(len(logits), 1, dtype=torch.float64, generator=generator)
    found = torch.searchsorted(below, chance.to(below.device) * below[:, -1:], right=True)
    return found.squeeze(-1).clamp(max=logits.shape[-1] - 1)


def batch_scores(values: Tensor, batch: ObjectBatch) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of what happened.

    Parameters
    ----------
    values : Tensor, shape (batch, length + 1, n_objects + 1)
        From `log_probabilities`.

    Returns
    -------
    fixations : Tensor, shape (batch, length)
        0 in padding.
    ends : Tensor, shape (batch,)
        Of stopping after the last fixation, whether or not the sequence is finished.
    """
    found = values[:, :-1].gather(2, batch.looked[..., None]).squeeze(-1)
    found = found.masked_fill(~batch.mask, 0.0)
    lengths = batch.mask.sum(1)
    ends = values[torch.arange(len(values), device=values.device), lengths, -1]
    return found, ends
