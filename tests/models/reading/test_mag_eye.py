"""MAG-Eye: the gate by hand, and what all networks hold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError
from gazeattn.models.reading.mag_eye import AdaptationGate, MAGEye

from . import encoder_cases as cases


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("encoders")
    return {k: cases.save_encoder(folder / k, k) for k in cases.FAMILIES}


def build(encoder: str, widths: dict[str, int], **options: Any) -> MAGEye:
    options = {"beta": 1.0, "gate_dropout": 0.1, "lr": 1e-3, "train_layers": 1, **options}
    torch.manual_seed(0)
    return MAGEye(cases.classes(), widths, encoder=encoder, **options)


def gate(beta: float) -> AdaptationGate:
    """Return a gate with g = relu(z + (e, -e)), H = g * (2 e, 2 e) + (0, 1)."""
    made = AdaptationGate(2, 1, beta, 0.0)
    with torch.no_grad():
        made.gate.weight.copy_(torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0]]))
        made.gate.bias.zero_()
        made.shift.weight.copy_(torch.tensor([[2.0], [2.0]]))
        made.bias.copy_(torch.tensor([0.0, 1.0]))
    return made


def test_the_gate_by_hand() -> None:
    # Z = (3, 4), E = 1: g = (4, 3), H = (8, 7); ||Z|| = 5, ||H|| = sqrt(113)
    states, features = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[1.0]]])
    there = torch.tensor([[True]])
    alpha = 0.5 * 5 / 113**0.5
    found = gate(0.5)(states, features, there)[0, 0]
    assert found.tolist() == pytest.approx([3 + 8 * alpha, 4 + 7 * alpha])
    # the shift is as long as beta allows, and never longer than H itself
    assert (found - states[0, 0]).norm().item() == pytest.approx(2.5)
    assert gate(100.0)(states, features, there)[0, 0].tolist() == pytest.approx([11, 11])
    # E = -5: g = (0, 9), H = (0, -90 + 1)
    found = gate(100.0)(states, torch.tensor([[[-5.0]]]), there)[0, 0]
    assert found.tolist() == pytest.approx([3, 4 - 89])
    nothing = torch.tensor([[False]])
    assert torch.equal(gate(1.0)(states, features, nothing), states)


def test_a_shift_of_length_0_has_a_finite_gradient() -> None:
    made = AdaptationGate(2, 1, 1.0, 0.0)
    features = torch.zeros(1, 1, 1, requires_grad=True)
    states = torch.ones(1, 1, 2)
    out = made(states, features, torch.tensor([[True]]))
    assert torch.equal(out, states)
    out.sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in made.parameters() if p.grad is not None)


def test_features_go_to_each_token_of_their_word(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["roberta"])
    model = build(folders["roberta"], widths, layer=1).eval()
    batch = collate_reading(inputs, [3, 0])
    seen: list[Any] = []
    model.gate.register_forward_hook(lambda m, a, out: seen.append((*a, out)))
    with torch.no_grad():
        model(batch)
    states, features, there, out = seen[0]
    words = torch.cat([batch.gaze, batch.text], -1)
    # <s> r s ##t </s>, where the second of three words has no token
    assert there[0].tolist() == [False, True, True, True, *[False] * 4]
    assert torch.equal(features[0, 1:4], words[0, [0, 2, 2]])
    # <s> a ##b ##c d e ##f </s>
    assert torch.equal(features[1, 1:7], words[1, [0, 0, 0, 1, 2, 2]])
    assert (features[~there] == 0).all()
    assert torch.equal(out[~there], states[~there])
    assert (out[there] != states[there]).any(-1).all()


def test_the_published_beta_is_almost_the_text_alone(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    batch = collate_reading(inputs)
    other = replace(batch, gaze=batch.gaze + 1)
    apart = {}
    for beta in (1e-3, 1.0):
        model = build(folders["bert"], widths, beta=beta).eval()
        with torch.no_grad():
            apart[beta] = (model(batch) - model(other)).abs().max().item()
    assert 0 < apart[1e-3] < 0.02 < apart[1.0]


def test_faults_are_named(folders: dict[str, str]) -> None:
    with pytest.raises(DataError, match="0 to 2"):
        build(folders["bert"], {"gaze": 2}, layer=3)
    with pytest.raises(DataError, match="above 0"):
        build(folders["bert"], {"gaze": 2}, beta=0.0)
    with pytest.raises(DataError, match="no feature"):
        build(folders["bert"], {"fixation": 2})
    assert MAGEye.choice({}).fixation == ()
    assert MAGEye.choice({"features": {"text": []}}).text == ()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {"layer": 0}),
        ("roberta", {"layer": 2}),
        ("xlm-roberta", {"layer": 1, "train_layers": -1}),
        ("bert", {"layer": 1, "train_layers": 0}),
    ],
)
def test_company_padding_and_gradients(
    folders: dict[str, str], family: str, options: dict[str, Any]
) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders[family])
    model = build(folders[family], widths, **options)
    cases.check_company(model, inputs)
    cases.check_padding(model, inputs)
    cases.check_gradients(model, inputs)


def test_a_batch_of_texts_without_words(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    model = build(folders["bert"], widths)
    loss = model.training_loss(collate_reading(inputs, [4]))["loss"]
    loss.backward()
    assert torch.isfinite(loss)


def test_checkpoints(folders: dict[str, str], tmp_path: Path) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    cases.check_round_trip(partial(build, folders["bert"], widths, layer=1), inputs, tmp_path)


@pytest.mark.parametrize("label", [cases.longer, cases.slowing])
def test_learns_how_long_and_where(folders: dict[str, str], label: Any) -> None:
    trials, y = cases.made_up(64, label)
    choice = FeatureChoice(fixation=(), gaze=("total_reading_time",), text=())
    inputs, widths = cases.inputs_of(trials, folders["bert"], y=y, choice=choice)
    model = build(folders["bert"], widths, lr=3e-3, train_layers=-1, layer=1)
    assert cases.accuracy_after(model, inputs, 150) > 0.9
