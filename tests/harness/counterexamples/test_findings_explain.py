"""The explanation of a finding follows from its evidence, and names the decisive step."""

from pathlib import Path
from typing import Any

import pytest
from broken_toys import FOUND
from random_runs import VERSION_BEFORE_RECORD, cut_finding, found, switched_finding, table_case, toy_case

from tornproof.harness.common.system import Field
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.actions import ActionNames
from tornproof.harness.counterexamples.byte_map import crash_ranges
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.explain import CLAUSES, explain
from tornproof.harness.counterexamples.lanes import LaneRecorder, Row
from tornproof.harness.counterexamples.log import DecisionLog, Kill, Switch, moved_to, parse_deviation, shortest
from tornproof.harness.counterexamples.regions import own_fields
from tornproof.harness.counterexamples.replay_engine import disk_after
from tornproof.harness.counterexamples.run import Replayer, Signature, run_log
from tornproof.harness.counterexamples.smaller import Candidate, simpler_choices
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.counterexamples.words import GONE, byte_lines, lane_cells, sentences
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.models import C_8, C_512, B
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, SwallowsErrors, Toy


def explanation(finding: Finding) -> dict[str, Any]:
    explained: dict[str, Any] = finding.evidence["explanation"]
    return explained


def test_every_property_has_a_clause() -> None:
    names = {value for name, value in vars(Property).items() if name.isupper()}
    assert CLAUSES.keys() == names
    page = (Path(__file__).parents[3] / "docs" / "how-it-works.md").read_text()
    for clause in CLAUSES.values():
        assert f"| {' | '.join(clause.split(': ', 1))} |" in page


def test_the_cause_is_the_step_before_the_switch_and_the_one_that_was_still_to_come() -> None:
    cause = explanation(switched_finding())["cause"]
    assert cause["client"] == "writer"
    assert cause["done"].startswith("commit 0: store a word 2024-01-01T")
    assert cause["done"].endswith("/_pm #1")
    assert cause["not_yet"] == cause["done"].replace("store a word", "write")


def test_the_nearest_neighbour_passes_by_one_step_of_one_decision() -> None:
    for finding in (switched_finding(), cut_finding()):
        case = case_of(finding.evidence["test_case"])
        log = DecisionLog.of_document(finding.evidence["log"])
        neighbour = explanation(finding)["neighbour"]
        (decision,) = [each for each in log.deviations if each == parse_deviation(neighbour["decision"])]
        kept = [each for each in log.deviations if each != decision]
        if neighbour["change"] == "one step earlier":
            call = explanation(finding)["cause"]["done"]
            kept.append(moved_to(decision, parse_deviation(f"{decision.at.process}@{call} is killed").at))
        result = run_log(case, DecisionLog(tuple(kept)))
        assert (result.violations, result.dropped) == ((), ())


def test_a_run_that_breaks_the_property_too_is_no_neighbour() -> None:
    case = table_case(protocol=VERSION_BEFORE_RECORD)
    log = DecisionLog.parse("writer@commit 0: store a word _txn #14 -> reader 1")
    (violation,) = run_log(case, log).violations
    assert explain(Candidate(case, log), Signature.of(violation))["neighbour"]["change"] == "left out"


def test_lanes_show_who_did_what_when_and_what_was_durable() -> None:
    rows = explanation(switched_finding())["lanes"]
    assert [row["lane"] for row in rows] == ["writer", "writer", "readers"]
    assert (rows[0]["client"], rows[0]["operation"]) == ("writer", "open")
    assert rows[1]["does"][-1].startswith("store a word")
    assert rows[1]["disk"].startswith("not durable: 2024-01-01T")
    assert "read _txn x4" in rows[2]["does"] and rows[2]["ends"][0].startswith("is refused")
    assert lane_cells(rows[2], raw=True)[1].startswith(f"reader 1, read 1: {'; '.join(rows[2]['does'][:2])}; ")
    assert lane_cells(rows[2])[1].startswith(f"reader 1, read 1: {'; '.join(rows[2]['actions'][:2])}; ")
    assert lane_cells(rows[1])[1:] == ["", rows[1]["disk"]] and not lane_cells(rows[2])[0]
    assert lane_cells({**rows[0], "does": [], "actions": [], "disk": "all durable"}) == [
        "writer, open",
        "",
        "all durable",
    ]


def decisive(rows: list[dict[str, Any]]) -> tuple[str, str, str]:
    (row,) = [row for row in rows if row["is_decisive"]]
    return row["client"], row["operation"], row["happens"]


