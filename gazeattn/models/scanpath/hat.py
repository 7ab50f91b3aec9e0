"""HAT: a human attention transformer with a foveated working memory.

Yang et al. (2024), "Unifying Top-down and Bottom-up Scanpath Prediction Using Transformers",
CVPR. A pixel decoder refines the maps of a frozen backbone. What was seen stands in a memory:
the whole picture in coarse tokens, the fixated places in fine ones. A query per task reads the
memory and gives the map of the next fixation and the probability of stopping. All prefixes of all
scanpaths over a picture are trained in one pass, with the pixel decoder run once per picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.layers.pixel_decoder import PixelDecoder
from gazeattn.models.layers.positions import coarser_code, grid_code
from gazeattn.models.scanpath._hat_batches import Prefixes, all_prefixes, mirrored, window
from gazeattn.models.scanpath._hat_draw import STRIDE, draw
from gazeattn.models.scanpath._hat_loss import focal_loss, log_prior
from gazeattn.models.scanpath._hat_memory import MLP, Mixing, Reading
from gazeattn.models.scanpath._hat_options import check_options
from gazeattn.models.scanpath._hat_prior import Next, Recent, Returns, SaccadePrior, aspects, recent
from gazeattn.models.scanpath.base import FeatureSpec, Grid, NetworkModel, Path
from gazeattn.registry import register_scanpath_model

if TYPE_CHECKING:
    from gazeattn.models.scanpath._hat_checkpoint import LoadReport

FREE_VIEWING = "free_viewing"


@dataclass
class Seen:
    """What the network makes of pictures, once each.

    Attributes
    ----------
    cells : Tensor, shape (n_stimuli, cells, width)
        The stride-4 map with its position code.
    around : Tensor, shape (n_stimuli, tokens, width)
        The peripheral tokens with their position code.
    extra : Tensor, shape (tokens, width)
        What is added to them for queries and keys.
    """

    cells: Tensor
    around: Tensor
    extra: Tensor


@register_scanpath_model(
    "hat",
    description="foveated working memory, task queries, a dense map per fixation and a stop head",
    citation="Yang et al. (2024), CVPR, doi:10.1109/CVPR52733.2024.00166",
    needs=("image",),
    kind="network",
)
class HAT(NetworkModel):
    """Human attention transformer.

    Parameters
    ----------
    backbone, image_size, strides, channels
        The frozen backbone, (width, height) of the stretched picture (multiples of 32), its maps
        and their channels by name. `strides` has to hold 4, 8, 16 and 32.
    tasks
        One query each: ``"free_viewing"`` for stimuli without a target, else names of targets.
    peripheral
        Strides of the peripheral tokens: 32, or 32 and 16.
    decoder_width, decoder_layers, decoder_hidden, decoder_heads, points
        Of the pixel decoder.
    width, heads, hidden, encoder_layers, query_layers
        Of the memory and of the queries that read it. The queries do not see each other.
    dropout, decoder_dropout
        In the memory and its readers; in the pixel decoder.
    flip
        Probability that a picture and its scanpaths are mirrored in training. The maps of the
        backbone are mirrored, not the picture itself, which is nearly the same.
    history
        Fixations that the memory holds, the latest. Longer prefixes are used, not dropped.
    index
        What a fixation's learned code tells: ``"age"``, 0 for the latest, or ``"order"``, 0 for
        the first (as published; numbers past the table share its last row).
    start
        ``"empty"``: the first fixation is predicted from none. ``"center"``: the memory holds the
        centre of the picture before it, for data whose scanpaths begin there and leave it out.
    center_prior
        ``"fitted"`` adds the log-density of the training fixations (one map for first fixations,
        one for the others) times a learned factor to the map's logits; ``"none"`` as published.
    saccade_prior
        ``"learned"`` adds a log-prior of the displacement from earlier fixations to the map's
        logits (`SaccadePrior`); ``"none"`` as published, with steps that are too long.
    returns
        So many of the last fixations carry narrow Gaussians beside the map, for steps and returns
        finer than the cells (`Returns`); 0 as published. It needs the density loss and no
        inhibition.
    loss
        ``"focal"``, as published: a sigmoid map and a penalty-reduced focal loss over pixels; or
        ``"density"``: a softmax map and the cross-entropy with the blurred fixation.
    sigma
        Of the target's Gaussian, pixels of the stretched picture.
    alpha, beta
        Exponents of the focal loss; `beta` is a whole number.
    stop_loss_weight
        Of the stop part of the loss.
    greedy
        Take the cell with the highest probability instead of drawing one. Greedy scanpaths agree
        better with single people and are far from people's distribution.
    inhibition
        Cells within this radius of an earlier fixation, in pixels of the stretched picture, get
        no probability when scanpaths are drawn; 0 for none. `log_density` has no inhibition.
    stop
        ``"sample"`` draws whether to stop, with the weight of the training loss taken out of the
        probability; ``"threshold"`` stops where the head's own output exceeds `stop_threshold`.
    max_fixations
        Drawn scanpaths end here at the latest.
    chunk
        Prefixes that are worked on together; they are sorted by length first.
    lr, weight_decay, warmup_epochs
        See `NetworkModel`.

    Notes
    -----
    A fixation drawn from the map lies anywhere in its cell with equal probability, a greedy one in
    the middle; Gaussians of `returns` are cut to the picture; so none is off it. There is no
    stopping before a fixation, so no scanpath is empty.
    """

    durations: ClassVar[bool] = False
    density: ClassVar[bool] = True
    whole_stimuli: ClassVar[bool] = True
    prior: Tensor
    code: Tensor
    stop_weight: Tensor
    scale: nn.Embedding
    fovea: nn.Embedding
    number: nn.Embedding
    query: nn.Embedding

    def __init__(
        self,
        *,
        backbone: str = "efficientnet_lite0",
        image_size: Sequence[int] = (512, 320),
        strides: Sequence[int] = (4, 8, 16, 32),
        channels: Mapping[str, int],
        tasks: Sequence[str] = (FREE_VIEWING,),
        peripheral: Sequence[int] = (32,),
        decoder_width: int = 256,
        decoder_layers: int = 6,
        decoder_hidden: int = 1024,
        decoder_heads: int = 8,
        points: int = 4,
        width: int = 384,
        heads: int = 4,
        hidden: int = 512,
        encoder_layers: int = 3,
        query_layers: int = 6,
        dropout: float = 0.0,
        decoder_dropout: float = 0.0,
        flip: float = 0.0,
        history: int = 20,
        index: str = "order",
        start: str = "empty",
        center_prior: str = "none",
        saccade_prior: str = "none",
        returns: int = 0,
        loss: str = "focal",
        sigma: float = 16.0,
        alpha: float = 1.0,
        beta: int = 4,
        stop_loss_weight: float = 1.0,
        greedy: bool = False,
        inhibition: float = 0.0,
        stop: str = "sample",
        stop_threshold: float = 0.5,
        max_fixations: int = 20,
        chunk: int = 64,
        lr: float = 1e-4,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        channels = {str(k): int(v) for k, v in channels.items()}
        image_size, strides = [int(v) for v in image_size], [int(v) for v in strides]
        tasks, peripheral = [str(t) for t in tasks], [int(p) for p in peripheral]
        self.save_hyperparameters()
        super().__init__(lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs)
        check_options(self.hparams)
        self.feature_spec = FeatureSpec(backbone, (image_size[0], image_size[1]), tuple(strides))
        self.grid: Grid = (image_size[1] // STRIDE, image_size[0] // STRIDE)
        self.tasks, self.peripheral = list(tasks), list(peripheral)
        self.history, self.index, self.start = history, index, start
        self.center_prior, self.loss, self.sigma = center_prior, loss, sigma
        self.alpha, self.beta, self.flip = alpha, int(beta), flip
        self.stop_loss_weight = stop_loss_weight
        self.greedy, self.inhibition = greedy, inhibition
        self.stop, self.stop_threshold = stop, stop_threshold
        self.max_fixations, self.chunk = max_fixations, chunk

        self.pixels = PixelDecoder(
            channels,
            decoder_width,
            heads=decoder_heads,
            hidden=decoder_hidden,
            layers=decoder_layers,
            points=points,
            dropout=decoder_dropout,
        )
        same = decoder_width == width
        self.project: nn.Module = nn.Identity() if same else nn.Conv2d(decoder_width, width, 1)
        self.scale = nn.Embedding(2, width)
        self.fovea = nn.Embedding(1, width)
        self.number = nn.Embedding(history, width)
        self.query = nn.Embedding(len(tasks), width)
        self.encoder = nn.ModuleList(
            Mixing(width, heads, hidden, dropout) for _ in range(encoder_layers)
        )
        self.readers = nn.ModuleList(
            Reading(width, heads, hidden, dropout) for _ in range(query_layers)
        )
        self.place = MLP(width, width, width)
        self.ending = MLP(width + 1, width, 1)
        self.prior_factor = nn.Parameter(torch.ones(()), requires_grad=center_prior == "fitted")
        self.saccades = SaccadePrior(width, self.grid) if saccade_prior == "learned" else None
        self.returns = Returns(width, returns) if returns else None
        self.register_buffer("code", grid_code(*self.grid, width), persistent=False)
        self.register_buffer("prior", torch.zeros(2, self.grid[0] * self.grid[1]))
        self.register_buffer("stop_weight", torch.ones(()))

    # What is learned from the training part without gradients

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take the weight of the stop label and, where wanted, the prior maps."""
        n = len(train)
        prefixes = int(train.lengths.sum())  # prefixes with a fixation, the whole ones included
        self.stop_weight.fill_(max(prefixes / n - 1, 1e-3))
        if self.center_prior == "fitted":
            xy = torch.from_numpy(train.relative)
            first = torch.zeros(len(xy), dtype=torch.bool)
            first[torch.from_numpy(train.starts[:-1][train.lengths > 0])] = True
            for k, part in enumerate((xy[first], xy[~first])):
                self.prior[k] = log_prior(part if len(part) else xy, self.grid).to(self.prior)

    # The network

    def look(self, features: Mapping[str, Tensor]) -> Seen:
        """Run what depends on the pictures alone."""
        fine = features["stride4"].shape[-2:]
        if tuple(fine) != self.grid:
            raise DataError(
                "the maps are not those of this image size",
                expected=f"stride4 of {self.grid}",
                found=tuple(fine),
            )
        maps = self.pixels(features)
        cells = self.project(maps[STRIDE]).flatten(2).transpose(1, 2) + self.code.flatten(0, 1)
        around, extra = [], []
        for row, stride in enumerate((32, 16)):
            if stride in self.peripheral:
                tokens = self.project(maps[stride]).flatten(2).transpose(1, 2)
                place = coarser_code(self.code, stride // STRIDE).flatten(0, 1)
                around.append(tokens + place)
                extra.append(self.scale.weight[row].expand(len(place), -1))
        return Seen(cells, torch.cat(around, dim=1), torch.cat(extra))

    def cell_of(self, xy: Tensor) -> Tensor:
        """Return the number of the stride-4 cell of positions in shares, (...,)."""
        rows, columns = self.grid
        x = (xy[..., 0] * columns).long().clamp(0, columns - 1)
        y = (xy[..., 1] * rows).long().clamp(0, rows - 1)
        return y * columns + x

    def read(
        self, seen: Seen, which: Tensor, task: Tensor, xy: Tensor, prefixes: Prefixes
    ) -> tuple[Tensor, Tensor]:
        """Return the query of every prefix after reading its memory, and its stop logit.

        Parameters
        ----------
        seen
        which, task : Tensor of int64, shape (batch,)
            Picture and task of each scanpath.
        xy : Tensor, shape (batch, length, 2)
        prefixes

        Returns
        -------
        query : Tensor, shape (n, width)
        stop : Tensor, shape (n,)
        """
        xy, prefixes = self._begun(xy, prefixes)
        cell = self.cell_of(xy)
        order = torch.argsort(prefixes.count, stable=True)
        queries = []
        for rows in order.split(self.chunk):
            part = prefixes.take(rows)
            picture = which[part.path]
            fixation, there = window(part, self.history)
            at = cell[part.path[:, None], fixation]
            foveal = seen.cells[picture[:, None], at]
            slot = torch.arange(fixation.shape[1], device=xy.device).expand_as(fixation)
            number = slot if self.index == "age" else fixation.clamp_max(self.history - 1)
            memory = torch.cat([seen.around[picture], foveal], dim=1)
            extra = torch.cat(
                [
                    seen.extra.expand(len(rows), -1, -1),
                    self.fovea.weight[0] + self.number(number),
                ],
                dim=1,
            )
            known = torch.cat([there.new_ones(len(rows), len(seen.extra)), there], dim=1)
            for layer in self.encoder:
                memory = layer(memory, extra, known)
            query = self.query(task[part.path])
            for layer in self.readers:
                query = layer(query, memory, extra, known)
            queries.append(query)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        query = torch.cat(queries)[back]
        count = prefixes.count.to(query)[:, None]
        return query, self.ending(torch.cat([query, count], dim=-1))[:, 0]

    def _begun(self, xy: Tensor, prefixes: Prefixes) -> tuple[Tensor, Prefixes]:
        """Put the centre before scanpaths that leave it out."""
        if self.start == "empty":
            return xy, prefixes
        xy = torch.cat([xy.new_full((len(xy), 1, 2), 0.5), xy], dim=1)
        return xy, replace(prefixes, count=prefixes.count + 1)

    def recent(self, xy: Tensor, prefixes: Prefixes, aspect: Tensor) -> Recent:
        """Return what the priors see of prefixes; `aspect` (batch, 2) is of the stimuli."""
        return recent(*self._begun(xy, prefixes), aspect, self.history)

    def map_logits(
        self, seen: Seen, picture: Tensor, query: Tensor, count: Tensor, last: Recent
    ) -> Tensor:
        """Return the logits of the next fixation's cells, (n, cells)."""
        place = self.place(query)
        order = torch.argsort(picture, stable=True)
        parts = place[order].split(torch.bincount(picture, minlength=len(seen.cells)).tolist())
        found = torch.cat([p @ c.T for p, c in zip(parts, seen.cells, strict=True)])
        logits = torch.empty_like(found).index_copy(0, order, found)
        if self.center_prior == "fitted":
            logits = logits + self.prior_factor * self.prior[(count > 0).long()]
        if self.saccades is not None and len(query):
            order = torch.argsort(last.count, stable=True)
            moved = [self.saccades(query[r], last.take(r)) for r in order.split(self.chunk)]
            logits = logits + torch.empty_like(logits).index_copy(0, order, torch.cat(moved))
        return logits

    def following(
        self, seen: Seen, picture: Tensor, query: Tensor, count: Tensor, last: Recent
    ) -> Next:
        """Return the distribution of the next fixation; see `map_logits`."""
        logits = self.map_logits(seen, picture, query, count, last)
        logs = F.logsigmoid(logits) if self.loss == "focal" else logits
        near = None if self.returns is None else self.returns(query, last)
        return Next(logits, logs.log_softmax(-1), near)

    def task_of(self, stimuli: Sequence[Stimulus]) -> Tensor:
        """Return the number of the query of every stimulus."""
        found = []
        for s in stimuli:
            name = FREE_VIEWING if s.target is None else s.target
            if name not in self.tasks:
                raise UnknownNameError("task", name, self.tasks)
            found.append(self.tasks.index(name))
        return torch.tensor(found, dtype=torch.int64, device=self.code.device)

    # Training

    def training_loss(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        """Return the loss over all prefixes of all scanpaths: ``fixation`` and ``stop`` parts."""
        if self.training and self.flip > 0:
            turned = torch.rand(len(batch.stimuli), device=batch.xy.device) < self.flip
            batch = mirrored(batch, turned)
        prefixes = all_prefixes(batch.lengths, whole=True)
        return self.loss_of(batch, prefixes)

    def loss_of(self, batch: ScanpathBatch, prefixes: Prefixes) -> dict[str, Tensor]:
        """Return the mean losses of some prefixes of the scanpaths of a batch.

        The map is learned from prefixes with a next fixation, the stop head from those with an
        earlier one.
        """
        at_end = prefixes.count >= batch.lengths[prefixes.path]
        if not len(prefixes) or bool(at_end.all()):
            return {}
        seen = self.look(batch.features)
        task = self.task_of(batch.stimuli)[batch.which]
        query, stop = self.read(seen, batch.which, task, batch.xy, prefixes)
        go = ~at_end
        path, count = prefixes.path[go], prefixes.count[go]
        aspect = aspects(batch.stimuli, batch.xy)[batch.which]
        last = self.recent(batch.xy, prefixes.take(go.nonzero()[:, 0]), aspect)
        found = self.following(seen, batch.which[path], query[go], count, last)
        target = batch.xy[path, count]
        if self.loss == "focal":
            each = focal_loss(
                found.logits, target, self.grid, self.sigma, STRIDE, self.alpha, self.beta
            )
        else:
            each = found.density_loss(target, self.grid, self.sigma / STRIDE)
        fixation = each.mean()
        parts = {"loss": fixation, "fixation": fixation}
        begun = prefixes.count > 0
        if bool(begun.any()):
            parts["stop"] = F.binary_cross_entropy_with_logits(
                stop[begun], at_end[begun].to(stop), pos_weight=self.stop_weight
            )
            parts["loss"] = fixation + self.stop_loss_weight * parts["stop"]
        return parts

    # Prediction

    @contextmanager
    def _calm(self) -> Iterator[None]:
        """Work in evaluation mode without gradients, and restore the mode."""
        mode = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(mode)

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the log-mass of the cells of a grid for every fixation.

        The density is level inside the model's own cells; its mass in the asked cells is exact.
        """
        with self._calm():
            prefixes = all_prefixes(batch.lengths, whole=False)
            seen = self.look(batch.features)
            task = self.task_of(batch.stimuli)[batch.which]
            query, _ = self.read(seen, batch.which, task, batch.xy, prefixes)
            picture = batch.which[prefixes.path]
            last = self.recent(batch.xy, prefixes, aspects(batch.stimuli, batch.xy)[batch.which])
            asked = self.following(seen, picture, query, prefixes.count, last).masses(
                self.grid, (grid[0], grid[1])
            )
            found = asked.new_full((*batch.mask.shape, *grid), -math.log(grid[0] * grid[1]))
            tiny = torch.finfo(asked.dtype).tiny
            found[prefixes.path, prefixes.count] = asked.clamp_min(tiny).log()
            return found

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths; see the options `greedy`, `inhibition`, `stop` and `max_fixations`."""
        if n < 1:
            return []
        with self._calm():
            return draw(self, stimulus, n, generator)

    def stops(self, logits: Tensor, chance: Tensor) -> Tensor:
        """Return whether scanpaths end, for stop logits and uniform chance, (n,)."""
        if self.stop == "threshold":
            return logits.sigmoid() > self.stop_threshold
        # the loss counts stops `stop_weight` times, which raises the odds by as much
        return chance < (logits - self.stop_weight.log()).sigmoid()

    @classmethod
    def load_published(
        cls, path: str | FilePath, *, image_size: Sequence[int] = (512, 320), **options: Any
    ) -> tuple[HAT, LoadReport]:
        """Return a model with published weights and a report; see `_hat_checkpoint`."""
        from gazeattn.models.scanpath._hat_checkpoint import load_published

        return load_published(path, image_size=image_size, **options)
