"""The commands readers, inspect and import, as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gazeattn import registry
from gazeattn.cli import main
from gazeattn.errors import DataError
from gazeattn.experiments.files import import_files, options_for, stem_of
from gazeattn.readers.quality import quality, rate_of
from gazeattn.recordings import BLINKS, SCHEMAS, Recording

HEADER = "** CONVERTED FROM x.edf\n** DATE: Mon Jan  6 10:00:00 2020\n"


def asc(n: int = 400, rate: int = 1000) -> str:
    """Return a recording of two trials; samples 50 to 99 of each are missing, in a blink."""
    lines = [HEADER, "MSG\t90 DISPLAY_COORDS 0 0 1919 1079\n"]
    step = 1000 // rate
    for trial, start in ((1, 1000), (2, 5000)):
        lines += [
            f"MSG\t{start - 5} TRIALID {trial}\n",
            f"START\t{start} \tRIGHT\tSAMPLES\tEVENTS\n",
            f"SAMPLES\tGAZE\tRIGHT\tRATE\t {rate}.00\tTRACKING\tCR\tFILTER\t2\n",
        ]
        for i in range(n):
            x = "   ." if 50 <= i < 100 else f" {2000.0 if i == 0 else 500.0 + i:.1f}"
            y = "   ." if 50 <= i < 100 else " 300.0"
            pupil = "0.0" if 50 <= i < 100 else "700.0"
            lines.append(f"{start + i * step}\t{x}\t{y}\t {pupil}\t...\n")
        lines += [
            f"EBLINK R {start + 50 * step}\t{start + 99 * step}\t50\n",
            f"EFIX R   {start + 100 * step}\t{start + (n - 1) * step}\t{(n - 100) * step}\t"
            "  700.0\t  300.0\t    700\n",
            f"END\t{start + n * step} \tSAMPLES\tEVENTS\tRES\t  38.00\t  31.00\n",
        ]
    return "".join(lines)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "S01.asc"
    path.write_text(asc())
    return path


def test_every_reader_says_what_it_was_tested_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["readers"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for entry in registry.readers:
        assert entry.name in text
        assert entry.info["tested_on"].startswith(("real recordings", "constructed files"))
        assert callable(entry.info["recognises"])
        for key in ("vendor", "formats", "description"):
            assert entry.info[key]


def test_inspect_says_what_a_file_is_and_draws_it(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(file), "--to", str(tmp_path / "out")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "eyelink_asc" in text and "1920 x 1080" in text and "800 rows" in text
    assert "12.5 %" in text  # 50 of 400 samples: missing, and in a blink
    assert (tmp_path / "out" / "S01_gaze.svg").read_text("utf-8").startswith("<svg")
    assert (tmp_path / "out" / "S01_gaze.png").stat().st_size > 5000


def test_quality_by_hand(file: Path) -> None:
    from gazeattn.readers import read

    found = quality(read(file))
    assert found["eye"].tolist() == ["right", "right"] and found["block"].tolist() == [0, 1]
    row = found.iloc[0]
    assert (row["samples"], row["rate"], row["seconds"]) == (400, 1000, 0.4)
    assert row["missing"] == pytest.approx(50 / 400) and row["blink"] == pytest.approx(50 / 400)
    assert row["off_screen"] == pytest.approx(1 / 350)  # the first sample, of those with a place
    assert row["gaps"] == 0


def test_quality_of_what_is_not_known_is_missing() -> None:
    samples = pd.DataFrame({"time": [0.0, 4.0, 8.0, 40.0], "x": [1.0, None, 2.0, 3.0], "y": 1.0})
    row = quality(Recording("f", "r", samples=samples)).iloc[0]
    assert pd.isna(row["off_screen"]) and pd.isna(row["blink"])
    assert row["gaps"] == 1 and row["rate"] == 250 and row["missing"] == 0.25
    assert not len(quality(Recording("f", "r")))
    assert pd.isna(rate_of([5.0]))
    none = pd.DataFrame({c: pd.Series(dtype=float) for c in BLINKS if c in ("onset", "duration")})
    assert quality(Recording("f", "r", samples=samples, blinks=none)).iloc[0]["blink"] == 0


def test_an_eye_that_was_not_recorded_has_no_row(tmp_path: Path) -> None:
    from gazeattn.readers import read

    text = asc(200)
    first, second = text.split("MSG\t4995 ")
    path = tmp_path / "switch.asc"
    path.write_text(first + "MSG\t4995 " + second.replace("RIGHT", "LEFT").replace(" R ", " L "))
    found = quality(read(path))
    assert found[["block", "eye"]].to_numpy().tolist() == [[0, "right"], [1, "left"]]
    assert found["missing"].tolist() == [0.25, 0.25]


def test_import_writes_tables_that_compare_can_use(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "S02.asc"
    other.write_text(asc(200, rate=500))
    out = tmp_path / "tables"
    assert main(["import", str(file), str(other), "--to", str(out)]) == 0
    fixations = pd.read_parquet(out / "fixations.parquet")
    assert fixations["source"].tolist() == ["S01.asc"] * 2 + ["S02.asc"] * 2
    assert set(fixations["participant"]) == {"S01", "S02"}
    assert fixations["duration"].tolist() == [300, 300, 200, 200]
    assert len(pd.read_parquet(out / "samples" / "S02.parquet")) == 400
    facts = json.loads((out / "recordings.json").read_text("utf-8"))
    assert [f["source"] for f in facts] == ["S01.asc", "S02.asc"]
    assert "reason" in pd.read_csv(out / "lost.csv")
    assert "fixations" in capsys.readouterr().out
    for name in ("fixations", "blinks", "trials"):
        table = pd.read_parquet(out / f"{name}.parquet")
        assert set(table) >= {c for c, s in SCHEMAS[name].items() if s.required}


def test_import_overwrites_nothing_but_an_earlier_import(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    import_files([file], out)
    with pytest.raises(DataError, match="--overwrite"):
        import_files([file], out)
    import_files([file], out, overwrite=True)
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"thesis\.txt"):
        import_files([file], out, overwrite=True)
    assert (out / "thesis.txt").read_text() == "mine"


def test_one_bad_file_leaves_nothing_half_written(file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.asc"
    bad.write_bytes(b"\x00\x01\x02" * 50)
    out = tmp_path / "tables"
    assert main(["import", str(file), str(bad), "--to", str(out)]) == 2
    assert not out.exists() and not list(tmp_path.glob(".tables*"))
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "S01.asc").write_text(asc())
    with pytest.raises(DataError, match="same name"):
        import_files([file, file], out)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x1f\x8b\x08\x00broken", bytes(range(256))])
def test_what_no_reader_knows_is_said(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mystery.dat"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    assert "mystery.dat" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "gone.asc")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_an_option_is_what_the_reader_takes_it_for() -> None:
    reader = registry.readers.get("eyelink_asc").obj
    texts = ["screen=1920,1080", "participant=007", "repeated=first"]
    assert options_for(reader, texts) == {
        "screen": (1920, 1080),
        "participant": "007",
        "repeated": "first",
    }
    for name in ("null", "1e3", "true", "a,b"):
        assert options_for(reader, [f"participant={name}"]) == {"participant": name}
    tobii = registry.readers.get("tobii").obj
    assert options_for(tobii, ["strict=true", "max_validity=0"]) == {
        "strict": True,
        "max_validity": 0,
    }
    loader = registry.datasets.get("table").obj
    assert options_for(loader, ["fixations=F.csv", "decimal=,", "screen=800,600"]) == {
        "fixations": "F.csv",
        "decimal": ",",
        "screen": (800, 600),
    }
    with pytest.raises(DataError, match="NAME=VALUE"):
        options_for(reader, ["screen"])
    with pytest.raises(DataError, match="takes numbers"):
        options_for(reader, ["screen=wide,high"])
    assert stem_of("a b/ü:1.asc.gz") == "ü_1"


def test_ids_of_an_import_stay_text(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    assert main(["import", str(file), "--to", str(out), "--option", "participant=007"]) == 0
    assert set(pd.read_parquet(out / "trials.parquet")["participant"]) == {"007"}


def test_one_participant_in_two_files_keeps_its_trials_apart(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "second.asc"
    other.write_text(asc(200))
    out = tmp_path / "tables"
    _, lost = import_files([file, other], out, options=["participant=P1"])
    trials = pd.read_parquet(out / "trials.parquet")
    assert trials["trial"].tolist() == ["S01:1", "S01:2", "second:1", "second:2"]
    assert not trials.duplicated(["participant", "trial"]).any()
    samples = pd.read_parquet(out / "samples" / "second.parquet")
    assert set(samples["trial"].dropna()) == {"second:1", "second:2"}
    fixations = pd.read_parquet(out / "fixations.parquet")
    assert set(fixations["trial"]) == set(trials["trial"])
    assert lost.count("trials", "repaired") == 2


def test_files_of_one_name_take_their_folders(tmp_path: Path) -> None:
    paths = []
    for person in ("P01", "P02"):
        folder = tmp_path / person
        folder.mkdir()
        (folder / "gaze.asc").write_text(asc(200))
        paths.append(folder / "gaze.asc")
    out = tmp_path / "tables"
    import_files(paths, out)
    trials = pd.read_parquet(out / "trials.parquet")
    assert trials["participant"].tolist() == ["P01_gaze"] * 2 + ["P02_gaze"] * 2
    assert trials["source"].tolist() == ["P01/gaze.asc"] * 2 + ["P02/gaze.asc"] * 2


def test_an_option_that_the_reader_does_not_have_is_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(file), "--option", "scren=1,2"]) == 2
    assert "screen" in capsys.readouterr().err
    assert main(["inspect", str(file), "--reader", "eyelink"]) == 2
    assert "eyelink_asc" in capsys.readouterr().err
