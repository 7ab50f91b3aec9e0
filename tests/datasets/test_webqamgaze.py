"""WebQAmGaze: tiny tables in the published layout, and the real ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.webqamgaze import set_of
from gazeattn.errors import DataError, MissingAssetError

FILES = {
    "participants": """\
participant,set_name,set,participant_type,fluency,native_english,vision,screen_x,screen_y,\
sample_rate_hz,experiment_reload,approved_flag,total_correct_answers
P01,mturk_EN_v01,mturk_EN_v01,mturk,5,1,,1600,900,29.3,0,1,5
P02,mturk_EN_v01_lab_cognition,mturk_EN_v01,lab,3,0,glasses,1600,900,29.3,1,2,6
""",
    "trials": """\
participant,set_name,set,trial_index,text_id,source,task_type,reading_time_ms,question_id,question,\
answer_kind,gold_answer,given_answer,correct,question_time_ms,pre_question_time_ms,\
n_fixations_outside_text,n_words
P01,mturk_EN_v01,mturk_EN_v01,0,meco_1,MECO,NR,3000,q0,Is it?,true_false,True,False,0,10,,0,2
P01,mturk_EN_v01,mturk_EN_v01,5,a_NA_1,XQuAD,IS,2000,q5,Who?,open,None,null,1,10,20,1,3
P02,mturk_EN_v01_lab_cognition,mturk_EN_v01,1,a_NA_1,XQuAD,NR,2000,q5,Who?,open,None,NA,1,10,,0,3
""",
    "words": """\
participant,set_name,trial_index,text_id,task_type,word_index,word_id,word,TRT,FixCount,Scan_path,\
Span_word_is_in,in_target
P01,mturk_EN_v01,0,meco_1,NR,0,The_0,The,,1,[0],,0
P01,mturk_EN_v01,0,meco_1,NR,1,NA_0,NA,,0,[],,0
P01,mturk_EN_v01,5,a_NA_1,IS,0,null_0,null,100,1,[0],q_0 ,1
""",
    "fixations": """\
participant,set_name,trial_index,text_id,task_type,fix_index,x,y,t,duration,word_index,n_words_hit
P01,mturk_EN_v01,0,meco_1,NR,0,5,5,40,0,0,1
P01,mturk_EN_v01,0,meco_1,NR,1,1280,5,400,150,-1,0
P01,mturk_EN_v01,5,a_NA_1,IS,0,25,5,300,100,1,2
P02,mturk_EN_v01_lab_cognition,1,a_NA_1,NR,0,-4,800,90,50,-1,0
""",
    "question_fixations": """\
participant,set_name,trial_index,question_id,page,fix_index,x,y,t,duration
P01,mturk_EN_v01,5,q5,pre_question,0,10,10,100,60
P01,mturk_EN_v01,5,q5,question,0,10,10,100,60
""",
    "texts": """\
set,text_id,source,task_type,trial_index,text,n_tokens,n_word_boxes,n_lines,boxes_match_tokens
mturk_EN_v01,meco_1,MECO,NR,0,The NA,2,2,1,1
mturk_EN_v01,a_NA_1,XQuAD,IS,5,"null, x y",3,3,2,0
""",
    "word_boxes": """\
set,text_id,word_index,word_id,word,line,x,y,width,height
mturk_EN_v01,meco_1,0,The_0,The,0,0,0,20,10
mturk_EN_v01,meco_1,1,NA_0,NA,0,20,0,20,10
mturk_EN_v01,a_NA_1,0,null_0,null,0,0,0,20,10
mturk_EN_v01,a_NA_1,1,x_0,x,0,20,0,20,10
mturk_EN_v01,a_NA_1,2, _0, ,1,0,20,20,10
""",
    "questions": """\
