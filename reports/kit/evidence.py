"""Evidence of any kind as a readable list of names and values of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tornproof.reports.kit.json_fields import shortened, visible
from tornproof.reports.kit.page import fill

CHARACTERS_MAX = 300
ITEMS_MAX = 30
DEPTH_MAX = 5
ENTRIES_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name with its value: a text, or nested entries."""

    name: str
    text: str
    entries: Sequence[Entry] = ()


def evidence_list(evidence: Mapping[str, Any]) -> Markup:
    """Return the list as HTML; what is left out is counted."""
    return fill("evidence.html.j2", entries=_Walk().entries(evidence.items(), len(evidence), DEPTH_MAX))


class _Walk:
    """Converts JSON into at most ENTRIES_MAX entries."""

    def __init__(self) -> None:
        self._left = ENTRIES_MAX

    def entries(self, items: Iterable[tuple[str, Any]], count: int, depth: int) -> list[Entry]:
        entries = []
        for index, (name, value) in enumerate(items):
            if index == ITEMS_MAX or self._left <= 0:
                entries.append(Entry(name="…", text=f"{count - index:,} more are left out"))
                break
            self._left -= 1
            entries.append(self._entry(visible(shortened(str(name), CHARACTERS_MAX)), value, depth))
        return entries

    def _entry(self, name: str, value: Any, depth: int) -> Entry:
        match value:
            case Mapping() | list() if value and depth == 1:
                return Entry(name=name, text=f"{len(value):,} values, too deep to be shown")
            case Mapping() if depth < DEPTH_MAX and value and all(map(_is_scalar, value.values())):
                return Entry(
                    name=name, text=_plain_text([f"{key}: {_scalar_text(each)}" for key, each in value.items()])
                )
            case Mapping() if value:
                return Entry(name=name, text="", entries=self.entries(value.items(), len(value), depth - 1))
            case list() if not all(map(_is_scalar, value)):
                numbered = ((f"{number}", each) for number, each in enumerate(value, 1))
                return Entry(name=name, text="", entries=self.entries(numbered, len(value), depth - 1))
            case list():
                return Entry(name=name, text=_plain_text(value))
        return Entry(name=name, text=visible(shortened(_scalar_text(value), CHARACTERS_MAX)))


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list)


def _scalar_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plain_text(values: Sequence[Any]) -> str:
    """Return values that are neither lists nor objects as one text."""
    shown = "; ".join(map(_scalar_text, values[:ITEMS_MAX]))
    more = f"; and {len(values) - ITEMS_MAX:,} more" if len(values) > ITEMS_MAX else ""
    return (visible(shortened(shown, CHARACTERS_MAX)) + more) or "none"
