"""Groups findings of the same defect: the same property, and sentences that differ only in numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_DIGITS = re.compile(r"\d+")


class Violation(Protocol):
    """Anything with a violated property and a sentence."""

    @property
    def violated(self) -> str:
        """The violated property."""

    @property
    def sentence(self) -> str:
        """What happened."""


Each = TypeVar("Each", bound=Violation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Generic[Each]):
    """The first finding of a defect, and the others."""

    first: Each
    others: Sequence[Each]

    @property
    def all(self) -> list[Each]:
        """All findings, the first one first."""
        return [self.first, *self.others]


def folded(findings: Iterable[Each]) -> list[Fold[Each]]:
    """Return the findings grouped by defect, in the order of the first ones."""
    by_defect: dict[tuple[str, str], list[Each]] = {}
    for finding in findings:
        by_defect.setdefault((finding.violated, _DIGITS.sub("", finding.sentence)), []).append(finding)
    return [Fold(first=members[0], others=members[1:]) for members in by_defect.values()]


def by_property(folds: Iterable[Fold[Each]]) -> dict[str, list[Fold[Each]]]:
    """Return groups of findings by the property that they violate."""
    found: dict[str, list[Fold[Each]]] = {}
    for fold in folds:
        found.setdefault(fold.first.violated, []).append(fold)
    return found
