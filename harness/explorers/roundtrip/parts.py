"""The parts of *roundtrip* whose cases do not depend on the table; each is a module with what is right worked out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any

from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.roundtrip import (
    asked_tables,
    created_tables,
    killed_commits,
    left_files,
    merge_plans,
    spelled_files,
)
from tornproof.harness.explorers.roundtrip.beside import changed_meanwhile, closed_files, open_files
from tornproof.harness.explorers.roundtrip.conditions import pruned_row_groups, worded_conditions
from tornproof.harness.explorers.roundtrip.metadata import (
    chains,
    column_version_files,
    compared_footers,
    exchanged_files,
    filter_references,
    flipped_footers,
    forged_duplicates,
    forged_flatbuffers,
    lost_files,
    meta_files,
    metadata_rules,
    opened_footers,
    optional_records,
    placed_partitions,
    transaction_files,
    verified_tables,
)
from tornproof.harness.explorers.roundtrip.native import native_columns, symbol_dictionaries, symbol_indexes
from tornproof.harness.explorers.roundtrip.parquet import (
    annotated_columns,
    array_bytes,
    chunks_together,
    cold_reads,
    converted_structs,
    edited_footers,
    expansion,
    flat_schemas,
    footer_rules,
    forms_of_others,
    judged_statistics,
    level_runs,
    migrated_filters,
    migrated_orders,
    packed_vectors,
    page_headers,
    parquet_members,
    schema_trees,
    thrift_forms,
    verified_filters,
    vouched_pages,
    written_options,
    written_partitions,
)
from tornproof.harness.explorers.roundtrip.worked_out import questions
from tornproof.harness.explorers.roundtrip.writing import (
    changed_columns,
    damaged_commits,
    grown_forms,
    limited_commits,
    lost_orphans,
    offered_values,
    offline_recoveries,
    promised_texts,
    readable_commits,
    recovery_rooms,
    refused_calls,
    republished_partitions,
    special_commits,
    taken_rows,
    taken_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Cases that do not depend on the table; of those of a kind, one problem is a finding.

    `module` has the property, what is wrong with a case, and controls; where these ask of a case themselves, it takes
    errors for problems, too. `key` is that of the evidence, `count` that of the phase, `words` say what the cases are,
    and `subject` begins the sentence on one of them.
    """

    key: str
    count: str
    words: str
    subject: str = ""
    module: ModuleType
    cases: Callable[[], Sequence[Any]]
    kind_of: Callable[[Any], str] = attrgetter("kind")

    def problem_of_making(self) -> str | None:
        """Say which error of what is explored keeps the cases from being made; None if they can be made."""

        @errors_as_problems
        def make() -> None:
            self.cases()

        return make()

    def problem_of(self, case: Any) -> str | None:
        """Say what is wrong with a case, also if it is an error of what is explored; None if nothing is."""
        return errors_as_problems(self.module.problem_of)(case)


