"""Scenes of people: the layout's checks, batches, converters and generated scenes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from gazeattn.datamodules.joint_attention import (
    JointScenes,
    joint_scenes_of,
    read_joint_scenes,
    write_joint_tables,
)
from gazeattn.datamodules.joint_batches import JointDataModule, collate_scenes
from gazeattn.datamodules.joint_generated import (
    ACTIONS,
    generate_joint_scenes,
    generate_joint_tables,
    generated_objects,
)
from gazeattn.datamodules.joint_layouts import (
    read_volleyball_annotations,
    videocoatt_tables,
    volleyball_tables,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SCENES = "scene,width,height,sequence\na,200,100,v1\nb,100,100,v2\n"
PEOPLE = (
    "scene,person,head_x,head_y,gaze_x,gaze_y,action\n"
    "a,007,20,50,2,0,run\n"
    "a,8,100,10,0,1,\n"
    "b,1,50,50,,,sit\n"
    "a,9,180,90,-0.6,-0.8,run\n"
)
TARGETS = (
    "scene,target,x,y,xmin,ymin,xmax,ymax,attended_by\n"
    "a,own,10,10,,,,,9\n"
    "a,ball,,,90,40,110,60,007; 8\n"
    "b,ball,25,75,,,,,\n"
)


def folder(path: Path, **texts: str) -> Path:
    for name, text in {"scenes": SCENES, "people": PEOPLE, "targets": TARGETS, **texts}.items():
        (path / f"{name}.csv").write_text(text, encoding="utf-8")
    return path


def test_three_files_become_scenes(tmp_path: Path) -> None:
    lost = LossLog()
    scenes = read_joint_scenes(folder(tmp_path), lost=lost)
    assert scenes.scene.tolist() == ["a", "b"] and scenes.sequence.tolist() == ["v1", "v2"]
    assert scenes.person.tolist() == ["007", "8", "9", "1"]  # an id is text, people by scene
    np.testing.assert_allclose(scenes.gaze[:3], np.array([[1, 0], [0, 1], [-0.6, -0.8]]))
    assert np.isnan(scenes.gaze[3]).all()
    assert scenes.actions == ("run", "sit") and scenes.action.tolist() == [0, -1, 0, 1]
    np.testing.assert_allclose(scenes.place, [[10, 10], [100, 50], [25, 75]])
    np.testing.assert_allclose(scenes.extent[1], [20, 20])
    assert scenes.joint.tolist() == [False, True, True]  # one person; two; not noted
    assert scenes.attends.tolist() == [1, 1, 0, -1]
    assert scenes.present.tolist() == [True, True]
    assert lost.count("people", "undefined") == 1 and lost.count("people", "repaired") == 1


def test_a_folder_without_targets_can_be_predicted(tmp_path: Path) -> None:
    (folder(tmp_path) / "targets.csv").unlink()
    scenes = read_joint_scenes(tmp_path)
    assert len(scenes.target) == 0 and not scenes.present.any()
    batch = collate_scenes(scenes)
    assert batch.place.shape == (2, 0, 2) and not batch.present.any()


@pytest.mark.parametrize(
    ("name", "old", "new", "row", "words"),
    [
        ("scenes", "b,100,100,v2", "a,100,100,v2", 3, "scene stands twice"),
        ("scenes", "b,100,100", "b,0,100", 3, "no size"),
        ("people", "b,1,50", "c,1,50", 4, "no such scene"),
        ("people", "a,8,100", "a,007,100", 3, "person stands twice"),
        ("people", "a,8,100,10", "a,8,300,10", 3, "head is off the picture"),
        ("people", "a,8,100,10", "a,8,left,10", 3, "numbers"),
        ("people", "2,0,run", "0,0,run", 2, "length 0"),
        ("people", "2,0,run", "2,,run", 2, "has one number"),
        ("targets", "a,own,10,10", "a,own,,", 2, "nowhere"),
        ("targets", "a,own,10,10", "a,own,10,101", 2, "off the picture"),
        ("targets", "90,40,110", "120,40,110", 3, "ends before it starts"),
        ("targets", "007; 8", "007; 7", 3, "not in the scene"),
        ("targets", "007; 8", "007; 9", 3, "two targets"),
    ],
)
def test_damage_is_told_with_file_and_row(
    tmp_path: Path, name: str, old: str, new: str, row: int, words: str
) -> None:
    text = {"scenes": SCENES, "people": PEOPLE, "targets": TARGETS}[name]
    assert old in text
    with pytest.raises(DataError, match=words) as error:
        read_joint_scenes(folder(tmp_path, **{name: text.replace(old, new)}))
    assert f"{name}.csv" in str(error.value) and error.value.row == row


def test_missing_files_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no scenes table"):
        read_joint_scenes(tmp_path)
    with pytest.raises(DataError, match="head_y"):
        read_joint_scenes(folder(tmp_path, people=PEOPLE.replace("head_y", "y")))
    (tmp_path / "people.tsv").write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match="stands twice"):
        read_joint_scenes(tmp_path)


def test_actions_of_a_model_fix_the_numbers(tmp_path: Path) -> None:
    scenes = read_joint_scenes(folder(tmp_path), actions=("sit", "run"))
    assert scenes.action.tolist() == [1, -1, 1, 0]
    with pytest.raises(DataError, match="not known"):
        read_joint_scenes(tmp_path, actions=("sit",))


def test_gaze_stays_a_straight_line_in_shares() -> None:
    scenes = pd.DataFrame({"scene": ["a"], "width": [400.0], "height": [100.0]})
    people = pd.DataFrame({"scene": ["a"], "person": ["1"], "head_x": [40.0], "head_y": [10.0],
                           "gaze_x": [3.0], "gaze_y": [1.0]})  # fmt: skip
    batch = collate_scenes(joint_scenes_of(scenes, people))
    # from (40, 10) along (3, 1) to (280, 90): shares (.1, .1) to (.7, .9), direction (.6, .8)
    np.testing.assert_allclose(batch.head[0, 0], [0.1, 0.1], atol=1e-6)
    np.testing.assert_allclose(batch.gaze[0, 0], [0.6, 0.8], atol=1e-6)


def test_batches_pad_with_a_mask(tmp_path: Path) -> None:
    batch = collate_scenes(read_joint_scenes(folder(tmp_path)))
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.gazes.tolist() == [[True, True, True], [False, False, False]]
    assert batch.attends.tolist() == [[1, 1, 0], [-1, -1, -1]]
    assert batch.joint.tolist() == [[False, True], [True, False]]
    assert bool((batch.gaze[1] == 0).all())


def test_parts_share_no_sequence() -> None:
    scenes = generate_joint_scenes(20, frames=3)
    parts = scenes.split((0.5, 0.25, 0.25), seed=3)
    names = [set(p.sequence) for p in parts]
    assert [len(n) for n in names] == [10, 5, 5] and len(set.union(*names)) == 20
    assert sum(map(len, parts)) == 60
    JointDataModule(parts[0], parts[1])
    with pytest.raises(DataError, match="1 sequences"):
        JointDataModule(parts[0].take([0]), parts[0].take([1]))


def test_the_order_of_batches_depends_on_seed_and_epoch() -> None:
    scenes = generate_joint_scenes(10)
    data = JointDataModule(*scenes.split((0.5, 0.5)), batch_size=4, seed=1)
    orders = []
    for epoch in (0, 1, 0):
        data.trainer = SimpleNamespace(current_epoch=epoch)  # type: ignore[assignment]
        orders.append([b.scene for b in data.train_dataloader()])
    assert orders[0] == orders[2] != orders[1]


def attended(scenes: JointScenes) -> np.ndarray:
    """Return where each person's target is, NaN where none is known."""
    number = scenes.target_starts[scenes.people_of] + scenes.attends
    known = scenes.attends >= 0
    goal = np.full(scenes.head.shape, np.nan)
    goal[known] = scenes.place[number[known]]
    return goal


