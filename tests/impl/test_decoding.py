"""Work beside the reading thread gives what work at once gives, in the same order, and its errors."""

from __future__ import annotations

import threading
from pathlib import Path

import golden_data
import pytest

from impl.decoding import AT_ONCE, by_threads
from impl.operating_system import OperatingSystemStorage
from impl.table import open_table
from impl.verify import verify_table


def test_work_at_once_is_done_before_it_is_asked_for() -> None:
    done = []
    wait = AT_ONCE.start(lambda: done.append(1))
    assert done == [1] and wait() is None and done == [1]


def test_work_of_threads_is_done_elsewhere() -> None:
    with by_threads() as decoding:
        threads = [decoding.start(threading.get_ident) for _ in range(4)]
        assert threading.get_ident() not in [thread() for thread in threads]
        assert decoding.ahead_count >= 1


def test_an_error_comes_where_the_result_would() -> None:
    def fail() -> None:
        raise ValueError("no")

    with by_threads() as decoding:
        wait = decoding.start(fail)
        with pytest.raises(ValueError, match="no"):
            wait()


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_threads_find_what_is_found_at_once(questdb_data: Path, name: str) -> None:
    path = str(questdb_data / name / "table")
    table = open_table(OperatingSystemStorage(), path)
    with by_threads() as decoding:
        assert verify_table(table, decoding=decoding) == verify_table(table)
