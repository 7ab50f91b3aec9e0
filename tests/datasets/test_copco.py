"""CopCo: tiny Data Viewer reports as they are published, and the real ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.copco import decimal, unquoted
from gazeattn.datasets.copco_areas import mended
from gazeattn.errors import DataError, MissingAssetError

pytestmark = pytest.mark.filterwarnings("ignore:data set 'copco':UserWarning")

REPORT = [
    *("RECORDING_SESSION_LABEL", "TRIAL_INDEX", "CURRENT_FIX_DURATION", "CURRENT_FIX_INDEX"),
    *("CURRENT_FIX_INTEREST_AREAS", "CURRENT_FIX_INTEREST_AREA_DATA"),
    *("CURRENT_FIX_INTEREST_AREA_ID", "CURRENT_FIX_INTEREST_AREA_LABEL", "CURRENT_FIX_LABEL"),
    *("CURRENT_FIX_NEAREST_INTEREST_AREA", "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE"),
    *("EYE_USED", "NEXT_SAC_PEAK_VELOCITY", "NEXT_SAC_AMPLITUDE", "NEXT_SAC_DURATION"),
    *("Session_Name_", "Trial_Index_"),
    *("paragraphid", "speechid"),
]
# Text 7_0: 'En "å' on line 1 and 'sol-' of a hyphenated word, 'ens.' on line 2.
WORDS = [("En", 0, 20, 100), ('"å', 20, 40, 100), ("sol-ens.", 40, 80, 100)]
CHARS = [
    *[("E", 0, 100), ("n", 10, 100), ('"', 20, 100), ("å", 30, 100)],
    *[("s", 40, 100), ("o", 50, 100), ("l", 60, 100), ("-", 70, 100)],
    *[("e", 0, 200), ("n", 10, 200), ("s", 20, 200), (".", 30, 200)],
]
READERS = {"P01": ("Danish", "no", "4.7", "0.9"), "P02": ("Czech/Danish (bilingual)", "no", "", "")}
READERS |= {"P03": ("Danish", "yes", "7.5", "0.5"), "P09": ("Korean", "no", "", "0.5")}


def row(reader: str, index: int, area: int | str, label: str = ".", **facts: object) -> str:
    """One fixation; the rectangle is that of the box table unless `top` and `bottom` are given."""
    data = "."
    if isinstance(area, int) and area <= len(CHARS):
        _, left, top = CHARS[area - 1]
        sides = (left, facts.pop("top", top), left + 10, facts.pop("bottom", top + 90))
        data = "[STATIC, RECTANGLE, " + ", ".join(f"{s:.1f}" for s in sides) + "]"
    cells = {
        "RECORDING_SESSION_LABEL": f'"{reader}"',
        "TRIAL_INDEX": 12,
        "CURRENT_FIX_DURATION": 100 + index,
        "CURRENT_FIX_INDEX": index,
        "CURRENT_FIX_INTEREST_AREAS": f"[ {area}]",
        "CURRENT_FIX_INTEREST_AREA_DATA": data,
        "CURRENT_FIX_INTEREST_AREA_ID": area,
        "CURRENT_FIX_INTEREST_AREA_LABEL": label if label == "." and area == "." else f'"{label}"',
        "CURRENT_FIX_LABEL": f"Fixation: {index * 300} ms",
        "CURRENT_FIX_NEAREST_INTEREST_AREA": 4,
        "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE": "12,64",
        "EYE_USED": '"RIGHT"',
        "NEXT_SAC_PEAK_VELOCITY": ".",
        "NEXT_SAC_AMPLITUDE": "1,20",
        "NEXT_SAC_DURATION": "25",
        "Session_Name_": reader,
        "Trial_Index_": 11,
        "paragraphid": 0,
        "speechid": 7,
        **facts,
    }
    return "\t".join(str(cells[c]) for c in REPORT)


ROWS = {
    "P01": [
        row("P01", 1, 1, "N", speechid=1327),
        row("P01", 1, 1, "N", paragraphid=-1),
        row("P01", 1, 1, "E"),
        row("P01", 2, 3, '"'),
        row("P01", 3, 4, "Ã¥"),
        row("P01", 4, 12, "."),
        row("P01", 5, "."),
        row("P01", 6, 13, "?"),
    ],
    "P02": [row("P02", 1, 2, "n", top=121), row("P02", 2, 10, "n", bottom=269)],
    "P03": [row("P03", 1, 9, "e", bottom=269), row("P03", 2, 99, "x")],
    "P09": [row("P09", 1, ".")],
}


def boxes(cells: list[tuple], widths: bool) -> str:
    lines = ["part,speechId,paragraphId,onset,number,left,top,right,bottom,label,is_question"]
    for number, (label, left, *rest) in enumerate(cells, 1):
        right, top = (rest[0], rest[1]) if widths else (left + 10, rest[0])
        text = '"' + label.replace('"', '""') + '"'
        lines.append(f"1,7,0,0,{number},{left},{top},{right},{top + 90},{text},0")
    question = "1,7,0,-300,{},0,400,10,490,?,1"
    return "\n".join([*lines, question.format(len(cells) + 1), ""])


def write(folder: Path, rows: dict[str, list[str]] | None = None) -> Path:
    rows = ROWS if rows is None else rows
    for name in ("FixationReports", "ExtractedFeatures", "eyebench_folds", "eyebench_predictions"):
        (folder / name).mkdir(exist_ok=True)
    head = "\t".join(f'"{c}"' for c in REPORT)
    for reader, lines in rows.items():
        data = "\ufeff" + "\r\n".join([head, *lines, ""])
        path = folder / f"FixationReports/FIX_report_{reader}.txt.gz"
        path.write_bytes(gzip.compress(data.encode()))
        features = (
            "part,trialId,speechId,paragraphId,sentenceId,wordId,word,char_IA_ids,"
            "landing_position,word_first_fix_dur,word_first_pass_dur,word_go_past_time,"
            "word_mean_fix_dur,word_total_fix_dur,number_of_fixations,word_mean_sacc_dur,"
            "word_peak_sacc_velocity\n1,12,7,0,1,0,En,[1],0,101,101,101,101,101,1,,\n"
            "1,12,7,0,1,2,null,[],,,,,,,0,,\n"
        )
        (folder / f"ExtractedFeatures/{reader}.csv").write_text(features)
    (folder / "word_boxes.csv").write_text(boxes(WORDS, True), encoding="utf-8")
    (folder / "char_boxes.csv").write_text(boxes(CHARS, False), encoding="utf-8")
    words = ["index,part,speechId,paragraphId,wordId,word,characters,char_IA_ids,sentenceId"]
    words.append("0,1,7,-1,0,TITEL,,[],0")
    for i, (word, ids) in enumerate(zip(WORDS, ("[1, 2]", "[3]", "[]"), strict=True)):
        text = word[0].replace('"', '""')
        words.append(f'0,1,7,0,{i},"{text}",,"{ids}",1')
    (folder / "word2char_IA_mapping.csv").write_text("\n".join([*words, ""]), encoding="utf-8")
    stats = [
        "subj,comprehension_accuracy,number_of_speeches,number_of_questions,absolute_reading_time,"
        "relative_reading_time,words_per_minute,age,sex,native_language,vision,"
        "score_reading_comprehension_test,dyslexia,pseudohomophone_score"
    ]
    for reader, (native, dyslexia, score, accuracy) in READERS.items():
        stats.append(
            f"{reader},{accuracy},4,13,25,0.4,159,29,F,{native},glasses,{score},{dyslexia},"
        )
    (folder / "participant_stats.csv").write_text("\n".join([*stats, ""]))
    (folder / "df_experimental_speeches.tsv").write_text(
        "SpeechID\tParagraphID\tText\tQuestion\tExpected_Key\tCondition\tCounterbalance\n"
        '7\t0\t"En\nsol"\tEr det?\t1\texperiment\n8\t0\tX\tNO QUESTION\tNA\texperiment\n'
    )
    (folder / "comprehension_results.csv").write_text(
        "Session_Name_,Trial_Index_,question,QUESTION_RT,QUESTION_ACCURACY,SENTENCE_RT,speechid,"
        "paragraphid\nP01,11,Er det?,2415,1,9000,7,0\nP01,13,NO QUESTION,-1,-1,9000,7,1\n"
        "P09,11,Er det?,2415,0,9000,7,0\n"
    )
    folds = [
        "unique_paragraph_id,participant_id,unique_trial_id,RCS_score,dyslexia,speech_id,regime"
    ]
    regimes = ["train_train", "val_unseen_subject_seen_item", "test_seen_subject_unseen_item"]
    for reader, regime in zip(rows, [*regimes, "test_unseen_subject_unseen_item"], strict=False):
        folds.append(f"7_0,{reader},{reader}_7_0,-1.0,0,7,{regime}")
    (folder / "eyebench_folds/fold_0_trial_ids_by_regime.csv").write_text("\n".join([*folds, ""]))
    (folder / "eyebench_predictions/CopCo_TYP__MAG__fold0.csv").write_text(
        "label,prediction_prob,eval_regime,eval_type,unique_trial_id\n"
        "0,0.25,seen_subject_unseen_item,test,P03_7_0\n"
    )
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> GazeDataset:
    return load("copco", root=write(tmp_path), predictions=True)


def test_practice_and_titles_are_dropped_and_counted(tiny: GazeDataset) -> None:
    assert tiny.info["counts"]["fixations_in_all"] == 13 and len(tiny.fixations) == 11
    assert tiny.lost.count("fixations", "dropped") == 2
    assert tiny.trials["trial"].tolist() == ["P01_7_0", "P02_7_0", "P03_7_0", "P09_7_0"]


def test_characters_counted_from_one_become_words(tiny: GazeDataset) -> None:
    one = tiny.fixations[tiny.fixations["trial"] == "P01_7_0"].reset_index(drop=True)
    # E -> En; the quote and å -> the second word; "." on line 2 -> the hyphenated word
    assert one["word"].fillna("-").tolist() == ["0", "1", "1", "2", "-", "-"]
    assert one["character"].fillna(-1).tolist() == [0, 0, 1, 7, -1, -1]
    assert one["on_question"].tolist() == [False] * 5 + [True]
    assert one["area"].fillna("-").tolist() == ["1", "3", "4", "12", "-", "13"]
    assert "x" not in tiny.fixations and not tiny.capabilities["has_xy"]
    assert tiny.measures()["fixation_count"].tolist()[:3] == [1, 2, 1]


def test_labels_are_mended_one_by_one_and_a_dot_is_a_full_stop(tiny: GazeDataset) -> None:
    one = tiny.fixations[tiny.fixations["trial"] == "P01_7_0"]
    assert one["area_label"].fillna("(none)").tolist() == ["E", '"', "å", ".", "(none)", "?"]
    lost = tiny.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("encoded twice in"), "count"].tolist() == [1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[("Ã¥", "å"), ("Ã¦", "æ"), ("Ã¸", "ø"), ("Ã˜", "Ø"), ("â€“", "–"), ("Â\xa0", "\xa0")],
        *[("å", "å"), ("Å", "Å"), ("a", "a"), (".", "."), ("Ã", "Ã"), ("€", "€"), ("", "")],
        ("Ì\x81", "\u0301"),  # a byte that cp1252 does not have
        ("Ì\ufffd", "Ì\ufffd"),  # lost for good
        ("blÃ¥", "blå"),
    ],
)
def test_text_that_was_encoded_twice(written: str, meant: str) -> None:
    assert mended(written) == meant


@pytest.mark.parametrize("text", ['"""', '"a"', "a", '"', '""', "."])
def test_only_one_pair_of_quotes_is_taken_off(text: str) -> None:
    expected = {'"""': '"', '"a"': "a", "a": "a", '"': '"', '""': "", ".": "."}
    assert unquoted(text) == expected[text]