def test_the_decisive_row_is_where_the_decision_takes_effect_that_the_neighbour_changes() -> None:
    rows, beside = explanation(switched_finding())["lanes"], explanation(switched_finding())["neighbour"]["lanes"]
    assert decisive(rows) == decisive(beside) == ("reader 1", "read 1", "switch")
    assert rows[-1]["ends"][0].startswith("is refused") and not any("is refused" in str(row["ends"]) for row in beside)
    assert decisive(explanation(cut_finding())["lanes"])[2] == "power"
    assert [row["happens"] for row in explanation(cut_finding())["lanes"]].count("power") == 1


def test_where_the_decision_is_left_out_its_step_is_decisive_and_without_any_the_end_is() -> None:
    case = toy_case(AcknowledgesFirst(), first_session=(0, 1), second_session=(), readers=(Readers(),))
    log = DecisionLog.parse("writer@commit 1: open for reading state #1 is killed")
    (violation,) = run_log(case, log).violations
    explained = explain(Candidate(case, log), Signature.of(violation))
    assert explained["neighbour"]["change"] == "left out"
    assert decisive(explained["lanes"]) == ("writer", "commit 1", "kill")
    assert decisive(explained["neighbour"]["lanes"]) == ("writer", "commit 1", "")
    lanes = LaneRecorder(case, DecisionLog())
    lanes.rows += [Row("writer", "open"), Row("reader 1", "read 1")]
    assert decisive(lanes.document(None)) == ("reader 1", "read 1", "")
    (at_the_end,) = DecisionLog.parse("writer@end is killed").deviations
    assert decisive(lanes.document(at_the_end)) == ("writer", "open", "")


def test_a_process_that_runs_by_the_policy_is_no_switch() -> None:
    case = table_case(readers=1)
    log = DecisionLog.parse("writer@commit 0: write _txn #1 -> reader 1")
    lanes = LaneRecorder(case, log)
    with Replayer(case) as replayer:
        replayer.play(log, observer=lanes)
    happens = [(row["client"], row["happens"]) for row in lanes.document(None)]
    assert not any(happened for _, happened in happens) and happens[-1] == ("reader 1", "")
    switched = LaneRecorder(case, log)
    switched.rows.append(Row("writer", "commit 0"))
    switched.deviated(Kill(Step("reader 1", "read 1")), case.kernel())
    assert [type(each) for each in switched.rows[-1].decisions] == [Switch, Kill]


def test_each_switch_is_in_the_row_in_which_it_takes_effect_and_in_no_other() -> None:
    steps = ("store a word _txn #14", "store a word _txn #15")
    log = DecisionLog.parse("\n".join(f"writer@commit 0: {step} -> reader 1" for step in steps))
    lanes = LaneRecorder(table_case(readers=1), log)
    for number in range(3):
        lanes.rows.append(Row("writer", "commit 0"))
        lanes.deviated(Kill(Step("reader 1", f"read {number}")), lanes.case.kernel())
    switches = [[each for each in row.decisions if isinstance(each, Switch)] for row in lanes.rows[1::2]]
    assert switches == [[log.deviations[0]], [log.deviations[1]], []]


def test_the_narrative_is_the_sentences() -> None:
    for finding in (switched_finding(), cut_finding()):
        assert explanation(finding)["narrative"] == sentences(finding.property, finding.evidence)


def test_the_sentences_say_let_then_however_what_prevents_it_and_the_nearest_run() -> None:
    broken, let, then, however, *prevented, nearest = sentences(
        switched_finding().property, switched_finding().evidence
    )
    assert broken.startswith(f"Broken: {Property.REJECTED} (") and broken.endswith(f"{CLAUSES[Property.REJECTED]}.")
    assert let == "Let a writer commit 1 operation (0 writes 2 rows) beside 1 reader."
    assert then.startswith("Then reader 1 runs while writer stands in 'commit 0' after “publish _pm size ")
    assert "” and before “append bytes " in then
    assert however.startswith("However, reader 1 is refused: ") and "PARQUET_META_FILE_SIZE" in however
    assert all(each.startswith("It does not happen when ") for each in prevented) and len(prevented) == 4
    assert "small changes of the run tried, 4 enough.)" in prevented[-1]
    assert nearest.startswith("Nearest run that passes: the same, but one step earlier: reader 1 runs while writer")
    assert "reader 1 sees version " in nearest


