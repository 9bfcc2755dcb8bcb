"""How versions and chains that differ are told: which partition, which field, both values."""

import pytest

from tornproof.harness.explorers.model_based.differences import difference_of_chains, difference_of_versions
from tornproof.model.table import DirectoryName, Entry, Version

A = Entry(directory=(1, -1), rows=(24,), token=900)
B = Entry(directory=(2, 7), rows=(3,), token=400)
NATIVE = Entry(directory=(3, -1), rows=(), token=-1)


def name_of(directory: DirectoryName) -> str:
    timestamp, name_txn = directory
    return f"day-{timestamp}" + (f".{name_txn}" if name_txn >= 0 else "")


def entry(base: Entry, **fields: object) -> Entry:
    return Entry(**{"directory": base.directory, "rows": base.rows, "token": base.token, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((A, B, NATIVE), ""),
        ((entry(A, rows=(23,)), B, NATIVE), "partition day-1 has the number of rows 23, and should have 24"),
        (
            (A, entry(B, token=1, directory=(2, 8)), NATIVE),
            "partition day-2.7 has the directory day-2.8, and should have day-2.7, the token 1, and should have 400",
        ),
        ((A, NATIVE), "partition day-2.7 is missing"),
        ((A, B, NATIVE, Entry(directory=(4, -1), rows=(1,), token=5)), "there is a partition day-4 that should not be"),
        ((B, A, NATIVE), "the partitions are in another order"),
        (
            (A, B, entry(NATIVE, rows=(2,), token=88)),
            "partition day-3 has the number of rows 2, and should have unknown, the token 88, and should have -1",
        ),
    ],
)
def test_what_differs_is_told_with_both_values(found: tuple[Entry, ...], text: str) -> None:
    assert (
        difference_of_versions(Version(number=6, entries=found), Version(number=6, entries=(A, B, NATIVE)), name_of)
        == text
    )


def test_another_number_none_and_many_differences() -> None:
    many = tuple(Entry(directory=(n, -1), rows=(n,), token=n) for n in range(9))
    wanted = Version(number=6, entries=many)
    assert difference_of_versions(None, wanted, name_of) == "version 6 cannot be read"
    assert (
        difference_of_versions(Version(number=5, entries=many), wanted, name_of)
        == "it has version 5, and should have 6"
    )
    assert difference_of_versions(Version(number=6), wanted, name_of).endswith("day-3 is missing; and so on in 5 more")


def test_chains_are_shown_as_far_as_they_differ() -> None:
    assert difference_of_chains([784], [700]) == "is token 784, and should be token 700"
    long = range(100, 0, -1)
    text = difference_of_chains(long, [*long[:9], 2])
    assert "token 91 and 90 older" in text and text.endswith("token 2")
    assert difference_of_chains([], [2]) == "is empty, and should be token 2"