def test_generated_scenes_hold_what_they_say(tmp_path: Path) -> None:
    scenes = generate_joint_scenes(200, seed=5, gaze_noise=0.0)
    assert scenes.actions == ACTIONS
    members = scenes.attends >= 0
    goal = attended(scenes)
    away = goal - scenes.head
    cosine = (away * scenes.gaze).sum(1) / np.hypot(*away.T)
    known = members & ~np.isnan(scenes.gaze[:, 0])
    np.testing.assert_allclose(cosine[known], 1, atol=1e-9)  # without noise they look at it
    counts = np.bincount(scenes.target_starts[scenes.people_of[members]] + scenes.attends[members],
                         minlength=len(scenes.target))  # fmt: skip
    np.testing.assert_array_equal(scenes.joint, counts >= 2)
    assert 0.5 < scenes.present.mean() < 0.8
    first = scenes.take(np.arange(0, 600, 3))
    second = scenes.take(np.arange(1, 600, 3))
    assert not np.array_equal(first.n_people, second.n_people)  # people come and go
    tables = generate_joint_tables(200, seed=5, gaze_noise=0.0)
    write_joint_tables(tmp_path / "made", *tables)
    again = read_joint_scenes(tmp_path / "made", actions=ACTIONS)
    np.testing.assert_array_equal(again.gaze, scenes.gaze)
    np.testing.assert_array_equal(again.joint, scenes.joint)
    np.testing.assert_array_equal(again.attends, scenes.attends)


def test_generated_noise_has_the_stated_size() -> None:
    scenes = generate_joint_scenes(1500, seed=2, frames=1, gaze_noise=10.0, no_action=0.0)
    away = attended(scenes) - scenes.head
    turn = np.rad2deg(np.arctan2(scenes.gaze[:, 1], scenes.gaze[:, 0])
                      - np.arctan2(away[:, 1], away[:, 0]))  # fmt: skip
    turn = (turn + 180) % 360 - 180
    for action, noise in zip(range(4), (10, 6, 10, 14), strict=True):
        own = turn[(scenes.attends >= 0) & (scenes.action == action)]
        own = own[~np.isnan(own)]
        assert len(own) > 200
        assert own.std() == pytest.approx(noise, rel=4 / np.sqrt(2 * len(own)))