@pytest.mark.parametrize(
    ("target", "crashes", "words"),
    [
        (AcknowledgesFirst(), ("kill",), "the process of writer is killed"),
        (SwallowsErrors(), ("fail", C_512), "a call of writer fails (input/output error): sync the data new"),
        (HeaderFirst(), (C_8,), "the power is cut after the end of writer, and the disk has what model C-8 allows"),
    ],
    ids=["kill", "fail", "power"],
)
def test_each_kind_of_decision_has_words(target: HeaderFirst, crashes: tuple[Any, ...], words: str) -> None:
    finding = found(toy_case(target), *crashes)
    assert any(words in sentence for sentence in sentences(finding.property, finding.evidence))


def test_what_each_of_several_power_cuts_left_is_said_but_not_where_older_evidence_does_not_tell_them_apart() -> None:
    finding = found(toy_case(HeaderFirst()), C_8)
    (cut,) = finding.evidence["log"]
    evidence = {**finding.evidence, "log": [cut, cut]}
    two = {**explanation(finding), "decisions": ["", ""], "stands": []}
    lost = {"file": "log", "start": 0, "end": 3, "state": "lost", "fields": []}

    def said(*ranges: dict[str, Any]) -> list[str]:
        lines = sentences(finding.property, {**evidence, "explanation": {**two, "bytes": ranges}})
        return [line.partition("model C-8 allows")[2] for line in lines if line.startswith("Then the power is cut ")]

    assert said({**lost, "decision": 1}) == [
        ": all that was written.",
        ": log has lost what was written to bytes 0 to 3.",
    ]
    kept = {**lost, "state": "kept", "decision": 0}
    assert said(kept)[0] == ": log already has the change of bytes 0 to 3."
    assert said(kept, {**kept, "state": "lost"})[0] == ": log has lost what was written to bytes 0 to 3."
    assert said(lost) == [".", "."]


@pytest.mark.nightly
def test_a_crash_shows_which_fields_were_lost_and_which_kept() -> None:
    finding = cut_finding(B)
    ranges = explanation(finding)["bytes"]
    assert {each["state"] for each in ranges} == {"kept", "lost"}
    (header,) = [each for each in ranges if each["file"].endswith("_pm") and each["start"] == 0]
    assert (header["state"], header["fields"]) == ("kept", ["PARQUET_META_FILE_SIZE"])
    (data,) = [each for each in ranges if each["state"] == "lost"]
    assert f"   lost  {data['file']} [{data['start']}, {data['end']})" in byte_lines(finding.evidence)


class Labelled(Toy):
    def fields(self, file: str, content: bytes) -> list[Field]:
        if file == "new":
            raise ZeroDivisionError
        return [Field(0, 20, f"start of {file}"), Field(16, 16, "second")]


CASE = TestCase(target=Labelled(), path="t", operations=(), first_session=())


def kernel_of(old: bytes, *later: bytes) -> Kernel:
    kernel = Kernel.of(DiskImage.of_files({"t/f": old}))
    ((_, number),) = kernel.paths()
    kernel.files[number] = FileState(later[-1] if later else old, (old, *later))
    return kernel


def states_after_cut(kernel: Kernel, choice: str) -> list[tuple[int, int, str]]:
    ranges = crash_ranges(kernel, disk_after(kernel, "C-8", choice), CASE)
    return [(each["start"], each["end"], each["state"]) for each in ranges]


def test_ranges_are_kept_lost_and_torn() -> None:
    kernel = kernel_of(b"a" * 64, b"b" * 16 + b"a" * 16 + b"c" * 16 + b"a" * 16 + b"d" * 8)
    assert states_after_cut(kernel, "[null,{}]") == [(0, 16, "kept"), (32, 48, "kept"), (64, 72, "kept")]
    assert states_after_cut(kernel, '[null,{"t/f":[0,0,[]]}]') == [(0, 16, "lost"), (32, 48, "lost"), (64, 72, "lost")]
    assert states_after_cut(kernel, '[null,{"t/f":[1,1,[[0,0]]]}]')[0] == (0, 16, "torn")
    assert states_after_cut(kernel_of(b"a" * 64), "[null,{}]") == []


