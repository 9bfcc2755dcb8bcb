"""A finding's maps name every byte of the files at the crash once: its state, its field, and whether it was read."""

import functools
import json
from dataclasses import replace
from typing import Any

import pytest
from depth import sampled
from file_maps import Map, is_whole

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.counterexamples.byte_map import DURABLE, STATES, file_map, whole
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog, Kill
from tornproof.harness.counterexamples.regions import PAST_TOKEN, fields_of
from tornproof.harness.counterexamples.run import Signature, run_log
from tornproof.harness.counterexamples.smaller import Candidate
from tornproof.harness.counterexamples.state_recorder import FILE_COUNT_MAX, StateRecorder
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.mutation.known import KNOWN
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.simulation import setting_of
from tornproof.harness.systems.workload import MADE_PATH, made_image

PM, DATA = "2024-01-01T00.0/_pm", "2024-01-01T00.0/data.parquet"
SWITCH, KILL, TAIL = (
    "reader decodes by the newest footer (questdb-9.4.2)",
    "orphan as the base of the next update (questdb-9.4.2)",
    "token from the file's size after a crash tail (H1)",
)
HEADER_FIRST, NO_FOOTER, TORN_RECORD, NO_NAME, REMOVED = (
    "header before body (F2)",
    "token without footer (F3)",
    "torn record (F4)",
    "missing name of a directory (F6)",
    "old directory removed before the new one is durable",
)
LOGS = {
    SWITCH: "writer@commit 0: unmap 2024-01-01T00/_pm #1 -> reader 1",
    KILL: "writer@commit 0: unmap 2024-01-01T00/_pm #1 is killed",
    TAIL: "writer@commit 0: open for writing 2024-01-01T00/_pm #1 is killed",
    HEADER_FIRST: "writer@commit 0: write 2024-01-01T00/_pm #1 -> reader 1",
    NO_FOOTER: 'writer@commit 0: sync the mapping _txn #2 loses power: B [null,{"t/2024-01-01T00.0/_pm":[0,0,[]]}]',
    TORN_RECORD: 'writer@commit 0: sync the mapping _txn #1 loses power: C-512 [null,{"t/_txn":[38,38,[[1,0]]]}]',
    NO_NAME: "writer@commit 0: sync the mapping _txn #2 loses power: Cdir [[],{}]",
    REMOVED: 'writer@commit 1: look at 2024-01-01T00/data.parquet #1 loses power: B [null,{"t/_txn":[0,0,[]]}]',
}


@functools.cache
def explained(name: str) -> dict[str, Any]:
    (defect,) = (each for each in KNOWN if each.name == name)
    case = replace(defect.setting().case, rules=NO_RULES)
    case = case if case.readers else replace(case, readers=(Readers(),))
    log = DecisionLog.parse(LOGS[name])
    with defect.planted(), remembered_decoding():
        violation = run_log(case, log).violations[0]
        explanation: dict[str, Any] = explain(Candidate(case, log), Signature.of(violation))
    return explanation


def maps(name: str) -> dict[str, Map]:
    return {each["file"]: each for each in explained(name)["files"]}


def ranges_in(found: Map, *states: str) -> list[tuple[int, int, str]]:
    return [(each["start"], each["end"], each["field"]) for each in found["ranges"] if each["state"] in states]


@pytest.mark.parametrize("name", sampled(3, list(LOGS)))
def test_the_maps_of_a_finding_name_every_byte_once(name: str) -> None:
    found = explained(name)["files"]
    assert found == json.loads(json.dumps(found)) and "_txn" in maps(name)
    for each in found:
        assert is_whole(each), each["file"]
        assert {part["state"] for part in each["ranges"]} <= set(STATES)
        assert all(
            left != right for left, right in zip(ranges_in(each, *STATES), ranges_in(each, *STATES)[1:], strict=False)
        )
    assert explained(name)["files_left_out"] == 0


def test_a_map_with_a_gap_or_bytes_twice_would_be_noticed() -> None:
    sound = maps(SWITCH)[PM]
    for change in ({"start": 1}, {"end": sound["ranges"][0]["end"] + 1}):
        assert not is_whole({**sound, "ranges": [{**sound["ranges"][0], **change}, *sound["ranges"][1:]]})
    assert not is_whole({**sound, "size_bytes": sound["size_bytes"] + 1})
    assert not is_whole({**sound, "read": [{"start": 0, "end": sound["size_bytes"] + 1}]})


@pytest.mark.parametrize("name", [SWITCH, KILL])
def test_an_orphan_is_what_is_written_and_not_committed(name: str) -> None:
    pm, data = maps(name)[PM], maps(name)[DATA]
    written = ranges_in(pm, "written")
    assert [field for _, _, field in written] == [
        "PARQUET_META_FILE_SIZE",
        "orphan block",
        "orphan footer",
        "orphan trailer",
    ]
    (token,) = (each["end"] for each in data["ranges"] if each["field"] == "magic at the end")
    appended = ranges_in(data, "written")
    assert appended[0][0] == token and appended[-1][1] == data["size_bytes"]
    assert 'newest generation: row group 1 column "v"' in [field for _, _, field in appended]
    assert 'row group 0 column "v"' in [field for _, _, field in ranges_in(data, "durable")]


