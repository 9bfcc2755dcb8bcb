"""The explorer of what a table says in several ways: generations encoded again, seen in parts, files in other forms.

And of what is worked out a second time, whatever the table is: the parts.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple
from zlib import crc32

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.verdict import Finding, Phase, Verdict, cut_short
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.roundtrip import forms
from tornproof.harness.explorers.roundtrip.forms import FORMS, Original, difference, files_to_change
from tornproof.harness.explorers.roundtrip.metadata import generations, views
from tornproof.harness.explorers.roundtrip.metadata.generations import Mismatch, reencode_generations
from tornproof.harness.explorers.roundtrip.metadata.views import view_problems
from tornproof.harness.explorers.roundtrip.parts import PARTS, Part, part_of
from tornproof.harness.parallel.tasks import Exploration
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table.partition import PartitionFiles, read_published
from tornproof.impl.table.table import Table, open_table

PHASE, CASE, UNMADE = "roundtrip", "case", "unmade"
FILES, GENERATIONS, CHANGED_FILES, FORM_COUNT = "files", "generations", "changed files", "forms"
FILE_COUNTS = (FILES, CHANGED_FILES)
"""Counts of what has the cases, and not of cases."""
CONTROLS_COST, FORMS_COST, GENERATIONS_COST = 1_500.0, 400.0, 1.0
"""Those of a small table, where that of the first part is 1."""
COST_GROWTH = 1.1
"""Each part takes so many times as long as the one before it."""
OF_EVERY = 4
"""Of so many cases of a part a check asks as many as it is told: each has its turn by lot."""
ENCODING = "decoding and encoding a generation gives the same bytes"


class _Found(NamedTuple):
    """A finding, its kind, and the number of the case."""

    kind: str
    number: int
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """How much was compared, by the name of the count, and what is different."""

    counts: Mapping[str, int]
    found: Sequence[_Found]

    @property
    def has_finding(self) -> bool:
        """Whether anything is different."""
        return bool(self.found)


def roundtrip(questions: int = OF_EVERY) -> Exploration:
    """Compare a table's generations, some of its data files in other forms, and so many of four cases of a part."""
    failed, *results = yield [
        Task(run=_failed_controls, cost=CONTROLS_COST, begins_first=True),
        *(
            Task(run=_compare_part, arguments=(part.key, turn), cost=COST_GROWTH**number / OF_EVERY, turn=turn)
            for number, part in enumerate(PARTS)
            for turn in range(min(questions, OF_EVERY))
        ),
        Task(run=_compare_forms, cost=FORMS_COST),
        Task(run=_compare_generations, cost=GENERATIONS_COST),
    ]
    compared = [each for each in results if each is not None]
    if not compared:
        return cut_short(PHASE)
    counts, found = Counter[str](), dict[str, _Found]()
    for each in compared:
        counts.update(each.counts)
        for one in each.found:
            found[one.kind] = min(one, found.get(one.kind, one), key=attrgetter("number"))
    findings = tuple(one.finding for one in found.values())
    has_generations = counts.get(GENERATIONS) != 0
    return Phase(
        name=PHASE,
        explored=sum(count for name, count in counts.items() if name not in FILE_COUNTS),
        complete=len(compared) == len(results) and questions >= OF_EVERY,
        bound="; ".join(_words(counts)),
        verdict=Verdict.INVALID if findings else Verdict.VALID if has_generations else Verdict.UNKNOWN,
        counts={**counts, "different": len(findings)},
        note="" if has_generations else "the table has no _pm, so there was nothing to encode",
        findings=findings,
    ).with_controls(failed)


def _words(counts: Mapping[str, int]) -> Iterator[str]:
    if GENERATIONS in counts:
        yield f"every generation in the chains of {counts[FILES]} _pm files"
    if FORM_COUNT in counts:
        yield f"{counts[CHANGED_FILES]} Parquet files in {len(FORMS)} other forms"
    yield from (f"{counts[part.count]} {part.words}" for part in PARTS if part.count in counts)


