"""Files by paths and addresses: the same interface, whole files, and one sentence for whatever a store rejects."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from object_store import CREDENTIALS, ObjectStore, object_store

from tornproof.impl.errors import FileMissingError, StorageError, UsageError
from tornproof.pipeline import files
from tornproof.pipeline.files import Location, each_once, location_of, sizes_of

BUCKET = "files"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        store.make_bucket(BUCKET)
        yield store


@pytest.fixture(params=["path", "file", "s3", "s3a", pytest.param("hdfs", marks=pytest.mark.nightly)])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Location:
    """A directory that is not there yet."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    if request.param in ("path", "file"):
        return location_of(f"{'file://' if request.param == 'file' else ''}{tmp_path}/there")
    if request.param == "hdfs":
        return location_of(f"{request.getfixturevalue('hadoop').url}/{tmp_path.name}/there")
    return location_of(f"{request.param}://{BUCKET}/{tmp_path.name}/there")


def test_a_file_is_written_listed_read_and_removed_by_path_and_by_address_alike(place: Location) -> None:
    assert not place.exists() and place.size_bytes() is None
    (place / "a" / "b.txt.gz").write_bytes(b"12345")
    with (place / "c.txt").whole_file() as file:
        file.write(b"1")
        assert not (place / "c.txt").exists()
    again = pickle.loads(pickle.dumps(place))
    assert [(file.relative_to(place), size) for file, size in again.files_below()] == [("a/b.txt.gz", 5), ("c.txt", 1)]
    file = again / "a/b.txt.gz"
    assert (file.is_file(), file.read_bytes(), place.size_bytes(), place.is_file()) == (True, b"12345", -1, False)
    assert sizes_of([file, place / "none", place / "c.txt"]) == [5, None, 1] and sizes_of([]) == []
    with file.open_for_reading(mapped=True) as opened:
        assert opened.read() == b"12345"
    file.write_bytes(b"other")
    assert file.read_bytes() == b"other"
    file.delete_file()
    file.delete_file()
    assert not file.exists() and file.is_below(place) and not place.is_below(file)


def test_a_file_that_another_process_removes_first_is_removed(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "kept").write_bytes(b"")
    monkeypatch.setattr(Location, "exists", lambda location: True)
    (place / "gone").delete_file()
    assert [file.relative_to(place) for file, _ in place.files_below()] == ["kept"]


