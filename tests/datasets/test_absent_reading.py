"""Loaders of corpora whose files are not at hand, on tiny files in their published layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.datasets import load, otherfiles
from gazeattn.datasets.corpus import corpus
from gazeattn.datasets.wordlevel import word_table
from gazeattn.errors import ChecksumError, DataError, MissingAssetError
from gazeattn.tables import LossLog

from . import reading_files as files
from .reading_files import change, lost, made, put, table, texts

pytestmark = [
    pytest.mark.filterwarnings("ignore:data set:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is not the file that the page:UserWarning"),
]

WITH_FIXATIONS = [
    *("celer", "potec", "meco_l1", "meco_l2", "provo", "emtec", "iitb_hgc", "zuco1", "zuco2"),
    "reading_brain",
]
NAMES = [*WITH_FIXATIONS, "geco"]


@pytest.mark.parametrize("name", NAMES)
def test_words_reproduce_the_text_and_words_like_null_stay_text(name: str, tmp_path: Path) -> None:
    dataset = made(name, tmp_path)
    spoken = set(dataset.words["text"])
    wanted = {"NA", "null"} if name != "reading_brain" else {"NA"}  # null was never fixated
    assert wanted <= spoken
    for stimulus, facts in dataset.stimuli.items():
        shown = " ".join(texts(dataset, stimulus)).replace("\u00a0", " ")
        assert shown == facts["text"].replace("\u00a0", " "), stimulus


@pytest.mark.parametrize("name", NAMES)
def test_the_counts_of_a_part_are_warned_of(name: str, tmp_path: Path) -> None:
    if name == "zuco2":
        pytest.importorskip("h5py")
    getattr(files, name)(tmp_path)
    if name == "zuco2":  # only a release with both tasks has counts
        source = tmp_path / "task1 - NR/Matlab files/resultsYAC_NR.mat"
        (source.parent / "resultsYAC_TSR.mat").write_bytes(source.read_bytes())
    if name == "zuco1":
        source = tmp_path / "task2-NR/Matlab files/resultsZAB_NR.mat"
        (source.parent / "resultsZAB_TSR.mat").write_bytes(source.read_bytes())
    with pytest.warns(UserWarning, match=f"data set '{name}', .* expected for '.*', .* found"):
        dataset = load(name, root=tmp_path)
    assert dataset.lost.count("counts") > 0
    assert dataset.info["unverified"]


@pytest.mark.parametrize("name", WITH_FIXATIONS)
def test_first_fixations_by_hand(name: str, tmp_path: Path) -> None:
    """In every corpus the first reader fixates the first word, nothing (but in MECO), the third."""
    dataset = made(name, tmp_path)
    trial = dataset.trials["trial"].iloc[0]
    rows = dataset.fixations[dataset.fixations["trial"] == trial]
    words = rows["word"].tolist()
    start = 0 if name in ("emtec", "zuco1", "zuco2") else 1
    hit, off = [str(start), str(start + 2)], [words.index(w) for w in words if pd.isna(w)]
    if name == "potec":  # second word, and a character that is in no word
        hit = ["1", "2"]
    if name == "iitb_hgc":
        hit = ["1", "4"]
    assert [w for w in words if not pd.isna(w)] == hit and len(off) == 1
    first = {"celer": 201, "potec": 210, "reading_brain": 70}.get(name, 200)
    assert rows["duration"].iloc[0] == first
    assert dataset.capabilities["has_xy"] == (
        name in ("celer", "meco_l1", "meco_l2", "provo", "zuco1", "zuco2")
    )


@pytest.mark.parametrize(
    ("name", "path", "before", "after"),
    [
        ("celer", "data_v2.0/sent_fix.tsv", "CURRENT_FIX_INDEX", "CURRENT_FIX_INDX"),
        ("celer", "data_v2.0/sent_ia.tsv", "IA_ID", "IA_NUMBER"),
        ("potec", "stimuli/word_features/word_features_p3.tsv", "word_index_in_text", "number"),
        ("meco_l1", "joint_l1_fixation_version1.3.csv", "uniform_id", "subid"),
        ("meco_l2", "joint_l2_fixation_trimmed_report_2.0.csv", "ianum", "ia_number"),
        ("geco", "MonolingualReadingData.csv", "WORD_ID_WITHIN_TRIAL", "WORD_NUMBER"),
        ("emtec", "fixations_corrected.csv", "fixation_duration", "duration"),
        ("iitb_hgc", "IITB_HGC.jsonl", "fixation_word_ids", "fixation_words"),
    ],
)
def test_a_column_that_is_missing_is_named(
    name: str, path: str, before: str, after: str, tmp_path: Path
) -> None:
    getattr(files, name)(tmp_path)
    change(tmp_path / path, before, after)
    with pytest.raises(DataError) as caught:
        load(name, root=tmp_path)
    assert before in str(caught.value) and Path(path).name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "path", "before", "after"),
    [
        ("celer", "data_v2.0/sent_fix.tsv", "\t201\t", "\tlong\t"),
        ("potec", "eyetracking_data/scanpaths/reader0_b0_scanpath.tsv", "\t210\t", "\tlong\t"),
        ("meco_l1", "joint_l1_fixation_version1.3.csv", ",200,", ",long,"),
        ("geco", "MonolingualReadingData.csv", ",230,", ",long,"),
        ("emtec", "fixations_corrected.csv", "\t180\t", "\tlong\t"),
        ("iitb_hgc", "IITB_HGC.jsonl", "180", '"long"'),
        ("iitb_hgc", "IITB_HGC.jsonl", "}\n", "\n"),
        ("iitb_hgc", "IITB_HGC.jsonl", '"fixation_seqs": [1, 2, 3]', '"fixation_seqs": [1, 2]'),
        (
            "reading_brain",
            "ds003974/sub-01/func/sub-01_task-read_run-1_events.tsv",
            "\t165\t",
            "\tlong\t",
        ),
    ],
)
def test_damaged_cells_are_named(
    name: str, path: str, before: str, after: str, tmp_path: Path
) -> None:
    getattr(files, name)(tmp_path)
    change(tmp_path / path, before, after)
    with pytest.raises(DataError, match=r"long|not JSON|lengths"):
        load(name, root=tmp_path)


# CELER


def test_celer_lost_sentences_labels_and_the_split(tmp_path: Path) -> None:
    dataset = made("celer", tmp_path)
    assert lost(dataset, "put #NAME? in the place") == 2  # a fixation and an area
    assert "231_41" not in set(dataset.trials["trial"])
    assert lost(dataset, "sentence was lost (#NAME?)") == 1
    assert lost(dataset, "the word alone") == 3  # a tab behind the word, in three sentences
    assert lost(dataset, "faults of putting the sentences") == 2  # cann't and 'd
    readers = dataset.trials.drop_duplicates("participant").set_index("participant")
    assert readers["native"].to_dict() == {"1": True, "2": False, "231": True}
    assert readers["answered_correctly"].to_dict() == {"1": True, "2": False, "231": True}
    assert np.isnan(readers["age"]["2"]) and readers["toefl"]["2"] == 92
    folds = dataset.reports["folds"].merge(dataset.trials, on="trial")
    assert set(folds.loc[folds["part"] == "test", "participant"]) == {"231"}
    assert set(folds.loc[folds["part"] == "test", "regime"]) == {"unseen_reader"}
    assert folds.loc[folds["part"] == "train", "regime"].isna().all()
    eyelink = dataset.reports["eyelink"].set_index(["trial", "word"])
    assert eyelink.loc[("1_2", "1"), "IA_DWELL_TIME"] == 201
    assert eyelink.loc[("1_2", "2"), "IA_SKIP"] == 1
    second = dataset.fixations[dataset.fixations["trial"] == "1_2"].iloc[1]
    assert np.isnan(second["x"]) and bool(second["blink"]) and second["eye"] == "left"


def test_celer_counts_readers_of_no_part_or_both_and_listed_trials(tmp_path: Path) -> None:
    files.celer(tmp_path)
    put(tmp_path / "splits/participants/v2/train.csv", "List\n1\n231\n")
    change(tmp_path / "data_v2.0/sent_fix.tsv", "231\t2\ts1", "231\t153\ts1")
    dataset = load("celer", root=tmp_path)
    assert lost(dataset, "readers in both parts") == 1
    assert lost(dataset, "in no part of the split") == 1
    assert dataset.info["edition"] == "release 2.0"


def test_celer_without_areas_knows_fixated_words_only(tmp_path: Path) -> None:
    files.celer(tmp_path)
    (tmp_path / "data_v2.0/sent_ia.tsv").unlink()
    dataset = load("celer", root=tmp_path)
    assert texts(dataset, "s1") == ["The", "hypothesis"]
    check = dataset.reports["text_check"]
    assert check[["kind", "text"]].iloc[0].tolist() == ["missing in table", "null"]
    assert lost(dataset, "nobody fixated them") == 3


def test_celer_release_is_chosen_by_name(tmp_path: Path) -> None:
    files.celer(tmp_path)
    (tmp_path / "data_v1.0").mkdir()
    source = tmp_path / "data_v2.0/sent_fix.tsv"
    (tmp_path / "data_v1.0/sent_fix.tsv").write_bytes(source.read_bytes())
    assert load("celer", root=tmp_path).info["version"] == "data_v2.0"
    assert load("celer", root=tmp_path, version="v1.0").info["edition"] == "release 1.0"
    with pytest.raises(MissingAssetError, match=r"data_v3.0.*v1.0, v2.0"):
        load("celer", root=tmp_path, version="v3.0")


# PoTeC


def test_potec_corrected_and_uncorrected(tmp_path: Path) -> None:
    dataset = made("potec", tmp_path)
    assert dataset.info["fixation_kind"] == "corrected" and "x" not in dataset.fixations
    rows = dataset.fixations[dataset.fixations["trial"] == "0_b0"]
    assert rows["line"].tolist() == [0, 0, 1]  # published from 1
    assert rows["adjusted"].tolist() == [False, True, False]
    raw = load("potec", root=tmp_path, fixations="uncorrected")
    assert lost(raw, "reader 9") == 9 and "9" not in raw.participants
    rows = raw.fixations[raw.fixations["trial"] == "0_b0"]
    assert rows["x"].tolist() == [85.5, 1680, 5] and rows["off_screen"].tolist() == [
        False,
        True,
        False,
    ]
    # characters of "Der null Punkt,": Der 1-3, null 4-7, Punkt 8-12
    assert rows["word"].iloc[0] == "1" and rows["word"].iloc[1] == "2"
    assert pd.isna(rows["word"].iloc[2]) and pd.isna(rows["area"].iloc[2])


@pytest.mark.parametrize(
    ("char", "word"), [("3", "1"), ("4", "2"), ("12", "3"), ("13", "3"), ("14", None), ("0", None)]
)
def test_potec_marks_belong_to_the_word_before(char: str, word: str | None, tmp_path: Path) -> None:
    files.potec(tmp_path)
    path = tmp_path / "eyetracking_data/fixations_uncorrected/reader0_b0_uncorrected_fixations.tsv"
    change(path, "\t5\t1680", f"\t{char}\t1680")
    dataset = load("potec", root=tmp_path, fixations="uncorrected")
    found = dataset.fixations.query("trial == '0_b0'")["word"].iloc[1]
    assert (None if pd.isna(found) else found) == word


def test_potec_opening_marks_belong_to_the_word_behind(tmp_path: Path) -> None:
    files.potec(tmp_path)
    head = "word\tword_index_in_text\tword_limit_char_indices\tSTTS_punctuation_before\n"
    put(
        tmp_path / "stimuli/word_features/word_features_b0.tsv",
        f"{head}Der\t1\t1,3\t\nnull\t2\t5,8\t$(\nPunkt\t3\t10,14\t0\n",
    )
    path = tmp_path / "eyetracking_data/fixations_uncorrected/reader0_b0_uncorrected_fixations.tsv"
    change(path, "\t5\t1680", "\t4\t1680")
    change(path, "\t.\t5", "\t9\t5")
    dataset = load("potec", root=tmp_path, fixations="uncorrected")
    assert dataset.fixations.query("trial == '0_b0'")["word"].tolist() == ["1", "2", "2"]


def test_potec_surprisal_answers_and_measures(tmp_path: Path) -> None:
    dataset = made("potec", tmp_path)
    measures = dataset.reports["measures"]
    assert not [c for c in measures if "surprisal" in c]
    assert lost(dataset, "surprisal columns are known to be wrong") == 18  # 2 in 9 files
    row = measures.query("trial == '0_b0' and word == '1'").iloc[0]
    assert (
        row[["first_fixation_duration", "gaze_duration", "total_reading_time"]].tolist()
        == [210] * 3
    )
    skipped = measures.query("trial == '0_b0' and total_reading_time == 0").iloc[0]
    assert np.isnan(skipped["gaze_duration"])  # 0 is no duration
    trials = dataset.trials.set_index("trial")
    assert np.isnan(trials["mean_acc_tq"]["1_p5"]) and lost(dataset, "no answers") == 1
    assert trials["level_of_studies"]["0_b0"] == "undergraduate"
    assert texts(dataset, "b0")[2] == "Punkt,"  # the mark comes from the word boxes


def test_potec_says_which_fixations_are_there(tmp_path: Path) -> None:
    files.potec(tmp_path)
    for path in (tmp_path / "eyetracking_data/scanpaths").iterdir():
        path.unlink()
    with pytest.raises(MissingAssetError, match="fixations='uncorrected' is there"):
        load("potec", root=tmp_path)
    with pytest.raises(DataError, match="no value 'best'"):
        load("potec", root=tmp_path, fixations="best")


def test_potec_text_that_differs_is_reported_at_its_place(tmp_path: Path) -> None:
    files.potec(tmp_path)
    change(tmp_path / "stimuli/stimuli/stimuli.tsv", "Alte Männer", "Alte kluge Männer")
    check = load("potec", root=tmp_path).reports["text_check"]
    assert check[["stimulus", "kind", "text"]].to_numpy().tolist() == [
        ["p5", "missing in table", "kluge"]
    ]


# MECO


def test_meco_waves_and_their_readers(tmp_path: Path) -> None:
    dataset = made("meco_l1", tmp_path)
    assert dataset.participants == ["da_3", "fi_2", "no_1", "no_1_w2"]
    assert lost(dataset, "ids of both waves") == 1
    assert set(dataset.trials.query("participant == 'no_1_w2'")["trial"]) == {
        f"no_1_w2_{i}" for i in (1, 2, 3)
    }
    assert texts(dataset, "fi_1") == ["The", "hypothesis"]  # wave 1 has no list of words
    assert texts(dataset, "da_1") == ["The", "null", "hypothesis"]
    one = load("meco_l1", root=tmp_path, wave=1)
    assert one.participants == ["fi_2", "no_1"] and one.info["edition"] == "wave 1"
    row = one.fixations.query("trial == 'fi_2_1'").iloc[0]
    assert row[["x", "y", "onset", "duration", "line"]].tolist() == [50.5, 120, 5, 200, 0]
    assert row["y_recorded"] == 118
    assert lost(one, "type out") == 6
    measures = load("meco_l1", root=tmp_path, wave=2).reports["measures"]
    skipped = measures.query("trial == 'da_3_1' and word == '2'").iloc[0]
    assert np.isnan(skipped["first_fixation_duration"]) and skipped["never_fixated"] == 1
    with pytest.raises(DataError, match="option wave"):
        load("meco_l1", root=tmp_path, wave=3)


def shifted(reader: str, first: int, last: int) -> list[list[Any]]:
    """Return rows of a reader whose texts from `first` on have a number that is one too small."""
    rows = []
    for item in range(1, last + 1):
        number = item - 1 if item > first else item
        if item == first:
            continue  # this text was not recorded
        words = [f"w{item}a", f"w{item}b"]
        for i, word in enumerate(words, start=1):
            place = [i, 5 * i, 6 * i, 1, 1, 1, 1, 200, "in", 0, 1, i, word]
            rows.append([reader, "xx", number, number, *place])
    return rows


def right(reader: str, last: int) -> list[list[Any]]:
    rows = []
    for item in range(1, last + 1):
        for i, word in enumerate([f"w{item}a", f"w{item}b"], start=1):
            place = [i, 5 * i, 6 * i, 1, 1, 1, 1, 200, "in", 0, 1, i, word]
            rows.append([reader, "xx", item, item, *place])
    return rows


@pytest.mark.parametrize(("reader", "first"), [("sp_36", 5), ("gr_45", 7), ("se_38", 4)])
def test_meco_l2_item_numbers_are_repaired_as_listed_and_once(
    reader: str, first: int, tmp_path: Path
) -> None:
    rows = [*right("aa_1", 12), *right("bb_2", 12), *shifted(reader, first, 12)]
    put(tmp_path / "joint_l2_fixation_trimmed_report_2.0.csv", table(files.MECO, rows, ","))
    dataset = load("meco_l2", root=tmp_path)
    here = dataset.trials.query("participant == @reader")
    assert set(here["stimulus"]) == {str(i) for i in range(1, 13)} - {str(first)}
    moved = 12 - first
    assert lost(dataset, f"of reader {reader}") == moved
    assert lost(dataset, "fewer than half of their words") == 0
    assert lost(dataset, "another word than most readers") == 0


def test_meco_l2_shifted_numbers_of_the_fourth_reader(tmp_path: Path) -> None:
    rows = [*right("aa_1", 12), *right("bb_2", 12)]
    change = {7: 6, 8: 7, 10: 9, 11: 10}  # text to the number it was stored under
    own = [r for r in right("it_25", 12) if r[2] not in (6, 9)]
    for row in own:
        row[2] = row[3] = change.get(row[2], row[2])
    put(
        tmp_path / "joint_l2_fixation_trimmed_report_2.0.csv", table(files.MECO, [*rows, *own], ",")
    )
    dataset = load("meco_l2", root=tmp_path)
    assert lost(dataset, "of reader it_25") == 4
    assert lost(dataset, "fewer than half of their words") == 0


@pytest.mark.parametrize("reader", ["sp_36", "gr_45", "it_25", "se_38"])
def test_meco_l2_right_numbers_are_left_alone(reader: str, tmp_path: Path) -> None:
    rows = [*right("aa_1", 12), *right("bb_2", 12), *right(reader, 12)]
    put(tmp_path / "joint_l2_fixation_trimmed_report_2.0.csv", table(files.MECO, rows, ","))
    dataset = load("meco_l2", root=tmp_path)
    assert lost(dataset, "not applied, since text") > 0
    assert not [x for x in dataset.lost if x.kind == "repaired"]
    assert lost(dataset, "fewer than half of their words") == 0


def test_meco_shifted_numbers_of_an_unlisted_reader_are_counted(tmp_path: Path) -> None:
    rows = [*right("aa_1", 6), *right("bb_2", 6), *shifted("cc_3", 2, 6)]
    put(tmp_path / "joint_l2_fixation_trimmed_report_2.0.csv", table(files.MECO, rows, ","))
    dataset = load("meco_l2", root=tmp_path)
    assert lost(dataset, "fewer than half of their words") == 4
    assert lost(dataset, "another word than most readers") == 8


def test_meco_reads_r_data_and_its_export_alike(tmp_path: Path) -> None:
    rdata = pytest.importorskip("rdata")
    files.meco_l2(tmp_path / "csv")
    readers = {"es_1": "es", "de_2": "de", "it_9": "it"}
    numbers = [c for c in files.MECO if c not in ("uniform_id", "lang", "type", "ia")]
    frame = files.as_frame(files.MECO, files.meco_rows(readers), numbers)
    frame["ia"] = frame["ia"].where(frame["ianum"].notna(), None).astype(object)
    (tmp_path / "r").mkdir()
    name = "joint_l2_fixation_trimmed_report_2.0.rda"
    rdata.write_rda(tmp_path / "r" / name, {"joint.fix.l2": frame})
    words = files.as_frame(files.MECO_WORDS, files.meco_words(readers), files.MECO_WORDS[2:5])
    words = words.drop(columns=["dur", "firstfix.dur", "nfix", "skip"])
    words["ia"] = files.as_frame(files.MECO_WORDS, files.meco_words(readers), [])["ia"]
    for c in ("trialid", "itemid", "ianum"):
        words[c] = words[c].astype("float64")
    where = tmp_path / "r/joint_data_l2_trimmed_version2.0.rda"
    rdata.write_rda(where, {"joint.data": words})
    exported = load("meco_l2", root=tmp_path / "csv")
    original = load("meco_l2", root=tmp_path / "r")
    pd.testing.assert_frame_equal(original.fixations, exported.fixations)
    pd.testing.assert_frame_equal(original.words, exported.words)
    assert original.info["files"][0] == name
    rdata.write_rda(tmp_path / "r" / name, {"other": frame})
    with pytest.raises(DataError, match=r"no data frame 'joint.fix.l2'; found other"):
        load("meco_l2", root=tmp_path / "r")
    (tmp_path / "r" / name).write_bytes(b"RDX3\nX\n\x00\x00")
    with pytest.raises(DataError, match="not a readable R data file"):
        load("meco_l2", root=tmp_path / "r")


# What they share


def test_words_from_readers_who_disagree() -> None:
    rows = pd.DataFrame(
        [
            *(("A", 1, "The", "t1"), ("A", 1, "The", "t2"), ("A", 1, "Xhe", "t3")),
            *(("A", 3, "end", "t1"), ("A", 3, "end", "t2"), ("A", 3, "null", "t3")),
            *(("A", None, "no", "t1"), ("A", 4, "", "t1")),
        ],
        columns=["stimulus", "number", "text", "trial"],
    )
    log = LossLog()
    words = word_table(rows, log, whole=False)
    assert words[["word", "text"]].to_numpy().tolist() == [["1", "The"], ["3", "end"]]
    counts = {x.reason.split(":")[0]: x.count for x in log}
    assert counts["another word than most readers have at this place of the text"] == 2
    assert counts["places of a text whose word is not known"] == 1
    assert (
        counts["fewer than half of their words are those of the text that they are said to show"]
        == 1
    )


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("rdata", lambda f: put(f / "joint_l2_fixation_trimmed_report_2.0.rda", "R")),
        ("openpyxl", lambda f: put(f / "MonolingualReadingData.xlsx", "PK")),
        ("h5py", lambda f: put(f / "resultsYAC_NR.mat", "MATLAB 7.3 MAT-file")),
    ],
)
def test_an_optional_package_that_is_not_there(
    module: str,
    make: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    make(tmp_path)
    monkeypatch.setattr(otherfiles.importlib, "import_module", none)
    name = {"rdata": "meco_l2", "openpyxl": "geco", "h5py": "zuco2"}[module]
    with pytest.raises(MissingAssetError, match=f"pip install {module}"):
        load(name, root=tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_pages_state_what_was_not_checked(name: str) -> None:
    page = corpus(name)
    assert page.unverified and page.citation and page.licence
    assert all(f.unverified for f in page.files if f.md5 or f.sha256 or f.urls)
    assert all(c.get("reason") for c in page.corrections)


def test_a_checksum_that_differs_is_a_warning(tmp_path: Path) -> None:
    files.iitb_hgc(tmp_path)
    with pytest.warns(UserWarning, match="expected md5 cde5dd88"):
        try:
            load("iitb_hgc", root=tmp_path)
        except ChecksumError:  # pragma: no cover
            pytest.fail("the checksum of the page was never checked")


@given(
    st.lists(st.sampled_from(["a", "b", "null", "NA"]), min_size=1, max_size=8),
    st.integers(3, 6),
    st.randoms(use_true_random=False),
)
def test_words_of_most_readers_give_the_text(words: list[str], readers: int, random: Any) -> None:
    """One reader with other words changes nothing, and rows may stand in any order."""
    rows = [("T", i, w, f"t{r}") for r in range(1, readers) for i, w in enumerate(words, 1)]
    rows += [("T", i, f"{w}x", "t0") for i, w in enumerate(words, 1)]
    random.shuffle(rows)
    log = LossLog()
    found = word_table(pd.DataFrame(rows, columns=["stimulus", "number", "text", "trial"]), log)
    assert found["text"].tolist() == words
    assert found["word"].tolist() == [str(i) for i in range(1, len(words) + 1)]
    assert log.count("words") == len(words) and log.count("trials") == 1


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("celer", "participant_metadata/metadata.tsv"),
        ("potec", "stimuli/word_features/word_features_p3.tsv"),
        ("potec", "stimuli/word_aoi_texts/word_aoi_p3.tsv"),
        ("potec", "participants/participant_response_accuracy.tsv"),
        ("emtec", "unique_aois/phi2_top-k_item01_coordinates.csv"),
    ],
)
def test_a_row_that_stands_twice_is_named(name: str, path: str, tmp_path: Path) -> None:
    getattr(files, name)(tmp_path)
    text = (tmp_path / path).read_text()
    put(tmp_path / path, text + text.splitlines()[-1] + "\n")
    with pytest.raises(DataError, match="stand twice"):
        load(name, root=tmp_path)
