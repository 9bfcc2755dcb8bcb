"""The explorer of what a file says in several ways: generations encoded again, seen in parts, files in other forms.

And of files that say much in few bytes, of pages as other writers could make them, and of what is spelled out in names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.explorers.corruption import expansion, forms, packed_vectors, roundtrip, views, worked_out
from tornproof.harness.explorers.corruption.expansion import Repeated
from tornproof.harness.explorers.corruption.forms import FORMS, Original, difference, files_to_change
from tornproof.harness.explorers.corruption.packed_vectors import Page
from tornproof.harness.explorers.corruption.roundtrip import Mismatch, reencode_generations
from tornproof.harness.explorers.corruption.views import view_problems
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table.partition import PartitionFiles, read_published
from tornproof.impl.table.table import Table, open_table

PHASE = "roundtrip"
PARTS = (forms, expansion, packed_vectors, worked_out)
"""What is asked once, whatever the table has."""
ENCODING = "decoding and encoding a generation gives the same bytes"


@dataclass(slots=True)
class _Seen:
    """What was looked at so far, and what is wrong."""

    files: int = 0
    generations: int = 0
    findings: list[Finding] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def roundtrip_phase(table: Table) -> Phase:
    """Compare all generations of a table, and some of its data files in other forms."""
    seen = _Seen()
    for partition in table.transaction().partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm():
            _compare_generations(files, seen)
    changed_files = files_to_change(table) if seen.generations else {}
    chunks, pages = (expansion.repeated(), packed_vectors.pages()) if seen.generations else ((), ())
    answers = worked_out.questions() if seen.generations else ()
    findings = (
        *seen.findings,
        *findings_of_forms(changed_files),
        *findings_of_expansion(chunks),
        *findings_of_pages(pages),
        *(findings_of_answers() if answers else ()),
    )
    verdict = Verdict.INVALID if findings else Verdict.VALID if seen.generations else Verdict.UNKNOWN
    form_count = len(changed_files) * len(FORMS)
    return Phase(
        name=PHASE,
        explored=seen.generations + form_count + len(chunks) + len(pages) + len(answers),
        complete=True,
        bound=f"every generation in the chains of {seen.files} _pm files; {len(changed_files)} Parquet files in "
        f"{len(FORMS)} other forms; {len(chunks)} chunks that decode to one byte more than is allowed; "
        f"{len(pages)} pages of packed vectors; {len(answers)} names, intervals and hashes worked out twice",
        verdict=verdict,
        counts={
            "files": seen.files,
            "generations": seen.generations,
            "changed files": len(changed_files),
            "forms": form_count,
            "repeated values": len(chunks),
            "packed pages": len(pages),
            "worked out twice": len(answers),
            "different": len(findings),
        },
        note="" if seen.generations else "the table has no _pm, so there was nothing to encode",
        findings=findings,
    ).with_controls([*seen.failed, *(failed for each in PARTS for failed in each.failed_controls())])


def _compare_generations(files: PartitionFiles, seen: _Seen) -> None:
    content, label = read_published(files).content, files.pm_label
    result = reencode_generations(content, file=label)
    if not seen.files:
        # One file is enough, and of a large table the chains are long.
        seen.failed += roundtrip.failed_controls(content, file=label)
        seen.failed += views.failed_controls(content, file=label)
    seen.files += 1
    seen.generations += result.generation_count
    seen.findings += [
        Finding(
            property=ENCODING,
            phase=PHASE,
            sentence=f"{label}: the generation that ends at byte {mismatch.generation_end_bytes} is "
            f"encoded differently from byte {mismatch.offset_bytes} on.",
            evidence={"file": label, **asdict(mismatch)},
        )
        for mismatch in result.mismatches
    ]
    seen.findings += [
        Finding(
            property=views.PROPERTY,
            phase=PHASE,
            sentence=f"{label}: of the generation that ends at byte {end_bytes}, {problem}.",
            evidence={"file": label, "view_end_bytes": end_bytes},
        )
        for end_bytes, problem in view_problems(content, file=label)
    ]


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


def findings_of_expansion(chunks: Sequence[Repeated]) -> Iterator[Finding]:
    """Yield a finding for each chunk that decodes to more than is allowed, or not at all."""
    problems = (expansion.problem_of(each) for each in chunks)
    return _numbered("A chunk with", [each.name for each in chunks], problems, expansion.PROPERTY, "repeated")


def findings_of_pages(pages: Sequence[Page]) -> Iterator[Finding]:
    """Yield a finding for each page of packed vectors that is read otherwise than it was made."""
    problems = (packed_vectors.problem_of(each) for each in pages)
    return _numbered("A page with", [each.name for each in pages], problems, packed_vectors.PROPERTY, "packed")


def _numbered(
    what: str, names: Sequence[str], problems: Iterable[str | None], property_: str, key: str
) -> Iterator[Finding]:
    for number, (name, problem) in enumerate(zip(names, problems, strict=True)):
        if problem is not None:
            sentence = f"{what} {name}: {problem}."
            yield Finding(property=property_, phase=PHASE, sentence=sentence, evidence={key: number})


def findings_of_answers() -> Iterator[Finding]:
    """Yield a finding for the first wrong answer of each kind."""
    for number, problem in worked_out.first_problems():
        yield Finding(
            property=worked_out.PROPERTY, phase=PHASE, sentence=f"{problem}.", evidence={"worked_out": number}
        )


def replay_roundtrip(finding: Finding, image: DiskImage, path: str) -> Verdict:
    """Compare again what differed; raises KeyError, TypeError or ValueError for what is no such finding."""
    evidence = finding.evidence
    if "changed" in evidence:
        content, form = files_to_change(open_table(image, path))[evidence["changed"]], FORMS[evidence["form"]]
        return Verdict.VALID if difference(Original(content), form) is None else Verdict.INVALID
    if "repeated" in evidence:
        problem = expansion.problem_of(expansion.repeated()[evidence["repeated"]])
        return Verdict.VALID if problem is None else Verdict.INVALID
    if "packed" in evidence:
        problem = packed_vectors.problem_of(packed_vectors.pages()[evidence["packed"]])
        return Verdict.VALID if problem is None else Verdict.INVALID
    if "worked_out" in evidence:
        problem = worked_out.problem_of(worked_out.questions()[evidence["worked_out"]])
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