def _failed_controls(worker: Worker) -> list[str]:
    modules = dict.fromkeys((forms, *(part.module for part in PARTS)))
    tried: list[tuple[ModuleType, Callable[[], Iterable[str]]]] = [(each, each.failed_controls) for each in modules]
    # One file is enough, and of a large table the chains are long.
    for files in itertools.islice(_metadata_files(_table_of(worker)), 1):
        content = read_published(files).content
        tried += (
            (each, functools.partial(each.failed_controls, content, file=files.pm_label))
            for each in (generations, views)
        )
    return [each for module, failed_controls in tried for each in _tried(module, failed_controls)]


def _tried(module: ModuleType, failed_controls: Callable[[], Iterable[str]]) -> list[str]:
    """Return the controls that failed, an error of what is explored among them: it must not keep others from a try."""
    failed: list[str] = []
    problem = errors_as_problems(lambda: failed.extend(failed_controls()))()
    return failed if problem is None else [*failed, f"those of {module.__name__}: {problem}"]


def _table_of(worker: Worker) -> Table:
    return open_table(worker.question.image, worker.question.path)


def _metadata_files(table: Table) -> Iterator[PartitionFiles]:
    for partition in table.transaction().partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm():
            yield files


def _compare_part(worker: Worker, key: str, turn: int) -> _Compared:
    part = part_of(key)
    if found := _unmade(part):
        return _Compared(counts={part.count: 0}, found=found)
    cases = cases_of(part, turn)
    return _Compared(counts={part.count: len(cases)}, found=[*_found_in(part, cases)])


def _unmade(part: Part) -> list[_Found]:
    """Return the finding that the cases cannot be made, if that is so: what is explored has a part in making them."""
    problem = part.problem_of_making()
    if problem is None:
        return []
    sentence = f"Of {part.words} none can be made: {problem}."
    finding = Finding(property=part.module.PROPERTY, phase=PHASE, sentence=sentence, evidence={UNMADE: part.key})
    return [_Found(f"{part.key}: {UNMADE}", 0, finding)]


def cases_of(part: Part, turn: int) -> list[tuple[int, Any]]:
    """Return the cases whose turn it is, with their numbers: of each kind a share that is drawn by lot.

    The first turn has a case of each kind, unless every case is a kind of its own.
    """
    cases, kinds = part.cases(), defaultdict[str, list[int]](list)
    for number, case in enumerate(cases):
        kinds[part.kind_of(case)].append(number)
    groups = kinds.values() if len(kinds) < len(cases) else [range(len(cases))]
    drawn = (
        number
        for group in groups
        for rank, number in enumerate(sorted(group, key=lambda number: crc32(str(number).encode())))
        if rank * OF_EVERY // len(group) == turn
    )
    return [(number, cases[number]) for number in sorted(drawn)]


def _compare_forms(worker: Worker) -> _Compared:
    files = files_to_change(_table_of(worker))
    counts = {CHANGED_FILES: len(files), FORM_COUNT: len(files) * len(FORMS)}
    return _Compared(counts=counts, found=_each(findings_of_forms(files)))


def _compare_generations(worker: Worker) -> _Compared:
    files_of = [*_metadata_files(_table_of(worker))]
    count, findings = 0, list[Finding]()
    for files in files_of:
        content, label = read_published(files).content, files.pm_label
        result = reencode_generations(content, file=label)
        count += result.generation_count
        findings += [
            Finding(
                property=ENCODING,
                phase=PHASE,
                sentence=f"{label}: the generation that ends at byte {mismatch.generation_end_bytes} is "
                f"encoded differently from byte {mismatch.offset_bytes} on.",
                evidence={"file": label, **asdict(mismatch)},
            )
            for mismatch in result.mismatches
        ]
        findings += [
            Finding(
                property=views.PROPERTY,
                phase=PHASE,
                sentence=f"{label}: of the generation that ends at byte {end_bytes}, {problem}.",
                evidence={"file": label, "view_end_bytes": end_bytes},
            )
            for end_bytes, problem in view_problems(content, file=label)
        ]
    return _Compared(counts={FILES: len(files_of), GENERATIONS: count}, found=_each(findings))


