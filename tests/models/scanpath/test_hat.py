"""HAT: equations by hand, the contract of scanpath models, and faults of the public code."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus, collate
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.scanpath._hat_batches import Prefixes, all_prefixes, mirrored, window
from gazeattn.models.scanpath._hat_memory import Attention
from gazeattn.models.scanpath.hat import HAT
from gazeattn.registry import scanpath_models

CHANNELS = {"stride4": 3, "stride8": 4, "stride16": 5, "stride32": 6}
SIZE = (64, 32)
SMALL: dict[str, Any] = {
    "image_size": SIZE,
    "channels": CHANNELS,
    "decoder_width": 16,
    "decoder_layers": 1,
    "decoder_hidden": 16,
    "decoder_heads": 2,
    "points": 2,
    "width": 16,
    "heads": 2,
    "hidden": 16,
    "encoder_layers": 1,
    "query_layers": 2,
    "sigma": 4.0,
    "chunk": 7,
}


def features(seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        k: torch.randn(c, SIZE[1] // int(k[6:]), SIZE[0] // int(k[6:]), generator=g)
        for k, c in CHANNELS.items()
    }


def stimulus(name: str, seed: int = 0, target: str | None = None) -> Stimulus:
    return Stimulus(name, (800.0, 600.0), target=target, features=features(seed))


def scanpaths(
    lengths: list[int], pictures: list[int], seed: int = 0, target: str | None = None
) -> Scanpaths:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    stimuli = {f"p{k}": stimulus(f"p{k}", k, target) for k in dict.fromkeys(pictures)}
    return Scanpaths(
        rng.uniform(0, 800, n),
        rng.uniform(0, 600, n),
        np.full(n, np.nan),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([f"t{i}" for i in range(len(lengths))], dtype=object),
        np.array([f"r{i}" for i in range(len(lengths))], dtype=object),
        np.array([f"p{k}" for k in pictures], dtype=object),
        stimuli,
    )


def model(seed: int = 0, **options: Any) -> HAT:
    torch.manual_seed(seed)
    made = HAT(**{**SMALL, **options}).eval()
    for p in made.parameters():  # away from the initial zeros
        p.data += 0.05 * torch.randn_like(p)
    return made


MODELS: dict[str, dict[str, Any]] = {
    "density": {"loss": "density", "index": "age", "center_prior": "fitted"},
    "published": {"loss": "focal"},
    "saccades": {"loss": "density", "saccade_prior": "learned", "returns": 3, "start": "center"},
    "default": {"loss": "density", "saccade_prior": "learned", "returns": 2, "sigma": 0.0},
    "two scales": {"peripheral": (32, 16), "start": "center", "width": 32, "loss": "density"},
    "short memory": {"history": 2, "index": "order"},
}


@pytest.fixture(params=list(MODELS))
def any_model(request: pytest.FixtureRequest) -> HAT:
    made = model(**MODELS[request.param])
    made.fit_statistics(scanpaths([5, 4, 6], [0, 1, 0]))
    return made


# Parts, by hand


def test_prefixes_of_all_lengths() -> None:
    found = all_prefixes(torch.tensor([2, 0, 1]), whole=True)
    assert found.path.tolist() == [0, 0, 0, 1, 2, 2]
    assert found.count.tolist() == [0, 1, 2, 0, 0, 1]
    found = all_prefixes(torch.tensor([2, 0, 1]), whole=False)
    assert (found.path.tolist(), found.count.tolist()) == ([0, 0, 2], [0, 1, 0])


def test_window_holds_the_latest_fixations_first() -> None:
    fixation, there = window(Prefixes(torch.tensor([0, 0, 0]), torch.tensor([0, 2, 5])), 3)
    assert there.tolist() == [[False] * 3, [True, True, False], [True] * 3]
    assert fixation[1, :2].tolist() == [1, 0]
    assert fixation[2].tolist() == [4, 3, 2]


def test_attention_equal_to_that_of_torch() -> None:
    torch.manual_seed(2)
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    torch.nn.init.normal_(theirs.in_proj_bias)
    torch.nn.init.normal_(theirs.out_proj.bias)
    ours = Attention(12, 3)
    ours.in_weight.data, ours.in_bias.data = theirs.in_proj_weight.data, theirs.in_proj_bias.data
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    x, extra, query = torch.randn(4, 5, 12), torch.randn(4, 5, 12), torch.randn(4, 12)
    seen = torch.rand(4, 5) < 0.6
    seen[:, 0] = True
    expected = theirs(x + extra, x + extra, x, key_padding_mask=~seen)[0]
    torch.testing.assert_close(ours.over(x, extra, seen), expected, atol=1e-5, rtol=1e-4)
    expected = theirs(query[:, None], x + extra, x, key_padding_mask=~seen)[0][:, 0]
    torch.testing.assert_close(ours.one(query, x, extra, seen), expected, atol=1e-5, rtol=1e-4)


# The contract of scanpath models


def test_registered() -> None:
    assert scanpath_models.get("hat").obj is HAT
    spec = model().feature_spec
    assert spec is not None
    assert spec.strides == (4, 8, 16, 32)


def test_config_names_every_argument_and_builds() -> None:
    path = Path(__file__).parents[3] / "conf" / "model" / "hat.yaml"
    config = yaml.safe_load(path.read_text())
    known = set(inspect.signature(HAT).parameters) - {"channels"}
    apart = {"name", "training", "sizes"}
    assert set(config) - apart == known
    assert set(config["sizes"]) == {"tiny", "cpu", "full"}
    for size in ("tiny", "cpu"):
        changes = {k: v for k, v in config["sizes"][size].items() if k != "training"}
        assert set(changes) <= known
        plain = {k: v for k, v in config.items() if k not in apart}
        made = HAT(channels=CHANNELS, **{**plain, **changes})
        assert made.grid == tuple(n // 4 for n in made.hparams["image_size"][::-1])
    assert set(config["sizes"]["full"]) - {"training"} <= known


def test_maps_sum_to_one_on_any_grid(any_model: HAT) -> None:
    batch = collate(scanpaths([3, 5], [0, 1]))
    for grid in ((8, 16), (75, 100), (3, 5)):
        found = any_model.log_density(batch, grid)
        assert found.shape == (2, 5, *grid)
        sums = found.exp().sum((-2, -1))[batch.mask]
        assert sums.numpy() == pytest.approx(np.ones(8), abs=1e-5)
    own = any_model.log_density(batch, any_model.grid)
    wide = any_model.log_density(batch, (any_model.grid[0] * 2, any_model.grid[1] * 3))
    pooled = wide.exp().unflatten(-2, (-1, 2)).unflatten(-1, (-1, 3)).sum((-3, -1))
    torch.testing.assert_close(pooled[batch.mask], own.exp()[batch.mask], atol=1e-6, rtol=1e-4)


def test_later_fixations_change_no_earlier_map(any_model: HAT) -> None:
    batch = collate(scanpaths([6, 6], [0, 1]))
    before = any_model.log_density(batch, (8, 16))
    for i in range(6):
        xy = batch.xy.clone()
        xy[0, i] = 1 - xy[0, i]
        after = any_model.log_density(replace(batch, xy=xy), (8, 16))
        torch.testing.assert_close(after[0, : i + 1], before[0, : i + 1], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(after[1], before[1], atol=1e-6, rtol=1e-6)
        if i < 5:
            assert not torch.allclose(after[0, i + 1], before[0, i + 1], atol=1e-5)


def test_padding_and_other_members_do_not_matter(any_model: HAT) -> None:
    paths = scanpaths([2, 7, 4, 1], [0, 1, 0, 2])
    together = any_model.log_density(collate(paths), (8, 16))
    for i, n in enumerate(paths.lengths):
        alone = any_model.log_density(collate(paths, [i]), (8, 16))
        torch.testing.assert_close(together[i, :n], alone[0], atol=1e-5, rtol=1e-5)
    batch = collate(paths)
    junk = torch.where(batch.mask[..., None], batch.xy, torch.full_like(batch.xy, 0.7))
    again = any_model.log_density(replace(batch, xy=junk), (8, 16))
    torch.testing.assert_close(again[batch.mask], together[batch.mask])


def test_stop_head_counts_own_fixations_and_not_the_batch() -> None:
    """The public code tells the stop head the padded length of the batch."""
    made = model()
    paths = scanpaths([2, 9], [0, 0])

    def stops(batch: ScanpathBatch, rows: list[int]) -> Tensor:
        which = torch.zeros(len(batch.trial), dtype=torch.int64)
        prefixes = Prefixes(torch.tensor(rows), batch.lengths[rows])
        return made.read(made.look(batch.features), which, which, batch.xy, prefixes)[1]

    with torch.no_grad():
        assert stops(collate(paths), [0, 1])[0].item() == pytest.approx(
            stops(collate(paths, [0]), [0]).item(), abs=1e-5
        )


def test_loss_equal_one_prefix_at_a_time_with_the_picture_encoded_again() -> None:
    made = model(**MODELS["density"]).train()
    made.fit_statistics(scanpaths([5, 4, 6], [0, 1, 0]))
    paths = scanpaths([3, 5, 2], [0, 1, 0])
    batch = collate(paths)
    found = made.training_loss(batch)
    fixation, stop, weights = [], [], []
    for row, count in zip(*vars(all_prefixes(batch.lengths, whole=True)).values(), strict=True):
        one = collate(paths, [int(row)])
        # beside a prefix with the other label, so that both parts are there
        length = int(batch.lengths[row])
        both = Prefixes(torch.zeros(2, dtype=torch.int64), torch.tensor([0, int(count)]))
        if count < length:
            alone = Prefixes(both.path[:1], both.count[1:])
            fixation.append(made.loss_of(one, alone)["fixation"].item())
        if count > 0:
            stop.append(made.loss_of(one, both)["stop"].item())
            weights.append(1)
    assert found["fixation"].item() == pytest.approx(np.mean(fixation), rel=1e-4)
    assert found["stop"].item() == pytest.approx(np.mean(stop), rel=1e-4)
    assert found["loss"].item() == pytest.approx(np.mean(fixation) + np.mean(stop), rel=1e-4)


def test_chunks_do_not_matter() -> None:
    batch = collate(scanpaths([3, 8, 5], [0, 1, 1]))
    small, large = model(chunk=2), model(chunk=1000)
    torch.testing.assert_close(
        small.training_loss(batch)["loss"], large.training_loss(batch)["loss"]
    )


def test_nothing_to_learn_is_skipped() -> None:
    batch = collate(scanpaths([3], [0]))
    assert model().loss_of(batch, Prefixes(torch.tensor([0]), torch.tensor([3]))) == {}


def test_first_fixation_alone_has_no_stop_part() -> None:
    batch = collate(scanpaths([3], [0]))
    found = model().loss_of(batch, Prefixes(torch.tensor([0]), torch.tensor([0])))
    assert set(found) == {"loss", "fixation"}


def test_long_prefixes_are_used_with_their_latest_fixations() -> None:
    """The public code drops prefixes beyond its longest."""
    made = model(history=3, max_fixations=4, index="age")
    batch = collate(scanpaths([9], [0]))
    before = made.log_density(batch, (8, 16))
    xy = batch.xy.clone()
    xy[0, 0] = 1 - xy[0, 0]
    after = made.log_density(replace(batch, xy=xy), (8, 16))
    assert not torch.allclose(before[0, 3], after[0, 3], atol=1e-6)
    assert torch.equal(before[0, 4:], after[0, 4:])
    assert torch.isfinite(made.training_loss(batch)["loss"])


# Samples


def test_samples_are_on_the_picture_and_repeatable(any_model: HAT) -> None:
    any_model.train()
    one = any_model.sample(stimulus("a"), 30, torch.Generator().manual_seed(5))
    two = any_model.sample(stimulus("a"), 30, torch.Generator().manual_seed(5))
    other = any_model.sample(stimulus("a"), 30, torch.Generator().manual_seed(6))
    assert any_model.training
    assert len(one) == 30
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    every = np.concatenate(one)
    assert every.shape[1] == 2
    assert ((every >= 0) & (every < [800, 600])).all()
    assert {len(p) for p in one} <= set(range(1, any_model.max_fixations + 1))
    assert any_model.sample(stimulus("a"), 0, torch.Generator()) == []


def test_samples_follow_the_density() -> None:
    made = model(max_fixations=1, loss="density")
    for p in made.place.parameters():
        p.data *= 2
    found = np.concatenate(made.sample(stimulus("a"), 4000, torch.Generator().manual_seed(0)))
    batch = collate(replace(scanpaths([1], [0]), stimuli={"p0": stimulus("p0")}))
    expected = made.log_density(batch, (2, 4))[0, 0].exp().numpy()
    counts = np.histogram2d(found[:, 1], found[:, 0], bins=(2, 4), range=((0, 600), (0, 800)))[0]
    assert np.abs(counts / 4000 - expected).max() < 0.03


def test_stop_probability_has_the_weight_of_the_loss_taken_out() -> None:
    made = model(max_fixations=2)
    for p in made.ending.layers[-1].parameters():
        p.data.zero_()
    made.stop_weight.fill_(9.0)
    # a head that says 0.5 under weight 9 means 1 in 10: 0.5 / 9 against 0.5
    lengths = [len(p) for p in made.sample(stimulus("a"), 2000, torch.Generator().manual_seed(1))]
    share = np.mean(np.array(lengths) == 1)
    assert share == pytest.approx(0.1, abs=0.02)


def test_threshold_stops_after_the_first_fixation_at_the_earliest() -> None:
    made = model(stop="threshold", max_fixations=6)
    last = list(made.ending.layers.parameters())[-2:]
    last[0].data.zero_()
    for bias, length in ((10.0, 1), (-10.0, 6), (1.0, 1)):
        last[1].data.fill_(bias)
        found = made.sample(stimulus("a"), 3, torch.Generator())
        assert [len(p) for p in found] == [length] * 3
    # the cut is an option that is heeded: 0.73 is below 0.75
    made.stop_threshold = 0.75
    assert len(made.sample(stimulus("a"), 1, torch.Generator())[0]) == 6


def test_inhibition_keeps_away_from_earlier_fixations() -> None:
    made = model(inhibition=12.0, max_fixations=8, stop="threshold", stop_threshold=1.0)
    for p in made.sample(stimulus("a"), 20, torch.Generator().manual_seed(0)):
        at = p / [800, 600] * SIZE
        gaps = np.linalg.norm(at[:, None] - at[None], axis=-1)[np.triu_indices(len(at), 1)]
        # cells whose centre is nearer than 12 are out; a position is up to 2.9 from its centre
        assert len(p) < 3 or gaps.min() > 12 - 2.9
    # with a radius over everything there is none
    made.inhibition = 1000.0
    assert len(made.sample(stimulus("a"), 1, torch.Generator())[0]) == 8


def test_greedy_takes_the_middle_of_the_best_cell() -> None:
    made = model(greedy=True, max_fixations=1, loss="density")
    found = made.sample(stimulus("p0"), 3, torch.Generator().manual_seed(0))
    mass = made.log_density(collate(scanpaths([1], [0])), made.grid)[0, 0]
    row, column = divmod(int(mass.flatten().argmax()), made.grid[1])
    middle = [(column + 0.5) / 16 * 800, (row + 0.5) / 8 * 600]
    assert all(p[0].tolist() == pytest.approx(middle) for p in found)


# Tasks, statistics, faults


def test_tasks_are_independent_and_unknown_ones_are_named() -> None:
    tasks = ("free_viewing", "mug", "fork")
    made = model(tasks=tasks)
    free = made.log_density(collate(scanpaths([3], [0])), (8, 16))
    mug = made.log_density(collate(scanpaths([3], [0], target="mug")), (8, 16))
    assert not torch.allclose(free, mug, atol=1e-4)
    made.query.weight.data[2] += 1
    again = made.log_density(collate(scanpaths([3], [0], target="mug")), (8, 16))
    assert torch.equal(again, mug)
    with pytest.raises(UnknownNameError, match="forks"):
        made.log_density(collate(scanpaths([3], [0], target="forks")), (8, 16))


def test_the_first_cell_is_a_place_like_others() -> None:
    """The public position table takes the top-left cell for a special symbol without a code."""
    made = model()
    assert made.code[0, 0].norm() == pytest.approx(made.code[3, 5].norm().item(), rel=1e-5)
    corner = torch.tensor([[0.0, 0.0], [0.99999994, 0.99999994], [0.07, 0.0]])
    assert made.cell_of(corner).tolist() == [0, 8 * 16 - 1, 1]
    batch = collate(scanpaths([2], [0]))
    batch.xy[0, 0] = 0.0
    first = made.log_density(batch, (8, 16))[0, 1]
    cells = made.look(batch.features).cells[0, 0]
    assert cells.abs().sum() > 0
    made.fovea.weight.data += 1  # keys alone: the token is in the memory and is looked at
    assert not torch.allclose(made.log_density(batch, (8, 16))[0, 1], first, atol=1e-5)


def test_statistics_by_hand() -> None:
    made = model(center_prior="fitted")
    made.fit_statistics(scanpaths([3, 5], [0, 1]))
    # prefixes with a fixation: 8, two of them at the end
    assert made.stop_weight.item() == pytest.approx(8 / 2 - 1)
    assert made.prior.exp().sum(-1).tolist() == pytest.approx([1.0, 1.0], abs=1e-4)
    many = scanpaths([40] * 10, [0] * 10)
    many.x[:] = 100.0
    many.y[:] = 500.0
    many.x[many.starts[:-1]] = 700.0
    made.fit_statistics(many)
    first, later = made.prior.view(2, 8, 16)
    # 500 / 600 of 8 rows is row 6; 700 / 800 and 100 / 800 of 16 columns lie between two cells
    assert first.argmax().item() in (6 * 16 + 13, 6 * 16 + 14)
    assert later.argmax().item() in (6 * 16 + 1, 6 * 16 + 2)
    assert later.min() > np.log(0.01 / 128) - 1e-3


def test_mirror_turns_pictures_with_their_scanpaths() -> None:
    batch = collate(scanpaths([3, 4], [0, 1]))
    batch.xy[0, 0, 0] = 0.0
    turned = mirrored(batch, torch.tensor([True, True]))
    for k, v in batch.features.items():
        assert torch.equal(turned.features[k], v.flip(-1))
    assert torch.equal(turned.xy[0, 3], batch.xy[0, 3])
    assert (turned.xy[..., 0] < 1).all()
    assert torch.allclose(turned.xy[1, :, 0], 1 - batch.xy[1, :, 0])
    assert torch.equal(turned.xy[..., 1], batch.xy[..., 1])
    some = mirrored(batch, torch.tensor([False, True]))
    assert torch.equal(some.xy[0], batch.xy[0])
    assert torch.equal(some.xy[1], turned.xy[1])
    made = model(flip=1.0)
    plain = made.training_loss(batch)["loss"]  # not in evaluation mode
    torch.testing.assert_close(plain, model().training_loss(batch)["loss"])
    torch.testing.assert_close(
        made.train().training_loss(batch)["loss"], model().training_loss(turned)["loss"]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"image_size": (60, 32)},
        {"strides": (8, 16, 32)},
        {"peripheral": (8,)},
        {"loss": "focus"},
        {"index": "rank"},
        {"stop": "never"},
        {"beta": 2.5},
        {"start": "middle"},
        {"tasks": ()},
        {"history": 0},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises((DataError, UnknownNameError)):
        HAT(**{**SMALL, **wrong})


def test_maps_of_another_image_size() -> None:
    made = model(image_size=(128, 32))
    with pytest.raises(DataError, match="image size"):
        made.log_density(collate(scanpaths([1], [0])), (3, 3))


def test_checkpoint_round_trip_with_the_safe_loader(tmp_path: Path, any_model: HAT) -> None:
    torch.save(
        {"state_dict": any_model.state_dict(), "hyper_parameters": dict(any_model.hparams)},
        tmp_path / "m.pt",
    )
    read = torch.load(tmp_path / "m.pt", weights_only=True)
    again = HAT(**read["hyper_parameters"])
    again.load_state_dict(read["state_dict"])
    batch = collate(scanpaths([3, 4], [0, 1]))
    assert torch.equal(again.log_density(batch, (5, 5)), any_model.log_density(batch, (5, 5)))
    assert again.stop_weight == any_model.stop_weight


@pytest.mark.parametrize("loss", ["density", "focal"])
def test_learns_where_a_picture_says_people_look(loss: str) -> None:
    """People look at the bright spot, wherever it is."""
    rng = np.random.default_rng(0)
    stimuli: dict[str, Stimulus] = {}
    xy: list[list[float]] = []
    names: list[str] = []
    for k in range(72):
        maps = {name: 0.05 * v for name, v in features(k).items()}
        row, column = rng.integers(1, 7), rng.integers(1, 15)
        maps["stride4"][0, row, column] = 6.0
        stimuli[f"p{k}"] = Stimulus(f"p{k}", (800.0, 600.0), features=maps)
        for _ in range(2):
            xy.append([(column + rng.random()) / 16, (row + rng.random()) / 8])
        names.append(f"p{k}")
    values = np.array(xy) * [800, 600]
    ids = np.array([str(i) for i in range(len(names))], dtype=object)
    paths = Scanpaths(
        values[:, 0],
        values[:, 1],
        np.full(len(values), np.nan),
        np.arange(0, len(values) + 1, 2),
        ids,
        ids,
        np.array(names, dtype=object),
        stimuli,
    )
    torch.manual_seed(0)
    made = HAT(**{**SMALL, "width": 32, "loss": loss, "center_prior": "fitted", "chunk": 500})
    train, test = paths.take(np.arange(60)), paths.take(np.arange(60, 72))
    made.fit_statistics(train)
    optimizer = torch.optim.AdamW(made.parameters(), lr=5e-3)
    batch = collate(train)
    for _ in range(40):
        optimizer.zero_grad()
        made.training_loss(batch)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimizer.step()
    held = collate(test)
    logs = made.log_density(held, made.grid)[held.mask].flatten(1)
    gain = logs.gather(1, made.cell_of(held.xy[held.mask])[:, None]).mean() + np.log(8 * 16)
    assert gain > 1.0  # nats over the uniform density, on pictures that were not seen
