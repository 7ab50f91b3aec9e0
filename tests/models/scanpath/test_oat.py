"""Object-level attention transformer and its baselines."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch

from gazeattn import registry
from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.objects import (
    ObjectDataModule,
    centres_of,
    collate_objects,
    object_scanpaths,
    table_of_boxes,
)
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.experiments._object_rows import (
    difference_rows,
    object_sequence_scores,
    trials_in,
)
from gazeattn.experiments.building import build, load_network, read_model, sized
from gazeattn.experiments.training import Training
from gazeattn.experiments.training import train as train_network
from gazeattn.metrics.scanpath.behaviour import behaviour_difference
from gazeattn.models.scanpath._oat_parts import CropEncoder, DistanceCode
from gazeattn.models.scanpath.base import NonFiniteLossError
from gazeattn.models.scanpath.oat import ObjectAttentionTransformer, batch_scores, pick
from gazeattn.models.scanpath.object_baselines import (
    CentralObject,
    NearestObject,
    NextObject,
    RandomObject,
    RankObject,
    mean_log_probability,
)
from gazeattn.stimuli.shelves import Searcher, crops_of, make_shelf

SMALL = {"width": 16, "heads": 2, "inner": 16, "encoder_layers": 1, "decoder_layers": 2}


def grid(name: str, rows: int, columns: int, marked: int | None = None, /, **features) -> Stimulus:
    row, column = np.divmod(np.arange(rows * columns), columns)
    low = np.stack([column * 20.0 + 2, row * 20.0 + 2], 1)
    return Stimulus(
        name,
        (columns * 20.0, rows * 20.0),
        objects=table_of_boxes(np.concatenate([low, low + 16], 1), marked),
        features=features,
    )


def network(**options) -> ObjectAttentionTransformer:
    torch.manual_seed(0)
    made = ObjectAttentionTransformer(**{**SMALL, **options}).eval()
    for p in made.parameters():  # nothing may be hidden by a zero at the start
        p.data += 0.05 * torch.randn_like(p)
    made.longest = torch.tensor(12)
    return made


def mixed():
    stimuli = {"a": grid("a", 3, 4, 5), "b": grid("b", 1, 2, 0), "c": grid("c", 2, 2)}
    sequences = [[0, 5, 5, 1, 7], [1], [3, 3, 0], [11, 5]]
    return object_scanpaths(sequences, ["a", "b", "c", "a"], stimuli)


# -- the position code ----------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.7, 1.5, 2.0, 2.5])
def test_similarity_falls_with_the_distance_alone(sigma):
    code = DistanceCode(sigma, reach=30.0)
    p = torch.tensor([-11.3, -2.0, 0.0, 0.25, 3.7, 14.9])
    expected = torch.exp(-((p[:, None] - p) ** 2) / (2 * sigma**2))
    found = code(p) @ code(p).T
    assert torch.allclose(found, expected, atol=1e-4)
    assert code(p).shape[1] == code.width
    # by hand: at a distance of sigma it is exp(-1/2) = 0.6065
    two = code(torch.tensor([5.0, 5.0 + sigma]))
    assert float(two[0] @ two[1]) == pytest.approx(0.6065, abs=1e-3)


def test_code_does_not_rise_again_within_reach():
    code = DistanceCode(2.0, reach=30.0)
    far = code(torch.tensor([0.0])) @ code(torch.linspace(0, 30, 61)).T
    assert (far.diff() < 1e-4).all()


def test_display_beyond_the_reach_is_refused():
    paths = object_scanpaths([[0]], ["a"], {"a": grid("a", 1, 12)})
    with pytest.raises(DataError, match="reach"):
        network(reach=5.0)(collate_objects(paths))


def test_published_crops_give_1440_numbers():
    assert CropEncoder(8).linear.in_features == 1440
    assert CropEncoder(8)(torch.rand(2, 5, 3, 150, 93)).shape == (2, 5, 8)
    assert CropEncoder(8, (2, 2))(torch.rand(4, 3, 24, 24)).shape == (4, 8)
    with pytest.raises(DataError, match="too small"):
        CropEncoder(8)(torch.rand(1, 3, 12, 24))


# -- probabilities --------------------------------------------------------------------------------

KINDS = [{}, {"relative": False}, {"ordered": True}, {"target": "none"}]


@pytest.mark.parametrize("options", KINDS)
def test_probabilities_sum_to_one_and_padding_is_no_class(options):
    batch = collate_objects(mixed())
    values = network(**options).log_probabilities(batch)
    assert values.shape == (4, 6, 13)
    assert torch.allclose(values.exp().sum(-1), torch.ones(4, 6), atol=1e-5)
    assert (values[1, :, 2:12] == -math.inf).all()  # b has two objects
    assert (values[2, :, 4:12] == -math.inf).all()
    assert torch.isfinite(values[:, 1:, -1]).all()


def test_nobody_stops_before_the_first_object():
    values = network().log_probabilities(collate_objects(mixed()))
    assert (values[:, 0, -1] == -math.inf).all()


@pytest.mark.parametrize("options", KINDS)
def test_later_objects_do_not_change_earlier_probabilities(options):
    model, stimuli = network(**options), {"a": grid("a", 3, 4, 5)}
    one, other = (
        model.log_probabilities(collate_objects(object_scanpaths([s], ["a"], stimuli)))
        for s in ([1, 2, 3, 4, 5], [1, 2, 3, 9, 0])
    )
    assert torch.allclose(one[:, :4], other[:, :4], atol=1e-6)
    assert not torch.allclose(one[:, 4], other[:, 4], atol=1e-4)


@pytest.mark.parametrize("options", KINDS)
def test_padding_and_other_members_do_not_matter(options):
    model, paths = network(**options), mixed()
    together = model.log_probabilities(collate_objects(paths))
    for i in range(len(paths)):
        alone = model.log_probabilities(collate_objects(paths, [i]))[0]
        n, objects = alone.shape[0], alone.shape[1] - 1
        assert torch.allclose(together[i, :n, :objects], alone[:, :-1], atol=1e-5)
        assert torch.allclose(together[i, :n, -1], alone[:, -1], atol=1e-5)


def test_unordered_displays_do_not_depend_on_the_order_of_rows():
    model, order = network(), np.array([3, 0, 2, 1])
    a = grid("a", 2, 2, 1)
    b = Stimulus("a", a.size, objects=a.objects.iloc[order].reset_index(drop=True))
    there = np.argsort(order)
    one = model.log_probabilities(collate_objects(object_scanpaths([[0, 3]], ["a"], {"a": a})))
    two = model.log_probabilities(
        collate_objects(object_scanpaths([there[[0, 3]]], ["a"], {"a": b}))
    )
    assert torch.allclose(one[..., :4][..., order], two[..., :4], atol=1e-5)


def test_looking_at_the_target_is_not_stopping():
    """The target keeps its own class; stopping has another one, and both can be likely."""
    model = network()
    paths = object_scanpaths([[0, 5, 5, 1]], ["a"], {"a": grid("a", 3, 4, 5)})
    batch = collate_objects(paths)
    values = model.log_probabilities(batch).detach()
    with torch.no_grad():
        model.head.stop[-1].bias += 3.0
    raised = model.log_probabilities(batch)
    assert (raised[:, 1:, -1] > values[:, 1:, -1]).all()
    # objects keep their odds: the target among the others is as likely as before
    odds = values[..., 5] - values[..., 0]
    assert torch.allclose(raised[..., 5] - raised[..., 0], odds, atol=1e-5)
    found, ends = batch_scores(values, batch)
    assert found[0].tolist() == pytest.approx([float(values[0, t, j]) for t, j in
                                               enumerate([0, 5, 5, 1])])  # fmt: skip
    assert float(ends[0]) == pytest.approx(float(values[0, 4, -1]))


@pytest.mark.parametrize("target", ["none", "appearance"])
def test_hidden_target_does_not_tell_its_place(target):
    looks = {"appearance": torch.rand(4, 3), "target": torch.rand(3)}
    options = {"target": target}
    if target == "appearance":
        options |= {"appearance": "embedding", "appearance_width": 3}
    model = network(**options)
    values = [
        model.log_probabilities(
            collate_objects(object_scanpaths([[0, 3]], ["a"], {"a": grid("a", 2, 2, t, **looks)}))
        )
        for t in (0, 3, None)
    ]
    assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2])


def test_marked_target_and_look_of_the_target_matter():
    a, b = (
        network().log_probabilities(
            collate_objects(object_scanpaths([[0]], ["a"], {"a": grid("a", 2, 2, t)}))
        )
        for t in (1, 3)
    )
    assert not torch.allclose(a, b, atol=1e-4)
    model = network(target="appearance", appearance="embedding", appearance_width=3)
    looks = torch.rand(4, 3)
    c, d = (
        model.log_probabilities(
            collate_objects(
                object_scanpaths([[0]], ["a"], {"a": grid("a", 2, 2, appearance=looks, target=t)})
            )
        )
        for t in (looks[0], looks[2])
    )
    assert not torch.allclose(c, d, atol=1e-4)


def test_start_of_the_gaze_matters_and_is_not_rounded():
    stimuli = {"a": grid("a", 3, 4)}
    model = network()
    values = [
        model.log_probabilities(collate_objects(object_scanpaths([[0]], ["a"], stimuli, origin=o)))[
            0, 0
        ]
        for o in ((0.5, 0.5), (0.52, 0.5), (0.1, 0.9))
    ]
    assert not torch.allclose(values[0], values[1], atol=1e-5)
    assert not torch.allclose(values[0], values[2], atol=1e-3)


def test_unknown_options_and_missing_looks():
    with pytest.raises(UnknownNameError):
        ObjectAttentionTransformer(**SMALL, target="colour")
    with pytest.raises(UnknownNameError):
        ObjectAttentionTransformer(**SMALL, appearance="pictures")
    with pytest.raises(DataError, match="needs appearance"):
        ObjectAttentionTransformer(**SMALL, target="appearance")
    model = network(appearance="embedding", appearance_width=3)
    with pytest.raises(DataError, match="no appearance"):
        model(collate_objects(mixed()))
    with pytest.raises(CapabilityError):
        model.log_density(collate_objects(mixed()), (3, 4))  # type: ignore[arg-type]


# -- the loss -------------------------------------------------------------------------------------


def test_loss_by_hand():
    paths = mixed()
    model, batch = network(), collate_objects(paths)
    values = model.log_probabilities(batch)
    terms = []
    for i, s in enumerate(paths.sequences()):
        terms += [values[i, t, j] for t, j in enumerate(s)]
        terms += [values[i, len(s), -1]]
    expected = -torch.stack(terms).mean()
    assert float(model.training_loss(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)


def test_no_end_is_learned_where_a_sequence_was_cut():
    stimuli = {"a": grid("a", 2, 2)}
    cut = object_scanpaths([[0, 1]], ["a"], stimuli, finished=False)
    model = network()
    values = model.log_probabilities(collate_objects(cut))
    expected = -(values[0, 0, 0] + values[0, 1, 1]) / 2
    assert float(model.training_loss(collate_objects(cut))["loss"]) == pytest.approx(
        float(expected), rel=1e-5
    )


def train_objects(model, train, valid, folder, settings, **options):
    data = ObjectDataModule(train, valid, batch_size=settings.batch_size)
    return train_network(model, data, folder, settings, **options)


def test_loss_that_is_not_finite_names_the_trials(tmp_path):
    model = network()
    model.mark.data[:] = math.nan
    paths = mixed()
    with pytest.raises(NonFiniteLossError, match="trials"):
        train_objects(model, paths, paths, tmp_path, Training(max_epochs=1), accelerator="cpu")


# -- sampling -------------------------------------------------------------------------------------


def test_pick_follows_the_probabilities():
    logits = torch.tensor([0.5, 0.2, 0.3]).log().expand(4000, 3)
    found = torch.bincount(pick(logits, torch.Generator().manual_seed(0)), minlength=3) / 4000
    assert torch.allclose(found, torch.tensor([0.5, 0.2, 0.3]), atol=0.03)
    assert pick(logits[:2], None).tolist() == [0, 0]
    never = torch.tensor([[-math.inf, 0.0, -math.inf]]).expand(500, 3)
    assert (pick(never, torch.Generator().manual_seed(0)) == 1).all()


@pytest.mark.parametrize("options", KINDS)
def test_drawing_step_by_step_has_the_probabilities_of_the_batch(options, monkeypatch):
    """Cached keys and running visits give the same logits as one pass over the sequence."""
    from gazeattn.models.scanpath import oat

    model, stimulus = network(**options), grid("a", 3, 4, 5)
    seen = []

    def recording(logits, generator):
        seen.append(logits.log_softmax(-1))
        return pick(logits, generator)

    monkeypatch.setattr(oat, "pick", recording)
    drawn = model.sample_objects(stimulus, 3, torch.Generator().manual_seed(1))
    for i, s in enumerate(drawn):
        batch = collate_objects(object_scanpaths([s], ["a"], {"a": stimulus}))
        values = model.log_probabilities(batch)[0]
        for t in range(len(s)):
            assert torch.allclose(seen[t][i], values[t], atol=1e-4)


def test_samples_are_fixed_by_the_seed_and_never_empty():
    model, stimulus = network(), grid("a", 3, 4, 5)
    with torch.no_grad():
        model.head.stop[-1].bias += 50.0
    model.train()
    drawn = [model.sample_objects(stimulus, 6, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert model.training
    assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))
    assert [len(s) for s in drawn[0]] == [1] * 6  # it stops as soon as it may
    with torch.no_grad():
        model.head.stop[-1].bias -= 500.0
    long = model.sample_objects(stimulus, 2, torch.Generator().manual_seed(3))
    assert [len(s) for s in long] == [12, 12]
    assert [len(s) for s in model.sample_objects(stimulus, 1, greedy=True, longest=4)] == [4]


def test_sample_gives_centres_in_pixels():
    model, stimulus = network(), grid("a", 3, 4, 5)
    paths = model.sample(stimulus, 5, torch.Generator().manual_seed(0))
    ids = model.sample_objects(stimulus, 5, torch.Generator().manual_seed(0))
    for path, row in zip(paths, ids, strict=True):
        assert np.array_equal(path, centres_of(stimulus)[row])
        assert (path >= 0).all() and (path < stimulus.size).all()


def test_drawing_needs_a_length_and_a_generator():
    model = network()
    with pytest.raises(DataError, match="generator"):
        model.sample_objects(grid("a", 1, 2), 1)
    model.longest = torch.tensor(0)
    with pytest.raises(DataError, match="longest"):
        model.sample(grid("a", 1, 2), 1, torch.Generator())


# -- learning -------------------------------------------------------------------------------------


def walks(n: int, seed: int):
    """Always one to the right, wrapping; stops on the target."""
    rng = np.random.default_rng(seed)
    stimuli, names, found = {}, [], []
    for i in range(n):
        columns = int(rng.integers(4, 8))
        target = int(rng.integers(columns))
        stimuli[str(i)] = grid(str(i), 1, columns, target)
        names.append(str(i))
        found.append([*range(target + 1)])
    return object_scanpaths(found, names, stimuli)


def test_learns_the_next_object_and_when_to_stop(tmp_path):
    train, test = walks(80, 0), walks(30, 1)
    model = build({**sized(read_model("oat"), "tiny"), "dropout": 0.0, "lr": 0.01}, seed=0)
    model.fit_statistics(train)
    assert int(model.longest) == int(train.lengths.max())
    chance = mean_log_probability(fitted(RandomObject, train), collate_objects(test)).mean()
    settings = Training(max_epochs=14, batch_size=8, patience=25)
    left = train_objects(model, train, test, tmp_path, settings, accelerator="cpu")
    state = torch.load(left.best, weights_only=True)
    assert int(state["state_dict"]["longest"]) == int(train.lengths.max())
    trained = load_network({"name": "oat"}, tmp_path)
    batch = collate_objects(test)
    with torch.no_grad():
        found = mean_log_probability(trained, batch).mean()
    assert float(found) > -0.3 > float(chance)
    hits = [
        np.array_equal(trained.sample_objects(s, 1, greedy=True)[0], test.sequence(i))
        for i, s in enumerate(test.stimuli.values())
    ]
    assert np.mean(hits) > 0.8


def test_training_goes_on_where_it_stopped(tmp_path):
    data = walks(12, 0)
    config = {**sized(read_model("oat"), "tiny")}

    def curves(folder, *epochs):
        for n in epochs:
            model = build(config, seed=0)
            model.fit_statistics(data)
            settings = Training(max_epochs=4, batch_size=4, patience=9)
            if n < 4:  # as if it had been killed after n epochs of four
                stop_after(model, n)
            try:
                found = train_objects(model, data, data, folder, settings, accelerator="cpu")
            except Killed:
                continue
        return found.curves["val/loss"].to_numpy()

    whole = curves(tmp_path / "a", 4)
    parts = curves(tmp_path / "b", 2, 4)
    assert np.array_equal(whole, parts)


class Killed(Exception):
    pass


def stop_after(model, epochs: int) -> None:
    step = model.training_step

    def training_step(batch, batch_idx):
        if model.current_epoch == epochs:
            raise Killed
        return step(batch, batch_idx)

    model.training_step = training_step


def test_looks_help_on_shelves_with_a_known_searcher():
    """The searcher is as it says, and its own probabilities are the best there are."""
    searcher = Searcher()
    better = []
    for k in range(12):
        shelf = make_shelf(k)
        path = searcher.search(shelf, k)
        assert np.array_equal(path, searcher.search(shelf, k))
        better.append(searcher.mean_log_probability(shelf, path) + math.log(len(shelf.boxes)))
        p = searcher.probabilities(shelf, path[:1])
        assert p.sum() == pytest.approx(1)
    assert np.mean(better) > 0.3
    blind = Searcher(colour=0, distance=0, again=0)
    assert np.allclose(blind.probabilities(shelf, path), 1 / len(shelf.boxes))
    assert crops_of(shelf).shape == (len(shelf.boxes), 3, 24, 24)
    assert np.array_equal(crops_of(shelf), crops_of(make_shelf(11)))


# -- baselines ------------------------------------------------------------------------------------


def fitted(kind, train, **options):
    made = kind(**options)
    made.fit_statistics(train)
    return made


@pytest.mark.parametrize(
    "kind", [RandomObject, CentralObject, NearestObject, RankObject, NextObject]
)
def test_baselines_are_distributions_and_fixed_by_the_seed(kind):
    train = mixed()
    model = fitted(kind, train)
    values = model.log_probabilities(collate_objects(train))
    for i, s in enumerate(train.sequences()):
        total = values[i, : len(s) + 1].exp().sum(-1)
        assert torch.allclose(total, torch.ones(len(s) + 1, dtype=total.dtype))
    stimulus = grid("new", 2, 3, 4)
    one, two = (
        model.sample_objects(stimulus, 8, torch.Generator().manual_seed(0)) for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert {len(s) for s in one} <= set(train.lengths.tolist())
    assert model.sample(stimulus, 1, torch.Generator().manual_seed(0))[0].shape[1] == 2


def test_nearest_object_goes_on_to_new_ones():
    train = object_scanpaths([[0] * 5], ["a"], {"a": grid("a", 1, 5)})
    made = fitted(NearestObject, train)
    for s in made.sample_objects(grid("a", 1, 5), 4, torch.Generator().manual_seed(0)):
        assert s[0] == 2 and sorted(s) == [0, 1, 2, 3, 4]
        assert abs(s[1] - 2) == 1


def test_informed_baseline_ends_on_the_target_as_often_as_people():
    train = object_scanpaths([[0, 1], [2, 1], [1, 0], [1, 1]], ["a"] * 4, {"a": grid("a", 1, 5, 1)})
    made = fitted(RandomObject, train, informed=True)
    assert made.success == 0.75
    drawn = made.sample_objects(grid("b", 2, 10, 7), 400, torch.Generator().manual_seed(0))
    assert np.mean([s[-1] == 7 for s in drawn]) == pytest.approx(0.75 + 0.25 / 20, abs=0.07)


def test_strict_reading_order_and_jumps():
    train = object_scanpaths([[0, 1, 2, 3]], ["a"], {"a": grid("a", 1, 6)})
    strict = fitted(NextObject, train, strict=True)
    drawn = strict.sample_objects(grid("b", 1, 6), 1, torch.Generator().manual_seed(0))
    assert drawn[0].tolist() == [0, 1, 2, 3]
    at = fitted(NextObject, train).weights(centres_of(grid("b", 1, 6)), np.array([2]))
    assert at.argmax() == 3 and (at > 0).all()


# -- scores ---------------------------------------------------------------------------------------


def test_sequence_score_on_ids_by_hand():
    # common subsequences: 1 3 (2 of 4), none, all
    a = [np.array([1, 2, 3])]
    b = [np.array([1, 4, 4, 3]), np.array([7]), np.array([1, 2, 3])]
    assert object_sequence_scores(a, b)[0].tolist() == pytest.approx([0.5, 0.0, 1.0])


def test_behaviour_intervals_are_those_of_the_metric():
    stimuli = {k: grid(k, 2, 3, 1) for k in "abcd"}
    rng = np.random.default_rng(0)
    drawn, people = (
        {k: [rng.integers(6, size=rng.integers(1, n)) for _ in range(5)] for k in stimuli}
        for n in (9, 5)
    )
    ours, theirs = trials_in(drawn, stimuli), trials_in(people, stimuli)
    rows = {r["metric"]: r for r in difference_rows(ours, theirs, draws=200, seed=0)}
    for name in ("means", "distributions"):
        row = rows[f"behaviour_{name}"]
        found = behaviour_difference(
            ours.behaviour, theirs.behaviour, convention=name, skip_undefined=True
        )
        assert row["value"] == pytest.approx(found.value)
        assert row["low"] < row["high"]
    # no end symbol takes part in the measures: sequences hold rows of objects alone
    assert ours.behaviour.length.max() <= 8


def test_configuration_fits_the_model():
    config = read_model("oat")
    arguments = set(inspect.signature(ObjectAttentionTransformer).parameters)
    assert set(config) - {"name", "training", "sizes"} == arguments
    for size in ("tiny", "cpu", "full"):
        sized(config, size)
    entry = registry.scanpath_models.get("oat")
    assert entry.info["kind"] == "network"
    build({**sized(config, "tiny"), "appearance": "crops", "target": "both"})
