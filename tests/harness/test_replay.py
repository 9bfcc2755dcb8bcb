"""A finding is replayed only if the very same thing happens, not if anything at all is wrong."""

import dataclasses
from typing import Any

import pm_builder as pm
import pytest
import table_builder as tb
from msgspec import structs
from rejections import rejection

from tornproof.harness.common.patch import blind_to_metadata
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.harness.replay import replay_finding
from tornproof.impl.layout import pm as layout
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table

TABLE = tb.SMALL
# Whoever wrote this distinct count did not set its flag, so no encoder of ours writes it.
ODD = TABLE.with_file(tb.PM, pm.set_chunk(TABLE.files[tb.PM], "distinct_count", 7))
SHORT = TABLE.with_file(tb.DATA, TABLE.files[tb.DATA][:-1])
SIZES = {name: len(content) for name, content in TABLE.files.items()}
COLUMN_ID_BIT = 8 * (pm.descriptor_offset(1) + layout.ColumnDescriptor.layout.offset_of("id")) + 1
INVALID, VALID, UNKNOWN = Verdict.INVALID, Verdict.VALID, Verdict.UNKNOWN


def replayed(phase: str, evidence: dict[str, Any], table: tb.BuiltTable = TABLE) -> Verdict:
    finding = Finding(property="p", phase=phase, sentence="s", evidence=evidence)
    return replay_finding(finding, table.image(), "/table")


def without(evidence: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in evidence.items() if name != key}


def problem_evidence() -> dict[str, Any]:
    (problem,) = verify_table(open_table(SHORT.image(), "/table")).all_problems
    return structs.asdict(problem)


def mismatch_evidence() -> dict[str, Any]:
    (mismatch,) = reencode_generations(ODD.files[tb.PM], file=tb.PM).mismatches
    return {"file": tb.PM, **dataclasses.asdict(mismatch)}


def flip_evidence(**changes: Any) -> dict[str, Any]:
    return {"kind": "flip", "file": tb.PM, "bit": COLUMN_ID_BIT, **changes}


def test_a_problem_replays_in_its_table_and_not_in_the_repaired_one() -> None:
    assert replayed("verify", problem_evidence(), SHORT) is INVALID
    assert replayed("verify", problem_evidence(), TABLE) is VALID


@pytest.mark.parametrize(
    "changes",
    [{"file": tb.PM}, {"field": "MAGIC"}, {"offset_bytes": 1}, {"expected": "something else"}, {"actual": "another"}],
    ids=str,
)
def test_another_problem_is_not_the_one_that_was_found(changes: dict[str, Any]) -> None:
    assert replayed("verify", {**problem_evidence(), **changes}, SHORT) is VALID


def test_a_problem_of_a_damaged_meta_replays() -> None:
    damaged = TABLE.with_file("_meta", b"")
    evidence = structs.asdict(rejection(lambda: open_table(damaged.image(), "/table")))
    assert evidence["file"] == "_meta"
    assert replayed("verify", evidence, damaged) is INVALID
    assert replayed("verify", evidence, TABLE) is VALID


def test_a_problem_of_a_table_that_this_release_does_not_know_is_unknown() -> None:
    unknown = TABLE.with_file(tb.PM, pm.set_footer(TABLE.files[tb.PM], "footer_feature_flags", 1 << 63))
    assert replayed("verify", problem_evidence(), unknown) is UNKNOWN


def test_a_mismatch_replays_in_its_table_and_not_in_the_repaired_one() -> None:
    assert replayed("roundtrip", mismatch_evidence(), ODD) is INVALID
    assert replayed("roundtrip", mismatch_evidence(), TABLE) is VALID


@pytest.mark.parametrize("key", ["generation_end_bytes", "offset_bytes"])
def test_another_mismatch_is_not_the_one_that_was_found(key: str) -> None:
    evidence = mismatch_evidence()
    assert replayed("roundtrip", {**evidence, key: evidence[key] + 1}, ODD) is VALID


def test_silent_damage_replays_only_with_a_blind_reader() -> None:
    with blind_to_metadata():
        assert replayed("damage", flip_evidence()) is INVALID
    assert replayed("damage", flip_evidence()) is VALID


def test_other_damage_is_not_the_one_that_was_found() -> None:
    with blind_to_metadata():
        assert replayed("damage", flip_evidence(bit=0)) is VALID
        assert replayed("damage", {"kind": "cut", "file": tb.DATA, "size_bytes": SIZES[tb.DATA] - 1}) is VALID


@pytest.mark.parametrize("file", ["_txn", tb.PM, tb.DATA])
def test_damage_beyond_the_end_of_a_file_is_unknown(file: str) -> None:
    for inside, beyond in ((8 * SIZES[file] - 1, 8 * SIZES[file]), (0, -1)):
        assert replayed("damage", flip_evidence(file=file, bit=inside)) is VALID
        assert replayed("damage", flip_evidence(file=file, bit=beyond)) is UNKNOWN
    for inside, beyond in ((SIZES[file] - 1, SIZES[file]), (0, -1)):
        assert replayed("damage", {"kind": "cut", "file": file, "size_bytes": inside}) is VALID
        assert replayed("damage", {"kind": "cut", "file": file, "size_bytes": beyond}) is UNKNOWN


@pytest.mark.parametrize("number", [8.5, 8.0, "8", True, None])
def test_damage_at_what_is_no_number_is_unknown(number: Any) -> None:
    """A fraction was cut down to the integer below it, so that another damage was tried."""
    assert replayed("damage", flip_evidence(bit=number)) is UNKNOWN
    assert replayed("damage", {"kind": "cut", "file": tb.DATA, "size_bytes": number}) is UNKNOWN


@pytest.mark.parametrize("key", ["file", "field", "offset_bytes", "expected", "actual"])
def test_a_problem_without_a_key_is_unknown(key: str) -> None:
    assert replayed("verify", without(problem_evidence(), key), SHORT) is UNKNOWN


@pytest.mark.parametrize("key", ["file", "generation_end_bytes", "offset_bytes"])
def test_a_mismatch_without_a_key_is_unknown(key: str) -> None:
    assert replayed("roundtrip", without(mismatch_evidence(), key), ODD) is UNKNOWN


@pytest.mark.parametrize("key", ["kind", "file", "bit"])
def test_damage_without_a_key_is_unknown(key: str) -> None:
    with blind_to_metadata():
        assert replayed("damage", without(flip_evidence(), key)) is UNKNOWN


@pytest.mark.parametrize(
    ("phase", "evidence"),
    [
        ("another", {}),
        ("damage", flip_evidence(kind="melt")),
        ("damage", flip_evidence(file="_meta")),
        ("damage", flip_evidence(file="missing")),
        ("damage", flip_evidence(bit=None)),
        ("roundtrip", {"file": "2030-01-01.1/_pm", "generation_end_bytes": 1, "offset_bytes": 1}),
    ],
    ids=str,
)
def test_what_cannot_be_tried_is_unknown(phase: str, evidence: dict[str, Any]) -> None:
    assert replayed(phase, evidence) is UNKNOWN
