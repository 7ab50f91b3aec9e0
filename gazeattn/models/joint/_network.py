"""Parts of the joint-attention network: tokens, interaction of people, heads, scene."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.joint_batches import JointBatch
from gazeattn.errors import UnknownNameError

Grid = tuple[int, int]
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "gelu": nn.GELU,
}


def activate(name: str) -> nn.Module:
    """Return an activation by name."""
    if name not in ACTIVATIONS:
        raise UnknownNameError("activation", name, list(ACTIVATIONS))
    return ACTIVATIONS[name]()


def mlp(*widths: int, activation: str = "relu") -> nn.Sequential:
    """Return linear layers with activations between."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), activate(activation)]
    return nn.Sequential(*layers[:-1])


def cell_centres(grid: Grid, like: Tensor) -> Tensor:
    """Return the centres of the cells as x, y in shares, (rows * columns, 2), row by row."""
    rows, columns = grid
    y = (torch.arange(rows, dtype=like.dtype, device=like.device) + 0.5) / rows
    x = (torch.arange(columns, dtype=like.dtype, device=like.device) + 0.5) / columns
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([xx, yy], dim=-1).reshape(-1, 2)


class PeopleTokens(nn.Module):
    """Position, gaze direction and action of each person as a token of `width` numbers.

    A gaze direction that is missing is replaced by a learned one, an action by a learned one.
    """

    def __init__(self, actions: int, width: int, activation: str = "relu") -> None:
        super().__init__()
        self.actions = actions
        self.no_gaze = nn.Parameter(torch.zeros(2))
        self.no_action = nn.Parameter(torch.zeros(actions)) if actions else None
        self.layers = mlp(4 + actions, width, width, width, activation=activation)

    def forward(self, head: Tensor, gaze: Tensor, gazes: Tensor, action: Tensor) -> Tensor:
        """Return (batch, people, width)."""
        parts = [head, torch.where(gazes[..., None], gaze, self.no_gaze)]
        if self.no_action is not None:
            shown = F.one_hot(action.clamp_min(0), self.actions).to(head.dtype)
            parts.append(torch.where((action >= 0)[..., None], shown, self.no_action))
        return self.layers(torch.cat(parts, dim=-1))


class InteractionLayer(nn.Module):
    """Attention among people with residual, feed-forward with residual, own norms after both."""

    def __init__(self, width: int, heads: int, feedforward: int, activation: str = "relu") -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} attention heads do not divide a width of {width}")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.inner = mlp(width, feedforward, width, activation=activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return tokens (batch, n, width); those that `mask` (batch, n) lacks are no keys."""
        b, n, width = tokens.shape
        q, k, v = self.qkv(tokens).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        tokens = self.norm1(tokens + self.out(found.transpose(1, 2).reshape(b, n, width)))
        return self.norm2(tokens + self.inner(tokens))


