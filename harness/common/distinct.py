"""Cases that are there once, so that a count of them is one of different questions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Case = TypeVar("Case", bound=_Named)


def distinct(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return cases in their order without those of which the name and everything else is that of an earlier one."""
    seen: dict[tuple[str, str], Case] = {}
    for case in cases:
        # Not by `==`, to which 0.0 is -0.0 and a NaN is another one.
        seen.setdefault((case.name, repr(case)), case)
    return tuple(seen.values())
