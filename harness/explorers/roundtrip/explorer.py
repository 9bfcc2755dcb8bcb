"""The explorer of what a file says in several ways: generations encoded again, seen in parts, files in other forms.

And of files that say much in few bytes, of pages as other writers could make them, of what is spelled out in names, of
files that are lost, and of damage that leaves a file readable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any

from tornproof.harness.common.verdict import Finding, Phase, Verdict, cut_short
from tornproof.harness.explorers.roundtrip import forms, worked_out
from tornproof.harness.explorers.roundtrip.conditions import pruned_row_groups, worded_conditions
from tornproof.harness.explorers.roundtrip.forms import FORMS, Original, difference, files_to_change
from tornproof.harness.explorers.roundtrip.metadata import (
    compared_footers,
    generations,
    lost_files,
    metadata_rules,
    optional_records,
    transaction_files,
    views,
)
from tornproof.harness.explorers.roundtrip.metadata.generations import Mismatch, reencode_generations
from tornproof.harness.explorers.roundtrip.metadata.views import view_problems
from tornproof.harness.explorers.roundtrip.native import native_columns, symbol_dictionaries, symbol_indexes
from tornproof.harness.explorers.roundtrip.parquet import (
    annotated_columns,
    array_bytes,
    chunks_together,
    converted_structs,
    edited_footers,
    expansion,
    footer_rules,
    judged_statistics,
    migrated_filters,
    migrated_orders,
    packed_vectors,
    page_headers,
    parquet_members,
    thrift_forms,
    written_options,
)
from tornproof.harness.parallel.tasks import Exploration
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table.partition import PartitionFiles, read_published
from tornproof.impl.table.table import Table, open_table

PHASE = "roundtrip"
FILES, GENERATIONS, CHANGED_FILES, FORM_COUNT = "files", "generations", "changed files", "forms"
FILE_COUNTS = (FILES, CHANGED_FILES)
"""Counts of what has the cases, and not of cases."""
PART_COST = 0.1
"""That of a part on average, where that of all generations of a small table is 1."""
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
CHUNKS_TOGETHER = Part(
    key="together",
    count="chunks together",
    words="groups of chunks that are decoded together",
    subject="Of chunks, ",
    module=chunks_together,
    cases=chunks_together.chunks_together,
    kind_of=attrgetter("kind"),
)
EDITED_FOOTERS = Part(
    key="edited",
    count="footers edited",
    words="footers that are divided and put together",
    subject="A footer, ",
    module=edited_footers,
    cases=edited_footers.edited_footers,
    kind_of=attrgetter("kind"),
)
COMPARED_FOOTERS = Part(
    key="compared",
    count="footers compared",
    words="footers compared with what _pm says",
    subject="A footer, ",
    module=compared_footers,
    cases=compared_footers.compared_footers,
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
NATIVE_COLUMNS = Part(
    key="native",
    count="native partitions",
    words="partitions in the native format whose files may be or not",
    subject="A native partition, ",
    module=native_columns,
    cases=native_columns.native_columns,
    kind_of=attrgetter("kind"),
)
SYMBOL_INDEXES = Part(
    key="index",
    count="indexes of symbols",
    words="indexes that lead to the rows of symbols or not",
    subject="An index of symbols, ",
    module=symbol_indexes,
    cases=symbol_indexes.symbol_indexes,
    kind_of=attrgetter("kind"),
)
SYMBOL_DICTIONARIES = Part(
    key="dictionary",
    count="dictionaries of symbols",
    words="dictionaries of symbols that can be read or not",
    subject="A dictionary, ",
    module=symbol_dictionaries,
    cases=symbol_dictionaries.symbol_dictionaries,
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
MIGRATED_FILTERS = Part(
    key="filter",
    count="filters migrated",
    words="bloom filters where footers say that they are, or not",
    module=migrated_filters,
    cases=migrated_filters.migrated_filters,
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
    WRONG_OPTIONS,
    MIGRATED_FILTERS,
    COMPARED_FOOTERS,
    TRANSACTION_FILES,
    FOOTER_RULES,
    EXPANSION,
    WRITTEN_OPTIONS,
    JUDGED_STATISTICS,
    MIGRATED_ORDERS,
    LOST_FILES,
    ANNOTATED_COLUMNS,
    WORKED_OUT,
    METADATA_RULES,
    ARRAY_BYTES,
    SYMBOL_DICTIONARIES,
    NATIVE_COLUMNS,
    EDITED_FOOTERS,
    THRIFT_FORMS,
    WORDED_CONDITIONS,
    OPTIONAL_RECORDS,
    PAGE_HEADERS,
    PARQUET_MEMBERS,
    PACKED_VECTORS,
    CHUNKS_TOGETHER,
    CONVERTED_STRUCTS,
    SYMBOL_INDEXES,
    PRUNED_ROW_GROUPS,
)
"""All parts, those that take least time first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """How much was compared, by the name of the count, and what is different."""

    counts: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def has_finding(self) -> bool:
        """Whether anything is different."""
        return bool(self.findings)


