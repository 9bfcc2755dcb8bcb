"""What a reader sees must not depend on the storage: one suite runs on real files and on their image, then the rest."""

import itertools
import os
import pickle
from pathlib import Path

import pytest

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import FileMissingError, StorageError, TornproofError, UnsupportedError
from tornproof.impl.storage.interface import EntryKind, ReadableStorage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

TXN = bytes(range(100))
PM = b"pm" * 3000


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("db/table/2024-01-01.1").mkdir(parents=True)
    Path("db/table/empty.2").mkdir()
    Path("db/table/_txn").write_bytes(TXN)
    Path("db/table/_todo").write_bytes(b"")
    Path("db/table/2024-01-01.1/_pm").write_bytes(PM)
    return "db/table"


@pytest.fixture(params=["operating system", "image"])
def storage(request: pytest.FixtureRequest, table: str) -> ReadableStorage:
    real = OperatingSystemStorage()
    return real if request.param == "operating system" else DiskImage.capture(real, table, size_bytes_max=1 << 20)


@pytest.fixture
def image(table: str) -> DiskImage:
    return DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=1 << 20)


# What both storages do


def test_pread_returns_the_asked_range_and_comes_back_short_at_the_end(storage: ReadableStorage, table: str) -> None:
    with storage.open_for_reading(f"{table}/_txn") as file:
        assert file.size_bytes() == 100
        assert file.pread(100, 0) == TXN
        assert file.pread(8, 24) == TXN[24:32]
        assert file.pread(8, 96) == TXN[96:]
        assert file.pread(8, 100) == file.pread(8, 1000) == file.pread(0, 5) == b""


def test_pread_of_absurd_sizes_and_offsets_is_short_and_not_an_error(storage: ReadableStorage, table: str) -> None:
    with storage.open_for_reading(f"{table}/_txn") as file:
        for absurd in (1 << 40, (1 << 63) - 1, 1 << 64, 1 << 200):
            assert file.pread(absurd, 90) == TXN[90:]
            assert file.pread(8, absurd) == b""


@pytest.mark.parametrize(("size_bytes", "offset_bytes"), [(-1, 0), (0, -1)])
def test_negative_ranges_are_a_bug_of_the_caller(
    storage: ReadableStorage, table: str, size_bytes: int, offset_bytes: int
) -> None:
    with storage.open_for_reading(f"{table}/_txn") as file, pytest.raises(AssertionError):
        file.pread(size_bytes, offset_bytes)


def test_a_closed_file_is_rejected_and_closing_twice_is_harmless(storage: ReadableStorage, table: str) -> None:
    with storage.open_for_reading(f"{table}/_txn") as file:
        file.close()
    for call in (lambda: file.pread(1, 0), file.size_bytes):
        with pytest.raises(StorageError) as rejection:
            call()
        assert rejection.value.reason == StorageReason.NOT_OPEN


def test_listdir_returns_sorted_names_of_files_and_directories(storage: ReadableStorage, table: str) -> None:
    assert storage.listdir(table) == ("2024-01-01.1", "_todo", "_txn", "empty.2")
    assert storage.listdir(f"{table}/empty.2") == ()
    assert storage.listdir("db") == ("table",)
    assert storage.listdir(".") == ("db",)


def test_kind_tells_files_directories_and_nothing_apart(storage: ReadableStorage, table: str) -> None:
    assert storage.kind(f"{table}/_txn") is EntryKind.FILE
    assert storage.kind(f"{table}/empty.2") is EntryKind.DIRECTORY
    assert storage.kind(f"{table}/_meta") is EntryKind.MISSING
    assert storage.kind(f"{table}/_txn/below-a-file") is EntryKind.MISSING


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", StorageReason.MISSING),
        ("db/table/_meta", StorageReason.MISSING),
        ("db/table/2024-01-02/_pm", StorageReason.MISSING),
        ("db/table/empty.2", StorageReason.IS_A_DIRECTORY),
        ("db/table/_txn/_pm", StorageReason.NOT_A_DIRECTORY),
        ("db/table/_txn/", StorageReason.NOT_A_DIRECTORY),
        ("db/table/" + "x" * 256, StorageReason.NAME_TOO_LONG),
        ("db/table/_t\0xn", StorageReason.NAME_UNUSABLE),
        ("db/table/\ud800", StorageReason.NAME_UNUSABLE),
    ],
)
def test_opening_says_in_plain_words_what_is_wrong(storage: ReadableStorage, path: str, reason: StorageReason) -> None:
    with pytest.raises(StorageError) as rejection:
        storage.open_for_reading(path)
    assert str(rejection.value) == f"{path}: cannot open for reading: {reason}"
    assert isinstance(rejection.value, FileMissingError) == (reason is StorageReason.MISSING)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("db/table/_txn", StorageReason.NOT_A_DIRECTORY),
        ("db/2024", StorageReason.MISSING),
        ("db/\0", StorageReason.NAME_UNUSABLE),
    ],
)
def test_listing_says_in_plain_words_what_is_wrong(storage: ReadableStorage, path: str, reason: StorageReason) -> None:
    with pytest.raises(StorageError) as rejection:
        storage.listdir(path)
    assert str(rejection.value) == f"{path}: cannot list: {reason}"


