"""Each part alone finds nothing in what is right, and notices its controls; a whole check says so of all together."""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import roundtrip_page
from depth import sampled
from replayed import forget_what_was_made

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.roundtrip import explorer, parts
from tornproof.harness.explorers.roundtrip.explorer import OF_EVERY, cases_of, findings_of, roundtrip
from tornproof.harness.explorers.roundtrip.metadata import views
from tornproof.harness.explorers.roundtrip.parts import PARTS, Part, part_of
from tornproof.harness.explorers.roundtrip.worked_out.parquet import symbol_keys
from tornproof.harness.parallel.tasks import phase_of
from tornproof.harness.parallel.workers import Task
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import Codec

METADATA_RULES = part_of("rule")


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS, ids=attrgetter("key"))
def test_nothing_is_found_in_what_is_right(part: Part) -> None:
    assert [finding.sentence for finding in findings_of(part)] == []


@pytest.mark.parametrize("part", PARTS, ids=attrgetter("key"))
def test_nothing_is_found_in_a_quarter_of_what_is_right(part: Part) -> None:
    forget_what_was_made()
    problems = {number: part.problem_of(case) for number, case in cases_of(part, 0)}
    assert problems and {number: problem for number, problem in problems.items() if problem is not None} == {}


def test_what_was_made_while_a_mistake_was_planted_is_made_anew() -> None:
    def made() -> Mapping[str, bytes]:
        return symbol_keys._written(Codec.UNCOMPRESSED).files

    forget_what_was_made()
    right = made()
    forget_what_was_made()
    with replaced("tornproof.impl.table.symbol_hash:HASH_FACTOR", 33):
        assert made() != right
    assert made() != right
    forget_what_was_made()
    assert made() == right


@pytest.mark.parametrize(
    "module", sorted({part.module for part in PARTS}, key=attrgetter("__name__")), ids=attrgetter("__name__")
)
def test_all_controls_are_noticed(module: Any) -> None:
    assert [*module.failed_controls()] == []


@pytest.mark.parametrize("part", PARTS, ids=attrgetter("key"))
def test_no_case_is_there_twice_and_each_has_a_name(part: Part) -> None:
    by_name = defaultdict[str, list[Any]](list)
    for case in part.cases():
        by_name[case.name].append(case)
    alike = {name: [roundtrip_page.checksum([each]) for each in cases] for name, cases in by_name.items() if cases[1:]}
    assert [name for name, checksums in alike.items() if len({*checksums}) < len(checksums)] == []


def test_each_part_has_a_key_and_a_count_of_its_own() -> None:
    assert len({part.key for part in PARTS}) == len({part.count for part in PARTS}) == len(PARTS)


def test_the_page_of_questions_is_that_of_the_parts() -> None:
    page = Path(__file__).parents[4] / "docs" / "roundtrip.md"
    assert page.read_text() == roundtrip_page.page(), "python docs/roundtrip_page.py > docs/roundtrip.md"


def storage_with(content: bytes) -> MemoryStorage:
    return MemoryStorage.of(DiskImage({"d/f": content}, frozenset({"d"})))


SUMMED = {
    "bytes": b"\x00\x01",
    "text": "a",
    "number": 1,
    "set": frozenset({"a", "b"}),
    "rows": pa.table({"a": [1, 2]}),
    "decimal": Decimal("1.5"),
    "options": EncodeOptions(),
    "storage": storage_with(b"1"),
    "module": explorer,
    "packer": struct.Struct("<q"),
    "error": CorruptError("_pm", "NUM_ROWS", 8, 1, 2),
}


@pytest.mark.parametrize(
    ("of", "other"),
    [
        *(("bytes", b"\x00\x02"), ("text", "b"), ("number", 2), ("number", True), ("set", frozenset({"a", "c"}))),
        *(("rows", pa.table({"a": [1, 3]})), ("rows", pa.table({"b": [1, 2]})), ("rows", pa.array([1, 2]))),
        *(("decimal", Decimal("1.50")), ("options", EncodeOptions(statistics=False)), ("storage", storage_with(b"2"))),
        *(("module", roundtrip_page), ("packer", struct.Struct("<i"))),
        ("error", CorruptError("_pm", "NUM_ROWS", 8, 1, 3)),
    ],
)
def test_a_question_of_which_anything_is_changed_has_another_checksum(of: str, other: object) -> None:
    question = (SUMMED, partial(len, SUMMED), CallKind.PWRITE, None)
    changed = SUMMED | {of: other}
    sums = {
        roundtrip_page.checksum([question]),
        roundtrip_page.checksum([(changed, *question[1:])]),
        roundtrip_page.checksum([(SUMMED, partial(len, changed), *question[2:])]),
        roundtrip_page.checksum([(SUMMED, partial(str, SUMMED), *question[2:])]),
        roundtrip_page.checksum([(*question[:2], CallKind.FSYNC, None)]),
        roundtrip_page.checksum([question, question]),
    }
    assert len(sums) == 6


def test_of_what_is_in_a_question_nothing_is_left_out_of_its_checksum() -> None:
    """Other options of a writer, and other decimals, had the same checksum."""
    with pytest.raises(TypeError, match="of which nothing is summed"):
        roundtrip_page.checksum([SimpleNamespace(a=1)])


