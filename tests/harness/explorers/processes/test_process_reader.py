"""Which reads of a process are repeated beside a writer."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tornproof.harness.explorers.processes.messages import HAS_READ, READ
from tornproof.harness.explorers.processes.reader import LATER_COMMITS, _Reading
from tornproof.impl.errors import CorruptError, FileMissingError, StorageError

GONE = FileMissingError("_pm", "open", "it is not there")


@pytest.mark.parametrize(
    ("error", "versions", "is_repeated"),
    [
        (GONE, (1, 2), True),
        (GONE, (1, 1), False),
        (CorruptError("_pm", "file", None, "a file", "none"), (1, 2), True),
        (CorruptError("_pm", "CHECKSUM", 8, 1, 2), (1, 2), False),
    ],
)
def test_only_who_misses_a_file_of_an_older_version_reads_again(
    error: Exception, versions: tuple[int, ...], is_repeated: bool
) -> None:
    """What is torn beside a commit must be recorded, and not read once more."""
    seen: Iterator[int] = iter((*versions, versions[-1]))
    table = SimpleNamespace(transaction=lambda: SimpleNamespace(version=next(seen)))
    answers = iter((error, (2, "digest")))

    def read() -> tuple[int, str]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reading = _Reading.__new__(_Reading)
    reading._table = table  # type: ignore[assignment]  # no more is asked of it
    if is_repeated:
        assert reading._reloading(read) == (2, "digest")
    else:
        with pytest.raises(type(error)):
            reading._reloading(read)


def test_a_pinned_reader_does_not_wait_for_one_exact_version() -> None:
    """The version that it waits for may have passed between two looks."""
    polls = iter(range(3))
    seen = iter((1, 3, 1 + LATER_COMMITS + 1))
    reading = _Reading.__new__(_Reading)
    reading._connection = SimpleNamespace(poll=lambda _: next(polls) is None)
    reading._table = SimpleNamespace(  # type: ignore[assignment]
        transaction=lambda: SimpleNamespace(version=next(seen))
    )
    reading._wait_for_commits(1)
    assert [*seen] == []


def test_a_reader_whose_reads_all_failed_answers_too() -> None:
    """The parent waits for a read, not for a good one."""
    sent = list[str]()
    reading = _Reading.__new__(_Reading)
    reading.version = None
    reading._connection = SimpleNamespace(send=sent.append)
    assert reading.takes(READ) and not sent
    reading.answer()
    reading.answer()
    assert sent == [HAS_READ]


def test_a_read_that_a_full_disk_ends_is_no_failed_read() -> None:
    """A pin is a file, too."""

    def read() -> tuple[int, str]:
        raise StorageError("_pins", "write", "no space is left") from OSError(errno.ENOSPC, "full")

    with pytest.raises(StorageError):
        _Reading.__new__(_Reading)._end(read)