def test_the_clock_never_goes_back_and_moves_by_what_was_slept(storage: ReadableStorage) -> None:
    start_seconds = storage.monotonic_seconds()
    storage.sleep_seconds(0.01)
    assert storage.monotonic_seconds() >= start_seconds + 0.01


def test_every_spelling_of_every_path_gives_the_same_answer_on_both(image: DiskImage, table: str) -> None:
    names = ("", ".", "..", "_txn", "_todo", "2024-01-01.1", "_pm", "missing", "x" * 256, "\0")
    real = OperatingSystemStorage()
    compared_count = 0
    for tail in itertools.chain.from_iterable(itertools.product(names, repeat=count) for count in range(5)):
        if not _stays_below(tail):
            continue
        path = "/".join((table, *tail))
        assert _answers(image, path) == _answers(real, path), path
        compared_count += 1
    assert compared_count > 5000


def _stays_below(tail: tuple[str, ...]) -> bool:
    depths = itertools.accumulate({"..": -1, "": 0, ".": 0}.get(name, 1) for name in tail)
    return min(depths, default=0) >= 0


def _answers(storage: ReadableStorage, path: str) -> list[object]:
    def opened() -> bytes:
        with storage.open_for_reading(path) as file:
            return file.pread(10, 5)

    answers: list[object] = []
    for ask in (opened, lambda: storage.listdir(path), lambda: storage.kind(path)):
        try:
            answers.append(ask())
        except TornproofError as error:
            answers.append((type(error), str(error)))
    return answers


# What only images do


def test_capture_holds_every_regular_file_and_empty_directories(image: DiskImage) -> None:
    assert dict(image.files) == {
        "db/table/_todo": b"",
        "db/table/_txn": TXN,
        "db/table/2024-01-01.1/_pm": PM,
    }


def test_capture_is_a_copy_that_later_writes_do_not_reach(image: DiskImage, table: str) -> None:
    Path(table, "_txn").write_bytes(b"later")
    with image.open_for_reading(f"{table}/_txn") as file:
        assert file.pread(100, 0) == TXN


def test_an_absolute_path_is_captured_under_itself(table: str) -> None:
    root = str(Path(table).absolute())
    image = DiskImage.capture(OperatingSystemStorage(), root + "/", size_bytes_max=1 << 20)
    assert image.listdir(root) == OperatingSystemStorage().listdir(root)
    assert image.kind(f"{root}/_txn") is EntryKind.FILE
    assert image.kind(table) is EntryKind.MISSING
    assert image.listdir("/") == (Path(root).parts[1],)


def test_a_path_above_the_working_directory_is_captured_under_itself(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(table, "empty.2"))
    image = DiskImage.capture(OperatingSystemStorage(), "../2024-01-01.1", size_bytes_max=1 << 20)
    assert image.listdir("../2024-01-01.1") == ("_pm",)
    assert image.listdir("..") == ("2024-01-01.1",)
    assert image.listdir(".") == ()


def test_capture_leaves_out_what_is_no_regular_file_and_follows_links(table: str) -> None:
    os.mkfifo(f"{table}/pipe")
    Path(table, "attached.3").symlink_to("2024-01-01.1")
    image = DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=1 << 20)
    assert image.kind(f"{table}/pipe") is EntryKind.MISSING
    assert image.files[f"{table}/attached.3/_pm"] == PM


def test_capture_of_an_image_is_that_image(image: DiskImage, table: str) -> None:
    again = DiskImage.capture(image, table, size_bytes_max=1 << 20)
    assert dict(again.files) == dict(image.files)
    assert again.listdir(table) == image.listdir(table)


def test_capture_accepts_exactly_as_many_bytes_as_it_may_hold_and_rejects_one_more(table: str) -> None:
    size_bytes = len(TXN) + len(PM)
    image = DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=size_bytes)
    assert sum(map(len, image.files.values())) == size_bytes
    with pytest.raises(UnsupportedError, match=f"{table}: size: expected at most {size_bytes - 1} bytes, found more"):
        DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=size_bytes - 1)


def test_capture_accepts_exactly_as_many_entries_as_it_may_hold_and_rejects_one_more(table: str) -> None:
    assert DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=1 << 20, entry_count_max=5).files
    with pytest.raises(UnsupportedError, match="entries: expected at most 4"):
        DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=1 << 20, entry_count_max=4)


