"""Histories survive what kills their writers, and are never read as something that was not recorded."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import crc32c
import pyarrow as pa
import pytest

from tornproof.harness.common.history import (
    FRAME_HEADER,
    PAYLOAD_BYTES_MAX,
    SCHEMA,
    Event,
    EventKind,
    HistoryWriter,
    decode_file,
    encode_frame,
    read_history,
    to_arrow,
)
from tornproof.impl.errors import CorruptError

EVENTS = [
    Event(
        process="writer-0", sequence=0, client="writer", kind=EventKind.COMMIT_START, time_ns=5, version=1, digest="a"
    ),
    Event(
        process="writer-0", sequence=1, client="writer", kind=EventKind.COMMIT_FAILED, time_ns=9, details="ENOSPC «é»"
    ),
    Event(process="writer-0", sequence=2, client="reader", kind=EventKind.KILLED, time_ns=9),
]
FRAMES = [encode_frame(event) for event in EVENTS]
CONTENT = b"".join(FRAMES)
ENDS = [0, *itertools.accumulate(len(frame) for frame in FRAMES)]
FILE = "writer-0.history"


def write(path: Path, *events: Event) -> Path:
    with HistoryWriter(path, events[0].process) as writer:
        for event in events:
            writer.append(event)
    return path


def event_of(process: str, sequence: int, time_ns: int) -> Event:
    return Event(process=process, sequence=sequence, client=process, kind=EventKind.READ_START, time_ns=time_ns)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    history = read_history([write(tmp_path / FILE, *EVENTS)])
    assert history.events == tuple(EVENTS)
    assert history.torn_frames == 0


def test_a_recorded_event_counts_up_takes_the_clock_and_is_of_the_own_client_by_default(
    tmp_path: Path,
) -> None:
    clock = iter([10, 20]).__next__
    with HistoryWriter(tmp_path / FILE, "reader-3", clock=clock) as writer:
        first = writer.record(EventKind.READ_START)
        second = writer.record(EventKind.KILLED, client="writer", version=4, digest="d", details="why")
    assert first == event_of("reader-3", 0, 10)
    assert second == Event(
        process="reader-3",
        sequence=1,
        client="writer",
        kind=EventKind.KILLED,
        time_ns=20,
        version=4,
        digest="d",
        details="why",
    )
    assert read_history([tmp_path / FILE]).events == (first, second)


def test_an_event_is_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / FILE, "writer-0")
    writer.append(EVENTS[0])
    assert (tmp_path / FILE).read_bytes() == FRAMES[0]
    writer.close()


def test_a_history_file_is_of_one_process(tmp_path: Path) -> None:
    write(tmp_path / FILE, *EVENTS)
    with pytest.raises(FileExistsError):
        HistoryWriter(tmp_path / FILE, "writer-0")


@pytest.mark.parametrize("wrong", [event_of("writer-0", 1, 0), event_of("writer-1", 0, 0)])
def test_a_writer_rejects_an_event_that_is_not_its_next_one(tmp_path: Path, wrong: Event) -> None:
    with HistoryWriter(tmp_path / FILE, "writer-0") as writer, pytest.raises(ValueError, match="the next event is"):
        writer.append(wrong)
    assert (tmp_path / FILE).read_bytes() == b""


@pytest.mark.parametrize("length", [PAYLOAD_BYTES_MAX - 200, PAYLOAD_BYTES_MAX])
def test_an_event_of_more_than_64_kib_is_rejected(tmp_path: Path, length: int) -> None:
    with HistoryWriter(tmp_path / FILE, "writer-0") as writer:
        if length == PAYLOAD_BYTES_MAX:
            with pytest.raises(ValueError, match="more than 65536"):
                writer.record(EventKind.READ_FAILED, details="x" * length)
        else:
            event = writer.record(EventKind.READ_FAILED, details="x" * length)
            assert read_history([tmp_path / FILE]).events == (event,)


@pytest.mark.parametrize("size", range(len(CONTENT) + 1))
def test_a_file_cut_anywhere_holds_its_whole_events_and_counts_the_torn_one(size: int) -> None:
    whole = sum(end <= size for end in ENDS) - 1
    assert decode_file(CONTENT[:size], file=FILE) == (EVENTS[:whole], size not in ENDS)


@pytest.mark.parametrize("offset", range(len(CONTENT)))
def test_a_flipped_bit_is_an_error_or_makes_the_last_frame_a_torn_one(offset: int) -> None:
    last = ENDS[-2]
    for bit in range(8):
        flipped = bytearray(CONTENT)
        flipped[offset] ^= 1 << bit
        try:
            events, is_torn = decode_file(bytes(flipped), file=FILE)
        except CorruptError as error:
            assert error.problem.offset_bytes == max(end for end in ENDS if end <= offset)
        else:
            # Only a larger length of the last frame looks as if the rest of it was never written.
            assert last <= offset < last + 4
            assert (events, is_torn) == (EVENTS[:-1], True)


@pytest.mark.parametrize("index", [0, 1])
def test_a_torn_frame_in_the_middle_is_an_error(index: int) -> None:
    cut = b"".join(frame[:-1] if number == index else frame for number, frame in enumerate(FRAMES))
    with pytest.raises(CorruptError) as caught:
        decode_file(cut, file=FILE)
    assert caught.value.problem.offset_bytes == ENDS[index]


def test_what_follows_a_whole_file_is_no_torn_frame_when_it_is_too_long_for_one() -> None:
    rest = FRAME_HEADER.pack(PAYLOAD_BYTES_MAX + 1, 0) + b"x" * PAYLOAD_BYTES_MAX
    with pytest.raises(CorruptError):
        decode_file(CONTENT + rest, file=FILE)
    rest = FRAME_HEADER.pack(PAYLOAD_BYTES_MAX, 0) + b"x" * (PAYLOAD_BYTES_MAX - 1)
    assert decode_file(CONTENT + rest, file=FILE) == (EVENTS, True)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b"[" * 60_000, id="deeply nested"),
        pytest.param(b"{}", id="no array"),
        pytest.param(b'["w",0,"w","pin",1,null,null]', id="a value short"),
        pytest.param(b'["w",0,"w","dance",1,null,null,""]', id="unknown kind"),
        pytest.param(b'["w",0,"w",["pin"],1,null,null,""]', id="kind of another type"),
        pytest.param(b'["w",0,"w","pin","1",null,null,""]', id="text for a time"),
        pytest.param(b'["w",0,"w","pin",1,true,null,""]', id="truth for a version"),
        pytest.param(b'["w",0,"w","pin",1,9223372036854775808,null,""]', id="version above 64 bits"),
        pytest.param(b'["w",0,"w","pin",1,null,7,""]', id="number for a digest"),
        pytest.param(b'["w",0,"w","pin",1,null,null,null]', id="null for details"),
        pytest.param(b'["w",1,"w","pin",1,null,null,""]', id="first event missing"),
    ],
)
def test_a_payload_that_is_no_event_is_an_error(payload: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_file(FRAME_HEADER.pack(len(payload), crc32c.crc32c(payload)) + payload, file=FILE)


@pytest.mark.parametrize("second", [event_of("a", 2, 0), event_of("b", 1, 0), event_of("a", 0, 0)])
def test_a_file_holds_the_events_of_one_process_without_gaps(second: Event) -> None:
    with pytest.raises(CorruptError):
        decode_file(encode_frame(event_of("a", 0, 0)) + encode_frame(second), file=FILE)


def test_files_are_merged_by_time_then_process_then_sequence_in_any_order_of_paths(tmp_path: Path) -> None:
    first = write(tmp_path / "1", event_of("b", 0, 1), event_of("b", 1, 3), event_of("b", 2, 3))
    second = write(tmp_path / "2", event_of("a", 0, 2), event_of("a", 1, 3))
    merged = [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2)]
    for paths in ([first, second], [second, first]):
        assert [(event.process, event.sequence) for event in read_history(paths).events] == merged


def test_two_files_of_one_process_are_an_error_of_the_second_by_name(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, event_of("a", 0, 1)) for name in ("1", "2")]
    for each in (paths, paths[::-1]):
        with pytest.raises(CorruptError) as caught:
            read_history(each)
        assert caught.value.problem.file == str(paths[1])


def test_a_frame_of_more_than_64_kib_is_an_error_although_it_is_whole() -> None:
    payload = json.dumps(["w", 0, "w", "pin", 1, None, None, "x" * PAYLOAD_BYTES_MAX]).encode()
    with pytest.raises(CorruptError):
        decode_file(FRAME_HEADER.pack(len(payload), crc32c.crc32c(payload)) + payload, file=FILE)


def test_torn_frames_of_all_files_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes((encode_frame(event_of(name, 0, 1)) * 2)[: -1 if name != "c" else None])
    (tmp_path / "c").write_bytes(encode_frame(event_of("c", 0, 1)))
    history = read_history(tmp_path.iterdir())
    assert ([event.process for event in history.events], history.torn_frames) == (["a", "b", "c"], 2)


def test_no_files_are_an_empty_history() -> None:
    assert read_history([]).events == ()
    assert to_arrow([]).equals(SCHEMA.empty_table())


def test_a_table_of_events_has_the_schema_and_says_the_same() -> None:
    table = to_arrow(EVENTS)
    assert table.schema == SCHEMA
    assert [Event(**{**row, "kind": EventKind(row["kind"])}) for row in table.to_pylist()] == EVENTS


def test_the_schema_has_the_fields_of_an_event_and_no_others() -> None:
    assert SCHEMA.names == list(Event.__slots__)
    nullable = {field.name for field in SCHEMA if field.nullable}
    assert nullable == {"version", "digest"}
    assert SCHEMA.field("time_ns").type == pa.int64()


def test_events_survive_the_sigkill_of_their_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tornproof.harness.common.history import EventKind, HistoryWriter\n"
        "writer = HistoryWriter(Path(sys.argv[1]), 'reader-0')\n"
        "for count in range(1_000_000):\n"
        "    writer.record(EventKind.READ_END, version=count, digest='d')\n"
        "    if count == 100: print('written', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / FILE],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "written\n"
        child.kill()
        assert child.wait() == -signal.SIGKILL
    history = read_history([tmp_path / FILE])
    assert [event.version for event in history.events] == list(range(len(history.events)))
    assert len(history.events) > 100
    assert history.torn_frames <= 1