def test_ranges_have_the_names_of_the_targets_own_fields() -> None:
    kernel = kernel_of(b"a" * 64, b"b" * 20 + b"a" * 28 + b"c" * 16)
    ranges = crash_ranges(kernel, disk_after(kernel, "C-8", "[null,{}]"), CASE)
    assert [each["fields"] for each in ranges] == [["start of f"], []]
    kernel = kernel_of(b"a" * 64, b"b" * 24 + b"a" * 40)
    (found,) = crash_ranges(kernel, disk_after(kernel, "C-8", "[null,{}]"), CASE)
    assert found["fields"] == ["start of f", "second"]


@pytest.mark.parametrize("end", FOUND)
def test_a_target_that_exits_when_it_is_asked_for_its_fields_loses_no_finding(end: type[BaseException]) -> None:
    class Exits(Toy):
        def fields(self, file: str, content: bytes) -> list[Field]:
            raise end

    assert own_fields(Exits(), DiskImage.of_files({"t/f": b"a"}), "t") == {}
    write = Call(CallKind.PWRITE, "t/f", content=b"b")
    assert ActionNames(Exits(), "t", {}).action(write, b"a", b"b").file == "f"


def test_a_name_that_leads_to_the_file_of_before_is_reported() -> None:
    kernel = kernel_of(b"a")
    directory, name = kernel.way("t/f")
    kernel.files[77] = FileState(b"xy")
    kernel.change_entries((directory, name, 77))
    (found,) = crash_ranges(kernel, disk_after(kernel, "Cdir", "[[],{}]"), CASE)
    assert (found["file"], found["state"]) == ("f", "old name")
    assert crash_ranges(kernel, disk_after(kernel, "Cdir", "[null,{}]"), CASE) == []


def test_a_name_that_did_not_reach_the_disk_is_reported() -> None:
    kernel = kernel_of(b"a")
    directory, name = kernel.way("t/new")
    kernel.files[77] = FileState(b"xy")
    kernel.change_entries((directory, name, 77))
    found_ranges = crash_ranges(kernel, disk_after(kernel, "Cdir", "[[],{}]"), CASE)
    assert [(each["file"], each["state"]) for each in found_ranges] == [("new", "no name")]
    assert crash_ranges(kernel, disk_after(kernel, "Cdir", "[[0],{}]"), CASE) == []


def names_left(choice: str, *calls: Call) -> list[tuple[str, str]]:
    """Return what is reported of the names t/old/a and t/f after calls and a cut that keeps some changes of names."""
    kernel = Kernel.of(DiskImage.of_files({"t/old/a": b"xy", "t/f": b"z"}))
    for call in calls:
        apply(kernel, 0, call)
    return [(each["file"], each["state"]) for each in crash_ranges(kernel, disk_after(kernel, "N-512", choice), CASE)]


def test_a_file_is_there_under_both_names_that_a_rename_left_and_the_old_one_is_reported() -> None:
    # The file was said to be lost, because one of its two paths was looked up alone, and nothing else was said.
    rename = Call(CallKind.RENAME, "t/old", target_path="t/new")
    assert names_left("[[1],{}]", rename) == [("old", "both names")]
    assert names_left("[[],{}]", rename) == [("new/a", "no name"), ("old", "not removed")]
    assert names_left("[[0,1],{}]", rename) == []
    assert GONE["both names"].format(file="old") == "old is still there too"


def test_a_removed_name_that_is_still_on_the_disk_is_reported() -> None:
    removed = Call(CallKind.UNLINK, "t/f")
    assert names_left("[[],{}]", removed) == [("f", "not removed")]
    assert names_left("[[0],{}]", removed) == []


def test_simpler_choices_are_legal_and_lead_to_everything_kept() -> None:
    kernel = kernel_of(b"a" * 32, b"b" * 8 + b"a" * 24, b"b" * 24 + b"a" * 8, b"c" * 40)
    choice = shortest([None, {"t/f": [1, 0, [[1, 2]]]}])
    for _ in range(20):
        # Without the file everything of it is kept, which is tried first; here it is never enough.
        following = [each for each in simpler_choices(kernel, "C-8", choice) if each != "[null,{}]"]
        assert all(disk_after(kernel, "C-8", each) for each in following)
        choice = following[0] if following else choice
    assert (choice, following) == ('[null,{"t/f":[3,3,[]]}]', [])
    assert disk_after(kernel, "C-8", choice).contents == (b"c" * 40,)


def test_findings_with_readers_count_them() -> None:
    finding = found(toy_case(AcknowledgesFirst(), readers=(Readers(count=2),)))
    assert (
        sentences(finding.property, finding.evidence)[1]
        == "Let a writer commit 2 operations (0 b'a'; 1 b'bb') beside 1 reader."
    )