def test_objects_stand_at_targets_and_elsewhere() -> None:
    scenes = generated_objects(generate_joint_scenes(3, groups=(0, 1, 0), seed=1), decoys=2)
    shown = collate_scenes(scenes).features
    assert shown is not None and shown.shape == (9, 3, 10, 20)
    x, y = scenes.place[0] / scenes.size[0]
    assert shown[0, 0, int(y * 10), int(x * 20)] > 0.7
    half = scenes.take([0, 1])
    broken = half.with_features(lambda s, i: torch.zeros(1, 2, 2))
    broken.features.pop(half.scene[0])  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="some have none"):
        collate_scenes(broken)


def test_videocoatt_lines_become_scenes(tmp_path: Path) -> None:
    path = tmp_path / "12.txt"
    path.write_text(
        "1 1 100 100 140 120 10 20 30 40 200 20 220 40\n"
        "2 1 300 200 340 220 400 20 420 40\n"
        "1 2 0 0 1 1 0 0 1 1\n"
        "1 11 100 100 140 120 10 20 30 40 470 20 530 40\n",
        encoding="utf-8",
    )
    lost = LossLog()
    tables = videocoatt_tables({"12": path}, size=(480, 320), frames={"12": 25}, gaze="target",
                               lost=lost)  # fmt: skip
    scenes = joint_scenes_of(*tables)
    assert scenes.scene.tolist() == ["12_1", "12_11", "12_21"]
    assert scenes.n_people.tolist() == [3, 1, 0]
    np.testing.assert_allclose(scenes.place, [[120, 110], [320, 210], [120, 110]])
    np.testing.assert_allclose(scenes.extent[0], [40, 20])
    assert scenes.joint.tolist() == [True, False, False]
    np.testing.assert_allclose(scenes.gaze[0], np.array([100, 80]) / np.hypot(100, 80))
    assert lost.count("videocoatt", "dropped") == 2  # a line of frame 2, a head off the frame
    assert np.isnan(joint_scenes_of(*videocoatt_tables({"12": path}, size=(600, 320))).gaze).all()
    path.write_text("1 1 100 100 140\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"12\.txt, row 1"):
        videocoatt_tables({"12": path}, size=(480, 320))
    path.write_text("\n1 1 100 100 140 120 1.5 2 3 4\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2"):
        videocoatt_tables({"12": path}, size=(480, 320))


def test_volleyball_clips_become_scenes(tmp_path: Path) -> None:
    tracking, ball = tmp_path / "30.txt", tmp_path / "ball.txt"
    tracking.write_text(
        "0 100 200 140 300 30 0 1 0 spiking\n"
        "1 500 200 540 300 30 1 0 0 standing\n"
        "2 300 100 340 200 30 0 0 0 moving\n"
        "0 100 200 140 300 31 0 1 1 spiking\n",
        encoding="utf-8",
    )
    ball.write_text("\n".join(f"{i * 10} 50" for i in range(1, 42)) + "\n", encoding="utf-8")
    lost = LossLog()
    tables = volleyball_tables({("4", "30"): (tracking, ball)}, size={"4": (1280, 720)},
                               lost=lost)  # fmt: skip
    scenes = joint_scenes_of(*tables)
    assert scenes.scene.tolist() == ["4_30_30"] and scenes.sequence.tolist() == ["4"]
    np.testing.assert_allclose(scenes.head, [[120, 210], [320, 110]])
    np.testing.assert_allclose(scenes.place, [[210, 50]])  # the 21st line
    assert scenes.joint.all() and (scenes.attends == -1).all()
    assert lost.count("volleyball", "dropped") == 1 and lost.count("volleyball", "note") == 2
    ball.write_text("1 2\n", encoding="utf-8")
    with pytest.raises(DataError, match="41 lines"):
        volleyball_tables({("4", "30"): (tracking, ball)}, size=(1280, 720))


def test_both_orders_of_a_player_are_read(tmp_path: Path) -> None:
    path = tmp_path / "annotations.txt"
    path.write_text("5.jpg l_set 1 2 3 4 moving 5 6 7 8 standing\n"
                    "6.jpg r_set moving 1 2 3 4\n", encoding="utf-8")  # fmt: skip
    found = read_volleyball_annotations(path)
    assert found["frame"].tolist() == ["5", "5", "6"] and found["player"].tolist() == [0, 1, 0]
    assert found[["x", "y", "width", "height"]].to_numpy()[[0, 2]].tolist() == [[1, 2, 3, 4]] * 2
    assert found["action"].tolist() == ["moving", "standing", "moving"]
    path.write_text("5.jpg l_set 1 2 3\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 1"):
        read_volleyball_annotations(path)
