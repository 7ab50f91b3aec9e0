"""TPP-Gaze: equations, causality, draws, horizons, and the faults of the public program."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus, collate
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.models.scanpath.base import one_batch
from gazeattn.models.scanpath.tpp_gaze import TPPGaze
from gazeattn.registry import scanpath_models

CHANNELS = {"stride32": 5, "stride16": 4}
SMALL: dict[str, Any] = {
    "channels": CHANNELS, "width": 12, "picture_width": 10, "layers": 2, "heads": 2, "inner": 16,
    "maps": 8, "key_width": 6, "image_size": (128, 128), "time_components": 2,
    "position_components": 3,
}  # fmt: skip
PAPER = {**SMALL, "readout": "paper", "glimpse": False, "truncated": False, "horizon": 3000.0}
KINDS = [
    {**SMALL, "history": "gru"},
    {**SMALL, "history": "transformer"},
    {**PAPER, "history": "gru"},
    {**PAPER, "history": "transformer"},
]
NAMES = ["spatial-gru", "spatial-transformer", "paper-gru", "paper-transformer"]


def stimulus(seed: int = 0, **facts: Any) -> Stimulus:
    g = torch.Generator().manual_seed(seed)
    features = {
        "stride32": torch.randn(5, 4, 4, generator=g),
        "stride16": torch.randn(4, 8, 8, generator=g),
        **facts.pop("more", {}),
    }
    return Stimulus(f"picture{seed}", (800.0, 600.0), features=features, **facts)


def walks(lengths: list[int], seed: int = 0, stimuli: int = 2) -> Scanpaths:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    pictures = [stimulus(i) for i in range(stimuli)]
    ids = np.array([f"t{i}" for i in range(len(lengths))], dtype=object)
    names = np.array([pictures[i % stimuli].name for i in range(len(lengths))], dtype=object)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Scanpaths(
        rng.uniform(0, 799, n), rng.uniform(0, 599, n), rng.uniform(80, 500, n), starts, ids, ids,
        names, {p.name: p for p in pictures},
    )  # fmt: skip


def built(kind: dict[str, Any], seed: int = 0, fit: bool = True) -> TPPGaze:
    torch.manual_seed(seed)
    model = TPPGaze(**kind)
    with torch.no_grad():  # the parts that start at 0 must not hide faults
        for name, p in model.named_parameters():
            if name.startswith(("readout.cell", "readout.bumps", "history.start")):
                p.normal_(std=0.3)
    if fit:
        model.fit_statistics(walks([3, 5, 7, 6]))
    return model.eval()


def terms(model: TPPGaze, batch: ScanpathBatch) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return model.log_likelihood(batch)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_only_the_past_and_the_own_scanpath_matter(kind: dict[str, Any]) -> None:
    model, paths = built(kind), walks([6, 3, 9, 1])
    batch = collate(paths)
    whole, maps = terms(model, batch), model.log_density(batch, (5, 7))
    assert torch.allclose(maps.exp().sum((-2, -1))[batch.mask], torch.tensor(1.0), atol=1e-5)
    # alone: neither padding nor the other members of the batch change a number
    for i in (0, 1, 3):
        one = collate(paths, [i])
        n = int(one.mask.sum())
        for name, values in terms(model, one).items():
            assert torch.allclose(values[0, :n], whole[name][i, :n], atol=1e-5), name
            assert bool(torch.isfinite(values[0, :n]).all())
        assert torch.allclose(model.log_density(one, (5, 7))[0, :n], maps[i, :n], atol=1e-5)
    # what is fixated, and for how long, changes nothing before and up to it
    xy, duration = batch.xy.clone(), batch.duration.clone()
    xy[2, 4], duration[2, 4] = torch.tensor([0.9, 0.05]), 700.0
    other = replace(batch, xy=xy, duration=duration)
    after, moved = terms(model, other), model.log_density(other, (5, 7))
    assert torch.allclose(moved[2, :5], maps[2, :5], atol=1e-6)
    assert (moved[2, 5] - maps[2, 5]).abs().max() > 1e-4
    assert torch.allclose(after["position"][2, :4], whole["position"][2, :4], atol=1e-6)
    assert torch.allclose(after["duration"][2, :4], whole["duration"][2, :4], atol=1e-6)
    assert not torch.allclose(after["duration"][2, 5:], whole["duration"][2, 5:], atol=1e-4)
    # padding is neutral whatever stands in it
    noisy = replace(
        batch,
        xy=torch.where(batch.mask[..., None], batch.xy, 0.77),
        duration=torch.where(batch.mask, batch.duration, 123.0),
    )
    for name, values in terms(model, noisy).items():
        assert torch.allclose(values[batch.mask], whole[name][batch.mask], atol=1e-6)
        assert bool(torch.isnan(values[~batch.mask]).all())


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_draws(kind: dict[str, Any]) -> None:
    model, picture = built(kind), stimulus()
    model.train()
    a = model.sample(picture, 30, torch.Generator().manual_seed(3))
    b = model.sample(picture, 30, torch.Generator().manual_seed(3))
    c = model.sample(picture, 30, torch.Generator().manual_seed(4))
    assert model.training
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert not all(len(x) == len(y) and np.allclose(x, y) for x, y in zip(a, c, strict=True))
    for path in a:
        assert len(path) >= 1
        assert path.shape[1] == 3
        assert ((path[:, :2] >= 0) & (path[:, :2] < [800, 600])).all()
        assert (path[:, 2] > 0).all()


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_draws_step_by_step_see_what_teacher_forcing_sees(
    kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, picture = built(kind), stimulus()
    seen: list[torch.Tensor] = []
    original = TPPGaze._times

    def watched(self: TPPGaze, context: torch.Tensor) -> Any:
        seen.append(context)
        return original(self, context)

    monkeypatch.setattr(TPPGaze, "_times", watched)
    paths = model.sample(picture, 6, torch.Generator().manual_seed(0))
    drawn = [s[:, 0] for s in seen]
    batch = one_batch(picture, paths)
    with torch.no_grad():
        before = model._teach(batch)[1]
    for i, path in enumerate(paths):
        for k in range(len(path)):
            assert torch.allclose(drawn[k][i], before[i, k], atol=1e-4)


def test_the_picture_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public program ran the network over the picture again for every event."""
    model, looks = built(PAPER), []
    original = TPPGaze.look

    def counted(self: TPPGaze, *arguments: Any) -> Any:
        looks.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(TPPGaze, "look", counted)
    model.sample(stimulus(), 20, torch.Generator().manual_seed(0))
    assert len(looks) == 1


