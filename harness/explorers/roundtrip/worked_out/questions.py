"""What the format spells out, worked out a second time by docs/format.md: directories, types, hashes, reloads and more.

Writer and reader have these functions in common, so that a mistake in one is in both, and only a server sees it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.worked_out.machine import machines, memory, processes
from tornproof.harness.explorers.roundtrip.worked_out.metadata import (
    bit_fields,
    found_generations,
    hashes,
    stored_versions,
    transactions,
    verified_records,
)
from tornproof.harness.explorers.roundtrip.worked_out.operators import migrations, reports, verifications
from tornproof.harness.explorers.roundtrip.worked_out.parquet import (
    bloom_filters,
    chunk_layouts,
    column_types,
    flat_footers,
    histograms,
    new_encodings,
    page_indexes,
    shared_prefixes,
    symbol_keys,
    thrift_footers,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, problem_of
from tornproof.harness.explorers.roundtrip.worked_out.tables import (
    changed_columns,
    changed_types,
    column_tops,
    directories,
    limits,
    new_tables,
    other_partitions,
    reads,
)
from tornproof.harness.explorers.roundtrip.worked_out.writing import (
    equal_keys,
    later_keys,
    published_files,
    unordered_rows,
    writers,
)

PROPERTY = "what the format spells out is what its documentation says"
GENERATORS = (
    directories.directories,
    column_types.types,
    hashes.hashes,
    hashes.checksums,
    new_tables.column_orders,
    new_tables.creations,
    transactions.reloads,
    column_types.bounds,
    bloom_filters.copied_filters,
    migrations.documents,
    transactions.pending,
    column_types.enumerations,
    column_types.parquet_forms,
    migrations.migrated_documents,
    bloom_filters.bloom_filters,
    bloom_filters.filters_of_zeros,
    thrift_footers.thrift_footers,
    migrations.migrations_of_one,
    processes.errors,
    processes.work,
    new_tables.new_partitions,
    processes.threads,
    transactions.announcements,
    stored_versions.next_versions,
    migrations.conversions,
    stored_versions.stores,
    stored_versions.spared_stores,
    column_types.readable_forms,
    migrations.rejections,
    migrations.described,
    migrations.filters_behind,
    migrations.decoded_times,
    migrations.other_forms,
    migrations.chunk_starts,
    bit_fields.bit_fields,
    bit_fields.annotations_of_records,
    flat_footers.flat_bounds,
    flat_footers.flat_dictionaries,
    flat_footers.flat_groups,
    flat_footers.restored,
    reports.counted_reads,
    reports.counted_migrations,
    reports.verdicts,
    reports.refusals,
    verifications.looked_at,
    reports.changed_sizes,
    machines.machines,
    machines.failing_calls,
    memory.held,
    reads.asked_in_words,
    verifications.verified,
    verified_records.verified_records,
    verified_records.headers,
    verifications.files_of_others,
    verifications.lists_of_others,
    verifications.unopened,
    verifications.unsupported,
    later_keys.later_keys,
    equal_keys.equal_keys,
    symbol_keys.symbol_keys,
    symbol_keys.keys_of_nulls,
    symbol_keys.dictionary_places,
    symbol_keys.adopted_keys,
    symbol_keys.left_indexes,
    symbol_keys.withdrawn_symbols,
    symbol_keys.index_sequences,
    unordered_rows.unordered_rows,
    page_indexes.page_indexes,
    page_indexes.pages_without_values,
    page_indexes.pages_called_null,
    page_indexes.uncounted_nulls,
    page_indexes.signed_addresses,
    page_indexes.times_in_order,
    transactions.patience,
    histograms.histograms,
    limits.limits,
    new_tables.time_columns,
    bloom_filters.asked_filters,
    verifications.recovered,
    reports.advice,
    column_tops.column_tops,
    writers.writers,
    other_partitions.other_partitions,
    chunk_layouts.chunk_layouts,
    published_files.published_files,
    published_files.published_meanwhile,
    changed_columns.changed_columns,
    changed_types.changed_types,
    found_generations.found_generations,
    new_encodings.new_encodings,
    flat_footers.flat_files,
    shared_prefixes.shared_prefixes,
    reports.rejected_for,
)
"""Of all questions, which are always in the same order."""


@functools.cache
def questions() -> tuple[Question, ...]:
    """Return all questions, always in the same order."""
    return distinct(question for generator in GENERATORS for question in generator())


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a hash of bytes, of directories without a time, and of words that are left out."""
    # The third version takes the place of the first one.
    first = "(1, 2, 1) partitions, of which the first record was replaced"
    for what, location, broken, about in (
        ("another hash", "tornproof.impl.table.symbol_hash:HASH_FACTOR", 33, ""),
        ("directories without a time", "tornproof.impl.table.partition_names:_time_name", lambda *_: "", ""),
        (
            "words left out beside another record",
            f"{stored_versions.__name__}:plan_store",
            stored_versions.leave_out_equal_words,
            first,
        ),
    ):
        with replaced(location, broken):
            asked = (question for question in questions() if about in question.name)
            if all(problem_of(question) is None for question in asked):
                yield f"{what} was not noticed"
