"""What is worked out twice is the same, and a mistake in either of writer and reader alike is found and replays."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from inspect import signature
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from depth import nightly
from msgspec import structs
from planted_faults import planted
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.explorer import findings_of
from tornproof.harness.explorers.roundtrip.forms import opened
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.worked_out.machine.machines import machines
from tornproof.harness.explorers.roundtrip.worked_out.metadata import bit_fields
from tornproof.harness.explorers.roundtrip.worked_out.operators import verifications
from tornproof.harness.explorers.roundtrip.worked_out.operators.verifications import lists_of_others
from tornproof.harness.explorers.roundtrip.worked_out.parquet import flat_footers, page_indexes, symbol_keys
from tornproof.harness.explorers.roundtrip.worked_out.parquet.page_indexes import times_in_order
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, problem_of
from tornproof.harness.explorers.roundtrip.worked_out.questions import questions
from tornproof.harness.explorers.roundtrip.worked_out.tables.column_tops import column_tops
from tornproof.harness.explorers.roundtrip.worked_out.writing import writers
from tornproof.harness.explorers.roundtrip.worked_out.writing.later_keys import (
    commit_points,
    numbers_in,
    table_of_points,
)
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.simulator.filesystem.faulty import RefusingStorage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.impl.layout.bits import Bits
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.column_versions import ColumnVersions
from tornproof.impl.table.table import Table
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, TypeTag


def test_all_answers_are_right_and_there_are_several_of_each_kind() -> None:
    counts = Counter(each.kind for each in questions())
    assert len(counts) == 100 and min(counts[each] for each in ("directories", "types", "ends")) > 200


parameters_of = functools.cache(lambda function: signature(function).parameters)


def switches_of(found: functools.partial[Any]) -> tuple[bool | None, ...]:
    """Return what a question chooses: each argument that is true or false, or those of a sequence."""
    parameters = parameters_of(found.func)
    named = dict(zip(parameters, found.args, strict=False)) | found.keywords
    switches: list[bool | None] = []
    for name, parameter in parameters.items():
        value = named.get(name, parameter.default)
        if parameter.annotation == "bool":
            switches.append(value)
        elif parameter.annotation in ("Sequence[bool]", "Sequence[bool | None]"):
            switches += value
    return tuple(switches)


def test_of_what_a_question_chooses_every_combination_is_asked() -> None:
    """Nothing asked any more whether a writer refuses a table that a server has open, and that it is not to force."""
    chosen: dict[tuple[Any, int], set[tuple[bool | None, ...]]] = defaultdict(set)
    for question in questions():
        if isinstance(question.found, functools.partial) and isinstance(question.found.func, FunctionType):
            switches = switches_of(question.found)
            chosen[question.found.func, len(switches)].add(switches)
    assert {function.__name__ for function, _ in chosen} >= {"_version_of_writer", "_left_by_purge", "_published"}
    for (function, _), found in chosen.items():
        values = ({True, False, *each} for each in zip(*found, strict=True))
        assert found == {*itertools.product(*values)}, function.__qualname__


def test_the_words_of_a_large_filter_have_numbers_beyond_two_bytes() -> None:
    places = [each.expected for each in questions() if each.name.startswith("the bits of a filter of")]
    assert max(max(each, default=0) for each in places) // 32 > 0xFFFF


def test_a_row_that_is_read_twice_counts_twice() -> None:
    storage = table_of_points(((0, 1),), 4)
    commit_points(storage, [(0, (0, 1))], 4)
    assert numbers_in(storage) == [0, 0]


def has_checksums(asked: Table | bytes) -> bool:
    """Return whether the pages of the first column of a file have checksums, or those of the table's first file."""
    content = asked if isinstance(asked, bytes) else content_of(asked)
    chunk = opened(content).decoded().row_groups[0].chunks[0]
    start, value_count = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.num_values
    pages = content[start : start + chunk.total_compressed_size]
    walked = walk_pages(pages, file="", offset_bytes=start, codec=chunk.codec, value_count=value_count)
    return all(page.crc is not None for page in walked)


def content_of(table: Table) -> bytes:
    with table.files_of(table.transaction().partitions[0]).open_data() as data:
        return data.pread(data.size_bytes(), 0)