def roundtrip() -> Exploration:
    """Compare all generations of a table, some of its data files in other forms, and the cases of each part."""
    failed, *results = yield [
        Task(run=_failed_controls, begins_first=True),
        *(Task(run=_compare_part, arguments=(part.key,), cost=PART_COST) for part in PARTS),
        Task(run=_compare_forms),
        Task(run=_compare_generations),
    ]
    compared = [each for each in results if each is not None]
    if not compared:
        return cut_short(PHASE)
    counts = {name: count for each in compared for name, count in each.counts.items()}
    findings = [finding for each in compared for finding in each.findings]
    has_generations = counts.get(GENERATIONS) != 0
    return Phase(
        name=PHASE,
        explored=sum(count for name, count in counts.items() if name not in FILE_COUNTS),
        complete=len(compared) == len(results),
        bound="; ".join(_words(counts)),
        verdict=Verdict.INVALID if findings else Verdict.VALID if has_generations else Verdict.UNKNOWN,
        counts={**counts, "different": len(findings)},
        note="" if has_generations else "the table has no _pm, so there was nothing to encode",
        findings=tuple(findings),
    ).with_controls(failed)


def _words(counts: Mapping[str, int]) -> Iterator[str]:
    if GENERATIONS in counts:
        yield f"every generation in the chains of {counts[FILES]} _pm files"
    if FORM_COUNT in counts:
        yield f"{counts[CHANGED_FILES]} Parquet files in {len(FORMS)} other forms"
    yield from (f"{counts[part.count]} {part.words}" for part in PARTS if part.count in counts)


def _failed_controls(worker: Worker) -> list[str]:
    modules = dict.fromkeys((forms, *(part.module for part in PARTS)))
    failed = [each for module in modules for each in module.failed_controls()]
    # One file is enough, and of a large table the chains are long.
    for files in itertools.islice(_metadata_files(_table_of(worker)), 1):
        content = read_published(files).content
        failed += generations.failed_controls(content, file=files.pm_label)
        failed += views.failed_controls(content, file=files.pm_label)
    return failed


def _table_of(worker: Worker) -> Table:
    return open_table(worker.question.image, worker.question.path)


def _metadata_files(table: Table) -> Iterator[PartitionFiles]:
    for partition in table.transaction().partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm():
            yield files


def _compare_part(worker: Worker, key: str) -> _Compared:
    (part,) = (each for each in PARTS if each.key == key)
    return _Compared(counts={part.count: len(part.cases())}, findings=tuple(findings_of(part)))


def _compare_forms(worker: Worker) -> _Compared:
    files = files_to_change(_table_of(worker))
    counts = {CHANGED_FILES: len(files), FORM_COUNT: len(files) * len(FORMS)}
    return _Compared(counts=counts, findings=tuple(findings_of_forms(files)))


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
    return _Compared(counts={FILES: len(files_of), GENERATIONS: count}, findings=tuple(findings))


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
