"""Splits: what may be where, worked out by hand, and the same for every data set."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.splits import Split, kfold, published, split
from gazeattn.errors import DataError, UnknownNameError


def grid(readers: int, items: int) -> pd.DataFrame:
    """Return one trial for each reader and item."""
    rows = [
        (f"r{r}:i{i}", f"r{r}", f"i{i}", "yes" if r % 2 else "no")
        for r in range(readers)
        for i in range(items)
    ]
    return pd.DataFrame(rows, columns=["trial", "participant", "stimulus", "label"])


def test_three_regimes_by_hand() -> None:
    # 5 readers and 5 items, one of each in test and validation: 3 x 3 training trials, and of
    # each held-out part 3 trials of the unseen reader, 3 of the unseen item and 1 of both
    s = kfold(grid(5, 5), by="both", folds=5, fold=2, seed=1)
    assert len(s.trials("train")) == 9
    for part in ("val", "test"):
        assert len(s.trials(part, "unseen_reader")) == 3
        assert len(s.trials(part, "unseen_text")) == 3
        assert len(s.trials(part, "unseen_both")) == 1
    assert len(s.trials("dropped")) == 2  # validation reader x test item, and the reverse
    assert s.lost.count("split", "dropped") == 2


def test_a_reader_of_the_validation_is_never_tested_on_an_unseen_text() -> None:
    s = kfold(grid(8, 9), folds=4, fold=1)
    train = s.table[s.table["part"] == "train"]
    test = s.table[(s.table["part"] == "test") & (s.table["regime"] == "unseen_text")]
    assert set(test["participant"]) <= set(train["participant"])
    assert not set(test["item"]) & set(train["item"])


@pytest.mark.parametrize("by", ["reader", "text"])
def test_one_axis_keeps_every_trial(by: str) -> None:
    s = kfold(grid(6, 5), by=by, folds=5, fold=0)
    assert not s.trials("dropped")
    regime = "unseen_reader" if by == "reader" else "unseen_text"
    assert set(s.table["regime"].dropna()) == {regime}
    column = "participant" if by == "reader" else "item"
    parts = s.table.groupby(column)["part"].nunique()
    assert (parts == 1).all()


def test_folds_cover_every_reader_once_and_rows_in_any_order_give_the_same() -> None:
    trials = grid(10, 3)
    tested = [
        reader
        for fold in range(5)
        for reader in {
            t.split(":")[0] for t in kfold(trials, by="reader", fold=fold).trials("test")
        }
    ]
    assert sorted(tested) == sorted(trials["participant"].unique())
    shuffled = trials.sample(frac=1.0, random_state=3)
    assert kfold(trials, folds=3).digest == kfold(shuffled, folds=3).digest
    assert kfold(trials, folds=3).digest != kfold(trials, folds=3, seed=1).digest


def test_stratified_folds_keep_the_shares() -> None:
    trials = grid(20, 2)
    for fold in range(5):
        s = kfold(trials, by="reader", folds=5, fold=fold, stratify="label")
        test = trials[trials["trial"].isin(s.trials("test"))]
        assert test.drop_duplicates("participant")["label"].value_counts().to_dict() == {
            "yes": 2,
            "no": 2,
        }


def test_versions_of_one_text_stay_together() -> None:
    trials = grid(4, 8)
    trials["article"] = trials["stimulus"].str[1:].astype(int).floordiv(2).astype(str)
    s = kfold(trials, by="text", folds=4, item="article")
    parts = s.of(trials["trial"])["part"]
    assert (parts.groupby(trials["article"]).nunique() == 1).all()


def test_rows_of_a_trial_follow_it() -> None:
    trials = grid(5, 5)
    s = kfold(trials, folds=5)
    windows = pd.DataFrame({"trial": trials["trial"].repeat(3).to_numpy()}, index=range(100, 175))
    found = s.of(windows["trial"])
    assert list(found.index) == list(windows.index)
    assert (found["part"].groupby(windows["trial"]).nunique() == 1).all()
    with pytest.raises(DataError, match="does not know"):
        s.of(pd.Series(["r0:i0", "r9:i9"]))


def test_saved_hashed_and_never_overwritten(tmp_path: Path) -> None:
    s = kfold(grid(6, 6), folds=3, stratify="label")
    path = s.save(tmp_path / "fold0.json")
    again = Split.load(path)
    assert again.digest == s.digest and again.how == s.how
    assert again.lost.to_frame().equals(s.lost.to_frame())
    s.save(path)  # the same split again is fine
    with pytest.raises(DataError, match="another split"):
        kfold(grid(6, 6), folds=3, fold=1).save(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    moved = next(r for r in raw["rows"] if r[3] == "test")
    moved[3], moved[4] = "train", None
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(DataError, match="was changed"):
        Split.load(path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "gazeattn-split-1"}'])
def test_damaged_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError):
        Split.load(path)


def test_seed_and_losses_of_a_saved_split_cannot_be_changed(tmp_path: Path) -> None:
    path = kfold(grid(6, 6), folds=3).save(tmp_path / "s.json")
    text = path.read_text(encoding="utf-8")
    for change in (('"seed": 0', '"seed": 99'), ('"count": 8', '"count": 0')):
        assert change[0] in text
        path.write_text(text.replace(*change), encoding="utf-8")
        with pytest.raises(DataError, match="was changed"):
            Split.load(path)


def test_what_a_corpus_says_is_one_text_counts_by_itself() -> None:
    trials = grid(4, 8)
    trials["article"] = trials["stimulus"].str[1:].astype(int).floordiv(2).astype(str)
    trials.attrs["item"] = "article"
    data = GazeDataset("d", trials, trials, trials, info={"item": "article"})
    for source in (trials, data):
        s = kfold(source, by="text", folds=4)
        assert s.how["item"] == "article"
        assert (s.of(trials["trial"])["part"].groupby(trials["article"]).nunique() == 1).all()
    assert kfold(data, by="text", folds=4).how["dataset"] == "d"
    assert kfold(data, by="text", folds=4, item="stimulus").how["item"] == "stimulus"


@pytest.mark.parametrize("item", ["trial", "participant"])
def test_an_item_finer_than_the_stimulus_is_refused(item: str) -> None:
    with pytest.raises(DataError, match="several items"):
        kfold(grid(6, 6), folds=3, item=item)


@pytest.mark.parametrize("wrong", [{"seed": None}, {"folds": 3.5}, {"fold": "0"}, {"seed": True}])
def test_numbers_must_be_whole(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError, match="whole number"):
        kfold(grid(6, 6), **{"folds": 3, **wrong})  # type: ignore[arg-type]


def test_leakage_is_found() -> None:
    s = kfold(grid(5, 5), folds=5)
    for column in ("participant", "item"):
        table = s.table.copy()
        seen = table.loc[table["part"] == "train", column].iloc[0]
        row = table.index[table["regime"] == "unseen_both"][0]
        table.loc[row, column] = seen
        with pytest.raises(DataError, match="are in training too"):
            Split(table).check()


def test_what_cannot_be_split_says_why() -> None:
    with pytest.raises(DataError, match="fewer readers than folds"):
        kfold(grid(2, 9), by="reader", folds=3)
    with pytest.raises(UnknownNameError, match="reader"):
        kfold(grid(5, 5), by="raeder")
    with pytest.raises(UnknownNameError, match="label"):
        kfold(grid(5, 5), stratify="lable")
    with pytest.raises(DataError, match="three folds"):
        kfold(grid(5, 5), folds=2)
    own = grid(6, 6)
    own = own[own["participant"].str[1:] == own["stimulus"].str[1:]]  # each reader has one text
    with pytest.raises(DataError, match="no trial is left"):
        kfold(own, by="both", folds=3)
    missing = grid(5, 5)
    missing.loc[7, "participant"] = None
    with pytest.raises(DataError, match="without reader"):
        kfold(missing)


def test_shares() -> None:
    s = split(grid(10, 4), by="reader", shares=(0.6, 0.2, 0.2), seed=4)
    assert [len(s.trials(p)) for p in ("train", "val", "test")] == [24, 8, 8]
    s = split(grid(10, 4), by="reader", shares=(0.5, 0, 0.5))
    assert not s.trials("val")
    with pytest.raises(DataError, match="sum to 1"):
        split(grid(10, 4), shares=(0.5, 0.2, 0.2))
    with pytest.raises(DataError, match="too few"):
        split(grid(2, 10), by="reader")


def test_published_folds_are_made_pure_or_kept() -> None:
    trials = grid(3, 3)
    # r0 i0, i1 in training; r1 is a validation reader whom the publisher tests on i2
    part = {"r0:i0": "train", "r0:i1": "train", "r0:i2": "test", "r1:i2": "test", "r2:i0": "test"}
    regime = {"r0:i2": "unseen_text", "r1:i2": "unseen_text", "r2:i0": "unseen_reader"}
    folds = pd.DataFrame({"trial": [*part, "gone"], "fold": "0"})
    folds["part"] = [*part.values(), "train"]
    folds["regime"] = [regime.get(t) for t in folds["trial"]]
    pure = published(trials, folds, fold=0)
    assert pure.trials("test", "unseen_text") == ["r0:i2"]
    assert "r1:i2" in pure.trials("dropped")
    kept = published(trials, folds, fold="0", pure=False)
    assert kept.trials("test", "unseen_text") == ["r0:i2", "r1:i2"]
    reasons = " ".join(pure.lost.to_frame()["reason"])
    assert "participant is not in training" in reasons and "not in the data" in reasons
    with pytest.raises(UnknownNameError, match="fold"):
        published(trials, folds, fold=7)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_split_of_any_table_leaks(data: st.DataObject) -> None:
    n_readers, n_items = data.draw(st.integers(4, 9)), data.draw(st.integers(4, 9))
    trials = grid(n_readers, n_items)
    keep = data.draw(st.lists(st.booleans(), min_size=len(trials), max_size=len(trials)))
    trials = trials[pd.Series(keep) | (trials.index % 3 == 0)]
    folds = data.draw(st.integers(3, 4))
    by = data.draw(st.sampled_from(["reader", "text", "both"]))
    try:
        s = kfold(trials, by=by, folds=folds, fold=data.draw(st.integers(0, folds - 1)),
                  seed=data.draw(st.integers(0, 99)))  # fmt: skip
    except DataError as error:
        assert "no trial is left" in str(error) or "fewer" in str(error)
        return
    t = s.table.set_index("trial")
    train = t[t["part"] == "train"]
    for regime, columns in (
        ("unseen_reader", ["participant"]),
        ("unseen_text", ["item"]),
        ("unseen_both", ["participant", "item"]),
    ):
        rows = t[t["regime"] == regime]
        for column in columns:
            assert not set(rows[column]) & set(train[column])
    assert sorted(t.index) == sorted(trials["trial"])


def test_published_folds_as_they_are_come_back_from_their_file(tmp_path: Path) -> None:
    """Their regimes are mixed; what was saved is read again, and saving twice is no fault."""
    trials = pd.DataFrame(
        {"trial": ["a", "b", "c"], "participant": ["p", "q", "q"], "stimulus": ["s", "s", "s"]}
    )
    rows = {"fold": "0", "trial": ["a", "b", "c"], "part": ["train", "val", "test"],
            "regime": [None, "unseen_reader", "unseen_reader"]}  # fmt: skip
    divided = published(trials, pd.DataFrame(rows), fold=0, pure=False)
    with pytest.raises(DataError):
        divided.check()  # an item or reader is on both sides
    path = divided.save(tmp_path / "split.json")
    assert Split.load(path).digest == divided.digest
    divided.save(path)
