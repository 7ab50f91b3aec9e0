"""Tiny reading corpora, made here, in the layouts of corpora whose files are not at hand.

Each function writes one corpus into a folder: three readers (where the format allows it) and at
least three texts, so that splits by reader and by text exist. Words of every corpus hold ``null``,
``NA`` or ``nan``, which are words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load

TEXTS = {
    1: ["The", "null", "hypothesis"],
    2: ["NA", "is", "not", "nan"],
    3: ["Old", "men", "read."],
}


def put(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], separator: str = "\t") -> str:
    lines = [header, *rows]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines)


def made(name: str, folder: Path, **options: Any) -> GazeDataset:
    if name == "zuco2":
        pytest.importorskip("h5py")
    globals()[name](folder)
    return load(name, root=folder, **options)


def lost(dataset: GazeDataset, words: str) -> int:
    """Return the summed count of the losses whose reason holds some words."""
    return sum(x.count for x in dataset.lost if words in x.reason)


def texts(dataset: GazeDataset, stimulus: str) -> list[str]:
    rows = dataset.words[dataset.words["layout"] == stimulus]
    return rows["text"].tolist()


def change(path: Path, before: str, after: str, encoding: str = "utf-8") -> None:
    text = path.read_bytes().decode(encoding)
    assert before in text
    path.write_bytes(text.replace(before, after).encode(encoding))


def celer(folder: Path) -> None:
    """Readers 1, 2 (learner) and 231; sentence s4 of reader 231 was lost (#NAME?)."""
    head = (
        "list trial sentenceid sentence shared_text answered_correctly question CURRENT_FIX_INDEX "
        "CURRENT_FIX_DURATION CURRENT_FIX_X CURRENT_FIX_Y CURRENT_FIX_INTEREST_AREA_ID "
        "CURRENT_FIX_INTEREST_AREA_LABEL CURRENT_FIX_BLINK_AROUND EYE_USED"
    ).split()
    area_head = "list trial sentenceid sentence IA_ID IA_LABEL IA_DWELL_TIME IA_SKIP".split()
    sentences = {1: "The null hypothesis", 2: "You cann't NA", 3: "I 'd read nan"}
    fixations, areas = [], []
    for reader in (1, 2, 231):
        for number, sentence in sentences.items():
            trial = [reader, number + 1, f"s{number}", sentence]
            more = [1, int(reader != 2), "Why?"]
            words = sentence.split()
            fixations.append(
                [*trial, *more, 1, 200 + number, 100.5, 380, 1, words[0], "NONE", "LEFT"]
            )
            fixations.append([*trial, *more, 2, 150, ".", ".", ".", ".", "BEFORE", "LEFT"])
            label = f'"{words[2]}\t17"' if reader == 1 else words[2]
            fixations.append([*trial, *more, 3, 180, 300, 381, 3, label, "NONE", "LEFT"])
            for i, word in enumerate(words, start=1):
                dwell = {1: 200 + number, 3: 180}.get(i, 0)
                shown = f'"{word}\t17"' if (reader, i) == (1, 3) else word
                areas.append([*trial, i, shown, dwell, int(dwell == 0)])
    lost = [231, 41, "s4", "#NAME?", 0, 1, "?"]
    fixations.append([*lost, 1, 200, 100, 380, 1, "#NAME?", "NONE", "LEFT"])
    areas.append([231, 41, "s4", "#NAME?", 1, "#NAME?", 200, 0])
    put(folder / "data_v2.0/sent_fix.tsv", table(head, fixations))
    put(folder / "data_v2.0/sent_ia.tsv", table(area_head, areas))
    readers = [[1, "English", "30.0", ""], [2, "Spanish", "", "92.0"], [231, "English", "41", ""]]
    put(
        folder / "participant_metadata/metadata.tsv",
        table(["List", "L1", "Age", "TOEFL-IBT-Converted"], readers),
    )
    put(folder / "splits/participants/v2/train.csv", "List\n1\n2\n")
    put(folder / "splits/participants/v2/test.csv", "List\n231\n")


def potec(folder: Path) -> None:
    """Readers 0, 1 and 12, texts b0, p3 and p5; reader 9 in the uncorrected fixations only."""
    texts = {"b0": "Der null Punkt,", "p3": "NA ist nicht nan", "p5": "Alte Männer lesen."}
    head = "word word_index_in_text word_limit_char_indices STTS_punctuation_before".split()
    boxes = "aoi_type aoi start_x start_y end_x end_y word".split()
    fix = "fixation_index trial acc_tq_1 fixation_duration line char_index_in_text".split()
    fix += "is_fixation_adjusted word_index_in_text".split()
    raw = "fixation_index trial acc_tq_1 fixation_duration aoi fixation_position_x".split()
    raw += ["fixation_position_y"]
    merged = "word word_index_in_text FFD FPRT TFT RPD_inc surprisal surprisal_gpt2".split()
    for text, shown in texts.items():
        words, rows, areas, begin = shown.split(), [], [], 1
        for i, word in enumerate(words, start=1):
            plain = word.strip(",.")
            rows.append([plain, i, f"{begin},{begin + len(plain) - 1}", ""])
            areas.append(["0 RECTANGLE", f"{i}.0", 80.0 * i, 21.0, 80.0 * i + 80, 99.0, word])
            begin += len(word)
        put(folder / f"stimuli/word_features/word_features_{text}.tsv", table(head, rows))
        put(folder / f"stimuli/word_aoi_texts/word_aoi_{text}.tsv", table(boxes, areas))
        for position, reader in enumerate((0, 1, 12), start=1):
            answer = "" if (reader, text) == (1, "p5") else 1
            path = folder / f"eyetracking_data/scanpaths/reader{reader}_{text}_scanpath.tsv"
            paths = [
                [1, position, answer, 210, 1, 1, "False", 1],
                [2, position, answer, 90, 1, 5, "True", 2],
            ]
            paths += [[3, position, answer, 120, 2, 999, "False", "NA"]]
            put(path, table(fix, paths))
            measures = [
                [words[0], 1, 210, 210, 210, 210, 1.5, 2],
                [words[1], 2, 90, 90, 90, 90, 1, 2],
            ]
            measures += [[w, i + 3, 0, 0, 0, 0, 1, 2] for i, w in enumerate(words[2:])]
            put(
                folder
                / f"eyetracking_data/reading_measures_merged/reader{reader}_{text}_merged.tsv",
                table(merged, measures),
            )
        for reader in (0, 1, 9):
            name = f"reader{reader}_{text}_uncorrected_fixations.tsv"
            hit = [
                [1, 1, 1, 210, 1, 85.5, 50],
                [2, 1, 1, 90, 5, 1680, 50],
                [3, 1, 1, 70, ".", 5, 5],
            ]
            put(folder / "eyetracking_data/fixations_uncorrected" / name, table(raw, hit))
    answers = []
    for reader in (0, 1, 12):
        for text in texts:
            mean = "" if (reader, text) == (1, "p5") else 0.5
            level = "graduate" if reader else "undergraduate"
            answers.append([reader, level, text, "expert-reading", mean, mean])
    names = (
        "reader_id level_of_studies text_id expert_reading_label mean_acc_tq mean_acc_bq".split()
    )
    put(folder / "participants/participant_response_accuracy.tsv", table(names, answers))
    put(
        folder / "stimuli/stimuli/stimuli.tsv",
        table(["text_id", "text"], [[name, text] for name, text in texts.items()]),
    )


MECO = "uniform_id lang trialid itemid fixid start stop xs ys xn yn dur type blink line".split()
MECO += ["ianum", "ia"]


def meco_rows(readers: dict[str, str], items: Sequence[int] = (1, 2, 3)) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for reader, language in readers.items():
        for item in items:
            words, trial = TEXTS[item], [reader, language, item, item]
            rows.append([*trial, 1, 5, 205, 50.5, 118, 50.5, 120, 200, "in", 0, 1, 1, words[0]])
            rows.append([*trial, 2, 230, 410, 150, 118, 150, 120, 180, "in", 1, 1, 3, words[2]])
            rows.append([*trial, 3, 500, 550, 1, 1, 1, 1, 50, "out", 0, "NA", "NA", "NA"])
    return rows


MECO_WORDS = "uniform_id lang trialid itemid ianum ia dur firstfix.dur nfix skip".split()


def meco_words(readers: dict[str, str], items: Sequence[int] = (1, 2, 3)) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for reader, language in readers.items():
        for item in items:
            for i, word in enumerate(TEXTS[item], start=1):
                time = {1: 200, 3: 180}.get(i, "NA")
                rows.append(
                    [reader, language, item, item, i, word, time, time, 1, int(time == "NA")]
                )
    return rows


def meco_l1(folder: Path) -> None:
    """Wave 1 with fixations only, wave 2 with words; reader ``no_1`` is in both."""
    one, two = {"no_1": "no", "fi_2": "fi"}, {"no_1": "no", "da_3": "da"}
    put(folder / "joint_l1_fixation_version1.3.csv", table(MECO, meco_rows(one), ","))
    stem = "joint_fix_trimmed_l1_wave2_MinusCh_version2.0"
    put(folder / f"{stem}.csv", table(MECO, meco_rows(two), ","))
    words = table(MECO_WORDS, meco_words(two), ",")
    put(folder / "joint_data_trimmed_wave2_version2.0.csv", words)


def meco_l2(folder: Path) -> None:
    """Wave 1, readers es_1, de_2 and it_9."""
    readers = {"es_1": "es", "de_2": "de", "it_9": "it"}
    put(
        folder / "joint_l2_fixation_trimmed_report_2.0.csv",
        table(MECO, meco_rows(readers), ","),
    )
    put(
        folder / "joint_data_l2_trimmed_version2.0.csv",
        table(MECO_WORDS, meco_words(readers), ","),
    )


def provo(folder: Path) -> None:
    """Readers Sub01 to Sub03, passages 1 to 3; a word with an apostrophe, 0xD5 in Mac Roman."""
    texts = {1: ["It\u2019s", "null", "now"], 2: ["NA", "is", "nan."], 3: ["One", "more", "."]}
    head = "RECORDING_SESSION_LABEL TRIAL_INDEX trial CURRENT_FIX_INDEX CURRENT_FIX_X CURRENT_FIX_Y"
    head += " CURRENT_FIX_START CURRENT_FIX_DURATION CURRENT_FIX_INTEREST_AREA_INDEX"
    head += " CURRENT_FIX_INTEREST_AREA_LABEL CURRENT_FIX_BLINK_AROUND EYE_USED"
    area_head = "RECORDING_SESSION_LABEL TRIAL_INDEX Text_ID IA_ID IA_LABEL IA_LEFT IA_TOP IA_RIGHT"
    area_head += " IA_BOTTOM IA_DWELL_TIME IA_FIRST_FIXATION_DURATION"
    rows, areas = [], []
    for n, reader in enumerate(("Sub01", "Sub02", "Sub03")):
        for text, words in texts.items():
            trial = [reader, (text + n) % 3 + 1, text]
            rows.append([*trial, 1, 100, 400, 12, 200, 1, words[0], "NONE", "RIGHT"])
            rows.append([*trial, 2, 300, 401, 240, 180, 3, words[2], "AFTER", "RIGHT"])
            rows.append([*trial, 3, ".", ".", 500, 90, ".", ".", "NONE", "RIGHT"])
            for i, word in enumerate(words, start=1):
                box = [100 * i, 380, 100 * i + 100, 420]
                time = {1: 200, 3: 180}.get(i, ".")
                areas.append([*trial, i, word, *box, time, time])
    rows.append(["Sub01", 56, 2, 1, 100, 400, 10, 250, 1, "NA", "NONE", "RIGHT"])
    name = "Provo_Corpus-Additional_Eyetracking_Data-Fixation_Report.csv"
    put(folder / name, table(head.split(), rows, ","), "mac_roman")
    text = table(area_head.split(), areas, ",")
    put(folder / "Provo_Corpus-Eyetracking_Data.csv", text, "mac_roman")


GECO = (
    "PP_NR PART TRIAL WORD_ID_WITHIN_TRIAL WORD WORD_FIRST_FIXATION_DURATION WORD_GAZE_DURATION "
    "WORD_GO_PAST_TIME WORD_TOTAL_READING_TIME WORD_FIXATION_COUNT WORD_SKIP"
).split()


def geco_rows(reader: str, first: int = 1) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for trial, words in TEXTS.items():
        for i, word in enumerate(words, start=first):
            seen = i != first + 1
            times = [200, 230, 230, 230, 1, 0] if seen else [".", ".", ".", ".", 0, 1]
            rows.append([reader, 1, trial, i, f" {word}\u00a0" if i == first else word, *times])
    return rows


def geco(folder: Path) -> None:
    """Natives pp21 and pp22, and pp01 in both languages."""
    natives = geco_rows("pp21") + geco_rows("pp22")
    put(folder / "MonolingualReadingData.csv", table(GECO, natives, ","))
    put(folder / "L1ReadingData.csv", table(GECO, geco_rows("pp01"), ","))
    put(folder / "L2ReadingData.csv", table(GECO, geco_rows("pp01"), ","))


def emtec(folder: Path) -> None:
    """Readers ET_01 to ET_03, items item01 to item03; corrected and original tables differ."""
    head = "subject_id item_id model decoding_strategy TRIAL_ID fixation_index fixation_duration"
    read = "subject_id item_id model decoding_strategy TRIAL_ID word_id word FFD FPRT TFT TFC"
    for kind, second in (("_corrected", 2), ("", 1)):
        fixations, words = [], []
        for reader in ("ET_01", "ET_02", "ET_03"):
            for item, text in TEXTS.items():
                trial = [reader, f"item0{item}", "phi2", "top-k", item]
                fixations.append([*trial, 1, 200, 0, text[0]])
                fixations.append([*trial, 2, 180, second, text[second]])
                fixations.append([*trial, 3, 90, ".", "."])
                for i, word in enumerate(text):
                    time = {0: 200, second: 180}.get(i, 0)
                    words.append([*trial, i, word, time, time, time, int(time > 0)])
        put(folder / f"fixations{kind}.csv", table([*head.split(), "word_id", "word"], fixations))
        put(folder / f"reading_measures{kind}.csv", table(read.split(), words))
    names = "item_id model decoding_strategy gen_seq_trunc".split()
    texts = [[f"item0{i}", "phi2", "top-k", '"' + "  ".join(t) + '"'] for i, t in TEXTS.items()]
    put(folder / "stimuli.csv", table(names, texts))
    boxes = [[i, 190, 243, 95 + 80 * i, 175 + 80 * i, w] for i, w in enumerate(TEXTS[1])]
    places = "word_index y_top y_bottom x_left x_right word".split()
    put(folder / "unique_aois/phi2_top-k_item01_coordinates.csv", table(places, boxes))


def iitb_hgc(folder: Path, as_text: bool = False) -> None:
    """Readers p01 to p03, paragraphs 1, 2 and 3 (in 3 the recording joined two words)."""
    texts = {
        1: "Claim: null was\u21b5 NA",
        2: "He paid $1,750 for it",
        3: "She went with Andy home",
    }
    shown = {
        1: ["Claim:", ".", "NA"],
        2: ["He", "$\u00a01,750.00", "it"],
        3: ["She", "with\u00a0Andy", "home"],
    }
    numbers = {1: ["1", ".", "4"], 2: ["1", "3", "5"], 3: [1, 3, 4]}
    lines = []
    for reader in ("p01", "p02", "p03"):
        for trial, text in texts.items():
            lists: dict[str, Any] = {
                "fixation_seqs": [1, 2, 3],
                "fixation_word_ids": numbers[trial],
                "fixation_durations": [200, 90, 180],
                "fixation_word_texts": shown[trial],
            }
            if as_text:
                lists = {k: repr(v) for k, v in lists.items()}
            labels = {"true_labels": "hallucinated", "annotator_labels": "hallucinated"}
            if reader == "p02":
                labels["annotator_labels"] = "non_hallucinated"
            lines.append(
                {"trial_id": trial, "participant_id": reader, "text": text, **lists, **labels}
            )
    put(folder / "IITB_HGC.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def zuco_sentence(words: Sequence[str], shift: float = 0.0) -> dict[str, Any]:
    """Fixations 1 and 3 on the first and the third word, 2 on none."""
    n = len(words)
    boxes = [[100.0 * i + shift, 50.0, 100.0 * i + 100 + shift, 80.0] for i in range(n)]
    return {
        "content": " ".join(words),
        "words": list(words),
        "bounds": np.array(boxes),
        "positions": [[1], [], [3], *[[]] * (n - 3)],
        "fixations": {
            "x": [10.0, 850.0, 250.0],
            "y": [60.0, 60.0, 61.0],
            "duration": [200.0, 150.0, 180.0],
            "pupilsize": [700.0, 701.0, 702.0],
        },
        "TRT": [200.0, np.nan, 180.0, *[np.nan] * (n - 3)],
    }


def zuco_v7(path: Path, sentences: Sequence[dict[str, Any] | None]) -> None:
    """Write a result file as ZuCo 1 has it; None is a sentence that was not read."""
    from scipy.io import savemat

    items = np.zeros(len(sentences), dtype=object)
    for i, s in enumerate(sentences):
        if s is None:
            items[i] = {
                "content": "not read",
                "word": np.nan,
                "allFixations": np.nan,
                "wordbounds": 0.0,
            }
            continue
        words = np.zeros(len(s["words"]), dtype=object)
        for j, text in enumerate(s["words"]):
            words[j] = {
                "content": text,
                "fixPositions": np.array(s["positions"][j], dtype="float64"),
                "nFixations": float(len(s["positions"][j])) if s["positions"][j] else np.zeros(0),
                "TRT": s["TRT"][j] if s["TRT"][j] == s["TRT"][j] else np.zeros(0),
                "rawEEG": np.zeros((2, 3)),
            }
        items[i] = {
            "content": s["content"],
            "word": words,
            "allFixations": {k: np.array(v) for k, v in s["fixations"].items()},
            "wordbounds": s["bounds"],
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"sentenceData": items}, do_compression=True)


def zuco_v73(path: Path, sentences: Sequence[dict[str, Any] | None]) -> None:
    """Write a result file as ZuCo 2 has it."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        store = file.create_group("#refs#")

        def ref(value: Any) -> Any:
            name = f"r{len(store)}"
            if isinstance(value, str):
                values = np.array([[ord(c)] for c in value], dtype="uint16")
            else:
                values = np.atleast_2d(np.asarray(value, dtype="float64")).T
            if values.size == 0:
                made = store.create_dataset(name, data=np.zeros(2, dtype="uint64"))
                made.attrs["MATLAB_empty"] = 1
            else:
                made = store.create_dataset(name, data=values)
            return made.ref

        def refs(group: Any, name: str, values: Sequence[Any]) -> None:
            data = np.empty((len(values), 1), dtype=h5py.ref_dtype)
            for i, value in enumerate(values):
                data[i, 0] = value
            group.create_dataset(name, data=data, dtype=h5py.ref_dtype)

        top: dict[str, list[Any]] = {
            n: [] for n in ("content", "word", "allFixations", "wordbounds")
        }
        for i, s in enumerate(sentences):
            top["content"].append(ref(s["content"] if s else "not read"))
            if s is None:
                for name in ("word", "allFixations", "wordbounds"):
                    top[name].append(ref([np.nan]))
                continue
            word, places = file.create_group(f"w{i}"), file.create_group(f"f{i}")
            refs(word, "content", [ref(w) for w in s["words"]])
            refs(word, "fixPositions", [ref(p) for p in s["positions"]])
            refs(word, "nFixations", [ref([len(p)] if p else []) for p in s["positions"]])
            refs(word, "TRT", [ref([t] if t == t else []) for t in s["TRT"]])
            for name, values in s["fixations"].items():
                places.create_dataset(name, data=np.atleast_2d(values).T)
            top["word"].append(word.ref)
            top["allFixations"].append(places.ref)
            top["wordbounds"].append(ref(s["bounds"]))
        group = file.create_group("sentenceData")
        for name, values in top.items():
            refs(group, name, values)


def zuco1(folder: Path) -> None:
    """Readers ZAB, ZDM and ZDN, who did not read sentence 2; ZDM has other boxes in sentence 1."""
    for reader in ("ZAB", "ZDM", "ZDN"):
        sentences: list[dict[str, Any] | None] = [zuco_sentence(t) for t in TEXTS.values()]
        if reader == "ZDM":
            sentences[0] = zuco_sentence(TEXTS[1], shift=7)
        if reader == "ZDN":
            sentences[1] = None
        zuco_v7(folder / f"task1-SR/Matlab files/results{reader}_SR.mat", sentences)
    short = [zuco_sentence(["emp11111ty", "null", "film.1"])]
    zuco_v7(folder / "task2-NR/Matlab files/resultsZAB_NR.mat", short)


def zuco2(folder: Path) -> None:
    """Readers YAC, YAG and YMH (who is left out); sentence 3 of NR is of block 7."""
    for reader in ("YAC", "YAG", "YMH"):
        sentences = [zuco_sentence(t) for t in TEXTS.values()]
        zuco_v73(folder / f"task1 - NR/Matlab files/results{reader}_NR.mat", sentences)
    lines = {2: (TEXTS[1], TEXTS[2]), 7: (TEXTS[3],)}
    for block, texts in lines.items():
        rows = "".join(f'{block};{i};"{" ".join(t)}";\n' for i, t in enumerate(texts))
        put(folder / f"task_materials/nr_{block}.csv", f"0;0;Practice sentence;\n{rows}")


def reading_brain(folder: Path) -> None:
    """Two natives and one learner, all of whom are sub-01 or sub-02; sentences of two articles."""
    head = "onset duration Lemmas Words CURRENT_FIX_INTEREST_AREA_ID CURRENT_FIX_START SentenceID"
    sentences = {"t.03.01": TEXTS[1], "t.03.02": TEXTS[2], "t.04.01": TEXTS[3]}
    for group, reader in (("ds003974", "01"), ("ds003974", "02"), ("ds003988", "01")):
        runs: dict[str, list[list[Any]]] = {"1": [], "2": []}
        for sentence, words in sentences.items():
            run = runs["1" if sentence.startswith("t.03") else "2"]
            run.append(["n/a", 87, "n/a", "n/a", ".", 7, "UNDEFINEDnull", "UNDEFINEDnull"])
            run.append([9537.0, 70, "the", words[0], 1, 0, sentence, 5260])
            run.append([9632.0, 165, "n/a", "n/a", ".", 95, sentence, 5260])
            run.append([9809.0, 270, "x", words[2], 3, 272, sentence, 5260])
        for run, rows in runs.items():
            name = f"sub-{reader}_task-read_run-{run}_events.tsv"
            text = table([*head.split(), "SentenceRT"], rows)
            put(folder / group / f"sub-{reader}/func" / name, text)


def as_frame(header: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[str]) -> Any:
    """Return rows as the data frame that R would hold: numbers as numbers, NA missing."""
    frame = pd.DataFrame([list(r) for r in rows], columns=list(header), dtype=object)
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name].where(frame[name] != "NA"), errors="coerce")
        frame[name] = frame[name].astype("float64")
    return frame