def test_capture_ends_with_an_error_where_links_multiply_directories_without_end(table: str) -> None:
    for name in ("here", "there"):
        Path(table, name).symlink_to(".")
    with pytest.raises(TornproofError):
        DiskImage.capture(OperatingSystemStorage(), table, size_bytes_max=1 << 40, entry_count_max=2000)


@pytest.mark.parametrize(
    ("path", "reason"), [("db/missing", StorageReason.MISSING), ("db/table/_txn", StorageReason.NOT_A_DIRECTORY)]
)
def test_capture_of_what_is_no_directory_is_rejected(table: str, path: str, reason: StorageReason) -> None:
    with pytest.raises(StorageError) as rejection:
        DiskImage.capture(OperatingSystemStorage(), path, size_bytes_max=1 << 20)
    assert rejection.value.reason == reason


def test_with_file_changes_one_file_and_shares_the_bytes_of_all_others(image: DiskImage, table: str) -> None:
    damaged = image.with_file(f"{table}/_txn", b"damaged")
    assert damaged.files[f"{table}/_txn"] == b"damaged"
    assert image.files[f"{table}/_txn"] == TXN
    assert damaged.files[f"{table}/2024-01-01.1/_pm"] is image.files[f"{table}/2024-01-01.1/_pm"]
    assert list(damaged.files) == list(image.files)


def test_with_file_finds_the_file_by_any_spelling(image: DiskImage, table: str) -> None:
    damaged = image.with_file(f"./{table}//empty.2/../_txn", b"damaged")
    assert damaged.files == {**image.files, f"{table}/_txn": b"damaged"}


def test_with_file_makes_the_directories_on_its_way() -> None:
    image = DiskImage().with_file("table/2024.5/_pm", b"pm").with_file("/table/_txn", b"txn")
    assert image.listdir("table") == ("2024.5",)
    assert image.listdir("/table") == ("_txn",)
    assert DiskImage().kind("table") is EntryKind.MISSING


def test_with_file_rejects_a_directory_and_a_path_below_a_file(image: DiskImage, table: str) -> None:
    for path, reason in ((table, StorageReason.IS_A_DIRECTORY), (f"{table}/_txn/x", StorageReason.NOT_A_DIRECTORY)):
        with pytest.raises(StorageError) as rejection:
            image.with_file(path, b"")
        assert rejection.value.reason == reason


def test_without_file_takes_one_file_away_and_leaves_its_directory(image: DiskImage, table: str) -> None:
    bare = image.without_file(f"{table}/2024-01-01.1/_pm")
    assert bare.listdir(f"{table}/2024-01-01.1") == ()
    assert set(image.files) - set(bare.files) == {f"{table}/2024-01-01.1/_pm"}


def test_without_file_rejects_what_is_no_file(image: DiskImage, table: str) -> None:
    with pytest.raises(FileMissingError):
        image.without_file(f"{table}/_meta")
    with pytest.raises(StorageError, match="it is a directory"):
        image.without_file(f"{table}/empty.2")


def test_names_of_one_file_change_together_until_one_of_them_is_taken_away() -> None:
    image = DiskImage.of_files({"t/a": b"old", "t/b": b"old", "t/c": b"old", "t/d": b"old"})
    linked = image.with_links([("t/c", "t/a", "t/b")])
    assert linked.links == (("t/a", "t/b", "t/c"),) and image.links == ()
    for path in ("t/b", "t/../t/b"):
        changed = linked.with_file(path, b"new").with_file("t/e", b"")
        assert dict(changed.files) == dict.fromkeys(("t/a", "t/b", "t/c"), b"new") | {"t/d": b"old", "t/e": b""}
    assert changed.without_file("t/a").links == (("t/b", "t/c"),)
    assert changed.without_file("t/a").without_file("t/b").links == ()


@pytest.mark.parametrize(
    "links", [[("a", "b")], [("a", "missing")], [("a", "c"), ("c", "a")], [("d", "d")], [("missing", "nothing")]]
)
def test_what_is_not_one_file_is_not_taken_for_its_names(links: list[tuple[str, ...]]) -> None:
    with pytest.raises(StorageError, match="not names of one file"):
        DiskImage.of_files({"a": b"one", "b": b"other", "c": b"one", "d": b""}).with_links(links)


def test_sleeping_on_an_image_moves_its_clock_at_once_and_no_other_clock(image: DiskImage) -> None:
    image.sleep_seconds(3600.0)
    image.sleep_seconds(0.5)
    assert image.monotonic_seconds() == 3600.5
    assert image.with_file("x", b"").monotonic_seconds() == 0.0


def test_an_image_travels_to_another_process_whole(image: DiskImage, table: str) -> None:
    travelled = pickle.loads(pickle.dumps(image))
    assert dict(travelled.files) == dict(image.files)
    assert travelled.listdir(table) == image.listdir(table)


def test_files_cannot_be_changed_through_the_image(image: DiskImage) -> None:
    with pytest.raises(TypeError):
        image.files["x"] = b""  # type: ignore[index]