def test_published_equations_by_hand() -> None:
    model = built(PAPER, fit=False)
    with torch.no_grad():
        for p in (*model.time.parameters(), *model.position.parameters()):
            p.zero_()
        # durations: both components at 0 with sd 1 in normalised logarithms
        # positions: means tanh(.), log-scales 0: sd 1 in [-1, 1] units is 0.5 in shares
        model.position.bias[:2] = torch.tensor([math.atanh(0.5), -50.0])
        model.position.bias[-3:] = torch.tensor([40.0, 0.0, 0.0])  # the first component alone
    tau = 1000 * math.exp(-1.51261)  # the median, 220.3 ms
    assert tau == pytest.approx(220.33, abs=0.01)
    batch = one_batch(stimulus(), [np.array([[600.0, 0.0, tau], [600.0, 300.0, tau]])])
    found = terms(model, batch)
    # x: mean (0.5 + 1) / 2 = 0.75 = 600 / 800; y: mean 0, so half the picture is one sd away
    peak = -math.log(2 * math.pi * 0.25)
    assert found["position"][0].tolist() == pytest.approx([peak, peak - 0.5], abs=1e-4)
    wanted = -math.log(tau * 0.58917 * math.sqrt(2 * math.pi))
    assert found["duration"][0].tolist() == pytest.approx([wanted, wanted], abs=1e-4)


def test_truncated_likelihood_is_a_density_on_the_picture() -> None:
    side = (np.arange(60) + 0.5) / 60
    grid = np.stack(np.meshgrid(side * 800, side * 600), -1).reshape(-1, 2)
    for kind in (SMALL, PAPER):
        inside = {}
        for truncated in (True, False):
            model = built({**kind, "truncated": truncated})
            batch = one_batch(stimulus(), [g[None] for g in grid])
            inside[truncated] = terms(model, batch)["position"].exp().mean().item()
        assert inside[True] == pytest.approx(1, abs=0.01)
        assert inside[False] < 0.99


