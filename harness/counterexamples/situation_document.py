"""A situation as JSON that holds all it needs: the start files, the operations, and what the encoder made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.counterexamples.packed import UNPACKED_LIMIT_BYTES, packed, unpacked
from tornproof.harness.counterexamples.target_document import (
    UnknownTargetError,
    operation_document,
    operation_from,
    target_document,
    target_of,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.situation import Readers, Situation
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.table_rules import TableRules

COUNT_MAX = 1_000
"""Of operations, readers and reads; a finding is small, and any file may say that it is one."""


def situation_document(situation: Situation) -> dict[str, Any]:
    """Return a situation as JSON."""
    image = situation.kernel().image()
    return {
        "path": situation.path,
        "target": target_document(situation.target),
        "directories": sorted(image.directories),
        "start_files": {path: packed(content) for path, content in sorted(image.files.items())},
        "operations": [operation_document(operation) for operation in situation.operations],
        "first_life": list(situation.first_life),
        "second_life": list(situation.second_life),
        "rules": _rules_document(situation.rules),
        "readers": [asdict(readers) for readers in situation.readers],
    }


def situation_of(document: Mapping[str, Any], target: Target | None = None) -> Situation:
    """Return the situation, for `target` where only its own test can make that.

    Raises UnknownTargetError, and for what is no situation KeyError, TypeError, ValueError, zlib.error, CorruptError,
    pa.ArrowInvalid.
    """
    room_bytes = UNPACKED_LIMIT_BYTES
    files: dict[str, bytes] = {}
    for path, text in document["start_files"].items():
        files[path] = unpacked(text, room_bytes)
        room_bytes -= len(files[path])
    operations = tuple(map(operation_from, document["operations"]))
    readers = tuple(
        Readers(count=int(each["count"]), read_count=int(each["read_count"]), style=str(each["style"]))
        for each in document["readers"]
    )
    lives = tuple(tuple(map(int, document[life])) for life in ("first_life", "second_life"))
    if any(not 0 <= number < len(operations) for life in lives for number in life):
        raise ValueError("a life has operations that there are not")
    if max([len(operations), *(each.count * each.read_count for each in readers)], default=0) > COUNT_MAX:
        raise ValueError(f"more than {COUNT_MAX} operations or reads")
    return Situation(
        target=target_of(document["target"]) if target is None else target,
        path=str(document["path"]),
        operations=operations,
        first_life=lives[0],
        second_life=lives[1],
        readers=readers,
        rules=_rules_of(document["rules"], str(document["path"])),
        start=_image(files, document["directories"]),
    )


def _rules_document(rules: TraceRules) -> dict[str, Any]:
    match rules:
        case TableRules():
            return {"kind": "table", "promises_barriers": rules.promises_barriers}
        case _ if type(rules) is TraceRules:
            return {"kind": "none"}
    return {"kind": "other", "name": type(rules).__name__}


def _rules_of(document: Mapping[str, Any], path: str) -> TraceRules:
    match document["kind"]:
        case "table":
            return TableRules(path, promises_barriers=bool(document["promises_barriers"]))
        case "none":
            return NO_RULES
    raise UnknownTargetError(f"rules that only their own test has: {document['name']!r}")


def _image(files: dict[str, bytes], directories: list[str]) -> DiskImage:
    """Return an image with the directories of its files, and those in which no file is."""
    image = DiskImage.of_files(files)
    empty = {f"{directory}/x": b"" for directory in map(str, directories) if directory not in image.directories}
    return DiskImage(files, DiskImage.of_files({**files, **empty}).directories)