@pytest.mark.parametrize(("questions", "turns"), [(1, 1), (3, 3), (4, 4), (40, 4)])
def test_of_four_cases_as_many_are_asked_as_the_effort_has(questions: int, turns: int) -> None:
    cases, asked = METADATA_RULES.cases(), list[Any]()
    with replaced(f"{METADATA_RULES.module.__name__}:problem_of", asked.append):
        phase = _phase_of_metadata_rules(questions)
    assert phase.findings == () and phase.counts[METADATA_RULES.count] == len(asked)
    expected = [each for turn in range(turns) for each in cases_of(METADATA_RULES, turn)]
    assert sorted(map(cases.index, asked)) == sorted(number for number, _ in expected)


@pytest.mark.parametrize("part", sampled(6, PARTS), ids=attrgetter("key"))
def test_each_case_has_one_turn_and_each_kind_is_in_the_first(part: Part) -> None:
    cases, turns = part.cases(), [cases_of(part, turn) for turn in range(OF_EVERY)]
    assert sorted(number for turn in turns for number, _ in turn) == [*range(len(cases))]
    assert all(case is cases[number] for turn in turns for number, case in turn)
    kinds = Counter(map(part.kind_of, cases))
    for turn, drawn in enumerate(turns):
        if len(kinds) == len(cases):
            assert abs(len(drawn) - len(cases) / OF_EVERY) < 1
        else:
            counts = Counter(part.kind_of(case) for _, case in drawn)
            assert all(abs(counts[kind] - count / OF_EVERY) < 1 for kind, count in kinds.items())
            assert turn or counts.keys() == kinds.keys()


def test_what_is_found_in_several_turns_is_one_finding_for_each_kind_of_its_first_case() -> None:
    first = dict[str, int]()
    for number, case in enumerate(METADATA_RULES.cases()):
        first.setdefault(METADATA_RULES.kind_of(case), number)
    with replaced(f"{METADATA_RULES.module.__name__}:problem_of", lambda case: "wrong"):
        fewer, phase = (_phase_of_metadata_rules(questions) for questions in (1, 4))
    assert sorted(each.evidence[METADATA_RULES.key] for each in phase.findings) == sorted(first.values())
    assert len(fewer.findings) == len(first)


def test_a_part_of_which_no_case_can_be_made_has_one_finding_and_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [RecursionError("too deep")]

    def cases() -> list[Any]:
        if errors:
            raise errors[0]
        return []

    for module in (explorer, parts):
        monkeypatch.setattr(module, "PARTS", (replace(METADATA_RULES, cases=cases),))
    phase = _phase_of_metadata_rules(4)
    (finding,) = phase.findings
    assert finding.sentence == f"Of {METADATA_RULES.words} none can be made: RecursionError: too deep."
    assert phase.counts[METADATA_RULES.count] == 0 and phase.verdict is Verdict.INVALID
    assert replay_finding(finding, DiskImage(), "") is Verdict.INVALID
    assert replay_finding(replace(finding, evidence={"unmade": "nothing"}), DiskImage(), "") is Verdict.UNKNOWN
    errors.clear()
    assert replay_finding(finding, DiskImage(), "") is Verdict.VALID


def test_controls_that_end_in_an_error_of_what_is_explored_have_failed_and_keep_no_other_from_a_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check said that it was cut before a positive control was tried."""

    def too_deep(*_: Any) -> Iterator[str]:
        yield "one is not noticed"
        raise RecursionError("too deep")

    monkeypatch.setattr(explorer, "PARTS", (METADATA_RULES,))
    monkeypatch.setattr(METADATA_RULES.module, "failed_controls", too_deep)
    monkeypatch.setattr(views, "failed_controls", lambda *_, **__: ["another is not noticed"])
    question = SimpleNamespace(image=made_image(), path=MADE_PATH)
    failed = explorer._failed_controls(SimpleNamespace(question=question))  # type: ignore[arg-type]
    error = f"those of {METADATA_RULES.module.__name__}: RecursionError: too deep"
    assert failed == ["one is not noticed", error, "another is not noticed"]


def _phase_of_metadata_rules(questions: int) -> Phase:
    def run(tasks: Sequence[Task]) -> list[Any]:
        return [task.run(None, *task.arguments) if METADATA_RULES.key in task.arguments else None for task in tasks]

    return phase_of(roundtrip(questions), run)


def test_a_finding_is_replayed_by_the_name_of_its_case_wherever_that_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def problem_of(case: SimpleNamespace) -> str | None:
        return "it is wrong" if case.name == "b" else None

    def part_with(*names: str) -> Part:
        cases = [SimpleNamespace(name=name, kind=name) for name in names]
        module = SimpleNamespace(PROPERTY="p", problem_of=problem_of)
        part = Part(key="k", count="cases", words="", subject="Of ", module=module, cases=lambda: cases)  # type: ignore[arg-type]  # no more is asked of it
        monkeypatch.setattr(explorer, "PARTS", (part,))
        return part

    (finding,) = findings_of(part_with("a", "b", "c"))
    assert finding.evidence == {"k": 1, "case": "b"}
    older, of_another = replace(finding, evidence={"k": 1}), replace(finding, sentence="Of b", evidence={"k": 1})
    part_with("new", "a", "b", "c")
    image = DiskImage()
    assert {replay_finding(each, image, "") for each in (finding, older)} == {Verdict.INVALID}
    assert replay_finding(of_another, image, "") is Verdict.UNKNOWN
    part_with("a", "c")
    assert {replay_finding(each, image, "") for each in (finding, older)} == {Verdict.UNKNOWN}
