"""Work beside the reading thread gives what work at once gives, in the same order, and its errors."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import golden_data
import pyarrow as pa
import pytest
import table_builder as tb
from command_line import TIMEOUT_SECONDS
from depth import sampled

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.read import reader
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.decoding import AHEAD_BYTES_MAX, SMALL_BYTES, SYNCHRONOUS, Decoding, InOrder, by_threads
from tornproof.impl.read.reader import AHEAD_GROUP_COUNT_MAX, AHEAD_ROW_COUNT, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table


def test_synchronous_work_is_done_before_its_result_is_requested() -> None:
    done = []
    wait = SYNCHRONOUS.start(lambda: done.append(1))
    assert done == [1] and wait() is None and done == [1]


def test_work_of_threads_is_done_elsewhere() -> None:
    with by_threads() as decoding:
        threads = [decoding.start(threading.get_ident) for _ in range(4)]
        assert threading.get_ident() not in [thread() for thread in threads]
        assert decoding.ahead_count >= 1


def test_small_work_is_done_in_the_reading_thread_when_its_result_is_due() -> None:
    threads: list[int] = []

    def work() -> None:
        threads.append(threading.get_ident())

    with by_threads() as decoding:
        results: InOrder[None] = InOrder(decoding)
        results.begin(work, SMALL_BYTES - 1)
        assert not threads
        list(results.rest())
        results.begin(work, SMALL_BYTES)
        list(results.rest())
    assert threads[0] == threading.get_ident() != threads[1]
    at_once: InOrder[None] = InOrder(SYNCHRONOUS)
    at_once.begin(work, 1)
    assert len(threads) == 3


def test_an_error_comes_where_the_result_would() -> None:
    def fail() -> None:
        raise ValueError("no")

    with by_threads() as decoding:
        wait = decoding.start(fail)
        with pytest.raises(ValueError, match="no"):
            wait()


def test_nothing_is_under_way_behind_the_block_and_nothing_begins_there() -> None:
    entered, leave, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        entered.set()
        leave.wait()
        done.append("slow")

    with by_threads() as decoding:
        for _ in range(4 * decoding.ahead_count):
            decoding.start(slow)
        entered.wait()
        leave.set()
        count_at_end = len(done)
    begun = len(done)
    with by_threads() as decoding:
        decoding.start(lambda: None)()
    assert count_at_end <= begun == len(done)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    # Another program, because a test runner with threads is not to be forked.
    program = (
        "import os\n"
        "from tornproof.impl.storage.checksum import HALF_BYTES_MIN, large_crc32\n"
        "from tornproof.impl.read.decoding import by_threads\n"
        "def work():\n"
        "    with by_threads() as decoding:\n"
        "        assert decoding.start(lambda: 7)() == 7\n"
        "    assert large_crc32(bytes(2 * HALF_BYTES_MIN)) > 0\n"
        "work()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    work()\n"
        "    os._exit(0)\n"
        "os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=TIMEOUT_SECONDS, check=False).returncode == 0


@pytest.mark.parametrize("name", sampled(5, golden_data.TABLES))
def test_threads_find_what_is_found_synchronously(questdb_data: Path, name: str) -> None:
    path = str(questdb_data / name / "table")
    table = open_table(OperatingSystemStorage(), path)
    with by_threads() as decoding:
        assert verify_table(table, decoding=decoding) == verify_table(table)


@pytest.mark.parametrize(
    ("group_row_count", "ahead_row_count", "begun_count"),
    [(2, AHEAD_ROW_COUNT, 1 + AHEAD_GROUP_COUNT_MAX), (2, 7, 5), (100, 100, 2)],
)
def test_threads_read_row_groups_in_their_order_and_no_more_of_them_ahead_than_keeps_them_busy(
    monkeypatch: pytest.MonkeyPatch, group_row_count: int, ahead_row_count: int, begun_count: int
) -> None:
    monkeypatch.setattr(reader, "AHEAD_ROW_COUNT", ahead_row_count)
    values = pa.array(range(group_row_count * 20))
    built = tb.build({"v": (TypeTag.LONG, values)}, row_group_size=group_row_count)
    snapshot = open_snapshot(open_table(MemoryStorage.of(built.image()), "/table"))
    counters = ReadCounters()
    with by_threads() as decoding:
        batches = snapshot.batches(["v"], counters=counters, decoding=decoding)
        first = next(batches)
        assert counters.scanned_row_count == begun_count * group_row_count
        found = pa.Table.from_batches([first, *batches])
    assert found["v"].combine_chunks().equals(values)
    counters = ReadCounters()
    next(snapshot.batches(["v"], counters=counters))
    assert counters.scanned_row_count == group_row_count


def test_results_come_in_the_order_of_their_beginning_and_few_bytes_are_under_way() -> None:
    begun: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        def work() -> int:
            begun.append(number)
            return number

        return work

    later = Decoding(start=lambda work: work, ahead_count=3)
    results: InOrder[int] = InOrder(later)
    for number in range(4):
        results.begin(piece(number), 1)
    assert list(results.due()) == [0] == begun
    results.begin(piece(4), AHEAD_BYTES_MAX)
    assert list(results.due()) == [1, 2, 3]
    results.begin(piece(5), 1)
    assert (list(results.due()), list(results.rest()), list(results.rest())) == ([4], [5], [])


def test_synchronous_results_are_due_immediately() -> None:
    results: InOrder[int] = InOrder(SYNCHRONOUS)
    results.begin(lambda: 1, 0)
    assert list(results.due()) == [1]