PARTS = (
    Part(
        key="filter",
        count="filters migrated",
        words="bloom filters where footers say that they are, or not",
        module=migrated_filters,
        cases=migrated_filters.migrated_filters,
    ),
    Part(
        key="reference",
        count="references to filters",
        words="references to bloom filters in data.parquet, or beside them",
        module=filter_references,
        cases=filter_references.filter_references,
    ),
    Part(
        key="column_version",
        count="column versions",
        words="_cv files that say what they are, or break a rule",
        subject="A _cv, ",
        module=column_version_files,
        cases=column_version_files.column_version_files,
    ),
    Part(
        key="compared",
        count="footers compared",
        words="footers compared with what _pm says",
        subject="A footer, ",
        module=compared_footers,
        cases=compared_footers.compared_footers,
    ),
    Part(
        key="wrong",
        count="options refused",
        words="options that no file can have",
        subject="What must be refused, ",
        module=written_options,
        cases=written_options.wrong,
        kind_of=attrgetter("name"),
    ),
    Part(
        key="refused",
        count="refused calls",
        words="calls to writers, readers and for new tables, of which most are refused",
        module=refused_calls,
        cases=refused_calls.refused_calls,
    ),
    Part(
        key="transaction",
        count="transaction files",
        words="transaction files that say what they are, or break a rule",
        subject="A _txn, ",
        module=transaction_files,
        cases=transaction_files.transaction_files,
    ),
    Part(
        key="spelled",
        count="files spelled",
        words="paths of files as they may be spelled",
        module=spelled_files,
        cases=spelled_files.spelled_files,
    ),
    Part(
        key="cold",
        count="chunks alone",
        words="chunks that are read alone",
        subject="A chunk of ",
        module=cold_reads,
        cases=cold_reads.cold_reads,
    ),
    Part(
        key="meta",
        count="files of columns",
        words="_meta files that say what they are, or break a rule",
        subject="A _meta, ",
        module=meta_files,
        cases=meta_files.meta_files,
    ),
    Part(
        key="verified",
        count="tables verified",
        words="tables of which all that is wrong must be reported",
        subject="Of a table, ",
        module=verified_tables,
        cases=verified_tables.verified_tables,
    ),
    Part(
        key="footer",
        count="rules of footers",
        words="footers with numbers that may be or not",
        subject="A footer with ",
        module=footer_rules,
        cases=footer_rules.footer_rules,
    ),
    Part(
        key="repeated",
        count="repeated values",
        words="chunks that decode to one byte more than is allowed",
        subject="A chunk with ",
        module=expansion,
        cases=expansion.repeated,
        kind_of=attrgetter("name"),
    ),
    Part(
        key="flat",
        count="flat schemas",
        words="columns as FlatBuffers say of them what they are",
        subject="Of a column of ",
        module=flat_schemas,
        cases=flat_schemas.flat_schemas,
    ),
    Part(
        key="chain",
        count="chains of generations",
        words="chains of generations that are counted, or break a rule",
        subject="Of a chain, ",
        module=chains,
        cases=chains.chains,
    ),
    Part(
        key="offline",
        count="offline recoveries",
        words="states of a table after a killed commit that are recovered offline",
        module=offline_recoveries,
        cases=offline_recoveries.offline_recoveries,
    ),
    Part(
        key="open",
        count="open files",
        words="processes that have files open, of a table or not",
        subject="With a process that has ",
        module=open_files,
        cases=open_files.processes,
    ),
    Part(
        key="planned",
        count="merges planned",
        words="row groups into which rows of all times are merged",
        subject="Of ",
        module=merge_plans,
        cases=merge_plans.merge_plans,
    ),
    Part(
        key="ascii",
        count="promised texts",
        words="rows that are added where a header says that all texts are ASCII",
        module=promised_texts,
        cases=promised_texts.promised_texts,
    ),
    Part(
        key="vouched",
        count="page headers flipped",
        words="bits of page headers that are other ones, beside checksums",
        subject="Of a chunk of ",
        module=vouched_pages,
        cases=vouched_pages.vouched_pages,
    ),
    Part(
        key="tree",
        count="trees of schemas",
        words="sequences of elements of a schema that are a tree or not",
        module=schema_trees,
        cases=schema_trees.schema_trees,
    ),
    Part(
        key="sorted",
        count="orders of row groups",
        words="files whose row groups say how they are sorted",
        subject="A file whose row groups are ",
        module=migrated_orders,
        cases=migrated_orders.sorted_files,
    ),
    Part(
        key="table",
        count="tables asked",
        words="questions to tables beside their rows",
        module=asked_tables,
        cases=asked_tables.asked_tables,
    ),
    Part(
        key="left",
        count="files left",
        words="calls that leave files, locks and names on a disk",
        module=left_files,
        cases=left_files.left_files,
    ),
    Part(
        key="placed",
        count="partitions placed",
        words="partitions beside what tables say of them",
        subject="A partition, ",
        module=placed_partitions,
        cases=placed_partitions.placed_partitions,
    ),
    Part(
        key="judged",
        count="statistics judged",
        words="counts and bounds beside values of every type",
        subject="Of ",
        module=judged_statistics,
        cases=judged_statistics.judged_statistics,
    ),
    Part(
        key="lost",
        count="files lost",
        words="files of a server's table that are lost",
        module=lost_files,
        cases=lost_files.lost_files,
    ),
    Part(
        key="annotated",
        count="annotated columns",
        words="annotations of columns",
        subject="A column with the annotation ",
        module=annotated_columns,
        cases=annotated_columns.annotated_columns,
        kind_of=attrgetter("type"),
    ),
    Part(
        key="rule",
        count="rules of metadata",
        words="metadata files that break a rule, or come to its limit",
        subject="A metadata file with ",
        module=metadata_rules,
        cases=metadata_rules.rules,
        kind_of=attrgetter("field"),
    ),
    Part(
        key="worked_out",
        count="worked out twice",
        words="names, intervals, hashes and orders worked out twice",
        module=questions,
        cases=questions.questions,
    ),
    Part(
        key="exchanged",
        count="exchanged files",
        words="partitions with a sound data.parquet of another one",
        module=exchanged_files,
        cases=exchanged_files.exchanged_files,
    ),
    Part(
        key="grown",
        count="rows in other forms",
        words="rows added to files in other forms",
        module=grown_forms,
        cases=grown_forms.grown_forms,
    ),
    Part(
        key="rows",
        count="rows offered",
        words="ways to name and time rows",
        subject="Of ",
        module=taken_rows,
        cases=taken_rows.offered_rows,
    ),
    Part(
        key="forged",
        count="forged duplicates",
        words="records that lead to something else than the values of their chunk",
        module=forged_duplicates,
        cases=forged_duplicates.forged_duplicates,
    ),
    Part(
        key="volumes",
        count="recoveries with errors",
        words="volumes on which a recovery cannot write to every partition",
        subject="Of ",
        module=republished_partitions,
        cases=republished_partitions.volumes,
    ),
    Part(
        key="special",
        count="commits to special tables",
        words="commits to tables with nearly equal keys, renamed columns and native neighbours",
        subject="After ",
        module=special_commits,
        cases=special_commits.special_commits,
    ),
    Part(
        key="dictionary",
        count="dictionaries of symbols",
        words="dictionaries of symbols that can be read or not",
        subject="A dictionary, ",
        module=symbol_dictionaries,
        cases=symbol_dictionaries.symbol_dictionaries,
    ),
    Part(
        key="native",
        count="native partitions",
        words="partitions in the native format whose files may be or not",
        subject="A native partition, ",
        module=native_columns,
        cases=native_columns.native_columns,
    ),
    Part(
        key="flipped",
        count="flipped footers",
        words="bits of footers of files that have two, or one of FlatBuffers",
        module=flipped_footers,
        cases=flipped_footers.flipped_footers,
    ),
    Part(
        key="arrays",
        count="bytes of arrays",
        words="arrays as they are stored",
        subject="Arrays of ",
        module=array_bytes,
        cases=array_bytes.array_bytes,
    ),
    Part(
        key="filled",
        count="filters filled",
        words="ways to fill the bloom filters of columns of every type",
        subject="Of ",
        module=verified_filters,
        cases=verified_filters.filled,
    ),
    Part(
        key="orphan",
        count="lost orphans",
        words="recoveries, cut anywhere, from killed commits that only the page cache has",
        module=lost_orphans,
        cases=lost_orphans.lost_orphans,
    ),
    Part(
        key="edited",
        count="footers edited",
        words="footers that are divided and put together",
        subject="A footer, ",
        module=edited_footers,
        cases=edited_footers.edited_footers,
    ),
    Part(
        key="closed",
        count="operations and what they open",
        words="operations, with each call failing or none, that must close what they open",
        module=closed_files,
        cases=closed_files.closed_files,
    ),
    Part(
        key="wire",
        count="forms of structs",
        words="structs of Thrift in each form that they may have, or may not",
        subject="A struct with ",
        module=thrift_forms,
        cases=thrift_forms.thrift_forms,
    ),
    Part(
        key="worded",
        count="conditions in words",
        words="conditions on columns of every type",
        subject="A condition, ",
        module=worded_conditions,
        cases=worded_conditions.worded_conditions,
    ),
    Part(
        key="asked",
        count="options asked for",
        words="options of the writer",
        subject="A file that is written with ",
        module=written_options,
        cases=written_options.asked,
        kind_of=attrgetter("name"),
    ),
    Part(
        key="header",
        count="headers of pages",
        words="chunks of pages whose headers may be or not",
        subject="A chunk, ",
        module=page_headers,
        cases=page_headers.page_chunks,
    ),
    Part(
        key="index",
        count="indexes of symbols",
        words="indexes that lead to the rows of symbols or not",
        subject="An index of symbols, ",
        module=symbol_indexes,
        cases=symbol_indexes.symbol_indexes,
    ),
    Part(
        key="killed",
        count="commits killed",
        words="commits with new symbols and first nulls that are killed at each call",
        subject="Of a commit of ",
        module=killed_commits,
        cases=killed_commits.killed_commits,
    ),
    Part(
        key="levels",
        count="runs of levels",
        words="runs of levels in a page of numbers, also broken ones",
        subject="A page with ",
        module=level_runs,
        cases=level_runs.level_runs,
        kind_of=attrgetter("name"),
    ),
    Part(
        key="flatbuffers",
        count="forged FlatBuffers",
        words="bytes of FlatBuffers that are changed, with right checksums",
        module=forged_flatbuffers,
        cases=forged_flatbuffers.forged_flatbuffers,
    ),
    Part(
        key="packed",
        count="packed pages",
        words="pages of packed vectors, also broken ones",
        subject="A page with ",
        module=packed_vectors,
        cases=packed_vectors.all_pages,
        kind_of=attrgetter("name"),
    ),
    Part(
        key="optional",
        count="optional bits",
        words="bits of what is optional",
        module=optional_records,
        cases=optional_records.flipped_bits,
    ),
    Part(
        key="converted",
        count="structs converted",
        words="structs as QuestDB's converter reads them",
        subject="A struct of a footer, ",
        module=converted_structs,
        cases=converted_structs.converted_reads,
    ),
    Part(
        key="written",
        count="partitions written",
        words="tables with some options of the writer, whose partitions are written in every way",
        subject="Of a table with ",
        module=written_partitions,
        cases=written_partitions.written_partitions,
    ),
    Part(
        key="member",
        count="members of structs",
        words="structs of Parquet's metadata with and without each member",
        module=parquet_members,
        cases=parquet_members.members_cases,
        kind_of=attrgetter("table"),
    ),
    Part(
        key="others",
        count="forms of others",
        words="files with footers of others in other forms",
        module=forms_of_others,
        cases=forms_of_others.forms_of_others,
    ),
    Part(
        key="migrations_beside",
        count="migrations beside others",
        words="migrations in whose middle another process acts",
        subject="Of ",
        module=changed_meanwhile,
        cases=changed_meanwhile.migrations_beside,
    ),
    Part(
        key="operations_beside",
        count="operations beside others",
        words="other operations in whose middle another process acts",
        subject="Of ",
        module=changed_meanwhile,
        cases=changed_meanwhile.operations_beside,
    ),
    Part(
        key="taken",
        count="columns offered values",
        words="columns that are offered values of every Arrow type",
        subject="Of what is offered to ",
        module=taken_values,
        cases=offered_values.offered_columns,
        kind_of=attrgetter("type"),
    ),
    Part(
        key="together",
        count="chunks together",
        words="groups of chunks that are decoded together",
        subject="Of chunks, ",
        module=chunks_together,
        cases=chunks_together.chunks_together,
    ),
    Part(
        key="created",
        count="tables created",
        words="new tables whose creation a power cut ends anywhere",
        subject="Of ",
        module=created_tables,
        cases=created_tables.created_tables,
    ),
    Part(
        key="opened",
        count="opened footers",
        words="footers with a flipped bit that are reported, or opened by others",
        module=opened_footers,
        cases=opened_footers.opened_footers,
    ),
    Part(
        key="readable",
        count="readable commits",
        words="commits where readers take little memory",
        module=readable_commits,
        cases=readable_commits.readable_commits,
    ),
    Part(
        key="limited",
        count="commits under limits",
        words="commits under lower and lower limits of readers",
        subject="Of ",
        module=limited_commits,
        cases=limited_commits.limited_commits,
    ),
    Part(
        key="damaged",
        count="damaged commits",
        words="commits to a partition with a flipped bit",
        module=damaged_commits,
        cases=damaged_commits.damaged_commits,
    ),
    Part(
        key="pruned",
        count="row groups pruned",
        words="row groups, conditions and times that leave rows out or do not",
        subject="Of ",
        module=pruned_row_groups,
        cases=pruned_row_groups.pruned_row_groups,
    ),
    Part(
        key="rooms",
        count="commits in little room",
        words="commits of which readers accept just so much metadata, killed as late as possible and recovered",
        subject="Of ",
        module=recovery_rooms,
        cases=recovery_rooms.recovery_rooms,
    ),
    Part(
        key="altered",
        count="columns changed",
        words="writes to partitions after their columns were dropped, renamed or replaced",
        module=changed_columns,
        cases=changed_columns.changed_columns,
    ),
)
"""All parts, those that take least time first."""


def part_of(key: str) -> Part:
    """Return the part with a key; raises KeyError if there is none."""
    return {part.key: part for part in PARTS}[key]
