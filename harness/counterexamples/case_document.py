"""A test case as JSON, complete: the target and what it encoded, the files of the start, and the operations.

A file cannot name code.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.common.system import Target
from tornproof.harness.counterexamples.encoded_groups import EncoderMemory
from tornproof.harness.counterexamples.log import shortest
from tornproof.harness.counterexamples.plain_data import (
    UNPACKED_LIMIT_BYTES,
    document_of,
    operation_of,
    packed,
    unpacked,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems import toy, toy_locks
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.table_rules import TableRules
from tornproof.impl.write.commit import Action, Protocol, RecoveryAction
from tornproof.impl.write.partition_change import RowGroupEncoder, WriterOptions

COUNT_MAX = 1_000
"""Of operations and reads: a real finding is small, and a file may be from anywhere."""
TOYS = {
    each.name: each
    for each in (
        toy.Toy,
        toy.HeaderFirst,
        toy.AcknowledgesFirst,
        toy.SwallowsErrors,
        toy.RecoversInPlace,
        toy.NeverDone,
        toy_locks.OrderedLocks,
        toy_locks.CrossedLocks,
        toy_locks.LockFile,
        toy_locks.BusyLockFile,
    )
}
ORDERS = ("update", "rewrite", "publish")
# The other options of an encoder do not matter, because the row groups that it made are stored.
SIZES = ("row_group_row_count_max", "rewrite_unused_ratio", "rewrite_unused_bytes")
_FIELDS = fields(TableOperation)


class UnknownTargetError(Exception):
    """The target, or its rules, cannot be made from the document."""


def case_document(case: TestCase) -> dict[str, Any]:
    """Return a test case as JSON."""
    image = case.kernel().image()
    return {
        "path": case.path,
        "target": target_document(case.target),
        "directories": sorted(image.directories),
        "start_files": {path: packed(content) for path, content in sorted(image.files.items())},
        "operations": [operation_document(operation) for operation in case.operations],
        "first_session": list(case.first_session),
        "second_session": list(case.second_session),
        "rules": _rules_document(case.rules),
        "readers": [asdict(readers) for readers in case.readers],
        **({"goes_on": True} if case.goes_on else {}),
        **({"links": [list(names) for names in image.links]} if image.links else {}),
    }


def case_of(document: Mapping[str, Any], target: Target | None = None, operations: Sequence[Any] = ()) -> TestCase:
    """Return the test case; a `target` and `operations` that only their own test can make are handed in.

    Raises UnknownTargetError, and for an invalid document KeyError, TypeError, ValueError, zlib.error, CorruptError,
    pa.ArrowInvalid.
    """
    left_bytes = UNPACKED_LIMIT_BYTES
    files: dict[str, bytes] = {}
    for path, text in document["start_files"].items():
        files[path] = unpacked(text, left_bytes)
        left_bytes -= len(files[path])
    given = {shortest(operation_document(each)): each for each in operations}
    operations = tuple(
        given[key] if (key := shortest(each)) in given else operation_from(each) for each in document["operations"]
    )
    readers = tuple(
        Readers(count=int(each["count"]), read_count=int(each["read_count"]), style=str(each["style"]))
        for each in document["readers"]
    )
    sessions = tuple(tuple(map(int, document[session])) for session in ("first_session", "second_session"))
    if any(not 0 <= number < len(operations) for session in sessions for number in session):
        raise ValueError("a session has operations that do not exist")
    if max([len(operations), *(each.count * each.read_count for each in readers)], default=0) > COUNT_MAX:
        raise ValueError(f"more than {COUNT_MAX} operations or reads")
    return TestCase(
        target=target_of(document["target"]) if target is None else target,
        path=str(document["path"]),
        operations=operations,
        first_session=sessions[0],
        second_session=sessions[1],
        readers=readers,
        rules=_rules_of(document["rules"], str(document["path"])),
        start=_image(files, document["directories"], document.get("links", ())),
        # In a file of an older release, and of a table, a writer's session ends with a commit that it rejects.
        goes_on=bool(document.get("goes_on", False)),
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


def _image(files: dict[str, bytes], directories: list[str], links: Sequence[Sequence[str]]) -> DiskImage:
    """Return an image with the directories of its files, with empty ones, and with several names of one file."""
    image = DiskImage.of_files(files)
    empty = {f"{directory}/x": b"" for directory in map(str, directories) if directory not in image.directories}
    return DiskImage(files, DiskImage.of_files({**files, **empty}).directories).with_links(links)


def with_memory(target: Target) -> Target:
    """Return the target with an encoder that remembers the row groups that it made."""
    if not isinstance(target, TableTarget):
        return target
    encode = target.encode.renewed() if isinstance(target.encode, EncoderMemory) else EncoderMemory(target.encode)
    return replace(target, encode=encode)


def target_document(target: Target) -> dict[str, Any]:
    """Return a target as JSON; only the name of one that cannot be stored."""
    if isinstance(target, TableTarget) and (preset := _preset_of(target)) is not None:
        return _table_document(target, preset)
    if type(target) in TOYS.values():
        return {"kind": "toy", "name": target.name}
    return {"kind": "other", "name": target.name}


def target_of(document: Mapping[str, Any]) -> Target:
    """Return the target; raises UnknownTargetError, and KeyError, TypeError, ValueError for an invalid document."""
    match document["kind"]:
        case "table":
            return _table_of(document)
        case "toy" if document["name"] in TOYS:
            return TOYS[document["name"]]()
    raise UnknownTargetError(f"a target that only its own test can make: {document['name']!r}")


def operation_document(operation: Any) -> Any:
    """Return an operation as JSON; one that is neither a table's nor plain data cannot be read back."""
    if isinstance(operation, TableOperation):
        return {"table": {each.name: _field_document(getattr(operation, each.name)) for each in _FIELDS}}
    try:
        return document_of(operation)
    except TypeError:
        return {"shown": repr(operation)}


