"""What the format spells out, worked out a second time by docs/format.md: directories, types, hashes, reloads and more.

Writer and reader have these functions in common, so that a mistake in one is in both, and only a server sees it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.worked_out.machine.machines import failing_calls, machines
from tornproof.harness.explorers.roundtrip.worked_out.machine.memory import held
from tornproof.harness.explorers.roundtrip.worked_out.machine.processes import errors, threads, work
from tornproof.harness.explorers.roundtrip.worked_out.metadata import stored_versions
from tornproof.harness.explorers.roundtrip.worked_out.metadata.bit_fields import annotations_of_records, bit_fields
from tornproof.harness.explorers.roundtrip.worked_out.metadata.found_generations import found_generations
from tornproof.harness.explorers.roundtrip.worked_out.metadata.hashes import checksums, hashes
from tornproof.harness.explorers.roundtrip.worked_out.metadata.stored_versions import (
    leave_out_equal_words,
    next_versions,
    spared_stores,
    stores,
)
from tornproof.harness.explorers.roundtrip.worked_out.metadata.transactions import (
    announcements,
    patience,
    pending,
    reloads,
)
from tornproof.harness.explorers.roundtrip.worked_out.metadata.verified_records import headers, verified_records
from tornproof.harness.explorers.roundtrip.worked_out.operators.migrations import (
    chunk_starts,
    conversions,
    decoded_times,
    described,
    documents,
    filters_behind,
    migrated_documents,
    migrations_of_one,
    other_forms,
    rejections,
)
from tornproof.harness.explorers.roundtrip.worked_out.operators.reports import (
    advice,
    changed_sizes,
    counted_migrations,
    counted_reads,
    refusals,
    verdicts,
)
from tornproof.harness.explorers.roundtrip.worked_out.operators.verifications import (
    files_of_others,
    lists_of_others,
    looked_at,
    recovered,
    unopened,
    unsupported,
    verified,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.bloom_filters import (
    asked_filters,
    bloom_filters,
    copied_filters,
    filters_of_zeros,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.chunk_layouts import chunk_layouts
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import (
    bounds,
    enumerations,
    parquet_forms,
    readable_forms,
    types,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.flat_footers import (
    flat_bounds,
    flat_dictionaries,
    flat_files,
    flat_groups,
    restored,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.histograms import histograms
from tornproof.harness.explorers.roundtrip.worked_out.parquet.new_encodings import new_encodings
from tornproof.harness.explorers.roundtrip.worked_out.parquet.page_indexes import (
    page_indexes,
    pages_called_null,
    pages_without_values,
    signed_addresses,
    times_in_order,
    uncounted_nulls,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.symbol_keys import (
    adopted_keys,
    dictionary_places,
    keys_of_nulls,
    left_indexes,
    symbol_keys,
    withdrawn_symbols,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.thrift_footers import thrift_footers
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, problem_of
from tornproof.harness.explorers.roundtrip.worked_out.tables.changed_columns import changed_columns
from tornproof.harness.explorers.roundtrip.worked_out.tables.changed_types import changed_types
from tornproof.harness.explorers.roundtrip.worked_out.tables.column_tops import column_tops
from tornproof.harness.explorers.roundtrip.worked_out.tables.directories import directories
from tornproof.harness.explorers.roundtrip.worked_out.tables.limits import limits
from tornproof.harness.explorers.roundtrip.worked_out.tables.new_tables import (
    column_orders,
    creations,
    new_partitions,
    time_columns,
)
from tornproof.harness.explorers.roundtrip.worked_out.tables.other_partitions import other_partitions
from tornproof.harness.explorers.roundtrip.worked_out.tables.reads import asked_in_words
from tornproof.harness.explorers.roundtrip.worked_out.writing.equal_keys import equal_keys
from tornproof.harness.explorers.roundtrip.worked_out.writing.later_keys import later_keys
from tornproof.harness.explorers.roundtrip.worked_out.writing.published_files import (
    published_files,
    published_meanwhile,
)
from tornproof.harness.explorers.roundtrip.worked_out.writing.unordered_rows import unordered_rows
from tornproof.harness.explorers.roundtrip.worked_out.writing.writers import writers

PROPERTY = "what the format spells out is what its documentation says"


@functools.cache
def questions() -> tuple[Question, ...]:
    """Return all questions, always in the same order."""
    names = (*directories(), *types(), *hashes(), *checksums())
    tables = (*column_orders(), *creations(), *reloads(), *bounds(), *copied_filters(), *documents(), *pending())
    return (
        *names,
        *tables,
        *enumerations(),
        *parquet_forms(),
        *migrated_documents(),
        *bloom_filters(),
        *filters_of_zeros(),
        *thrift_footers(),
        *migrations_of_one(),
        *errors(),
        *work(),
        *new_partitions(),
        *threads(),
        *announcements(),
        *next_versions(),
        *conversions(),
        *stores(),
        *spared_stores(),
        *readable_forms(),
        *rejections(),
        *described(),
        *filters_behind(),
        *decoded_times(),
        *other_forms(),
        *chunk_starts(),
        *bit_fields(),
        *annotations_of_records(),
        *flat_bounds(),
        *flat_dictionaries(),
        *flat_groups(),
        *restored(),
        *counted_reads(),
        *counted_migrations(),
        *verdicts(),
        *refusals(),
        *looked_at(),
        *changed_sizes(),
        *machines(),
        *failing_calls(),
        *held(),
        *asked_in_words(),
        *verified(),
        *verified_records(),
        *headers(),
        *files_of_others(),
        *lists_of_others(),
        *unopened(),
        *unsupported(),
        *later_keys(),
        *equal_keys(),
        *symbol_keys(),
        *keys_of_nulls(),
        *dictionary_places(),
        *adopted_keys(),
        *left_indexes(),
        *withdrawn_symbols(),
        *unordered_rows(),
        *page_indexes(),
        *pages_without_values(),
        *pages_called_null(),
        *uncounted_nulls(),
        *signed_addresses(),
        *times_in_order(),
        *patience(),
        *histograms(),
        *limits(),
        *time_columns(),
        *asked_filters(),
        *recovered(),
        *advice(),
        *column_tops(),
        *writers(),
        *other_partitions(),
        *chunk_layouts(),
        *published_files(),
        *published_meanwhile(),
        *changed_columns(),
        *changed_types(),
        *found_generations(),
        *new_encodings(),
        *flat_files(),
    )


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
            leave_out_equal_words,
            first,
        ),
    ):
        with replaced(location, broken):
            asked = (question for question in questions() if about in question.name)
            if all(problem_of(question) is None for question in asked):
                yield f"{what} was not noticed"
