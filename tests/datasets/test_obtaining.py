"""Downloads of corpora: checked, resumable, safe, never over a file that is there."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gazeattn.cli import main
from gazeattn.datasets import obtaining
from gazeattn.datasets.corpus import Corpus, CorpusFile
from gazeattn.errors import ChecksumError, DataError, MissingAssetError

CONTENT = b"reader,word\nP01,one\n"
Make = Callable[..., Corpus]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """Return a function that puts a corpus page in place and keeps its files in ``there``."""
    (tmp_path / "there").mkdir()

    def page(*files: dict[str, Any], **facts: Any) -> Corpus:
        made = Corpus(
            **{
                "name": "mine",
                "title": "t",
                "task": "reading",
                "size": "1",
                "licence": "MIT",
                "citation": "c",
                "files": tuple(CorpusFile(**f) for f in files),
                **facts,
            }
        )
        monkeypatch.setattr(obtaining, "corpus", lambda name: made)
        return made

    return page


def put(tmp_path: Path, name: str, content: bytes) -> str:
    path = tmp_path / "there" / name
    path.write_bytes(content)
    return str(path)


def test_a_file_arrives_once_and_its_sums_are_written_down(make: Make, tmp_path: Path) -> None:
    url = put(tmp_path, "a.csv", CONTENT)
    md5 = hashlib.md5(CONTENT).hexdigest()
    make({"name": "data/a.csv", "urls": (url,), "md5": md5})
    folder = obtaining.fetch_corpus("mine", tmp_path)
    assert folder == tmp_path / "datasets" / "mine"
    assert (folder / "data" / "a.csv").read_bytes() == CONTENT
    record = obtaining.read_record(folder)["data/a.csv"]
    assert record["sha256"] == hashlib.sha256(CONTENT).hexdigest() and record["size"] == 20
    (folder / "data" / "a.csv").write_text("changed by hand")
    obtaining.fetch_corpus("mine", tmp_path)
    assert (folder / "data" / "a.csv").read_text() == "changed by hand"
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("key", ["md5", "sha256", "size"])
def test_another_content_is_refused_and_nothing_stays(make: Make, tmp_path: Path, key: str) -> None:
    url = put(tmp_path, "a.csv", CONTENT)
    make({"name": "a.csv", "urls": (url,), key: 7 if key == "size" else "0" * 32})
    with pytest.raises(ChecksumError, match=rf"'a.csv'.*expected {key}.*found"):
        obtaining.fetch_corpus("mine", tmp_path)
    assert not [p for p in (tmp_path / "datasets").rglob("*") if p.is_file()]


def test_a_file_of_unknown_sum_must_stay_what_it_was(make: Make, tmp_path: Path) -> None:
    url = put(tmp_path, "a.csv", CONTENT)
    make({"name": "a.csv", "urls": (url,), "unverified": True})
    folder = obtaining.fetch_corpus("mine", tmp_path)
    (folder / "a.csv").unlink()
    put(tmp_path, "a.csv", CONTENT + b"P02,two\n")
    with pytest.raises(ChecksumError, match="at the first download"):
        obtaining.fetch_corpus("mine", tmp_path)


def test_what_cannot_be_fetched_is_listed_and_the_rest_is_kept(make: Make, tmp_path: Path) -> None:
    url = put(tmp_path, "a.csv", CONTENT)
    make(
        {"name": "a.csv", "urls": (url,)},
        {"name": "b.csv", "urls": (str(tmp_path / "gone"),)},
        {"name": "raw/{participant}.asc", "note": "ask the authors"},
        {"name": "c.csv", "optional": True},
        obtain="Sign the agreement first",
    )
    with pytest.raises(MissingAssetError) as caught:
        obtaining.fetch_corpus("mine", tmp_path)
    text = str(caught.value)
    assert "b.csv" in text and "ask the authors" in text and "Sign the agreement" in text
    assert "c.csv" not in text and "- a.csv" not in text
    folder = tmp_path / "datasets" / "mine"
    assert str(folder) in text and (folder / "a.csv").exists()
    (folder / "raw").mkdir()
    (folder / "raw" / "P01.asc.gz").touch()  # by hand, packed
    (folder / "b.csv").touch()
    assert obtaining.fetch_corpus("mine", tmp_path) == folder


def archive(path: Path, *members: tuple[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return str(path)


def test_an_archive_is_unpacked_beside_what_is_there(make: Make, tmp_path: Path) -> None:
    url = archive(tmp_path / "a.zip", ("x/1.csv", CONTENT), ("x/2.csv", b"2"))
    make({"name": "a.zip", "urls": (url,), "unpack": True})
    folder = tmp_path / "datasets" / "mine"
    (folder / "x").mkdir(parents=True)
    (folder / "x" / "2.csv").write_text("mine")
    obtaining.fetch_corpus("mine", tmp_path)
    assert (folder / "x" / "1.csv").read_bytes() == CONTENT
    assert (folder / "x" / "2.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["../out.csv", "/abs.csv", "a/../../b", "C:\\x", "a\\..\\b"])
def test_archives_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("ok.csv", b"1")
        opened.writestr(zipfile.ZipInfo(name), b"2")
    with pytest.raises(DataError, match="refused"):
        obtaining.unpack(path, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_links_bombs_and_damaged_archives_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as opened:
        opened.writestr(link, "/etc/passwd")
    bomb = archive(tmp_path / "bomb.zip", ("zeros", bytes(30 << 20)))
    cut = (tmp_path / "bomb.zip").read_bytes()[:-40]
    (tmp_path / "cut.zip").write_bytes(cut)
    (tmp_path / "text.zip").write_bytes(CONTENT)
    for path in (tmp_path / "link.zip", Path(bomb), tmp_path / "cut.zip", tmp_path / "text.zip"):
        with pytest.raises(DataError):
            obtaining.unpack(path, tmp_path / "target")


def test_a_broken_download_goes_on_over_the_net(make: Make, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    put(tmp_path, "big.bin", content)

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "there"))

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/big.bin"
        gone = f"http://127.0.0.1:{server.server_port}/gone.bin"
        sha = hashlib.sha256(content).hexdigest()
        make({"name": "big.bin", "urls": (gone, url), "sha256": sha})
        seen: list[int] = []
        folder = obtaining.fetch_corpus("mine", tmp_path, lambda done, total: seen.append(done))
        assert (folder / "big.bin").read_bytes() == content
        assert seen[-1] == len(content)
    finally:
        server.shutdown()


def test_the_command_names_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GAZEATTN_SHARED", raising=False)
    assert main(["fetch", "osie", "--root", str(tmp_path)]) == 2
    text = capsys.readouterr().err
    assert "fetched by hand" in text and str(tmp_path / "datasets" / "osie") in text