def operation_from(document: Any) -> Any:
    """Return the operation; raises KeyError, TypeError, ValueError, pa.ArrowInvalid for an invalid document."""
    if not isinstance(document, dict) or "table" not in document:
        return operation_of(document, None)
    return TableOperation(**{name: _field_of(value) for name, value in document["table"].items()})


def _field_document(value: Any) -> Any:
    """Return a table, a number, a boolean or a tuple of them as JSON."""
    if isinstance(value, tuple):
        return [_field_document(each) for each in value]
    return {"arrow": base64.b64encode(arrow_bytes(value)).decode()} if isinstance(value, pa.Table) else value


def _field_of(document: Any) -> Any:
    if isinstance(document, list):
        return tuple(map(_field_of, document))
    if isinstance(document, dict):
        return pa.ipc.open_stream(base64.b64decode(document["arrow"])).read_all()
    return document if isinstance(document, bool) else int(document)


def _table_document(target: TableTarget, preset: Preset) -> dict[str, Any]:
    memory = target.encode
    return {
        "kind": "table",
        "name": target.name,
        "preset": preset.name,
        "protocol": _protocol_document(target.protocol),
        "options": {name: getattr(target.options, name) for name in SIZES},
        "encoded": memory.document() if isinstance(memory, EncoderMemory) else {},
    }


def _protocol_document(protocol: Protocol) -> dict[str, Any]:
    actions = {name: [action.name for action in getattr(protocol, name)] for name in (*ORDERS, "recovery")}
    return actions | {"remembers": protocol.remembers}


def with_present_actions(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the document of a test case with the actions of our writer as it is; None if it has no others."""
    target, present = document["target"], _protocol_document(HARDENED_PRESET.protocol)
    is_ours = target["kind"] == "table" and target["preset"] == target["name"] == HARDENED_PRESET.name
    if not is_ours or target["protocol"] == present:
        return None
    return {**document, "target": {**target, "protocol": present}}


def _preset_of(target: TableTarget) -> Preset | None:
    """Return the preset with the functions of the target, preferably that of its name; None if there is none."""
    named = [PRESETS[target.name]] if target.name in PRESETS else []
    encode = target.encode.inner if isinstance(target.encode, EncoderMemory) else target.encode
    fitting = [
        preset
        for preset in (*named, *PRESETS.values())
        if _in_order_of(preset.protocol, target.protocol) == target.protocol and preset.reader == target.reader
    ]
    # If no preset has the same encoder, any that fits will do: the row groups are stored.
    same = [preset for preset in fitting if preset.encode == encode]
    return next(iter([*same, *fitting]), None)


def _in_order_of(protocol: Protocol, other: Protocol) -> Protocol:
    """Return a protocol with its own functions and the actions of another one."""
    changes: dict[str, Any] = {name: getattr(other, name) for name in (*ORDERS, "recovery", "remembers")}
    return structs.replace(protocol, **changes)


def _table_of(document: Mapping[str, Any]) -> TableTarget:
    if document["preset"] not in PRESETS:
        raise UnknownTargetError(f"no preset is called {document['preset']!r}")
    preset, actions = PRESETS[document["preset"]], document["protocol"]
    orders: dict[str, Any] = {name: tuple(Action[action] for action in actions[name]) for name in ORDERS}
    recovery = tuple(RecoveryAction[action] for action in actions["recovery"])
    protocol = structs.replace(preset.protocol, **orders, recovery=recovery, remembers=bool(actions["remembers"]))
    encode: RowGroupEncoder = EncoderMemory.of_document(document["encoded"], preset.encode)
    if document["options"]["row_group_row_count_max"] < 1:
        raise ValueError("row_group_row_count_max is less than 1")
    if document["options"].keys() - set(SIZES):
        raise ValueError(f"options other than {', '.join(SIZES)}")
    options = WriterOptions(**document["options"])
    return TableTarget.of(preset, name=str(document["name"]), protocol=protocol, encode=encode, options=options)
