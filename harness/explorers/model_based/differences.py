"""How what was found on disk differs from what the model has, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tornproof.model.table import DirectoryName, Entry, Version

PARTS_MAX = 4
GENERATIONS_SHOWN_MAX = 6


def difference_of_versions(found: Version | None, expected: Version, name_of: Callable[[DirectoryName], str]) -> str:
    """Return in which entries a version on disk, with counts for rows, differs; "" where it does not."""
    if found is None:
        return f"version {expected.number} cannot be read"
    if found.number != expected.number:
        return f"it has version {found.number}, and should have {expected.number}"
    parts = list(_differing(found.entries, expected.entries, name_of))
    left = f"; and so on in {len(parts) - PARTS_MAX} more" if len(parts) > PARTS_MAX else ""
    return "; ".join(parts[:PARTS_MAX]) + left


def difference_of_chains(found: Sequence[int], expected: Sequence[int]) -> str:
    """Return the tokens of both chains, newest first, as far as the first difference."""
    same = next((n for n, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), None)
    shown = GENERATIONS_SHOWN_MAX if same is None else max(GENERATIONS_SHOWN_MAX, same + 1)
    return f"is {_generations(found, shown)}, and should be {_generations(expected, shown)}"


def _differing(
    found: Sequence[Entry], expected: Sequence[Entry], name_of: Callable[[DirectoryName], str]
) -> Iterator[str]:
    by_time = {entry.directory[0]: entry for entry in found}
    for wanted in expected:
        entry = by_time.pop(wanted.directory[0], None)
        name = name_of(wanted.directory)
        if entry is None:
            yield f"partition {name} is missing"
        elif entry != wanted:
            yield f"partition {name} has {_of_entry(entry, wanted, name_of)}"
    for entry in by_time.values():
        yield f"there is a partition {name_of(entry.directory)} that should not be"
    if not by_time and found != expected and {*found} == {*expected}:
        yield "the partitions are in another order"


def _of_entry(entry: Entry, wanted: Entry, name_of: Callable[[DirectoryName], str]) -> str:
    """Return the fields of an entry that differ, each with both values."""
    fields = (
        ("the directory", name_of(entry.directory), name_of(wanted.directory)),
        ("the number of rows", *(str(each.rows[0]) if each.rows else "unknown" for each in (entry, wanted))),
        ("the token", str(entry.token), str(wanted.token)),
    )
    return ", ".join(
        f"{field} {is_now}, and should have {should_be}" for field, is_now, should_be in fields if is_now != should_be
    )


def _generations(chain: Sequence[int], count_max: int) -> str:
    shown = ", ".join(f"token {token}" for token in chain[:count_max])
    more = f" and {len(chain) - count_max} older" if len(chain) > count_max else ""
    return (shown or "empty") + more