def test_missing_zero_and_negative_durations_are_left_out_and_counted() -> None:
    paths = walks([4, 4])
    paths.duration[[0, 1, 2]] = [np.nan, 0.0, -5.0]
    for kind in (SMALL, PAPER):
        model = built(kind)
        batch = collate(paths)
        found = model.training_loss(batch)
        assert found["missing"].item() == pytest.approx(3 / 8)
        found["loss"].backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert all(bool(torch.isfinite(g).all()) for g in gradients)
        assert torch.isnan(terms(model, batch)["duration"][0, :3]).all()
        paths.duration[3:] = np.nan
        found = model.training_loss(collate(paths))
        assert "duration" not in found
        assert bool(torch.isfinite(found["loss"]))
        paths.duration[3:] = 200.0
        empty = replace(batch, mask=torch.zeros_like(batch.mask))
        assert model.training_loss(empty) == {}


def test_statistics_are_those_of_training_and_are_saved() -> None:
    paths = walks([2, 2])
    paths.duration[:] = [100.0, 100 * math.e, np.nan, 0.0]
    model = TPPGaze(**SMALL)
    model.fit_statistics(paths)
    assert model.log_mean.item() == pytest.approx(math.log(100) + 0.5, abs=1e-5)
    assert model.log_sd.item() == pytest.approx(0.5, abs=1e-5)
    # the second sum counts a typical duration, 100 sqrt(e), for each missing one
    assert model.totals[0].item() == pytest.approx(2 * 100 * math.exp(0.5), rel=1e-4)
    assert model.totals[-1].item() == pytest.approx(100 * (1 + math.e), rel=1e-4)
    assert {"log_mean", "log_sd", "totals", "longest", "readout.bias"} <= set(model.state_dict())


def test_horizon_of_a_number_drops_the_crossing_fixation() -> None:
    model = built(PAPER)
    for path in model.sample(stimulus(), 50, torch.Generator().manual_seed(0)):
        assert path[:, 2].sum() <= 3000 or len(path) == 1
    short = built({**PAPER, "horizon": 1.0})
    assert {len(p) for p in short.sample(stimulus(), 9, torch.Generator().manual_seed(0))} == {1}


def test_horizon_of_the_training_distribution_has_no_bias() -> None:
    model = built({**SMALL, "horizon": "distribution"})
    model.totals.copy_(torch.linspace(1500, 2500, 201))
    paths = model.sample(stimulus(), 600, torch.Generator().manual_seed(0))
    totals = np.array([p[:, 2].sum() for p in paths])
    typical = np.concatenate([p[:, 2] for p in paths]).mean()
    assert totals.mean() == pytest.approx(2000, abs=0.25 * typical)
    with pytest.raises(DataError, match="sums of training"):
        TPPGaze(**{**SMALL, "horizon": "distribution"}).sample(stimulus(), 2, torch.Generator())


def test_learned_stop_is_a_probability_of_the_length() -> None:
    model, paths = built(SMALL), walks([3])
    batch = collate(paths)
    stop = terms(model, batch)["stop"][0]
    longer = collate(walks([4]))
    # the same first three fixations: ending there and going on are complements
    longer.xy[:, :3], longer.duration[:, :3] = batch.xy, batch.duration
    longer = replace(longer, stimuli=batch.stimuli, features=batch.features)
    other = terms(model, longer)["stop"][0]
    assert torch.allclose(other[:2], stop[:2], atol=1e-6)
    assert (stop[2].exp() + other[2].exp()).item() == pytest.approx(1, abs=1e-5)
    with torch.no_grad():
        assert model.stop is not None
        for p in model.stop[-1].parameters():
            p.zero_()
    lengths = [len(p) for p in model.sample(stimulus(), 2000, torch.Generator().manual_seed(0))]
    assert np.mean(lengths) == pytest.approx(2, abs=0.15)  # geometric with 1/2