class PixelHead(nn.Module):
    """The value of a token's map at any point: an MLP over the token and the coordinates.

    The first layer is linear in token and coordinates, so each is multiplied once and only their
    sums are formed per point; `chunk` bounds how many of those sums are held together.
    """

    def __init__(self, width: int, hidden: int, chunk: int, activation: str = "relu") -> None:
        super().__init__()
        self.token = nn.Linear(width, hidden)
        self.point = nn.Linear(2, hidden, bias=False)
        self.rest = nn.Sequential(
            activate(activation), mlp(hidden, hidden, hidden, 1, activation=activation)
        )
        self.hidden, self.chunk = hidden, chunk

    def forward(self, tokens: Tensor, points: Tensor) -> Tensor:
        """Return the value at each point for each token.

        Parameters
        ----------
        tokens : (n, width)
        points : (q, 2), the same for all tokens, or (n, q, 2)
            x, y in shares.

        Returns
        -------
        Tensor, shape (n, q)
        """
        own = self.token(tokens)[:, None]
        n, q = len(tokens), points.shape[-2]
        if torch.is_grad_enabled() and own.requires_grad:  # gradients keep all sums in any case
            return self.rest(own + self.point(points))[..., 0]
        out = own.new_empty(n, q)
        step = max(1, self.chunk // max(1, n))
        for start in range(0, q, step):
            part = slice(start, start + step)
            here = own + self.point(points[..., part, :])
            out[:, part] = self.rest(here)[..., 0]
        return out


class RelativeHead(nn.Module):
    """What each person's place and gaze say of a point, by the geometry between the two.

    Not published: the published head is told the place of a point in the picture, and must work
    out of a token of a few numbers where it lies as seen from each person. Here a person gives a
    point a weighted sum of bumps over the angle between the gaze direction and the direction to
    the point (`cones`, degrees), and of bumps over the distance (`rings`, shares of the height of
    the picture). The person's token gives the weights of the bumps, and attention of the joint
    token to the tokens of the people says how much each person counts. It starts as the plain
    sum of the cones over the people, whose highest point is the baseline of gaze cones.
    """

    cones: Tensor
    rings: Tensor

    def __init__(
        self, width: int, cones: Sequence[float], rings: Sequence[float], chunk: int
    ) -> None:
        super().__init__()
        self.chunk, self.n_cones = chunk, len(cones)
        self.register_buffer("cones", torch.tensor(list(cones), dtype=torch.float32))
        self.register_buffer("rings", torch.tensor(list(rings), dtype=torch.float32))
        self.ask, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.amount = nn.Linear(width, len(cones) + len(rings))
        with torch.no_grad():
            self.amount.weight.zero_()
            self.amount.bias.zero_()
            self.amount.bias[: len(cones)] = 1.0
            self.ask.weight.zero_()
            self.ask.bias.zero_()

    def weights(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return how much each person counts, (batch, people); 1 on average, 0 for absent ones."""
        ask, key = self.ask(tokens[:, -1]), self.key(tokens[:, :-1])
        score = (key * ask[:, None]).sum(-1) / key.shape[-1] ** 0.5
        score = score.masked_fill(~mask, -1e9)
        return torch.softmax(score, dim=1) * mask * mask.sum(1, keepdim=True)

    def persons(self, tokens: Tensor, batch: JointBatch, points: Tensor) -> Tensor:
        """Return what each person gives to points (q, 2) or (batch, q, 2), (batch, people, q)."""
        amount = self.amount(tokens[:, :-1]) * batch.mask[..., None]
        cones = amount[..., : self.n_cones] * batch.gazes[..., None]
        size = batch.size[:, None, None]
        away = points if points.dim() == 2 else points[:, None]
        away = (away - batch.head[:, :, None]) * size
        gaze = batch.gaze * batch.size[:, None]
        gaze = gaze / gaze.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        length = away.norm(dim=-1)
        cosine = (away * gaze[:, :, None]).sum(-1) / length.clamp_min(1e-6)
        angle = torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))[..., None]
        bumps = torch.exp(-0.5 * (angle / self.cones).square())
        found = torch.einsum("bpqk,bpk->bpq", bumps, cones)
        if len(self.rings):
            near = (length / batch.size[:, None, 1:])[..., None]
            bumps = torch.exp(-0.5 * (near / self.rings).square())
            found = found + torch.einsum("bpqk,bpk->bpq", bumps, amount[..., self.n_cones :])
        return found

    def forward(self, tokens: Tensor, batch: JointBatch, points: Tensor) -> Tensor:
        """Return the weighted sum over the people, (batch, q)."""
        weights = self.weights(tokens, batch.mask)[..., None]
        n, q = batch.mask.numel(), points.shape[-2]
        if torch.is_grad_enabled():
            return (weights * self.persons(tokens, batch, points)).sum(1)
        step = max(1, self.chunk // max(1, n))
        parts = [
            (weights * self.persons(tokens, batch, points[..., start : start + step, :])).sum(1)
            for start in range(0, q, step)
        ]
        return torch.cat(parts, dim=1)


class SceneBranch(nn.Module):
    """A map per person from a backbone's map of the scene, the person's head and gaze cone.

    A small network that stands where the published model has an attention-target-detection
    network with a backbone of its own: features, head bump and cone -> two 3 x 3 convolutions.
    """

    def __init__(self, channels: int, width: int, spread: float = 0.35) -> None:
        super().__init__()
        self.spread = spread
        self.reduce = nn.Conv2d(channels, width, 1)
        self.layers = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width + 2, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1),
        )  # fmt: skip

    def forward(
        self, features: Tensor, head: Tensor, gaze: Tensor, gazes: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return person maps (batch, people, h, w), 0 where nobody is, and their mean.

        The mean, (batch, h, w), is over those who are there, 0 where nobody is.
        """
        b, p = mask.shape
        h, w = features.shape[-2:]
        points = cell_centres((h, w), features)
        away = points - head[:, :, None]
        along = (away * gaze[:, :, None]).sum(-1)
        length = away.norm(dim=-1).clamp_min(1e-6)
        angle = torch.acos((along / length).clamp(-1 + 1e-6, 1 - 1e-6))
        cone = torch.exp(-0.5 * (angle / self.spread) ** 2) * gazes[..., None]
        bump = torch.exp(-0.5 * (length / 0.05) ** 2)
        own = torch.stack([cone, bump], dim=2).view(b, p, 2, h, w)
        there = mask.nonzero(as_tuple=True)
        seen = self.reduce(features)
        maps = features.new_zeros(b, p, h, w)
        found = self.layers(torch.cat([seen[there[0]], own[there]], dim=1))[:, 0]
        maps = maps.index_put(there, found)
        count = mask.sum(1).clamp_min(1)
        return maps, maps.sum(1) / count[:, None, None]


def at_points(maps: Tensor, points: Tensor) -> Tensor:
    """Return maps (n, h, w) at points (q, 2) or (n, q, 2) in shares, bilinear, (n, q).

    The value of a cell holds at its centre; beyond the outer centres it stays.
    """
    n = len(maps)
    where = points.expand(n, *points.shape[-2:]) * 2 - 1
    found = F.grid_sample(
        maps[:, None], where[:, None], mode="bilinear", padding_mode="border", align_corners=False
    )
    return found[:, 0, 0]
