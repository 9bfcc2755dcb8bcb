"""The explorer of what a file says in several ways: generations encoded again, seen in parts, files in other forms.

And of files that say much in few bytes, of pages as other writers could make them, of what is spelled out in names, of
files that are lost, and of damage that leaves a file readable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from types import ModuleType
from typing import Any

from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.explorers.roundtrip import (
    annotated_columns,
    array_bytes,
    converted_structs,
    expansion,
    footer_rules,
    forms,
    generations,
    judged_statistics,
    lost_files,
    metadata_rules,
    migrated_orders,
    optional_records,
    packed_vectors,
    page_headers,
    parquet_members,
    pruned_row_groups,
    thrift_forms,
    transaction_files,
    views,
    worded_conditions,
    worked_out,
    written_options,
)
from tornproof.harness.explorers.roundtrip.forms import FORMS, Original, difference, files_to_change
from tornproof.harness.explorers.roundtrip.generations import Mismatch, reencode_generations
from tornproof.harness.explorers.roundtrip.views import view_problems
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table.partition import PartitionFiles, read_published
from tornproof.impl.table.table import Table, open_table

PHASE = "roundtrip"
ENCODING = "decoding and encoding a generation gives the same bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Cases that do not depend on the table; of those of a kind, one problem is a finding.

    `module` has the property, what is wrong with a case, and controls. `key` is that of the evidence, `count` that of
    the phase, `words` say what the cases are, and `subject` begins the sentence on one of them.
    """

    key: str
    count: str
    words: str
    subject: str = ""
    module: ModuleType
    cases: Callable[[], Sequence[Any]]
    kind_of: Callable[[Any], str] = attrgetter("name")