def test_survival_of_the_cut_off_interval() -> None:
    kind = {**PAPER, "survival": True, "viewing_time": 1000.0}
    model, plain = built(kind), built(PAPER)
    path = np.array([[100.0, 100, 300], [400, 300, 400]])
    batch = one_batch(stimulus(), [path, np.array([[100.0, 100, 300], [400, 300, 900]])])
    found, without = terms(model, batch), terms(plain, batch)
    with torch.no_grad():
        _, before, after, *_ = model._teach(batch)
        # 300 ms are left after the first scanpath, in which no further fixation ended
        rest = model._times(after).log_survival(torch.full((2, 2), 300.0))[0, 1]
        # the second one was cut off 700 ms after its beginning
        cut = model._times(before).log_survival(torch.full((2, 2), 700.0))[1, 1]
    assert found["survival"].tolist() == pytest.approx([rest.item(), 0.0], abs=1e-6)
    assert torch.allclose(found["duration"][0], without["duration"][0])
    assert found["duration"][1, 1].item() == pytest.approx(cut.item(), abs=1e-6)
    parts = model.training_loss(batch)
    assert parts["survival"].item() == pytest.approx(-rest.item() / 4, abs=1e-6)
    with pytest.raises(DataError, match="viewing_time"):
        TPPGaze(**{**PAPER, "survival": True})


@pytest.mark.parametrize("kind", [SMALL, PAPER], ids=["spatial", "paper"])
def test_targets(kind: dict[str, Any]) -> None:
    model = built({**kind, "targets": ["cup", "fork"]})
    path = np.array([[100.0, 100, 300], [400, 300, 400]])
    maps = {
        t: model.log_density(one_batch(stimulus(target=t), [path]), (4, 4))
        for t in ("cup", "fork", None)
    }
    assert (maps["cup"] - maps["fork"]).abs().max() > 1e-5
    assert (maps["cup"] - maps[None]).abs().max() > 1e-5
    with pytest.raises(UnknownNameError, match="cup"):
        model.log_density(one_batch(stimulus(target="cups"), [path]), (4, 4))
    model = built({**kind, "target_width": 6})
    vectors = [stimulus(more={"target": torch.full((6,), v)}) for v in (-1.0, 1.0)]
    a, b = (model.log_density(one_batch(s, [path]), (4, 4)) for s in vectors)
    assert (a - b).abs().max() > 1e-5
    assert len(model.sample(vectors[0], 3, torch.Generator().manual_seed(0))) == 3
    with pytest.raises(DataError, match="target"):
        model.sample(stimulus(), 1, torch.Generator())


def test_temperature_is_used_and_touches_positions_only() -> None:
    """The public program took the temperature as an argument and ignored it."""
    spread, durations = {}, {}
    for temperature in (1.0, 3.0):
        model = built({**PAPER, "temperature": temperature, "horizon": 1.0})
        with torch.no_grad():
            model.position.weight.zero_()
            model.position.bias.zero_()
            model.position.bias[6:12] = -1.0
        drawn = model.sample(stimulus(), 400, torch.Generator().manual_seed(0))
        spread[temperature] = np.array([p[0, 0] for p in drawn]).std()
        durations[temperature] = [p[0, 2] for p in drawn]
    assert spread[3.0] == pytest.approx(400 * math.exp(-3), rel=0.15)
    assert spread[1.0] > 5 * spread[3.0]
    assert durations[1.0] == durations[3.0]


def published_names(history: str) -> dict[str, torch.Size]:
    """Names and shapes of the published modules, by hand from their description."""
    s: dict[str, tuple[int, ...]] = {"context.context_init": (256,)}
    if history == "gru":
        s |= {"context.rnn.weight_ih_l0": (768, 3), "context.rnn.weight_hh_l0": (768, 256),
              "context.rnn.bias_ih_l0": (768,), "context.rnn.bias_hh_l0": (768,)}  # fmt: skip
    else:
        e = "context.encoder."
        s |= {e + "alpha": (), e + "beta": ()}
        s |= {e + "encoder.marks_linear.weight": (256, 2), e + "encoder.marks_linear.bias": (256,)}
        for i in range(4):
            p = f"{e}encoder.layer_stack.{i}."
            s |= {p + "self_attn.in_proj_weight": (768, 256), p + "self_attn.in_proj_bias": (768,),
                  p + "self_attn.out_proj.weight": (256, 256), p + "linear1.weight": (1024, 256),
                  p + "self_attn.out_proj.bias": (256,), p + "linear1.bias": (1024,),
                  p + "linear2.weight": (256, 1024), p + "linear2.bias": (256,)}  # fmt: skip
            s |= {f"{p}norm{k}.{w}": (256,) for k in (1, 2) for w in ("weight", "bias")}
        r = e + "rnn."
        s |= {r + "rnn.weight_ih_l0": (1024, 256), r + "rnn.weight_hh_l0": (1024, 256),
              r + "rnn.bias_ih_l0": (1024,), r + "rnn.bias_hh_l0": (1024,),
              r + "projection.weight": (256, 256), r + "projection.bias": (256,)}  # fmt: skip
    for i, (a, b) in enumerate(((2051, 8), (8, 16), (16, 1)), 1):
        s[f"metadata.conv{i}.weight"] = (b, a, 1, 1)
        for name in ("weight", "bias", "running_mean", "running_var"):
            s[f"metadata.image_norm{i}.{name}"] = (b,)
        s[f"metadata.image_norm{i}.num_batches_tracked"] = ()
    s |= {"metadata.fc1.weight": (256, 256), "metadata.fc1.bias": (256,)}
    s |= {"inter_time_dist.linear.weight": (12, 512), "inter_time_dist.linear.bias": (12,)}
    s |= {"marks_dist.linear.weight": (80, 512), "marks_dist.linear.bias": (80,)}
    s["metadata.backbone.features.features.0.features.conv0.weight"] = (2, 3, 7, 7)
    return {k: torch.Size(v) for k, v in s.items()}