def test_what_was_read_is_what_the_process_that_broke_the_property_read_last() -> None:
    found = maps(SWITCH)
    assert found[PM]["read"] == [{"start": 0, "end": found[PM]["size_bytes"]}]
    (row_group,) = found[DATA]["read"]
    names = [
        field for start, _, field in ranges_in(found[DATA], *STATES) if row_group["start"] <= start < row_group["end"]
    ]
    assert names == [f'row group 0 column "{name}"' for name in ("ts", "v", "s")]
    # The writer that recovers broke it, and not the one that was killed.
    assert maps(KILL)[PM]["read"] and not maps(TAIL)[DATA]["read"]


def test_the_state_is_that_at_the_crash_and_else_at_the_step_that_breaks_the_property() -> None:
    assert explained(SWITCH)["files_at"] == "when the property breaks"
    assert explained(KILL)["files_at"] == "when writer is killed"
    assert explained(NO_FOOTER)["files_at"] == "when the power is cut"
    # A second session appended to what the first one had left there.
    ((start, end, field),) = ranges_in(maps(TAIL)[DATA], "written")
    assert (end, field) == (maps(TAIL)[DATA]["size_bytes"], PAST_TOKEN) and start < end


def test_a_power_cut_shows_what_is_lost_beside_what_is_kept() -> None:
    found = maps(NO_FOOTER)
    assert ranges_in(found[PM], "lost") == [(0, 8, "PARQUET_META_FILE_SIZE")]
    assert ranges_in(found["_txn"], "kept") == [(0, 8, "VERSION")]
    assert not ranges_in(found[DATA], "lost", "torn", "kept")
    assert {(each["file"], each["start"]) for each in explained(NO_FOOTER)["bytes"]} == {(PM, 0), ("_txn", 0)}


def test_a_torn_record_has_fields_of_both_kinds() -> None:
    txn = maps(TORN_RECORD)["_txn"]
    assert "VERSION" in [field for _, _, field in ranges_in(txn, "kept")]
    assert {"TXN", "partition TOKEN"} <= {field for _, _, field in ranges_in(txn, "lost")}
    assert min(start for start, _, _ in ranges_in(txn, "lost")) >= 512


def test_files_whose_names_are_gone_are_shown() -> None:
    found = maps(NO_NAME)
    assert {each["state"] for each in found["2024-01-01T01.1/_pm"]["ranges"]} == {"no name"}
    assert {each["state"] for each in found[PM]["ranges"]} == {"durable"}
    # This file is gone, and the reader looked for it, because _txn names it.
    assert {each["state"] for each in maps(REMOVED)[PM]["ranges"]} == {"no name"}
    assert {each["state"] for each in maps(REMOVED)[DATA]["ranges"]} == {"durable"}


def test_a_file_that_does_not_decode_has_the_fields_of_the_start() -> None:
    pm = maps(HEADER_FIRST)[PM]
    assert ranges_in(pm, "written") == [(0, 8, "PARQUET_META_FILE_SIZE")]
    assert "CHECKSUM" in [field for _, _, field in ranges_in(pm, "durable")]


def test_what_never_decoded_has_no_fields() -> None:
    image = made_image()
    pm = next(path for path in image.files if path.endswith("/_pm"))
    damaged = image.with_file(pm, b"\xff" * 100)
    found = fields_of(damaged, damaged, MADE_PATH)
    assert pm not in found and f"{MADE_PATH}/_txn" in found
    torn = image.with_file(f"{MADE_PATH}/_txn", b"short")
    assert fields_of(torn, torn, MADE_PATH) == {} == fields_of(DiskImage(), DiskImage(), MADE_PATH)
    assert file_map("_pm", whole(DURABLE, 3), None, ())["ranges"] == [
        {"start": 0, "end": 3, "state": "durable", "field": ""}
    ]


def test_above_a_number_of_files_those_are_left_out_that_nothing_happened_to() -> None:
    case = setting_of(load_scenario("many-partitions-and-power-cut"), None).case
    kernel = case.kernel()
    path, number = max(kernel.paths())

    def files() -> tuple[list[str], int]:
        recorder = StateRecorder(replace(case, start=DiskImage()))
        recorder.deviated(Kill(Step("writer", "commit 0")), kernel)
        found, left_out_count = recorder.files()
        return [f"{case.path}/{each['file']}" for each in found], left_out_count

    shown, left_out_count = files()
    assert (len(shown), left_out_count) == (FILE_COUNT_MAX, len(kernel.files) - FILE_COUNT_MAX)
    assert left_out_count > 0 and shown == sorted(shown) and path not in shown
    kernel.files[number] = kernel.files[number].written(b"x", 0)
    shown, _ = files()
    assert len(shown) == FILE_COUNT_MAX and path in shown
