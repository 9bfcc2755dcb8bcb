"""What is said of a finding is made of its evidence, and names the step that matters."""

from __future__ import annotations

from typing import Any

import pytest
from random_runs import HEADER_BEFORE_BODY, VERSION_BEFORE_RECORD, found, table_situation, toy_situation

from harness.disk.file_state import FileState
from harness.disk.image import DiskImage
from harness.disk.kernel import Kernel
from harness.disk.persistence import C_8, C_512, B
from harness.explore.observer import Property
from harness.explore.situation import Readers
from harness.findings.crash_bytes import crash_ranges
from harness.findings.explain import CLAUSES, explain
from harness.findings.log import DecisionLog, moved_to, parse_deviation, shortest
from harness.findings.power import disk_after, simpler_choices
from harness.findings.run import Signature, run_log
from harness.findings.situation_document import situation_of
from harness.findings.smaller import Case
from harness.findings.words import byte_lines, sentences
from harness.targets.toy import AcknowledgesFirst, HeaderFirst, SwallowsErrors
from harness.verdict import Finding


def explanation(finding: Finding) -> dict[str, Any]:
    explained: dict[str, Any] = finding.evidence["explanation"]
    return explained


TURNED = found(table_situation(protocol=HEADER_BEFORE_BODY))
CUT = found(table_situation("specification"), C_8)


def test_every_property_has_a_clause() -> None:
    names = {value for name, value in vars(Property).items() if name.isupper()}
    assert CLAUSES.keys() == names


def test_the_cause_is_the_step_before_the_turn_and_the_one_that_was_still_to_come() -> None:
    cause = explanation(TURNED)["cause"]
    assert cause["client"] == "writer"
    assert cause["done"].startswith("commit 0: store a word 2024-01-01T")
    assert cause["done"].endswith("/_pm #1")
    assert cause["not_yet"] == cause["done"].replace("store a word", "write")


def test_the_nearest_neighbour_passes_by_one_step_of_one_decision() -> None:
    for finding in (TURNED, CUT):
        situation = situation_of(finding.evidence["situation"])
        log = DecisionLog.of_document(finding.evidence["log"])
        neighbour = explanation(finding)["neighbour"]
        (decision,) = [each for each in log.deviations if each == parse_deviation(neighbour["decision"])]
        kept = [each for each in log.deviations if each != decision]
        if neighbour["change"] == "one step earlier":
            call = explanation(finding)["cause"]["done"]
            kept.append(moved_to(decision, parse_deviation(f"{decision.at.client}@{call} is killed").at))
        result = run_log(situation, DecisionLog(tuple(kept)))
        assert (result.violations, result.dropped) == ((), ())


def test_a_neighbour_that_breaks_it_too_is_none() -> None:
    situation = table_situation(protocol=VERSION_BEFORE_RECORD)
    log = DecisionLog.parse("writer@commit 0: store a word _txn #14 -> reader 1")
    (violation,) = run_log(situation, log).violations
    assert explain(Case(situation, log), Signature.of(violation))["neighbour"]["change"] == "left out"


def test_lanes_tell_who_did_what_when_and_what_was_durable() -> None:
    rows = explanation(TURNED)["lanes"]
    assert [bool(writer) for writer, _, _ in rows] == [True, True, False]
    assert rows[0][0].startswith("writer, open")
    assert "store a word" in rows[1][0]
    assert rows[1][2].startswith("not durable: 2024-01-01T")
    assert "read _txn x4" in rows[2][1] and "is refused" in rows[2][1]


def test_the_sentences_say_let_then_because_however_and_the_nearest_run() -> None:
    broken, let, then, because, nearest = sentences(TURNED.property, TURNED.evidence)
    assert broken == f"Broken: {Property.REFUSED} ({CLAUSES[Property.REFUSED]})."
    assert let == "Let a writer commit 1 operation beside 1 reader."
    assert then.startswith("Then reader 1 goes on while writer stands in 'commit 0' before: write")
    assert because.startswith("Because writer had done") and "; however, reader 1 then has: CorruptError" in because
    assert nearest.startswith("Nearest run that passes: the same, but one step earlier: reader 1 goes on while writer")


@pytest.mark.parametrize(
    ("target", "crashes", "words"),
    [
        (AcknowledgesFirst(), ("kill",), "the process of writer is killed"),
        (SwallowsErrors(), ("fail", C_512), "a call of writer fails (input/output error): sync the data new"),
        (HeaderFirst(), (C_8,), "the power is cut after the end of writer, and the disk keeps what model C-8 allows"),
    ],
    ids=["kill", "fail", "power"],
)
def test_each_kind_of_decision_has_words(target: HeaderFirst, crashes: tuple[Any, ...], words: str) -> None:
    finding = found(toy_situation(target), *crashes)
    assert any(words in sentence for sentence in sentences(finding.property, finding.evidence))


def test_a_crash_shows_which_fields_were_lost_and_which_kept() -> None:
    finding = found(table_situation("specification"), B)
    ranges = explanation(finding)["bytes"]
    assert {each["state"] for each in ranges} == {"kept", "lost"}
    (header,) = [each for each in ranges if each["file"].endswith("_pm") and each["start"] == 0]
    assert (header["state"], header["fields"]) == ("kept", ["PARQUET_META_FILE_SIZE"])
    (data,) = [each for each in ranges if each["state"] == "lost"]
    assert f"   lost  {data['file']} [{data['start']}, {data['end']})" in byte_lines(finding.evidence)


def kernel_of(old: bytes, *later: bytes) -> Kernel:
    kernel = Kernel.of(DiskImage.of_files({"t/f": old}))
    ((_, number),) = kernel.paths()
    kernel.files[number] = FileState(later[-1] if later else old, (old, *later))
    return kernel


def fates(kernel: Kernel, choice: str) -> list[tuple[int, int, str]]:
    ranges = crash_ranges(kernel, disk_after(kernel, "C-8", choice), "t")
    return [(each["start"], each["end"], each["state"]) for each in ranges]


def test_ranges_are_kept_lost_and_torn() -> None:
    kernel = kernel_of(b"a" * 64, b"b" * 16 + b"a" * 16 + b"c" * 16 + b"a" * 16 + b"d" * 8)
    assert fates(kernel, "[null,{}]") == [(0, 16, "kept"), (32, 48, "kept"), (64, 72, "kept")]
    assert fates(kernel, '[null,{"t/f":[0,0,[]]}]') == [(0, 16, "lost"), (32, 48, "lost"), (64, 72, "lost")]
    assert fates(kernel, '[null,{"t/f":[1,1,[[0,0]]]}]')[0] == (0, 16, "torn")
    assert fates(kernel_of(b"a" * 64), "[null,{}]") == []


def test_a_name_that_did_not_get_to_the_disk_is_said() -> None:
    kernel = kernel_of(b"a")
    directory, name = kernel.way("t/new")
    kernel.files[77] = FileState(b"xy")
    kernel.change_entries((directory, name, 77))
    found_ranges = crash_ranges(kernel, disk_after(kernel, "Cdir", "[[],{}]"), "t")
    assert [(each["file"], each["state"]) for each in found_ranges] == [("new", "no name")]
    assert crash_ranges(kernel, disk_after(kernel, "Cdir", "[[0],{}]"), "t") == []


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
    finding = found(toy_situation(AcknowledgesFirst(), readers=(Readers(count=2),)))
    assert sentences(finding.property, finding.evidence)[1] == "Let a writer commit 2 operations beside 1 reader."