def test_no_directory_is_entered_twice_whatever_links_there_are(tmp_path: Path) -> None:
    """A link to a directory above it had each file up to 41 times."""
    for name in ("a/one", ".versions/3/two", "_v/b.d/three"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    for link, target in {
        "a/above": "..",
        "0": "a",
        "current": ".versions/3",
        "itself": "itself",
        "nothing": "none",
        "behind": "a/one/x",
        "a/uno": "one",
    }.items():
        (tmp_path / link).symlink_to(target)
    found = location_of(tmp_path).files_below()
    # A name that is neither a link nor hidden is the first one, and any other before a hidden one.
    expected = ["_v/b.d/three", "a/one", "a/uno", "current/two"]
    assert [(file.relative_to(location_of(tmp_path)), size) for file, size in found] == [(name, 1) for name in expected]
    assert [file.name for file in each_once(file for file, _ in found)] == ["three", "one", "two"]


def test_a_directory_that_is_removed_meanwhile_has_no_files_and_one_that_was_named_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing beside a process that makes and removes directories ended in an error."""

    def listed(directory: str) -> Any:
        if directory.endswith("removed"):
            Path(directory).rmdir()
        return of_the_system(directory)

    for name in ("kept", "removed"):
        (tmp_path / name).mkdir()
    (tmp_path / "kept/file").touch()
    of_the_system = os.scandir
    monkeypatch.setattr(os, "scandir", listed)
    assert location_of(tmp_path).files_below() == [(location_of(tmp_path / "kept/file"), 0)]
    with pytest.raises(FileMissingError):
        location_of(tmp_path / "removed").files_below()


def test_a_name_on_this_machine_need_not_be_utf8(tmp_path: Path) -> None:
    """Listing, reading and removing ended in errors of Python."""
    folder = location_of(tmp_path / os.fsdecode(b"\xff"))
    file = folder / os.fsdecode(b"a\xfe")
    file.write_bytes(b"12")
    assert folder.files_below() == [(file, 2)] and sizes_of([file]) == [2] and folder.size_bytes() == -1
    assert file.read_bytes() == file.open_for_reading(mapped=True).read() == b"12"
    file.delete_file()
    assert folder.files_below() == []
    folder.delete_directory()
    assert not folder.exists()


def test_a_file_whose_writer_fails_is_not_there(place: Location) -> None:
    def fail() -> None:
        with (place / "file").whole_file() as file:
            file.write(b"half")
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        fail()
    assert not place.exists() or place.files_below() == []


def test_what_is_not_there_is_said_with_its_address(place: Location) -> None:
    with pytest.raises(FileMissingError) as missing:
        (place / "none").read_bytes()
    assert str(missing.value) == f"{place}/none: cannot read: it is not there"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("gs://bucket/name", "gs://bucket/name: no address of a file; valid are paths, hdfs://HOST/PATH and s3://"),
        ("s3:///name", "s3:///name: names no bucket; an address is s3://BUCKET/NAME"),
        ("s3://bucket/\udcff", "s3://bucket/\udcff: an address is text in UTF-8"),
        ("", "the path is empty, as of a variable that is not set"),
        ("file://", "file://: names no file of this machine; an address of one is file:///PATH"),
        ("file://out/x", "file://out/x: names no file of this machine; an address of one is file:///PATH"),
    ],
)
def test_an_address_of_another_kind_is_rejected(address: str, sentence: str) -> None:
    with pytest.raises(UsageError) as rejected:
        location_of(address)
    assert str(rejected.value).startswith(sentence)


def rejections(place: Location) -> list[str]:
    """What reading, listing and writing say."""
    said = []
    for action in (place.files_below, lambda: place.write_bytes(b"x")):
        with pytest.raises(StorageError) as rejected:
            action()
        said.append(str(rejected.value))
    assert not any("\n" in sentence or "RequestId" in sentence or "Request ID" in sentence for sentence in said)
    return said


def test_a_bucket_that_is_not_there_is_named(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    for sentence in rejections(location_of("s3a://nowhere/out")):
        assert sentence.startswith("s3a://nowhere/out: cannot ") and sentence.endswith("there is no bucket 'nowhere'")


def test_where_nothing_listens_the_sentence_has_the_endpoint(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**store.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    for sentence in rejections(location_of("s3://bucket/out")):
        assert sentence.endswith("nothing answers at http://127.0.0.1:1")


def test_a_credential_that_the_store_does_not_know_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(INITIAL_NO_AUTH_ACTION_COUNT="0") as guarded:
        for name, value in guarded.environment.items():
            monkeypatch.setenv(name, value)
        for sentence in rejections(location_of("s3://bucket/out")):
            assert "S3 denies access: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or take" in sentence


class Denies(BaseHTTPRequestHandler):
    """A store that says no to requests without a signature, in the words of S3."""

    def do_GET(self) -> None:
        assert "Authorization" not in self.headers
        content = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>7</RequestId></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET  # noqa: N815 (the library's names)

    def log_message(self, *_: object) -> None:
        pass


def test_without_a_credential_the_sentence_says_which_variables_to_set(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Denies) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in {**store.environment, "HOME": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name in CREDENTIALS:
            monkeypatch.delenv(name)
        for sentence in rejections(location_of("s3://bucket/out")):
            assert "S3 denies access: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or take" in sentence
        server.shutdown()
        thread.join()


def test_hdfs_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    said = {"hdfs://127.0.0.1:1": "nothing answers at 127.0.0.1:1", "hdfs://": files.NO_NAME_NODE}
    for address, reason in said.items():
        for sentence in rejections(location_of(f"{address}/out")):
            assert reason in sentence
    monkeypatch.setattr(files, "HDFS_PACKAGE", "hdfs_is_not_here")
    with pytest.raises(StorageError, match=r"^hdfs://name/a: cannot read: HDFS needs the package hdfs-native: `pip"):
        location_of("hdfs://name/a").read_bytes()


class Refuses(AbstractFileSystem):  # type: ignore[misc]
    """What HDFS answers to a user who may do nothing, and to a path that it does not take."""

    def info(self, path: str, **_: object) -> dict[str, object]:
        what = "security.AccessControlException" if path == "/out" else "fs.InvalidPathException"
        raise RuntimeError(f'RPCError("org.apache.hadoop.{what}", "inode=\\"{path}\\":root\\n\\tat org.apache.x")')


@pytest.mark.parametrize(
    ("path", "reason"), [("out", 'HDFS denies access: inode="/out":root'), ("a:b", 'cannot look at: inode="/a:b":root')]
)
def test_what_hdfs_refuses_is_its_first_line(monkeypatch: pytest.MonkeyPatch, path: str, reason: str) -> None:
    monkeypatch.setattr(files, "_opened_hdfs", lambda *_: Refuses())
    with pytest.raises(StorageError) as raised:
        location_of(f"hdfs://refuses/{path}").exists()
    assert str(raised.value).endswith(reason)


def test_a_file_on_hdfs_takes_the_place_of_another_by_a_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = []

    class Memory(MemoryFileSystem):  # type: ignore[misc]
        def mv(self, path1: str, path2: str, *, overwrite: bool = False) -> None:
            renamed.append((path1.rpartition("/")[2].startswith(".out."), path2, overwrite))
            super().mv(path1, path2)

    monkeypatch.setattr(files, "_opened_hdfs", lambda *_: Memory())
    folder = location_of("hdfs://renames/folder")
    for content in (b"first", b"second"):
        (folder / "out").write_bytes(content)
    assert renamed == [(True, "/folder/out", True)] * 2
    assert [(file.name, file.read_bytes()) for file, _ in folder.files_below()] == [("out", b"second")]
    folder.delete_directory()
    assert not folder.exists() and folder.files_below() == []