def test_decimal_commas() -> None:
    numbers = decimal(pd.Series(["504,51", ".", "3", "-0,5"], name="n"))
    assert numbers.fillna(-99).tolist() == [504.51, -99, 3, -0.5]
    with pytest.raises(DataError, match="must hold numbers"):
        decimal(pd.Series(["1,2,3"], name="n"))


def test_times_eyes_and_ids(tiny: GazeDataset) -> None:
    first = tiny.fixations.iloc[0]
    assert (first["onset"], first["duration"], first["eye"]) == (300, 101, "right")
    assert (first["nearest_distance"], first["saccade_amplitude"]) == (12.64, 1.2)
    assert pd.isna(first["saccade_peak_velocity"])


def test_boxes_are_those_of_the_area_set_that_was_used(tiny: GazeDataset) -> None:
    layouts = tiny.trials.set_index("trial")["layout"].to_dict()
    assert layouts["P01_7_0"] == "7_0"
    assert layouts["P02_7_0"] == layouts["P03_7_0"] == "7_0#2"
    assert layouts["P09_7_0"] == "7_0"  # nothing tells, and the reader has no other trial
    words = tiny.words.set_index(["layout", "word"])
    assert list(words.loc[("7_0", "0"), ["top", "bottom"]]) == [100, 190]
    # the rectangles of the reports: the first line begins 21 px lower
    assert list(words.loc[("7_0#2", "0"), ["left", "top", "bottom"]]) == [0, 121, 190]
    lost = tiny.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("no fixation shows"), "count"].tolist() == [1]


