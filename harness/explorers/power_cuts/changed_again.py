"""What a recovery changes of the files that a recovery before it has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tornproof.harness.common.verdict import shortened, without_digits
from tornproof.harness.counterexamples.byte_map import differences
from tornproof.harness.simulator.persistence.legal_disks import Disk

SHOWN_MAX = 4
VALUE_CHARACTERS_MAX = 20
MAKES, REMOVES, CHANGES = "makes", "removes", "changes"


class Change(NamedTuple):
    """What becomes of a file, with the ranges of its bytes that differ, in words."""

    verb: str
    file: str
    ranges: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it has in common with changes that come from the same cause."""
        return f"{self.verb} {without_digits(self.file)}"

    @property
    def text(self) -> str:
        """Return it as words."""
        return f"{self.verb} {', '.join(self.ranges)} of {self.file}" if self.ranges else f"{self.verb} {self.file}"


def changes(before: Disk, after: Disk, path: str) -> Iterator[Change]:
    """Yield the files of a table that differ; the others have the same names and bytes."""
    old, new = before.files(), after.files()
    for each in sorted(old.keys() | new.keys()):
        file = each.removeprefix(f"{path}/")
        if each not in old or each not in new:
            yield Change(MAKES if each in new else REMOVES, file)
        elif old[each] != new[each]:
            yield Change(CHANGES, file, tuple(_ranges(old[each], new[each])))


def _ranges(old: bytes, new: bytes) -> Iterator[str]:
    for number, (start, end) in enumerate(differences(old, new)):
        if number == SHOWN_MAX:
            yield "others"
            return
        values = " → ".join(shortened(repr(content[start:end]), VALUE_CHARACTERS_MAX) for content in (old, new))
        yield f"bytes {start} to {end} ({values})"


def why_of(found: Sequence[Change]) -> dict[str, Any]:
    """Return the changes as the cause of a finding, in the form that causes have in evidence."""
    return {
        "cause": f"a second recovery {', '.join(each.text for each in found)}",
        "kind": ", ".join(each.kind for each in found),
        "passes_when": {"tried": 0, "enough": 0, "changes": []},
    }
