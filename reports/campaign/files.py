"""The documents of a campaign's directory: its spec, and its final result."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from tornproof.reports.kit.json_fields import Fields, read_document, shortened, visible
from tornproof.reports.kit.page import VERDICTS

CAMPAIGN_FILE = "campaign.json"
SUMMARY_FILE = "summary.json"
FORMAT = 2
GROUPS_MAX = 1000
NAME_CHARACTERS_MAX = 120
SENTENCE_CHARACTERS_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of the spec; one of the controls with which every campaign begins is in no spec, and has no seeds."""

    name: str
    is_control: bool
    first_seed: int | None = None
    seed_count: int | None = None
    seeds_a_task: int | None = None
    watches_steps: bool = False

    @property
    def seeds(self) -> str:
        """The first and last seed as text, empty if not known."""
        if self.first_seed is None or self.seed_count is None:
            return ""
        return f"{self.first_seed:,} to {self.first_seed + self.seed_count - 1:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The campaign of a directory."""

    name: str
    seed: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The final result of a campaign."""

    verdict: str
    result_hash: str
    run_count: int
    task_count: int
    notes: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def shown(text: str, characters_max: int = NAME_CHARACTERS_MAX) -> str:
    """Return text from a file for a page: invisible characters written out, and shortened."""
    return shortened(visible(text), characters_max)


def read_spec(directory: Path) -> Spec:
    """Return the spec in a directory; raises ResultError."""
    fields = _document(directory / CAMPAIGN_FILE)
    fields.demand_format(FORMAT)
    spec = fields.inner("spec")
    groups = [_group(group) for group in spec.inners("groups", GROUPS_MAX)]
    return Spec(
        name=shown(spec.text("name")),
        seed=spec.number("seed", 0),
        groups=tuple(groups),
    )


def read_end(directory: Path) -> End | None:
    """Return the final result, None for an incomplete campaign; raises ResultError."""
    path = directory / SUMMARY_FILE
    if not path.exists():
        return None
    fields = _document(path)
    verdict = fields.text("verdict")
    if verdict not in VERDICTS:
        fields.reject("verdict", f"one of {', '.join(VERDICTS)}", verdict)
    return End(
        verdict=verdict,
        result_hash=shown(fields.text("result_hash")),
        run_count=fields.number("runs"),
        task_count=fields.number("tasks"),
        notes=tuple(shown(note, SENTENCE_CHARACTERS_MAX) for note in fields.texts("notes")),
    )


def _document(path: Path) -> Fields:
    return Fields(read_document(path), file=str(path))


def _group(fields: Fields) -> Group:
    seeds = fields.inner("seeds")
    return Group(
        name=shown(fields.text("name")),
        is_control=fields.flag("control", False),
        first_seed=seeds.number("first", 0),
        seed_count=seeds.number("count"),
        seeds_a_task=fields.number("seeds_a_task", 200),
        watches_steps=fields.flag("watches_steps", True),
    )