def test_groups_scores_and_answers(tiny: GazeDataset) -> None:
    trials = tiny.trials.set_index("participant")
    groups = {"P01": "typical", "P02": "typical", "P03": "dyslexic", "P09": "L2"}
    assert trials["group"].to_dict() == groups
    assert trials["comprehension_score"].isna().tolist() == [False, True, False, True]
    assert trials["comprehension_accuracy"].isna().tolist() == [False, True, False, True]
    assert trials["labels_doubtful"].tolist() == [False, False, False, True]
    # joined by Trial_Index_ 11, not by TRIAL_INDEX 12; P09's answers belong elsewhere
    assert trials["answered_correctly"].isna().tolist() == [False, True, True, True]
    assert trials.loc["P01", "answered_correctly"]
    assert trials["question"].tolist() == ["Er det?"] * 4
    answers = tiny.reports["answers"]
    assert answers["answered_correctly"].isna().tolist() == [False, True, True]
    assert answers["answer_time_ms"].isna().tolist() == [False, True, False]


def test_minus_one_is_no_score_in_the_folds(tiny: GazeDataset) -> None:
    folds = tiny.reports["folds"]
    assert folds["comprehension_score"].isna().all()
    assert folds["part"].tolist() == ["train", "val", "test", "test"]
    regimes = ["", "unseen_reader", "unseen_text", "unseen_both"]
    assert folds["regime"].fillna("").tolist() == regimes
    predicted = tiny.reports["predictions"].iloc[0]
    assert (predicted["model"], predicted["fold"], predicted["prediction"]) == ("MAG", "0", 0.25)
    assert predicted["regime"] == "unseen_text"


