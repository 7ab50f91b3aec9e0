"""Tiny corpora of pictures, search and code in their published layouts; see `.made`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import savemat

from . import (
    test_call_graph_attention,
    test_code_comprehension,
    test_emip_aois,
    test_llm_code_attention,
    test_osie,
    test_programmer_scanpaths,
    test_sti_amazon,
    test_visual_search_asymmetry,
)

# COCO: (name, task, bbox, part); the first picture is searched for two targets
PRESENT = [
    ("000000000001.jpg", "cup", [600, 300, 100, 50], "train"),
    ("000000000002.jpg", "potted plant", [10, 20, 30, 40], "train"),
    ("000000000003.jpg", "tv", [900, 500, 200, 100], "valid"),
]


def picture(path: Path, width: int, height: int) -> None:
    """Write a grey picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (width, height), 128).save(path)


def coco_trial(name: str, subject: int, **more: Any) -> dict[str, Any]:
    """Return a trial of two fixations, the first on the centre."""
    trial = {
        "name": name,
        "subject": subject,
        "X": [840.5, 650.0],
        "Y": [525.5, 320.25],
        "T": [200, 150],
        "length": 2,
        "split": "train",
    }
    return trial | more


def coco_search18(folder: Path) -> None:
    parts: dict[str, list] = {"train": [], "valid": []}
    for name, task, box, part in PRESENT:
        for subject in (1, 2, 3):
            facts = {"task": task, "condition": "present", "bbox": box, "split": part}
            parts[part].append(coco_trial(name, subject, **facts, correct=1, RT=350.5))
    for part, word in (("train", "train"), ("valid", "validation")):
        path = folder / f"coco_search18_fixations_TP_{word}_split1.json"
        path.write_text(json.dumps(parts[part]))
    absent = [
        coco_trial("000000000004.jpg", s, task="sink", condition="absent", correct=0)
        for s in (1, 2, 3)
    ]
    (folder / "coco_search18_fixations_TA_trainval.json").write_text(json.dumps(absent))
    picture(folder / "images" / "cup" / "000000000001.jpg", 16, 10)


def coco_freeview(folder: Path) -> None:
    trials = [
        coco_trial(
            f"00000000000{image}.jpg",
            subject,
            task="none",
            condition="freeview",
            split="valid" if image == 3 else "train",
        )
        for image in (1, 2, 3)
        for subject in (1, 2, 3)
    ]
    (folder / "COCOFreeView_fixations_trainval.json").write_text(json.dumps(trials))


def eye_data() -> np.ndarray:
    """Return 3 s at 240 Hz: 360 samples at (400, 300), a blink of 24, 336 at (100.5, 50)."""
    return np.concatenate([np.full((360, 2), (400.0, 300.0)), np.full((24, 2), -999.0),
                           np.full((336, 2), (100.5, 50.0))])  # fmt: skip


def mit_file(folder: Path, person: str, stem: str, eye: np.ndarray | None = None) -> Path:
    path = folder / "DATA" / person / f"{stem}.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"imgName": f"{stem}.jpeg", "DATA": {"eyeData": eye_data() if eye is None else eye}}
    savemat(path, {stem[:63]: record}, do_compression=True, long_field_names=True)
    return path


MIT_LONG = "istatic_" + "a" * 60


def mit1003(folder: Path) -> None:
    for person in ("ajs", "CNG", "hp"):
        for stem in ("i1000978947", MIT_LONG, "i05june05_static"):
            mit_file(folder, person, stem)
    picture(folder / "ALLSTIMULI" / "i1000978947.jpeg", 102, 76)


def cat2000(folder: Path) -> None:
    rows = ["number,key,name,x,y"]
    for number in (1, 2, 3):
        for person in ("AB", "CD", "EF"):
            name = f"x-{number:03d}-{person}.eye"
            for x, y in ((1, 1), (1, 1), (1920, 1080), (1921.5, 20), ("NaN", "NaN")):
                rows.append(f"{number},k{number},{name},{x},{y}")
    (folder / "trainSet").mkdir()
    (folder / "trainSet" / "allFixData.csv").write_text("\n".join(rows) + "\n")
    for name in ("Action/002.jpg", "Action/010.jpg", "Art/001.jpg"):
        picture(folder / "trainSet" / "Stimuli" / name, 16, 9)