set,question_id,text_id,task_type,trial_index,question,answer_kind,gold_answer,accepted_answers,\
xquad_id,gold_word_start,gold_word_end
mturk_EN_v01,q0,meco_1,NR,0,Is it?,true_false,True,"[""true""]",,,
mturk_EN_v01,q5,a_NA_1,IS,5,Who?,open,None,"[""none""]",57,0,1
""",
}


def write(folder: Path, **changed: str) -> Path:
    for name, text in {**FILES, **changed}.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> GazeDataset:
    with pytest.warns(UserWarning, match="participants: 122 expected"):
        return load("webqamgaze", root=write(tmp_path))


def test_time_is_that_of_the_last_sample_and_minus_one_is_no_word(tiny: GazeDataset) -> None:
    fixations = tiny.fixations
    assert fixations["onset"].tolist() == [40, 250, 200, 40]
    assert fixations["duration"].tolist() == [0, 150, 100, 50]
    assert fixations["word"].isna().tolist() == [False, True, False, True]
    assert fixations["word"].dropna().tolist() == ["0", "1"]
    # 1280 is outside 0 <= x < 1280, and so is 800 of 0 <= y < 720
    assert fixations["off_screen"].tolist() == [False, True, False, True]
    assert tiny.lost.to_frame().set_index("reason")["count"]["outside the stimulus"] == 2


def test_the_reading_goal_is_the_task_and_never_the_source(tiny: GazeDataset) -> None:
    trials = tiny.trials.set_index(["participant", "trial_index"])
    assert trials["condition"].to_dict() == {
        ("P01", 0.0): "ordinary reading",
        ("P01", 5.0): "information seeking",
        ("P02", 1.0): "ordinary reading",
    }
    assert trials["source"].tolist() == ["MECO", "XQuAD", "XQuAD"]
    assert trials["correct"].tolist() == [False, True, True]
    assert trials["correct_doubtful"].tolist() == [True, False, False]
    assert trials["pre_question_time_ms"].isna().tolist() == [True, False, True]
    assert set(trials["layout"]) == {"mturk_EN_v01/meco_1", "mturk_EN_v01/a_NA_1"}
    assert tiny.trials["trial"].is_unique and len(tiny.fixations["trial"].unique()) == 3


def test_words_and_answers_that_look_like_missing_values_stay(tiny: GazeDataset) -> None:
    assert tiny.words["text"].tolist() == ["null", "x", " ", "The", "NA"]
    assert tiny.trials["given_answer"].tolist() == ["False", "null", "NA"]
    assert tiny.trials["gold_answer"].tolist() == ["True", "None", "None"]
    assert tiny.reports["measures"]["text"].tolist() == ["The", "NA", "null"]
    assert tiny.reports["measures"]["spans"].tolist() == ["", "", "q_0"]


def test_missing_measures_are_missing(tiny: GazeDataset) -> None:
    measures = tiny.reports["measures"]
    assert measures["total_reading_time"].isna().tolist() == [True, True, False]
    assert tiny.info["counts"]["word_rows_fixated_without_time"] == 1
    assert tiny.info["counts"]["question_fixations"] == 2
    assert tiny.reports["question_fixations"]["onset"].tolist() == [40, 40]
    assert tiny.reports["sessions"]["vision"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mturk_EN_v17", "mturk_EN_v17"),
        ("mturk_EN_v18_cognition_volunteer", "mturk_EN_v18"),
        ("mturk_EN_v02_volunteer_cognition", "mturk_EN_v02"),
        ("mturk_EN_v03_lab_cognition", "mturk_EN_v03"),
        ("lab_cognition_EN_v01", "lab_cognition_EN_v01"),
    ],
)
def test_only_the_ending_of_a_session_is_taken_off(name: str, expected: str) -> None:
    assert set_of(pd.Series([name], dtype="str")).tolist() == [expected]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"trials": FILES["trials"].replace(",IS,", ",XX,")}, "unknown task type 'XX'"),
        (
            {"trials": FILES["trials"].replace("cognition,mturk_EN_v01", "cognition,mturk_EN_v02")},
            "does not fit the name",
        ),
        (
            {"fixations": FILES["fixations"].replace("word_index", "word")},
            "'word_index' is missing",
        ),
        ({"fixations": FILES["fixations"].replace(",400,150", ",400,x")}, "must hold numbers"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, changed: dict[str, str], match: str) -> None:
    with pytest.raises(DataError, match=match):
        load("webqamgaze", root=write(tmp_path, **changed))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write(tmp_path) / "questions.csv").unlink()
    with pytest.raises(MissingAssetError, match=r"lacks questions\.csv"):
        load("webqamgaze", root=tmp_path)


def test_fixations_of_unknown_trials_are_counted_not_kept(tmp_path: Path) -> None:
    extra = FILES["fixations"] + "P09,mturk_EN_v01,0,meco_1,NR,0,5,5,40,0,0,1\n"
    with pytest.warns(UserWarning):
        dataset = load("webqamgaze", root=write(tmp_path, fixations=extra))
    assert len(dataset.fixations) == 4 and dataset.lost.count("fixations", "dropped") == 1


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    return load("webqamgaze", root=shared_data)


def test_counts_of_the_real_files(real: GazeDataset) -> None:
    assert real.info["edition"] == "shared"
    assert real.lost.count("counts") == 0  # every count of the page agrees
    counts = real.info["counts"]
    assert (counts["participants"], counts["sessions"], len(real.trials)) == (122, 123, 1230)
    assert (len(real.fixations), counts["question_fixations"]) == (228793, 69382)
    assert counts["word_rows"] == 115283 and counts["stimuli"] == 88
    assert real.trials["condition"].value_counts().to_dict() == {
        "ordinary reading": 615,
        "information seeking": 615,
    }
    assert real.trials["correct"].value_counts().to_dict() == {True: 843, False: 387}
    per_goal = real.trials.groupby("condition")["correct"].sum()
    assert per_goal.to_dict() == {"ordinary reading": 343, "information seeking": 500}
    assert (real.trials["source"] == "XQuAD").sum() == 492 + 615


def test_medians_that_the_description_states(real: GazeDataset) -> None:
    times = real.trials.groupby("task_type")["reading_time_ms"].median() / 1000
    assert times.round(1).to_dict() == {"IS": 18.3, "NR": 32.2}
    assert real.fixations["duration"].median() == 72
    assert real.fixations["x"].min() == -4446 and real.fixations["x"].max() == 2811
    assert round(real.fixations["word"].isna().mean(), 2) == 0.27


def test_published_words_and_counts_agree_with_ours(real: GazeDataset) -> None:
    ours = real.measures()
    both = ours.merge(real.reports["measures"], on=["participant", "trial", "word"])
    assert len(both) == len(ours) == 115283
    assert (both["text_x"] == both["text_y"]).all()
    # 102 fixations in two boxes count on one word here, on both there
    differ = both["fixation_count_x"] != both["fixation_count_y"]
    assert differ.mean() < 0.001
    per_trial = real.fixations.groupby("trial")["word"].count()
    stated = real.trials.set_index("trial")["n_fixations_on_words"]
    assert (per_trial == stated.reindex(per_trial.index)).all()


def test_a_person_with_two_sets_has_two_sessions_and_one_id(real: GazeDataset) -> None:
    sets = real.trials.groupby("participant")["set"].nunique()
    assert sets[sets > 1].to_dict() == {"P035": 2}