@pytest.mark.parametrize("history", ["gru", "transformer"])
def test_published_weights_load_where_everything_fits(history: str, tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    state = {k: torch.rand(v, generator=g) * 0.1 for k, v in published_names(history).items()}
    torch.save(state, tmp_path / "model.pth")
    kind: dict[str, Any] = {
        "channels": {"stride32": 2048}, "backbone": "densenet201", "strides": [32],
        "readout": "paper", "glimpse": False, "truncated": False, "horizon": 3000,
    }  # fmt: skip
    model = TPPGaze(**kind, history=history)
    report = model.load_published(tmp_path / "model.pth")
    assert report.missing == report.unexpected == report.shapes == ()
    assert len(report.loaded) + len(report.unused) == len(state)
    assert torch.equal(model.readout.linear.weight, state["metadata.fc1.weight"])
    assert torch.equal(model.history.start, state["context.context_init"])
    assert ("batch" in report.note) == (history == "transformer")
    assert model.log_sd.item() == pytest.approx(0.58917, abs=1e-5)
    picture = Stimulus("p", (640.0, 480.0), features={"stride32": torch.rand(2048, 16, 16)})
    assert len(model.sample(picture, 2, torch.Generator().manual_seed(0))) == 2

    for fault, change in (
        ("missing: time.bias", {"inter_time_dist.linear.bias": None}),
        ("unexpected: extra.weight", {"extra.weight": torch.zeros(2)}),
        ("of another shape: readout.linear.bias", {"metadata.fc1.bias": torch.zeros(3)}),
    ):
        bad = {k: v for k, v in {**state, **change}.items() if v is not None}
        torch.save(bad, tmp_path / "bad.pth")
        before = model.time.weight.clone()
        with pytest.raises(DataError, match=fault):
            model.load_published(tmp_path / "bad.pth")
        assert torch.equal(model.time.weight, before)
    with pytest.raises(CapabilityError, match="readout='spatial'"):
        TPPGaze(**SMALL).load_published(tmp_path / "model.pth")
    with pytest.raises(CapabilityError, match="radius_from"):
        TPPGaze(**kind, radius_from=0.0).load_published(tmp_path / "model.pth")


@pytest.mark.parametrize("fault", ["text", "empty", "absent", "folder", "list", "flat", "bytes"])
def test_a_path_that_is_no_published_file_is_named(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    if fault == "text":
        path.write_text("these are no weights\n" * 20)
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "folder":
        path.mkdir()
    elif fault == "list":
        torch.save([torch.zeros(2)], path)
    elif fault == "flat":
        torch.save({k: torch.zeros(3) for k in published_names("gru")}, path)
    elif fault == "bytes":
        path.write_bytes(bytes(range(256)))
    model = TPPGaze(
        channels={"stride32": 2048}, backbone="densenet201", strides=[32], readout="paper",
        glimpse=False, truncated=False, horizon=3000,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"model\.pth"):
        model.load_published(path)


def test_a_checkpoint_is_plain(tmp_path: Path) -> None:
    model = built(SMALL)
    torch.save({"w": model.state_dict(), "h": dict(model.hparams)}, tmp_path / "m.pt")
    stored = torch.load(tmp_path / "m.pt", weights_only=True)
    again = TPPGaze(**stored["h"])
    again.load_state_dict(stored["w"])
    batch = collate(walks([5, 2]))
    for name, values in terms(again.eval(), batch).items():
        assert torch.equal(values[batch.mask], terms(model, batch)[name][batch.mask])
    a, b = (m.sample(stimulus(), 4, torch.Generator().manual_seed(1)) for m in (model, again))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_registered_and_configured() -> None:
    entry = scanpath_models.get("tpp_gaze")
    assert entry.obj is TPPGaze
    folder = Path(__file__).resolve().parents[3] / "conf" / "model"
    text = (folder / "tpp_gaze.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    sizes, training = config.pop("sizes"), config.pop("training")
    assert config.pop("name") == "tpp_gaze"
    assert {"max_epochs", "batch_size", "patience", "gradient_clip"} == set(training)
    assert {"tiny", "cpu", "full"} == set(sizes)
    import inspect

    wanted = set(inspect.signature(TPPGaze.__init__).parameters) - {"self", "channels"}
    assert set(config) == wanted
    for size in sizes.values():
        TPPGaze(channels=CHANNELS, **{**config, **{k: v for k, v in size.items()
                                                   if k != "training"}})  # fmt: skip


def test_unknown_names_and_missing_features() -> None:
    for wrong in ({"history": "lstm"}, {"readout": "papers"}, {"horizon": "stops"}):
        with pytest.raises(UnknownNameError):
            TPPGaze(**{**SMALL, **wrong})
    with pytest.raises(DataError):
        TPPGaze(**{**SMALL, "horizon": -1.0})
    bare = Stimulus("bare", (10.0, 10.0))
    with pytest.raises(DataError, match="stride16"):
        built(SMALL).sample(bare, 1, torch.Generator())


def test_learns_where_and_for_how_long() -> None:
    """Places alternate between the two bright cells of the picture; the left one lasts longer."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    features = {"stride32": torch.zeros(5, 4, 4), "stride16": torch.zeros(4, 8, 8)}
    features["stride16"][0, 2, 1] = features["stride16"][0, 5, 6] = 5.0
    picture = Stimulus("p", (800.0, 600.0), features=features)
    spots, usual = np.array([[150.0, 187.5], [650.0, 412.5]]), np.array([400.0, 100.0])

    def path() -> np.ndarray:
        at = (rng.integers(2) + np.arange(6)) % 2
        place = spots[at] + rng.normal(0, 15, (6, 2))
        # a duration is told by the place before it
        return np.c_[place, usual[1 - at] * rng.lognormal(0, 0.1, 6)]

    paths = [path() for _ in range(60)]
    model = TPPGaze(**{**SMALL, "lr": 1e-2, "feature_dropout": 0.0})
    batch = one_batch(picture, paths)
    n = len(paths)
    values = np.concatenate(paths)
    ids = np.array([str(i) for i in range(n)], dtype=object)
    model.fit_statistics(
        Scanpaths(values[:, 0], values[:, 1], values[:, 2], np.arange(n + 1) * 6, ids, ids,
                  np.full(n, "p", dtype=object), {"p": picture})
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(120):
        optimizer.zero_grad()
        model.training_loss(batch)["loss"].backward()
        optimizer.step()
    model.eval()
    found = terms(model, one_batch(picture, [path() for _ in range(20)]))
    # a known Gaussian has -ln(2 pi e * .01875 * .025) = 4.83; which of two costs ln 2 more
    assert 4.83 - math.log(2) + 0.2 < found["position"][:, 1:].mean() < 5.1
    assert found["position"][:, 0].mean() == pytest.approx(4.83 - math.log(2), abs=0.35)
    drawn = model.sample(picture, 200, torch.Generator().manual_seed(0))
    lengths = np.array([len(p) for p in drawn])
    assert np.mean(np.abs(lengths - 6) <= 1) > 0.95
    steps = np.concatenate([np.diff(p[:, 0] > 400) for p in drawn if len(p) > 1])
    assert steps.mean() > 0.9
    right = np.concatenate([p[1:][p[1:, 0] > 400, 2] for p in drawn])
    assert np.median(right) == pytest.approx(400, rel=0.15)