def _each(findings: Iterable[Finding]) -> list[_Found]:
    """Take each finding for one of its own kind."""
    return [_Found(finding.sentence, 0, finding) for finding in findings]


def findings_of_forms(files: Mapping[str, bytes]) -> Iterator[Finding]:
    """Yield a finding for each file and each form in which something is different."""
    for name, content in files.items():
        original = Original(content)
        for number, form in enumerate(FORMS):
            different = difference(original, form)
            if different is not None:
                yield Finding(
                    property=forms.PROPERTY,
                    phase=PHASE,
                    sentence=f"{name} in another form ({form.name}): {different}.",
                    evidence={"changed": name, "form": number},
                )


def findings_of(part: Part) -> Iterator[Finding]:
    """Yield a finding for the first case of each kind that has a problem, or the one that no case can be made."""
    for each in _unmade(part) or _found_in(part, enumerate(part.cases())):
        yield each.finding


def _found_in(part: Part, cases: Iterable[tuple[int, Any]]) -> Iterator[_Found]:
    seen = set[str]()
    for number, case in cases:
        kind = f"{part.key}: {part.kind_of(case)}"
        problem = None if kind in seen else part.problem_of(case)
        if problem is not None:
            seen.add(kind)
            sentence, evidence = f"{part.subject}{case.name}: {problem}.", {part.key: number, CASE: case.name}
            finding = Finding(property=part.module.PROPERTY, phase=PHASE, sentence=sentence, evidence=evidence)
            yield _Found(kind, number, finding)


def _case_of(part: Part, finding: Finding) -> Any:
    """Return the case of a finding, which may have another number in this release; raises ValueError if there is none.

    Earlier releases say its name in the sentence alone.
    """
    cases, number, name = part.cases(), count_of(finding.evidence[part.key]), finding.evidence.get(CASE)
    for case in (*cases[number : number + 1], *cases):
        if finding.sentence.startswith(f"{part.subject}{case.name}: ") if name is None else case.name == name:
            return case
    raise ValueError(f"this release has no case {name or number} of its {part.count}")


def replay_roundtrip(finding: Finding, image: DiskImage, path: str) -> Verdict:
    """Compare again what differed; raises KeyError, TypeError or ValueError for what is no such finding."""
    evidence = finding.evidence
    if "changed" in evidence:
        content, form = files_to_change(open_table(image, path))[evidence["changed"]], FORMS[evidence["form"]]
        return Verdict.VALID if difference(Original(content), form) is None else Verdict.INVALID
    if UNMADE in evidence:
        return Verdict.VALID if part_of(evidence[UNMADE]).problem_of_making() is None else Verdict.INVALID
    for part in PARTS:
        if part.key in evidence:
            problem = part.problem_of(_case_of(part, finding))
            return Verdict.VALID if problem is None else Verdict.INVALID
    name = str(evidence["file"]).partition("/")[0]
    files = PartitionFiles(storage=image, path=f"{path}/{name}", name=name)
    content = read_published(files).content
    if "view_end_bytes" in evidence:
        ends = [end_bytes for end_bytes, _ in view_problems(content, file=files.pm_label)]
        return Verdict.INVALID if evidence["view_end_bytes"] in ends else Verdict.VALID
    wanted = Mismatch(generation_end_bytes=evidence["generation_end_bytes"], offset_bytes=evidence["offset_bytes"])
    result = reencode_generations(content, file=files.pm_label)
    return Verdict.INVALID if wanted in result.mismatches else Verdict.VALID