def test_areas_that_no_table_knows_are_counted(tiny: GazeDataset) -> None:
    lost = tiny.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("in no box table"), "count"].tolist() == [1]


def test_damaged_reports_are_refused(tmp_path: Path) -> None:
    bad = ROWS["P01"][2].replace("Fixation: 300 ms", "Fixation 300")
    with pytest.raises(DataError, match="no onset in CURRENT_FIX_LABEL"):
        load("copco", root=write(tmp_path, {"P01": [bad]}))
    with pytest.raises(DataError, match="0 of 2 rows valid"):
        load("copco", root=write(tmp_path, {"P01": ROWS["P01"][:2]}))
    path = write(tmp_path, {"P01": ROWS["P01"]}) / "word_boxes.csv"
    path.write_text(path.read_text().replace("En", "To"))
    with pytest.raises(DataError, match="do not hold the same words"):
        load("copco", root=tmp_path)
    (tmp_path / "participant_stats.csv").unlink()
    write_again = path.write_text(boxes(WORDS, True), encoding="utf-8")
    assert write_again
    with pytest.raises(MissingAssetError, match=r"lacks participant_stats\.csv"):
        load("copco", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    return load("copco", root=shared_data)


def test_counts_of_the_real_files(real: GazeDataset) -> None:
    assert real.lost.count("counts") == 0  # every count of the page agrees
    counts = real.info["counts"]
    assert (len(real.fixations), len(real.trials)) == (397883, 4782)
    assert (counts["fixations_in_all"], counts["word_rows"]) == (431285, 335203)
    assert len(real.participants) == 57
    groups = real.trials.drop_duplicates("participant")["group"].value_counts().to_dict()
    assert groups == {"typical": 28, "dyslexic": 19, "L2": 10}
    no_score = real.trials["comprehension_score"].isna()
    assert no_score.sum() == 1090 and real.trials[no_score]["participant"].nunique() == 12


def test_published_counts_per_reader(real: GazeDataset, shared_data: Path) -> None:
    stated = pd.read_csv(shared_data / "copco/participants_included.csv").set_index("participant")
    per_reader = real.fixations.groupby("participant").size()
    assert (per_reader == stated["reading_fixations"]).all()
    assert (real.trials.groupby("participant").size() == stated["reading_trials"]).all()
    groups = real.trials.drop_duplicates("participant").set_index("participant")["group"]
    assert (groups == stated["group"].reindex(groups.index)).all()


def test_trials_are_those_of_the_folds(real: GazeDataset) -> None:
    folds = real.reports["folds"]
    assert (folds.groupby("fold")["trial"].nunique() == 4782).all()
    assert set(folds["trial"]) == set(real.trials["trial"])
    train = folds[(folds["fold"] == "0") & (folds["part"] == "train")]
    assert len(train) == 1181
    joined = folds.merge(real.trials[["trial", "comprehension_score"]], on="trial")
    one, two = joined["comprehension_score_x"], joined["comprehension_score_y"]
    assert ((one == two) | (one.isna() & two.isna())).all()


def test_our_word_counts_are_the_published_ones_but_for_full_stops(real: GazeDataset) -> None:
    """The published measures lost fixations on full stops and on letters outside ASCII."""
    counts = real.measures("eyelink")[["participant", "trial", "word", "IA_FIXATION_COUNT"]]
    both = counts.merge(real.reports["measures"], on=["participant", "trial", "word"])
    assert len(both) == 335203
    stops = real.fixations[real.fixations["area_label"] == "."]
    stops = stops.groupby(["participant", "trial", "word"]).size().rename("stops").reset_index()
    both = both.merge(stops, on=["participant", "trial", "word"], how="left")
    without = both["IA_FIXATION_COUNT"] - both["stops"].fillna(0)
    plain = both["text"].str.fullmatch(r"[ -~]+")
    other = without[plain] != both.loc[plain, "fixation_count"]
    assert other.mean() < 0.002
    assert (both["IA_FIXATION_COUNT"] >= both["fixation_count"]).mean() > 0.999


def test_words_of_characters_reproduce_the_text(real: GazeDataset) -> None:
    on = real.fixations.dropna(subset=["word", "area_label"])
    texts = real.words[real.words["layout"] == real.words["stimulus"]]
    text = texts.set_index(["stimulus", "word"])["text"]
    shown = text.reindex(pd.MultiIndex.from_frame(on[["stimulus", "word"]])).to_numpy()
    letters = [w[c] if c < len(w) else None for w, c in zip(shown, on["character"], strict=True)]
    assert (pd.Series(letters, index=on.index) == on["area_label"]).mean() > 0.9995