def salicon_file(folder: Path, part: str, stem: str, paths: list, **more: Any) -> Path:
    gaze = np.zeros((len(paths), 1), [(k, "O") for k in ("location", "timestamp", "fixations")])
    for k, path in enumerate(paths):
        mouse = np.array([[1.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        when = np.array([[0.0], [16.5], [33.0]])
        gaze[k, 0] = (mouse, when, np.array(path, dtype=np.uint16).reshape(-1, 2))
    file = folder / part / f"{stem}.mat"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"image": stem, "resolution": np.array([[480, 640]]), "gaze": gaze, **more}
    savemat(file, content, do_compression=True)
    return file


def salicon(folder: Path) -> None:
    paths = [[(1, 1), (640, 480)], [(641, 10)], []]
    for number in (1, 2, 3):
        salicon_file(folder, "train", f"COCO_train2014_00000000000{number}", paths)
    salicon_file(folder, "val", "COCO_val2014_000000000009", paths)
    picture(folder / "images" / "train" / "COCO_train2014_000000000001.jpg", 64, 48)


def fix_text(rows: list[tuple[str, float, float, float, float]]) -> str:
    """Return a file of fixations: start, duration (s), x, y on the grid, pupil."""
    body = [
        f"Fx 1 {k + 1} 0 {start} {duration} 0.05 1.2 {x} {y} {pupil} 20.0 0 0 0"
        for k, (start, duration, x, y, pupil) in enumerate(rows)
    ]
    head = ["[Fixation data]", "ROWS= 9", "COLS= 15"]
    return "\r\n".join([*head, *body, "", "[Fix Segment Summary]", "1 2 3"])


NUSEF = [("14:20:01.100", 0.25, 130, 140, 55), ("14:20:01.400", 0.3, 0, 0, 0)]


def nusef_file(folder: Path, image: str, name: str, text: str) -> None:
    path = folder / "NUSEF_database" / "fix_data" / image / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")


def nusef(folder: Path) -> None:
    for image in ("1001", "1002", "2001"):
        for person in ("01", "02", "03"):
            nusef_file(folder, image, f"s{person}+{image}.fix", fix_text(NUSEF))
    picture(folder / "NUSEF_database" / "stimuli" / "1001.jpg", 512, 384)
    picture(folder / "NUSEF_database" / "stimuli" / "1002.jpg", 2048, 1024)


def cells(values: list) -> np.ndarray:
    """Return a MATLAB row of cells."""
    row = np.empty((1, len(values)), dtype=object)
    for k, value in enumerate(values):
        row[0, k] = value
    return row


def fifa_scan(x: list, y: list, duration: list) -> dict[str, np.ndarray]:
    columns = (("fix_x", x), ("fix_y", y), ("fix_duration", duration))
    return {k: np.array(v, dtype=float).reshape(-1, 1) for k, v in columns}


def fifa(folder: Path) -> None:
    scans = [fifa_scan([512, 1024], [384, 10], [200, 120]), fifa_scan([], [], []),
             fifa_scan([-1], [5], [90])]  # fmt: skip
    people = cells([{"scan": cells(scans)} for _ in range(3)])
    savemat(folder / "fixations.mat", {"sbj": people}, do_compression=True)
    names = cells(["0001.jpg", "0002.jpg", "0009.jpg"]).T
    savemat(folder / "imgList.mat", {"imgList": names}, do_compression=True)


def air_file(folder: Path, question: str, person: str, xy: list, t: list) -> Path:
    path = folder / "fix" / question / f"{person}.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"xy": np.array(xy, dtype=float), "t": np.array(t, dtype=float)}
    savemat(path, content, do_compression=True)
    return path


def air_d(folder: Path) -> None:
    questions = ("0111", "0222", "0333", "0444")
    answers: dict[str, dict] = {
        "accuracy": dict.fromkeys(questions, 0.5),
        "question": dict.fromkeys(questions, "Is it red?"),
        "answer": dict.fromkeys(questions, "yes"),
        "AS": dict.fromkeys(questions, "Yes"),
        "CC": dict.fromkeys(questions, "no"),
        "EN": {"0111": "nan", "0222": float("nan"), "0333": "yes"},
    }
    for question in questions:
        # the first person's record is empty; those after it count too
        empty = question == "0111"
        air_file(folder, question, "AS", [] if empty else [[10, 20]], [] if empty else [[0, 150]])
        air_file(folder, question, "CC", [[10, 20], [700, 5]], [[0, 150], [200, 420]])
        air_file(folder, question, "EN", [[1, 2], [3, 4], [-5, 6]], [[0, 10], [20, 40], [50, 90]])
    (folder / "consolidated_answers.json").write_text(json.dumps(answers))
    images = {"0111": "231", "0222": "231", "0333": "999", "0444": "1000"}
    entries = {q: {"imageId": i} for q, i in images.items()}
    (folder / "val_balanced_questions.json").write_text(json.dumps(entries))
    picture(folder / "images" / "231.jpg", 640, 480)


def referral(image: int, subject: int, part: str = "train", **more: Any) -> dict[str, Any]:
    record = {
        "IMAGEFILE": f"COCO_{image:03d}.jpg",
        "SUBJECT_ID": subject,
        "REF_ID": 100 + image,
        "REF_GAZE_ID": image * 1000 + subject,
        "REF_SENTENCE": "man on left",
        "REF_WORDS": ["man", "on", "left"],
        "TARGET": "man",
        "TARGET_CATEGORY": "person",
        "BBOX": [100, 50, 200, 300],
        "FIX_X": [840, 150, 1700],
        "FIX_Y": [525, 60, 20],
        "FIX_START": [0, 250, 600],
        "FIX_DURATION": [200, 300, 100],
        "FIX_IN_BBOX": [False, True, False],
        "SOUND_ON": 500,
        "TARGET_SPOKEN_PERIOD": [0, 310],
        "REFCOCO_GAZE_SPLIT": part,
    }
    return record | more


def refcoco_gaze(folder: Path) -> None:
    train = [referral(image, subject) for image in (1, 2) for subject in (1, 2, 3)]
    val = [referral(3, subject, "val") for subject in (1, 2, 3)]
    (folder / "refcocogaze_train_correct.json").write_text(json.dumps(train))
    (folder / "refcocogaze_val_correct.json").write_text(json.dumps(val))
    timing = [{"ref_id": 101, "target_period": [0, 310]}, {"ref_id": 102, "target_period": [5, 9]}]
    (folder / "word-timing.json").write_text(json.dumps(timing))


SMI_HEAD = (
    "## [iView]\n## Version:\tIDF Converter 3.0.20\n## Sample Rate:\t{rate}\n"
    "## [Run]\n## Subject: \t{person}\n## [Calibration]\n## Calibration Area:\t1920\t1080\n"
    "## [Geometry]\n## Stimulus Dimension [mm]:\t344\t194\n## Head Distance [mm]:\t700\n## \n"
    "Time\tType\tTrial\tL POR X [px]\tL POR Y [px]\tR POR X [px]\tR POR Y [px]"
    "\tL Mapped Diameter [mm]\tR Mapped Diameter [mm]\tL Validity\tR Validity\n"
)


def smi_text(person: int, screens: list[str], rate: int = 250) -> str:
    """Return a recording: 50 samples before all, then 100 per screen, half each at two places."""
    lines, step, time = [], 1_000_000 // rate, 110_000_000
    sample = "{}\tSMP\t1\t{x}\t{y}\t{x}\t{y}\t3.5\t3.6\t1\t1"
    for k in range(50):
        lines.append(sample.format(time + k * step, x=960, y=540))
    time += 50 * step
    for screen in screens:
        lines.append(f"{time}\tMSG\t1\t# Message: {screen}")
        for k in range(100):
            x, y = (620, 60) if k < 50 else (1000, 500)
            lines.append(sample.format(time + k * step, x=x, y=y))
            if k == 60:
                click = f"{time + k * step}\tMSG\t1\t# Message: UE-mouseclick left x=5 y=6"
                lines.append(click)
        time += 100 * step
    return SMI_HEAD.format(rate=rate, person=person) + "\n".join(lines) + "\n"


SCREENS = ["instruction_calibration.jpg", "vehicle_java2.jpg", "mupliple_choice_vehicle.jpg",
           "rectangle_java2.jpg", "rectangle_python.jpg"]  # fmt: skip


def emip(folder: Path) -> None:
    (folder / "rawdata").mkdir()
    for person, rate in ((1, 250), (46, 60), (106, 250)):
        path = folder / "rawdata" / f"{person}_rawdata.tsv"
        path.write_text(smi_text(person, SCREENS, rate))
    (folder / "emip_metadata.csv").write_text(
        "id,age,gender,expertise_programming,time_programming,expertise_experiment_language,"
        "time_experiment_language,correct_rectangle,correct_vehicle\n"
        "1,20,x,low,1,none,0,1,0\n46,30,x,high,12,medium,3,0,1\n"
    )
    # named after another picture than its rows, as a published one is
    (folder / "aois_vehicle_java.csv").write_text(
        "kind,name,x,y,width,height,local_id,image\n"
        "line,line 1,609,57,243,18,,rectangle_java2.jpg\n"
        "sub-line,line 1 part 1,609,57,68,18,,rectangle_java2.jpg\n"
        "sub-line,line 1 part 2,689,57,54,18,,rectangle_java2.jpg\n"
    )
    (folder / "emip_tokens").mkdir()
    (folder / "emip_tokens" / "rectangle.tsv").write_text(
        "stimulus_file\ttoken\tAOI\tsyntactic_context\n"
        "Rectangle.java\tpublic\tline 1 part 1\tclass\nRectangle.java\tnull\tline 1 part 2\t\n"
    )


# corpora that have their own tests; their files here for the contract


def osie(folder: Path) -> None:
    scan = test_osie._struct([1.0, 800.0], [1.0, 600.0], [200, 100], np.uint8)
    images = {f"100{k}.jpg": [scan, scan, scan] for k in (1, 2, 3)}
    test_osie._write(folder, images)


def visual_search_asymmetry(folder: Path) -> None:
    t = test_visual_search_asymmetry
    path = [(512, 640), (100, 200)]  # (row, column) in this set
    t._save(folder, "Waldo", "human_all", [path] * 9, 4)
    t._save(folder, "Waldo", "eccNET", [path] * 3, 4)
    np.save(folder / "search_arrays" / "Waldo" / "target_pos.npy", np.array([[100, 200]] * 3))
    ring = [(640, 512), (365, 988)]
    t._save(folder, "ObjArr", "human_all", [ring] * 9, 3)
    for model in ("eccNET", "IVSN"):  # the target is where both end
        t._save(folder, "ObjArr", model, [ring] * 3, 3)
    t._pack(folder)


def sti_amazon(folder: Path) -> None:
    entry = test_sti_amazon._entry
    gaze = {"p1": [[110, 140], [205, 140]], "p2": [[2000, 1000]], "p3": [[30, 260]]}
    boxes = ((30, 20, 190, 260), (2370, 1320, 2530, 1560), (30, 280, 190, 520))
    entries = {f"{k}.jpg": entry(box, (2541, 1584), **gaze) for k, box in enumerate(boxes, 1)}
    (folder / "Amazon.json").write_text(json.dumps(entries))


def code_comprehension(folder: Path) -> None:
    t = test_code_comprehension
    for person in ("P1", "P2", "P3"):
        rows = [
            t._row(person=person, trial=trial, snippet=snippet, index=k, x=15.0 * k)
            for trial, snippet in enumerate(("A1", "A2", "A3"), 1)
            for k in (1, 2)
        ]
        t._report(folder, f"fix_report_{person}.txt", rows, t.LONG)
    for snippet in ("A1", "A2", "A3"):
        t._areas(folder, snippet, *t.AREAS)


def programmer_scanpaths(folder: Path) -> None:
    line = test_programmer_scanpaths._line
    lines = [line(["a", "b"], [100.0, 200.0], p, m) for p in (1, 2, 3) for m in (1, 2, 3)]
    text = "\n".join(map(json.dumps, lines)) + "\n"
    (folder / "scanpaths.jsonl").write_text(text, encoding="utf-8")


def call_graph_attention(folder: Path) -> None:
    t = test_call_graph_attention
    trials = []
    for person in (4, 5, 6):
        body = ",".join(t.COLUMNS) + "\n"
        for trial in (1, 2, 3):
            method = f"draw{trial}"
            trials.append(
                t._trial(participant=person, trial=trial, target_method=method, n_fixations=4)
                | {"accuracy": "3"}
            )
            for row in t.ROWS:
                own = row | {"participant": person, "trial": trial}
                body += ",".join(str(own[c]) for c in t.COLUMNS) + "\n"
        (folder / f"fixations_P{person}.csv.gz").write_bytes(gzip.compress(body.encode()))
    pd.DataFrame(trials).to_csv(folder / "trials.csv", index=False)


def llm_code_attention(folder: Path) -> None:
    test_llm_code_attention._write(folder)


def emip_aois(folder: Path) -> None:
    row = "Participant00{}\tTimeline1\t{}a\t1\t{}a\t{}\t{}\t{}\tyes"
    for name in ("P1C", "P2C", "P3S"):
        rows = [
            row.format(person, name, name, area, count, first)
            for person in (1, 2, 3)
            for area, count, first in (("i++", 0, ""), ("P1-Whole-F", 9, 50))
        ]
        test_emip_aois._write(folder, f"{name}a.tsv", rows)
        test_emip_aois._write(folder, f"{name}a-05s.tsv", rows)
    (folder / "emip_tokens").mkdir()
    (folder / "emip_tokens" / "vehicle.tsv").write_text(
        "stimulus_file\ttoken\tAOI\tsyntactic_context\nVehicle.java\tnull\tline 1 part 1\tclass\n"
    )


MAKERS: dict[str, Callable[[Path], object]] = {
    "air_d": air_d,
    "call_graph_attention": call_graph_attention,
    "cat2000": cat2000,
    "coco_freeview": coco_freeview,
    "coco_search18": coco_search18,
    "code_comprehension": code_comprehension,
    "emip": emip,
    "emip_aois": emip_aois,
    "fifa": fifa,
    "llm_code_attention": llm_code_attention,
    "mit1003": mit1003,
    "nusef": nusef,
    "osie": osie,
    "programmer_scanpaths": programmer_scanpaths,
    "refcoco_gaze": refcoco_gaze,
    "salicon": salicon,
    "sti_amazon": sti_amazon,
    "visual_search_asymmetry": visual_search_asymmetry,
}
