"""SB-SAT: tiny tables in the published layout, and the real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError, MissingAssetError

pytestmark = pytest.mark.filterwarnings("ignore:data set 'sb_sat':UserWarning")

LABELS = (
    "subj,book,acc,confidence,difficulty,familiarity,recognition,interest,pressured,sleepiness,"
    "sleephours,acc_level,subj_acc,language,sex,native,subj_acc_level"
)
SCREENS = (
    "RECORDING_SESSION_LABEL,INDEX,AVERAGE_BLINK_DURATION,FIXATION_COUNT,type,book_name,book,page,"
    "total_page,RT,answer,correct_answer,page_name"
)
FILES = {
    "fixations.csv": """\
subj,book,page_name,window,fix_index,CURRENT_FIX_X,CURRENT_FIX_Y,CURRENT_FIX_PUPIL,\
CURRENT_FIX_DURATION
msd1,genome,reading-genome-1,0,0,112.0,56.0,900,200
msd1,genome,reading-genome-1,0,1,1024.0,56.0,900,22
msd2,genome,reading-genome-1,0,0,-3.5,60.0,900,180
""",
    "fixation/18sat_labels.csv": f"""\
{LABELS}
msd1,genome,0.6,2,3,1,0,2,0,1,2,2,0.75,English,F,1,3
msd2,genome,0.2,2,0,1,1,2,0,1,2,0,0.25,Chinese,M,0,0
""",
    "fixation/18sat_trialfinal.csv": f"""\
{SCREENS}
msd1,1,74.5,30,reading,genome,1,1,2,2000.5,1,-99,reading-genome-1
msd1,2,,5,reading,genome,1,2,2,1500.0,-1,-99,reading-genome-2
msd1,3,,7,reading,genome,1,1,2,-2171520,0,-99,reading-genome-1
msd1,4,,2,question,genome,1,1,2,900,3,3,question-genome-1
msd1,5,,2,question,genome,1,2,2,900,4,1,question-genome-2
msd1,6,,2,question,genome,1,6,2,900,2,-99,question-genome-6
msd2,1,70,22,reading,genome,1,1,2,2500,1,-99,reading-genome-1
""",
    "stimuli/reading_words.csv": """\
page_name,book,page,word_number,word,x1,y1,x2,y2,is_button
reading-genome-1,genome,1,1,Go,0,0,0,0,1
reading-genome-1,genome,1,2,Next,743,22,771,39,1
reading-genome-1,genome,1,3,NA,92,46,138,69,0
reading-genome-1,genome,1,4,null,184,46,230,69,0
reading-genome-2,genome,2,1,End,92,46,138,69,0
""",
    "stimuli/questions.csv": """\
page_name,book,question_number,question,correct_answer
question-genome-1,genome,1,Why?,3
""",
    "split_subjectwise.csv": "subj,split_subjectwise\nmsd1,train\nmsd2,test\n",
    "windows_index.csv": """\