EXPANSION = Part(
    key="repeated",
    count="repeated values",
    words="chunks that decode to one byte more than is allowed",
    subject="A chunk with ",
    module=expansion,
    cases=expansion.repeated,
)
PACKED_VECTORS = Part(
    key="packed",
    count="packed pages",
    words="pages of packed vectors, also broken ones",
    subject="A page with ",
    module=packed_vectors,
    cases=packed_vectors.all_pages,
)
THRIFT_FORMS = Part(
    key="wire",
    count="forms of structs",
    words="structs of Thrift in each form that they may have, or may not",
    subject="A struct with ",
    module=thrift_forms,
    cases=thrift_forms.thrift_forms,
    kind_of=attrgetter("kind"),
)
PARQUET_MEMBERS = Part(
    key="member",
    count="members of structs",
    words="structs of Parquet's metadata with and without each member",
    module=parquet_members,
    cases=parquet_members.members_cases,
    kind_of=attrgetter("table"),
)
CONVERTED_STRUCTS = Part(
    key="converted",
    count="structs converted",
    words="structs as QuestDB's converter reads them",
    subject="A struct of a footer, ",
    module=converted_structs,
    cases=converted_structs.converted_reads,
    kind_of=attrgetter("kind"),
)
WORDED_CONDITIONS = Part(
    key="worded",
    count="conditions in words",
    words="conditions on columns of every type",
    subject="A condition, ",
    module=worded_conditions,
    cases=worded_conditions.worded_conditions,
    kind_of=attrgetter("kind"),
)
ARRAY_BYTES = Part(
    key="arrays",
    count="bytes of arrays",
    words="arrays as they are stored",
    subject="Arrays of ",
    module=array_bytes,
    cases=array_bytes.array_bytes,
    kind_of=attrgetter("kind"),
)
JUDGED_STATISTICS = Part(
    key="judged",
    count="statistics judged",
    words="counts and bounds beside values of every type",
    subject="Of ",
    module=judged_statistics,
    cases=judged_statistics.judged_statistics,
    kind_of=attrgetter("kind"),
)
PRUNED_ROW_GROUPS = Part(
    key="pruned",
    count="row groups pruned",
    words="row groups, conditions and times that leave rows out or do not",
    subject="Of ",
    module=pruned_row_groups,
    cases=pruned_row_groups.pruned_row_groups,
    kind_of=attrgetter("kind"),
)
TRANSACTION_FILES = Part(
    key="transaction",
    count="transaction files",
    words="transaction files that say what they are, or break a rule",
    subject="A _txn, ",
    module=transaction_files,
    cases=transaction_files.transaction_files,
    kind_of=attrgetter("kind"),
)
PAGE_HEADERS = Part(
    key="header",
    count="headers of pages",
    words="chunks of pages whose headers may be or not",
    subject="A chunk, ",
    module=page_headers,
    cases=page_headers.page_chunks,
    kind_of=attrgetter("kind"),
)
WRITTEN_OPTIONS = Part(
    key="asked",
    count="options asked for",
    words="options of the writer",
    subject="A file that is written with ",
    module=written_options,
    cases=written_options.asked,
)
WRONG_OPTIONS = Part(
    key="wrong",
    count="options refused",
    words="options that no file can have",
    subject="What must be refused, ",
    module=written_options,
    cases=written_options.wrong,
)
WORKED_OUT = Part(
    key="worked_out",
    count="worked out twice",
    words="names, intervals, hashes and orders worked out twice",
    module=worked_out,
    cases=worked_out.questions,
    kind_of=attrgetter("kind"),
)
ANNOTATED_COLUMNS = Part(
    key="annotated",
    count="annotated columns",
    words="annotations of columns",
    subject="A column with the annotation ",
    module=annotated_columns,
    cases=annotated_columns.annotated_columns,
    kind_of=attrgetter("type"),
)
FOOTER_RULES = Part(
    key="footer",
    count="rules of footers",
    words="footers with numbers that may be or not",
    subject="A footer with ",
    module=footer_rules,
    cases=footer_rules.footer_rules,
    kind_of=attrgetter("kind"),
)
MIGRATED_ORDERS = Part(
    key="sorted",
    count="orders of row groups",
    words="files whose row groups say how they are sorted",
    subject="A file whose row groups are ",
    module=migrated_orders,
    cases=migrated_orders.sorted_files,
    kind_of=attrgetter("kind"),
)
METADATA_RULES = Part(
    key="rule",
    count="rules of metadata",
    words="metadata files that break a rule, or come to its limit",
    subject="A metadata file with ",
    module=metadata_rules,
    cases=metadata_rules.rules,
    kind_of=attrgetter("field"),
)
OPTIONAL_RECORDS = Part(
    key="optional",
    count="optional bits",
    words="bits of what is optional",
    module=optional_records,
    cases=optional_records.flipped_bits,
    kind_of=attrgetter("kind"),
)
LOST_FILES = Part(
    key="lost",
    count="files lost",
    words="files of a server's table that are lost",
    module=lost_files,
    cases=lost_files.lost_files,
    kind_of=attrgetter("kind"),
)
PARTS = (
    EXPANSION,
    PACKED_VECTORS,
    THRIFT_FORMS,
    PARQUET_MEMBERS,
    CONVERTED_STRUCTS,
    WORDED_CONDITIONS,
    ARRAY_BYTES,
    JUDGED_STATISTICS,
    PRUNED_ROW_GROUPS,
    TRANSACTION_FILES,
    PAGE_HEADERS,
    WRITTEN_OPTIONS,
    WRONG_OPTIONS,
    WORKED_OUT,
    LOST_FILES,
    METADATA_RULES,
    MIGRATED_ORDERS,
    FOOTER_RULES,
    OPTIONAL_RECORDS,
    ANNOTATED_COLUMNS,
)


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
    changed_files, parts = (files_to_change(table), PARTS) if seen.generations else ({}, ())
    findings = [*seen.findings, *findings_of_forms(changed_files)]
    findings += [finding for part in parts for finding in findings_of(part)]
    verdict = Verdict.INVALID if findings else Verdict.VALID if seen.generations else Verdict.UNKNOWN
    failed = [*seen.failed, *forms.failed_controls()]
    failed += [each for module in dict.fromkeys(part.module for part in PARTS) for each in module.failed_controls()]
    form_count = len(changed_files) * len(FORMS)
    counts = {part.count: len(part.cases()) for part in parts}
    words = [f"{len(part.cases())} {part.words}" for part in parts]
    return Phase(
        name=PHASE,
        explored=seen.generations + form_count + sum(counts.values()),
        complete=True,
        bound=f"every generation in the chains of {seen.files} _pm files; {len(changed_files)} Parquet files in "
        f"{'; '.join([f'{len(FORMS)} other forms', *words])}",
        verdict=verdict,
        counts={
            "files": seen.files,
            "generations": seen.generations,
            "changed files": len(changed_files),
            "forms": form_count,
            **counts,
            "different": len(findings),
        },
        note="" if seen.generations else "the table has no _pm, so there was nothing to encode",
        findings=tuple(findings),
    ).with_controls(failed)


def _compare_generations(files: PartitionFiles, seen: _Seen) -> None:
    content, label = read_published(files).content, files.pm_label
    result = reencode_generations(content, file=label)
    if not seen.files:
        # One file is enough, and of a large table the chains are long.
        seen.failed += generations.failed_controls(content, file=label)
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


def findings_of(part: Part) -> Iterator[Finding]:
    """Yield a finding for the first case of each kind that has a problem."""
    seen = set[str]()
    for number, case in enumerate(part.cases()):
        problem = None if part.kind_of(case) in seen else part.module.problem_of(case)
        if problem is not None:
            seen.add(part.kind_of(case))
            sentence = f"{part.subject}{case.name}: {problem}."
            yield Finding(property=part.module.PROPERTY, phase=PHASE, sentence=sentence, evidence={part.key: number})


def replay_roundtrip(finding: Finding, image: DiskImage, path: str) -> Verdict:
    """Compare again what differed; raises KeyError, TypeError or ValueError for what is no such finding."""
    evidence = finding.evidence
    if "changed" in evidence:
        content, form = files_to_change(open_table(image, path))[evidence["changed"]], FORMS[evidence["form"]]
        return Verdict.VALID if difference(Original(content), form) is None else Verdict.INVALID
    for part in PARTS:
        if part.key in evidence:
            problem = part.module.problem_of(part.cases()[evidence[part.key]])
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
