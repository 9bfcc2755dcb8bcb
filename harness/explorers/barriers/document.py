"""Outcomes of sets of barriers as data, and as the page on what a commit guarantees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.explorers.barriers.explorer import ALL, BARRIERS, Names, Outcome, minimal_safe_sets
from tornproof.harness.simulator.persistence.models import MODELS, Model, Source

SAFE, UNSAFE = "safe", "**unsafe**"
_PURPOSES = {
    "F1": "`data.parquet`, and new symbols, are on disk before the version that names their size",
    "F2": "the body of `_pm` is on disk before its header publishes it; a new `_pm` is on disk before the version",
    "F3": "the header of `_pm` is on disk before the version that needs the new generation",
    "F4": "the record in `_txn` is on disk before its version word",
    "F5": "the version word is on disk before the commit is acknowledged, and before the next record is stored",
    "F6": "new files and directories have their names on disk before the version that names them",
}
_INTRODUCTION = """\
# What a commit guarantees

This page is generated: `tornproof barriers --markdown` explores the implementation and writes it. Do not edit it.

- **A commit that was acknowledged survives** every later crash, under every model below that its barriers are safe in.
  The hardened commit, with all six, is {hardened}.
- **A commit that was not acknowledged is there as a whole or not at all** after the next recovery.
- **A version that was seen but not acknowledged may be lost by a power cut**: readers see a version as soon as its word
  is stored, and it is on disk only when the commit returns. While the machine runs, a version that was seen stays,
  whatever process dies.
- Recovery can be interrupted at any step and done again, and a second recovery changes nothing.
- After a failed sync the writer cannot be used any more; whether its commit survives, the next recovery decides.
- This was explored on one workload of three commits, which grow, merge, create, rewrite and purge partitions, with one
  record across a sector boundary: a crash after each call, in recoveries too. It is no proof for other workloads.
"""


_MODELS_INTRODUCTION = """\
## Models of persistence

What a crash may leave. A model permits at least what its file systems do, often more: ext4 mostly writes a file before
another one is replaced by it, and data=journal keeps one order of all files. Since the last sync of a file, each block
is that of any version, and the size that of any. New blocks are those in which the durable file has nothing but zeros,
and those that a truncation has freed since; stale bytes are one pattern, not the bytes of a similar file. `msync` keeps
what it syncs, but not that the file has grown; `fsync` and `fdatasync` keep that too (of a recorded program, `msync` as
well). A rename between two directories is durable as soon as one of them is synced. In N-512 the power is cut twice:
once in the first session, once in a recovery or a commit after it. Where it leaves directories of which each is in the
other, the name that leads back is not there, because fsck removes it.
"""


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what the command writes as JSON."""
    models = _models(outcomes)
    return {
        "format": 1,
        "barriers": [{"name": name, "actions": [action.value for action in BARRIERS[name]]} for name in ALL],
        "models": [
            {
                "name": model.name,
                "content": model.content,
                "names": model.names.value,
                "stands_for": model.stands_for,
                "contained_in": model.contained_in or None,
                "sources": [source._asdict() for source in model.sources],
                "minimal_safe_sets": [list(names) for names in minimal_safe_sets(outcomes, model)],
                "safe_set_count": sum(outcome.is_safe for outcome in outcomes if outcome.model == model),
                "set_count": sum(outcome.model == model for outcome in outcomes),
            }
            for model in models
        ],
        "outcomes": [
            {
                "barriers": list(outcome.barriers),
                "model": outcome.model.name,
                "safe": outcome.is_safe,
                "complete": outcome.is_complete,
                "disks": outcome.disk_count,
                "property": None if outcome.finding is None else outcome.finding.property,
                "sentence": None if outcome.finding is None else outcome.finding.sentence,
            }
            for outcome in outcomes
        ],
    }


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the page on guarantees, from outcomes of all sets under all models."""
    models = _models(outcomes)
    parts = [
        _INTRODUCTION.format(hardened=_hardened(outcomes)),
        "## Barriers\n\nA commit does F1 to F3 in each partition, then F6 if it created names, then F4 and F5.\n",
        markdown_table(("barrier", "what it is for"), [(name, _PURPOSES[name]) for name in ALL]),
        _MODELS_INTRODUCTION,
        markdown_table(
            ("model", "content of a file", "names", "what dies", "leaves only disks of"),
            [(each.name, each.content, each.names.value, _dies(each), each.contained_in or "–") for each in models],
        ),
        markdown_table(
            ("model", "stands for", "sources"),
            [(each.name, each.stands_for, ", ".join(map(_link, each.sources))) for each in models],
        ),
        "## Smallest safe sets\n\nOf each of these sets every smaller part is unsafe.\n",
        markdown_table(
            ("model", "smallest safe sets", "explored"),
            [
                (model.name, _sets(minimal_safe_sets(outcomes, model)), _completeness(outcomes, model))
                for model in models
            ],
        ),
        "## What breaks when one barrier is missing\n",
        markdown_table(
            ("missing", *(model.name for model in models)),
            [(name, *(_broken(outcomes, _but(name), model) for model in models)) for name in ALL],
        ),
        "## All sets\n",
        markdown_table(("barriers", *(model.name for model in models)), rows(outcomes)),
    ]
    return "\n".join(parts)


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the table of all sets, line by line."""
    models = _models(outcomes)
    found = {(outcome.barriers, outcome.model): outcome for outcome in outcomes}
    for names in dict.fromkeys(outcome.barriers for outcome in outcomes):
        yield (_set(names), *(SAFE if found[names, model].is_safe else UNSAFE for model in models))


def _models(outcomes: Sequence[Outcome]) -> list[Model]:
    explored = {outcome.model for outcome in outcomes}
    return [model for model in MODELS if model in explored]


def _but(missing: str) -> Names:
    return tuple(name for name in ALL if name != missing)


def _set(names: Names) -> str:
    return " ".join(names) or "none"


def _sets(sets: Sequence[Names]) -> str:
    return "; ".join(_set(names) if names else "no barrier is needed" for names in sets) or "no set"


def _hardened(outcomes: Sequence[Outcome]) -> str:
    unsafe = [outcome.model.name for outcome in outcomes if outcome.barriers == ALL and not outcome.is_safe]
    return f"**unsafe** in {', '.join(unsafe)}" if unsafe else "safe in all of them"


def _link(source: Source) -> str:
    return f"[{source.title}]({source.address})"


def _dies(model: Model) -> str:
    return "every process" if model.everything_dies else "the writer"


def _completeness(outcomes: Sequence[Outcome], model: Model) -> str:
    safe = [outcome for outcome in outcomes if outcome.model == model and outcome.is_safe]
    return "completely" if all(outcome.is_complete for outcome in safe) else "a sample"


def _broken(outcomes: Sequence[Outcome], names: Names, model: Model) -> str:
    outcome = next(each for each in outcomes if (each.barriers, each.model) == (names, model))
    return "–" if outcome.finding is None else outcome.finding.property