subj,book,page_name,window,split_bookwise,row_in_split,split_subjectwise
msd1,genome,reading-genome-1,0,val,0,train
msd2,genome,reading-genome-1,0,train,0,test
""",
}


def write(folder: Path, **changed: str) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(path.stem, text), encoding="utf-8")
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> GazeDataset:
    return load("sb_sat", root=write(tmp_path), margins=(0, 0))


def test_boxes_are_screen_pixels_and_grow_by_the_margins(tmp_path: Path) -> None:
    write(tmp_path)
    exact = load("sb_sat", root=tmp_path, margins=(0, 0)).words.iloc[0]
    # 1024 / 920 = 768 / 690: 92 px of the page image are 102.4 px of the screen
    assert exact[["left", "top", "right", "bottom"]].tolist() == pytest.approx(
        [102.4, 51.2, 153.6, 76.8]
    )
    grown = load("sb_sat", root=tmp_path).words.iloc[0]
    scale = 1024 / 920
    assert grown["left"] == pytest.approx(102.4 - 4 * scale)
    assert grown["bottom"] == pytest.approx(76.8 + 12 * scale)
    for bad in ((1,), (1, 2, 3), (-1, 0)):
        with pytest.raises(DataError, match="margins are two numbers"):
            load("sb_sat", root=tmp_path, margins=bad)


def test_words_of_buttons_are_no_text(tiny: GazeDataset) -> None:
    assert tiny.words["text"].tolist() == ["NA", "null", "End"]
    assert tiny.words["word"].tolist() == ["3", "4", "1"]
    assert tiny.words["index"].tolist() == [0, 1, 0]
    buttons = tiny.reports["buttons"]
    assert buttons["text"].tolist() == ["Go", "Next"]
    assert buttons["left"].isna().tolist() == [True, False]  # an all-zero box was never seen


def test_codes_are_missing_and_never_numbers(tiny: GazeDataset) -> None:
    screens = tiny.reports["screens"]
    assert -99 not in screens["correct_answer"].tolist()
    assert screens["correct_answer"].notna().sum() == 2
    assert screens["time_ms"].isna().tolist() == [False, False, True, False, False, False, False]
    assert screens["page_turn"].dropna().tolist() == [1, -1, 0, 1]
    assert screens["answer"].dropna().tolist() == [3, 4, 2]
    items = tiny.reports["items"]  # screen 6 is a rating
    assert items["correct"].tolist() == [True, False]
    lost = tiny.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("RT is negative"), "count"].tolist() == [1]


def test_revisited_and_lost_pages_are_told(tiny: GazeDataset) -> None:
    trials = tiny.trials.set_index("trial")
    assert list(trials.index) == ["msd1_reading-genome-1", "msd2_reading-genome-1"]
    assert trials["visits"].tolist() == [2, 1]
    # one of two visits has no valid time: the sum is undefined, not the rest
    assert trials["reading_time_ms"].isna().tolist() == [True, False]
    assert trials["fixations_published"].tolist() == [37, 22]
    lost = tiny.lost.to_frame()
    gone = lost[lost["reason"].str.contains("no trial")]
    assert gone["count"].tolist() == [1] and "reading-genome-2" in gone["examples"].iloc[0]
    # 30 + 7 + 5 + 22 fixations were made, 3 are here
    assert lost.loc[lost["reason"].str.contains("windows hold 21"), "count"].tolist() == [61]


def test_gaze_off_the_screen_is_marked_and_kept(tiny: GazeDataset) -> None:
    assert tiny.fixations["off_screen"].tolist() == [False, True, True]
    assert tiny.fixations["x"].tolist() == [112.0, 1024.0, -3.5]
    assert "onset" not in tiny.fixations


def test_labels_and_folds(tiny: GazeDataset) -> None:
    assert tiny.trials["difficulty"].tolist() == [3, 0]
    assert tiny.trials["native"].tolist() == [True, False]
    folds = tiny.reports["folds"]
    assert folds.loc[folds["fold"] == "subjectwise", "part"].tolist() == ["train", "test"]
    assert folds["regime"].fillna("").tolist() == ["", "unseen_reader", "", ""]
    assert folds.loc[folds["fold"] == "bookwise", "part"].tolist() == ["val", "train"]
    assert tiny.stimuli["reading-genome-2"]["questions"] == {"question-genome-1": "Why?"}


def test_columns_and_files_that_are_missing_are_named(tmp_path: Path) -> None:
    words = FILES["stimuli/reading_words.csv"].replace("is_button", "button")
    with pytest.raises(DataError, match="'is_button' is missing"):
        load("sb_sat", root=write(tmp_path, reading_words=words))
    (write(tmp_path) / "stimuli/reading_words.csv").unlink()
    with pytest.raises(MissingAssetError, match=r"lacks stimuli/reading_words\.csv"):
        load("sb_sat", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    return load("sb_sat", root=shared_data)


def test_counts_of_the_real_files(real: GazeDataset) -> None:
    assert real.lost.count("counts") == 0  # every count of the page agrees
    assert (len(real.fixations), len(real.trials), len(real.words)) == (242508, 2027, 2452)
    assert len(real.participants) == 95 and real.info["counts"]["pages_visited"] == 2054
    passages = real.reports["passages"]
    assert passages["difficulty"].value_counts().sort_index().tolist() == [40, 212, 113, 15]
    assert passages["acc_level"].value_counts().sort_index().tolist() == [51, 98, 127, 104]
    by_book = passages.groupby("book")["acc"].mean().round(2).to_dict()
    assert by_book == {"dickens": 0.58, "flytrap": 0.55, "genome": 0.51, "northpole": 0.61}
    assert passages.drop_duplicates("participant")["native"].sum() == 66
    items = real.reports["items"]
    assert (int(items["correct"].sum()), len(items)) == (1069, 1900)
    shares = items.groupby(["participant", "book"])["correct"].mean().astype(float)
    published = passages.set_index(["participant", "book"])["acc"]
    assert np.allclose(shares.reindex(published.index), published)


def test_ranges_and_share_on_words(real: GazeDataset) -> None:
    f = real.fixations
    # the published extremes are those of all reading fixations, also of those that are lost
    for column, low, high in (
        ("x", -324.8, 1973.3),
        ("y", -489.6, 1442.6),
        ("pupil", 176, 4318),
        ("duration", 1, 3834),
    ):
        assert f[column].between(low, high).all(), column
    tenths = f[["x", "y"]] * 10
    assert np.allclose(tenths, tenths.round(), atol=1e-6)
    assert (f["duration"] == f["duration"].round()).all()
    share = real.measures()["fixation_count"].sum() / len(f)
    assert 0.73 < share < 0.75


def test_published_split_keeps_readers_apart(real: GazeDataset) -> None:
    folds = real.reports["folds"].merge(real.trials[["trial", "participant", "book"]], on="trial")
    by_reader = folds[folds["fold"] == "subjectwise"].groupby("participant")["part"].nunique()
    assert len(by_reader) == 95 and (by_reader == 1).all()
    by_book = folds[folds["fold"] == "bookwise"]
    parts = by_book.groupby(["participant", "book"])["part"].nunique()
    assert (parts == 1).all() and by_book.groupby("participant")["part"].nunique().max() == 3
