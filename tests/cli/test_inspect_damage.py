"""`tornproof inspect` on damaged, hostile and wrong files: what is wrong is said, and nothing hangs or blows up."""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import golden_data
import pytest
from command_line import WarmRunner
from depth import nightly
from inspecting import document_of

from tornproof.cli.inspection import pm_scan
from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.pm_scan import whole_generations
from tornproof.impl.errors import BusyError, StorageError, UnsupportedError, UsageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import walk
from tornproof.impl.storage.operating_system import OperatingSystemStorage

CHAIN = "tables/9.4.2/chain/table"
CHAIN_PARTITION = f"{CHAIN}/2024-01-01.1"
CHAIN_TOKENS = (10642, 8524, 6530, 4503)
KINDS = {
    "_pm": f"{CHAIN_PARTITION}/_pm",
    "_txn": f"{CHAIN}/_txn",
    "_meta": f"{CHAIN}/_meta",
    "data.parquet": f"{CHAIN_PARTITION}/data.parquet",
}
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
# Beside the ends of what is in front of each file.
EDGES = (1, 31, 32, 63, 64, 79, 80)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size_count", [50, nightly(150)])
def test_truncated_file_is_shown_as_far_as_it_goes(
    questdb_data: Path, tmp_path: Path, kind: str, size_count: int
) -> None:
    content = (questdb_data / KINDS[kind]).read_bytes()
    path = tmp_path / kind
    # What ends a `_txn` or `_meta` is unused, and data.parquet is whole at each size that was ever committed.
    sound_from = {"_pm": len(content), "_txn": 272, "_meta": 294, "data.parquet": len(content)}[kind]
    for size_bytes in {*range(0, len(content), max(1, len(content) // size_count)), *CHAIN_TOKENS, *EDGES}:
        if size_bytes < len(content):
            path.write_bytes(content[:size_bytes])
            problems = document_of(path)["problems"]
            is_sound = size_bytes >= sound_from or (kind == "data.parquet" and size_bytes in CHAIN_TOKENS)
            assert is_sound == (not problems), (size_bytes, problems)


# Every field of four bytes or more is met, and one of three smaller ones.
@pytest.mark.parametrize("step", [3, nightly(1)])
def test_flipped_byte_of_a_pm_is_a_problem(questdb_data: Path, tmp_path: Path, step: int) -> None:
    names = golden_data.files_named("_pm")
    sound = [(questdb_data / name).read_bytes() for name in names if name.startswith("tables/")]
    content = min(sound, key=len)
    path = tmp_path / "_pm"
    for position in range(0, len(content), step):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
        assert document_of(path)["problems"], position


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size_bytes", [0, 7, 12, 100, 5000])
@pytest.mark.parametrize("step", [1, 7, 0])
def test_garbage_under_a_known_name_is_damage(tmp_path: Path, kind: str, size_bytes: int, step: int) -> None:
    path = tmp_path / kind
    path.write_bytes(bytes((index * step * index + 255) % 256 for index in range(size_bytes)))
    assert document_of(path)["problems"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parquet_meta_file_size", 0),
        ("parquet_meta_file_size", U64_MAX),
        ("feature_flags", U64_MAX),
        ("designated_timestamp", -(2**31)),
        ("sorting_column_count", U32_MAX),
        ("column_count", U32_MAX),
        ("reserved", 1),
    ],
)
def test_impossible_header_is_shown_with_what_is_wrong(copy_of: Callable[[str], Path], field: str, value: int) -> None:
    path = copy_of(KINDS["_pm"])
    spec = layout.Header.layout.field(field)
    changed = bytearray(path.read_bytes())
    struct.pack_into(f"<{spec.wire.struct_code}", changed, spec.offset_bytes, value)
    path.write_bytes(changed)
    document = document_of(path)
    assert spec.format_name in {problem["field"] for problem in document["problems"]}
    shown = document["header"][field]
    assert (shown["value"] if isinstance(shown, dict) else shown) == value


@pytest.mark.parametrize("field", ["parquet_footer_length", "row_group_count", "prev_parquet_meta_file_size"])
def test_impossible_footer_under_a_good_checksum_is_shown(copy_of: Callable[[str], Path], field: str) -> None:
    path = copy_of(KINDS["_pm"])
    newest = document_of(path)["generations"][0]
    spec = layout.Footer.layout.field(field)
    changed = bytearray(path.read_bytes())
    location = newest["footer_offset_bytes"] + spec.offset_bytes
    changed[location : location + spec.wire.size_bytes] = b"\xff" * spec.wire.size_bytes
    checksum_offset = newest["end_bytes"] - layout.Trailer.layout.size_bytes
    struct.pack_into("<I", changed, checksum_offset, zlib.crc32(changed[8:checksum_offset]))
    path.write_bytes(changed)
    document = document_of(path)
    if field == "parquet_footer_length":
        # Nothing in `_pm` contradicts a larger token.
        assert document["resolved"]["token"] == newest["parquet_footer_offset"] + U32_MAX + 8
    else:
        assert [problem["field"] for problem in document["problems"]] == [spec.format_name]
    assert document["generations"][0]["checksum"]["ok"]


def test_partition_outside_of_the_calendar_has_no_directory(copy_of: Callable[[str], Path]) -> None:
    """It ended in a traceback, as a defect of this program."""
    path = copy_of(CHAIN) / "_txn"
    live = next(area for area in document_of(path)["areas"] if area["live"])
    first, *others = live["partitions"]
    changed = bytearray(path.read_bytes())
    struct.pack_into("<q", changed, first["entry_offset_bytes"], -(1 << 63))
    path.write_bytes(changed)
    shown = next(area for area in document_of(path)["areas"] if area["live"])["partitions"]
    assert shown == [{**first, "timestamp": -(1 << 63), "time": -(1 << 63), "directory": None}, *others]


def test_blocks_that_overlap_are_not_decoded_over_and_over(copy_of: Callable[[str], Path]) -> None:
    path = copy_of(KINDS["_pm"])
    newest = document_of(path)["generations"][0]
    changed = bytearray(path.read_bytes())
    entries = newest["footer_offset_bytes"] + layout.Footer.layout.size_bytes
    for ordinal in range(newest["row_group_count"]):
        struct.pack_into("<I", changed, entries + ordinal * 4, 21 + ordinal)
    path.write_bytes(changed)
    document = document_of(path)
    assert "BLOCK_OFFSET" in {problem["field"] for problem in document["problems"]}
    assert document["row_groups"] == []


def test_scan_finds_exactly_the_generations_of_sound_files(questdb_data: Path) -> None:
    for name in golden_data.files("tables/*/*/table/*/_pm"):
        content = (questdb_data / name).read_bytes()
        found = [location.end_bytes for location in whole_generations(content, file=name)]
        assert found == sorted(location.end_bytes for location in walk(content, file=name)), name


@pytest.mark.parametrize("shift_bytes", range(8))
def test_scan_finds_a_generation_at_any_alignment(questdb_data: Path, shift_bytes: int) -> None:
    content = (questdb_data / KINDS["_pm"]).read_bytes()
    newest = next(walk(content, file="_pm"))
    shifted = content + bytes(shift_bytes) + content[newest.offset_bytes : newest.checksum_offset]
    shifted += struct.pack("<II", zlib.crc32(shifted[8:]), newest.trailer.footer_length)
    assert [location.end_bytes for location in whole_generations(shifted, file="_pm")][-1] == len(shifted)


def test_scan_finds_nothing_in_words_that_only_look_like_lengths() -> None:
    assert whole_generations(b"\x2c\0\0\0" * 5000, file="_pm") == []


def test_scan_finds_generations_on_both_sides_of_every_window(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (questdb_data / KINDS["_pm"]).read_bytes()
    for window_bytes in range(64, 400, 4):
        monkeypatch.setattr(pm_scan, "WINDOW_BYTES", window_bytes)
        assert [location.token for location in whole_generations(content, file="_pm")] == sorted(CHAIN_TOKENS)


@pytest.mark.parametrize("size_bytes", [1, 7, 8, 1000])
def test_bytes_behind_the_published_end_are_dead(copy_of: Callable[[str], Path], size_bytes: int) -> None:
    path = copy_of(KINDS["_pm"])
    path.write_bytes(path.read_bytes() + bytes(size_bytes))
    document = document_of(path)
    assert (document["problems"], document["dead_bytes"]) == ([], size_bytes)


@pytest.mark.parametrize(
    ("name", "size_bytes", "tail"),
    [
        ("_pm", (64 << 20) + 1, b""),
        ("_txn", (64 << 20) + 1, b""),
        ("_meta", (16 << 20) + 1, b""),
        ("data.parquet", 300 << 20, struct.pack("<I", (256 << 20) + 1) + b"PAR1"),
    ],
)
def test_too_large_a_file_is_rejected_before_it_is_read(
    tmp_path: Path, name: str, size_bytes: int, tail: bytes
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(size_bytes)
        file.seek(size_bytes - len(tail))
        file.write(tail)
    storage = OperatingSystemStorage()
    with pytest.raises(UnsupportedError):
        inspect_path(storage, str(path), None)
    assert storage.counters().read_bytes < 100


class HurriedStorage(OperatingSystemStorage):
    """A storage whose clock runs ahead, so that nobody waits for a spin to end."""

    now_seconds = 0.0

    def monotonic_seconds(self) -> float:
        self.now_seconds += 0.1
        return self.now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        self.now_seconds += duration_seconds


def test_txn_that_never_stands_still_is_given_up(
    copy_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of(KINDS["_txn"])
    pread, versions = os.pread, itertools.count()

    def changing(descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        return struct.pack("<q", next(versions)) + pread(descriptor, size_bytes, offset_bytes)[8:]

    monkeypatch.setattr(os, "pread", changing)
    with pytest.raises(BusyError):
        inspect_path(HurriedStorage(), str(path), None)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (CHAIN, UsageError, "tornproof verify"),
        (f"{CHAIN}/2024-01-02", UsageError, "neither a parquet partition nor a table"),
        (f"{CHAIN}/_cv", UsageError, "neither name nor bytes"),
        (f"{CHAIN}/missing/_pm", StorageError, "it is not there"),
        (f"{CHAIN}/_txn/_pm", StorageError, "not"),
        ("", UsageError, "neither a parquet partition nor a table"),
    ],
)
def test_what_cannot_be_inspected_is_rejected(
    questdb_data: Path, name: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        inspect_path(OperatingSystemStorage(), str(questdb_data / name), None)


@pytest.mark.parametrize("name", ["_txn", "_meta"])
def test_token_is_rejected_where_there_are_no_footers(questdb_data: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--at"):
        inspect_path(OperatingSystemStorage(), str(questdb_data / CHAIN / name), 1)


def test_rejections_are_one_sentence_and_exit_code_2(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "_pm")
    for arguments in (
        (questdb_data / CHAIN,),
        (tmp_path / "_pm",),
        (tmp_path / "missing",),
        (tmp_path / os.fsdecode(b"\xff_pm"),),
        (questdb_data / KINDS["_pm"], "--at", "-1"),
    ):
        run = tornproof("inspect", *arguments)
        assert (run.code, run.out, run.err.count("\n")) == (2, "", 1), run.err
        assert "Traceback" not in run.err


def test_damage_is_one_sentence_and_exit_code_1(tornproof: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "_pm").write_bytes(b"")
    for arguments in (("--json", "-"), ("--hex", "--all")):
        run = tornproof("inspect", tmp_path / "_pm", *arguments)
        assert (run.code, run.err.count("\n")) == (1, 1), run.err
        assert "1 problem" in run.err