@pytest.mark.parametrize(
    ("ask", "step", "module", "name"),
    [
        (times_in_order, 1, page_indexes, "verify_table"),
        (page_indexes.page_indexes, 7, page_indexes, "verify_table"),
        (lists_of_others, 1, verifications, "_lists_and_problems"),
    ],
)
def test_questions_about_pages_with_checksums_are_asked_of_such_pages(
    ask: Callable[[], Iterator[Question]], step: int, module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some that said so were asked of the pages without checksums again."""
    asked, answer = [], getattr(module, name)

    def noted(of: Table | bytes) -> Any:
        asked.append(has_checksums(of))
        return answer(of)

    monkeypatch.setattr(module, name, noted)
    for question in [*ask()][::step]:
        assert problem_of(question) is None
        assert asked.pop() == (" with checksums" in question.name) != (" without checksums" in question.name)
    assert asked == []


def test_times_are_decoded_of_files_without_bounds_in_each_encoding_and_in_row_groups_of_all_shapes() -> None:
    """Times that are there as bounds need not be decoded."""
    encodings, names, shapes = {"PLAIN": 0, "DELTA_BINARY_PACKED": 5}, Counter[str](), defaultdict[str, set[Any]](set)
    for question in questions():
        if question.kind in ("decoded times", "rejections") and " times" in question.name:
            assert isinstance(question.found, functools.partial)
            groups = opened(question.found.args[0]).decoded().row_groups
            assert all(chunk.statistics is None for group in groups for chunk in group.chunks), question.name
            names[question.kind] += 1
            for name in (name for name in encodings if f" times, {name}, " in question.name):
                assert all(encodings[name] in chunk.encodings for group in groups for chunk in group.chunks)
                shapes[name].add(tuple(group.num_rows for group in groups))
    assert names == {"decoded times": 24, "rejections": 6}
    assert shapes["PLAIN"] == shapes["DELTA_BINARY_PACKED"] > {(1,), (2,), (5,), (2, 2, 1), (1,) * 9, (5, 4)}


def kinds_of(findings: list[Any]) -> set[str]:
    return {questions()[each.evidence["worked_out"]].kind for each in findings}


@pytest.mark.parametrize(
    ("location", "broken", "kinds"),
    [
        nightly(
            "tornproof.impl.types.questdb:DECIMAL_DIGITS_MAX", {**DECIMAL_DIGITS_MAX, TypeTag.DECIMAL64: 19}, {"types"}
        ),
        ("tornproof.impl.table.symbol_hash:HASH_MASK", 0x07, {"buckets"}),
        nightly(
            "tornproof.impl.table.partition_names:_floor",
            lambda start, _: start,
            {"directories", "starts", "ends", "verified", "unordered rows", "later keys", "column tops"},
        ),
        nightly("tornproof.impl.storage.checksum:crc32_combine", lambda first, second, _: second, {"checksums"}),
        nightly("tornproof.impl.extension.bounds:SUFFIX_SIZE_MAX_BYTES", 15, {"bounds in FlatBuffers"}),
        nightly("tornproof.impl.layout.txn:READ_ONLY", Bits("READ_ONLY", 63, 1, ""), {"bit fields"}),
    ],
)
def test_a_mistake_is_one_finding_of_a_kind_which_replays(location: str, broken: Any, kinds: set[str]) -> None:
    findings = all_that_replay("worked_out", replaced(location, broken))
    assert kinds_of(findings) == kinds and len(findings) == len(kinds)


def test_a_system_that_knows_no_barrier_is_taken_for_one_that_has_each_command() -> None:
    """The answer to an unknown call is -1, in which each bit is set."""
    fault = file_named("barrier of other commands")
    mistake = structs.replace(fault, after="\n    return barrier if is_there & _GLOBAL else None\n")
    with planted(mistake):
        found = [question for question in machines() if question.kind == "fences" and problem_of(question)]
    assert found and all("commands -1," in question.name for question in found)


def left_as_it_was(known: ColumnVersions, *_: object, **__: object) -> ColumnVersions:
    return known


def only_of_written(known: ColumnVersions, row_counts: Any, *, written: Any, **rest: Any) -> ColumnVersions:
    after = AFTER(known, row_counts, written=written, **rest)
    return ColumnVersions({key: entry for key, entry in after.entries.items() if key[0] in written})


AFTER = ColumnVersions.after


@pytest.mark.parametrize("mistake", [left_as_it_was, only_of_written])
def test_a_commit_that_leaves_first_rows_or_loses_other_entries_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., ColumnVersions]
) -> None:
    monkeypatch.setattr(ColumnVersions, "after", mistake)
    assert any(problem_of(question) for question in column_tops())


@pytest.mark.nightly
def test_a_week_that_gets_the_year_of_its_monday_is_found() -> None:
    with planted("week gets the year of its monday"):
        assert kinds_of([*findings_of(part_of("worked_out"))]) == {"directories"}


def test_by_how_much_sequences_grow_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that counts by two, or back, differed, too."""
    seen = iter(([1, 1], [3, 0]))
    monkeypatch.setattr(symbol_keys, "_sequences", lambda _: next(seen))
    assert symbol_keys._raised_sequences(["new"], is_one_process=True) == [[2, -1]]


def test_fields_that_end_in_another_error_are_not_said_to_be_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("a mistake")

    monkeypatch.setattr(bit_fields, "BitTable", broken)
    with pytest.raises(IndexError):
        bit_fields._has([(0, 1)])


@pytest.mark.parametrize(("count", "said"), [(0, "nothing"), (1, "values"), (2, "values")])
def test_a_chunk_without_values_is_not_said_to_have_some(
    count: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    footer = SimpleNamespace(chunk=lambda *place: SimpleNamespace(num_values=count))
    monkeypatch.setattr(flat_footers, "opened", lambda content: footer)
    assert flat_footers._chunk_at(b"", (0, 0), is_flat=False) == said


def test_of_a_commit_that_is_rejected_only_the_directory_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that already fails at one of its files is not asked about the directory."""
    asked = list[Callable[[Call], Any]]()

    def made(storage: Storage, reason_of: Callable[[Call], Any]) -> Any:
        asked.append(reason_of)
        return RefusingStorage(storage, reason_of)

    monkeypatch.setattr(writers, "RefusingStorage", made)
    for is_left in (True, False):
        writers._after_rejection(is_left=is_left)
    refused = [{kind for kind in CallKind if reason_of(Call(kind, "a"))} for reason_of in asked]
    assert refused == [{CallKind.RMDIR}, set()]
