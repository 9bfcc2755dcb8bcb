"""What the damage explorer finds when one check of the reader at a time is removed.

Counted are damages of a small table, every bit and every length: 15,840 or so, 841 of `_txn`, 3,492 of `_pm` and 4,237
of data.parquet rejected, 32 exposed, none silent.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb
from depth import nightly, sampled

import tornproof.impl.pm.chain
import tornproof.impl.read.reader
import tornproof.impl.table.partition
import tornproof.impl.txn.transaction
from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.corruption.blocks import BLOCK_BYTES, WORD_BYTES, Contents, zeroed
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.controls import (
    KINDS,
    blind_to_contradictions,
    failed_controls,
    failed_controls_of_injectors,
    failed_controls_of_kinds,
)
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Cut, Damage, Flip, Kind, Overwrite
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.errors import CorruptError, Problem, ProblemError
from tornproof.impl.layout import txn as layout
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types.questdb import TypeTag

Patch = tuple[str, Callable[..., Any]]
Found = Counter[tuple[str, str, Outcome]]
TABLE = tb.build(
    {
        "v": (TypeTag.LONG, pa.array([1, 2, None])),
        "s": (TypeTag.VARCHAR, pa.array(["a", "bb", "c"])),
    }
)
REJECTED, HARMLESS, EXPOSURE, SILENT = Outcome.REJECTED, Outcome.HARMLESS, Outcome.EXPOSURE, Outcome.SILENT
NONCONFORMING = Outcome.NONCONFORMING


def nothing(*_: object, **__: object) -> None: ...


def no_problems(*_: object, **__: object) -> Iterator[Problem]:
    return iter(())


def no_pages(*arguments: Any, **keywords: Any) -> Any:
    """A walk over page headers that treats what it cannot read as no pages."""
    try:
        return walk_pages(*arguments, **keywords)
    except ProblemError:
        return ()


def newest_generation(data: bytes, token: int, *, file: str) -> tornproof.impl.pm.chain.Resolved:
    """A reader that uses the size in the header instead of the token."""
    position = next(tornproof.impl.pm.chain.walk(data, file=file))
    tornproof.impl.pm.chain.check_checksum(data, position, file=file)
    return tornproof.impl.pm.chain.Resolved(position=position, orphan_count=0)


def no_row_counts(problems: Iterable[Problem]) -> Iterator[Problem]:
    return (each for each in problems if not each.field.startswith("ROW_COUNT"))


def any_row_count(*arguments: Any, **keywords: Any) -> Iterator[Problem]:
    return no_row_counts(check_partition(*arguments, **keywords))


def believing(field: str, size_bytes: int) -> Callable[..., tornproof.impl.txn.transaction.Transaction]:
    """A decoder of `_txn` that corrects what one check would reject, and continues."""

    def decode(window: memoryview, *rest: Any) -> tornproof.impl.txn.transaction.Transaction:
        try:
            return decode_area(window, *rest)
        except CorruptError as error:
            problem = error.problem
            if problem.field != field or problem.offset_bytes is None:
                raise
            expected = int(problem.expected.split(",")[0]).to_bytes(size_bytes, "little")
            repaired = bytearray(window)
            repaired[problem.offset_bytes : problem.offset_bytes + size_bytes] = expected
            return decode(memoryview(bytes(repaired)), *rest)

    return decode


check_partition = tornproof.impl.table.partition.check_partition
raise_first = tornproof.impl.read.reader.raise_first
decode_area = tornproof.impl.txn.transaction._decode_area

NO_CHECKSUM: Patch = ("tornproof.impl.pm.chain:check_checksum", nothing)
NO_COMPARISON: Patch = ("tornproof.impl.verify.verify:compare_footer", no_problems)
NO_STATISTICS: Patch = ("tornproof.impl.chunk.chunk:check_bounds_of_pages", lambda *_, **__: False)
NO_PAGE_WALK: Patch = ("tornproof.impl.chunk.chunk:walk_pages", no_pages)
NO_TAIL: Patch = ("tornproof.impl.table.partition:_check_data", no_problems)
NO_TOKEN: Patch = ("tornproof.impl.table.partition:resolve", newest_generation)
READERS = ("tornproof.impl.verify.verify", "tornproof.impl.read.reader")
NO_TABLE_CHECK: list[Patch] = [(f"{module}:check_against_table", no_problems) for module in READERS]
NO_NATIVE: list[Patch] = [(f"{module}:check_native", no_problems) for module in READERS]
NO_ROW_COUNT: list[Patch] = [
    ("tornproof.impl.verify.verify:check_partition", any_row_count),
    ("tornproof.impl.read.reader:raise_first", lambda problems: raise_first(no_row_counts(problems))),
]
DECODER = "tornproof.impl.txn.transaction:_decode_area"


@functools.cache
def found_with(*patches: Patch, name: str = "") -> Found:
    """Return the outcomes of all damages, or those of one file, of a reader with these patches."""
    found: Found = Counter()
    with ExitStack() as stack:
        for location, substitute in patches:
            stack.enter_context(replaced(location, substitute))
        judge = Judge(TABLE.image(), "/table")
        for file in judge.regions:
            size_bytes = judge.size_bytes(file) if file.endswith(name) else 0
            flips: Iterator[Damage] = (Flip(file, bit) for bit in range(size_bytes * BITS_IN_BYTE))
            for damage in (*flips, *(Cut(file, size) for size in range(size_bytes))):
                outcome, field = judge.judge(damage)
                found[file.rpartition("/")[2], field, outcome] += 1
    return found


def total(found: Found, outcome: Outcome, file: str = "") -> int:
    return sum(count for (in_file, _, of), count in found.items() if of is outcome and file in ("", in_file))


def test_with_all_checks_nothing_is_silent() -> None:
    found = found_with()
    sizes = sum(len(content) for name, content in TABLE.files.items() if name not in tb.BESIDE)
    assert sum(found.values()) == 9 * sizes
    assert total(found, REJECTED, "_pm") == 9 * len(TABLE.files[tb.PM])
    assert total(found, REJECTED, "_txn") > 800
    assert total(found, REJECTED, "data.parquet") > 3_000
    assert total(found, SILENT) == total(found, NONCONFORMING) == total(found, Outcome.LEGAL_STATE) == 0
    assert {field for _, field, outcome in found if outcome is EXPOSURE} == {"page"}


MISSING: dict[str, tuple[list[Patch], str, str, Outcome, int]] = {
    # Other rows would be read: each of these checks alone prevents a wrong answer.
    "CRC of _pm": ([NO_CHECKSUM], "_pm", "column ID", SILENT, 62),
    "CRC and Thrift comparison": ([NO_CHECKSUM, NO_COMPARISON], "_pm", "COLUMN_COUNT", SILENT, 2),
    "TXN of the record": ([(DECODER, believing("TXN", 8))], "_txn", "VERSION", SILENT, 61),
    "PARTITIONS_SIZE": ([(DECODER, believing("PARTITIONS_SIZE", 4))], "_txn", "A_PARTITIONS_SIZE", SILENT, 1),
    "files of native partitions": (NO_NATIVE, "_txn", "partition ROW_COUNT_AND_FLAGS", SILENT, 1),
    # More damage of pages would be taken for rows, which only comparing with statistics can notice.
    "statistics": ([NO_STATISTICS], "data.parquet", "page", EXPOSURE, 200),
    # The same rows would be read although bytes are wrong: another reader of the table may trust those bytes.
    "page headers": ([NO_PAGE_WALK], "data.parquet", "page header", HARMLESS, 40),
    "Thrift comparison": ([NO_COMPARISON], "data.parquet", "Thrift footer", HARMLESS, 400),
    "magic at the token": ([NO_TAIL], "data.parquet", "MAGIC", HARMLESS, 36),
    "footer length at the token": ([NO_TAIL], "data.parquet", "FOOTER_LENGTH", HARMLESS, 36),
    "token and tail": ([NO_TOKEN, NO_TAIL], "_txn", "partition TOKEN", HARMLESS, 64),
    "row count of _txn": (NO_ROW_COUNT, "_txn", "TRANSIENT_ROW_COUNT", HARMLESS, 63),
    "FIXED_ROW_COUNT": ([(DECODER, believing("FIXED_ROW_COUNT", 8))], "_txn", "FIXED_ROW_COUNT", HARMLESS, 64),
}


@pytest.mark.parametrize("missing", sampled(2, list(MISSING)))
def test_a_missing_check_changes_what_is_found(missing: str) -> None:
    patches, file, field, outcome, at_least = MISSING[missing]
    before = Counter({key: count for key, count in found_with().items() if key[0] == file})
    after = found_with(*patches, name=file)
    assert not total(after, NONCONFORMING)
    assert after[file, field, outcome] - before[file, field, outcome] >= at_least
    for key in before.keys() | after.keys():
        worse = after[key] < before[key] if key[2] is REJECTED else after[key] > before[key]
        assert worse or after[key] == before[key], key
    assert (total(after, SILENT) > 0) == (outcome is SILENT)


@pytest.mark.parametrize("name", ["_txn", nightly("")])
def test_without_the_token_alone_the_tail_still_rejects(name: str) -> None:
    """No flip makes a token so small that a tail would begin before the file: that of its sign is a mark."""
    before, after = found_with(name=name), found_with(NO_TOKEN, name=name)
    assert total(after, NONCONFORMING) == 0
    assert total(after, REJECTED) == total(before, REJECTED)
    assert total(after, HARMLESS) == total(before, HARMLESS)


@pytest.mark.nightly
def test_without_the_checksum_and_meta_values_land_in_other_columns_or_do_not_fit_there() -> None:
    with_meta = found_with(NO_CHECKSUM, name="_pm")
    after = found_with(NO_CHECKSUM, *NO_TABLE_CHECK, name="_pm")
    assert after["_pm", "column ID", SILENT] > with_meta["_pm", "column ID", SILENT]
    # Text in a timestamp column: pyarrow raises, which no reader of damaged bytes may do.
    assert total(after, NONCONFORMING, "_pm") == total(after, NONCONFORMING) > 0


def test_sizes_of_the_patched_fields_are_those_of_the_layout() -> None:
    record, size = layout.TransactionRecord.layout, layout.PartitionTableSize.layout
    assert [record.field(name).wire.size_bytes for name in ("txn", "fixed_row_count")] == [8, 8]
    assert size.field("partitions_size").wire.size_bytes == 4


# Controls


SMALL_TABLE = tb.SMALL
SIZES = {name: len(content) for name, content in SMALL_TABLE.files.items()}


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_of_a_kind_fails_when_no_reader_is_blind(kind: Kind, made: Judge) -> None:
    assert failed_controls_of_kinds(made) == []
    with replaced("tornproof.harness.explorers.corruption.controls:blind_to_contradictions", nullcontext):
        failures = failed_controls_of_kinds(made)
    assert [kind.value in failure for failure in failures].count(True) == 1


@pytest.mark.parametrize("left_out", [WORD_BYTES, *BLOCK_BYTES])
def test_a_size_of_which_no_block_is_zeroed_is_named_alone(left_out: int) -> None:
    assert failed_controls_of_injectors() == []

    def some_zeroed(contents: Contents, file: str, sizes: Sequence[int], blocks_max: int) -> Iterator[Overwrite]:
        return zeroed(contents, file, [size for size in sizes if size != left_out], blocks_max)

    with replaced("tornproof.harness.explorers.corruption.controls:zeroed", some_zeroed):
        assert failed_controls_of_injectors() == [f"not every block of {left_out} bytes is zeroed"]


def test_blindness_ends(made: Judge) -> None:
    (file, *_) = (file for file in made.regions if file.endswith("_pm"))
    damages = [each for each in listed(made, Kind.FIELD, file) if made.field_of(each) == "column ID"]
    with blind_to_contradictions():
        assert Outcome.SILENT in {made.judge(damage)[0] for damage in damages if "one more" in str(damage)}
    assert {made.judge(damage)[0] for damage in damages} == {Outcome.REJECTED}


def test_controls_pass_on_a_real_table(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/chain/table")
    assert failed_controls(Judge(capture_table(OperatingSystemStorage(), path), path)) == []


@pytest.mark.parametrize(
    ("location", "substitute", "failure"),
    [
        ("tornproof.impl.pm.chain:check_checksum", nothing, "was not rejected, although it is the checksum"),
        (
            "tornproof.impl.table.partition:_check_data",
            no_problems,
            "was not rejected, although it is shorter than the token",
        ),
        (
            "tornproof.harness.explorers.corruption.controls:blind_to_metadata",
            nullcontext,
            "no damage of a column descriptor was silent",
        ),
        (
            "tornproof.harness.explorers.corruption.controls:_is_noticed",
            lambda judge, flip: False,
            "no flipped bit of any page made a difference",
        ),
    ],
    ids=["checksum", "size", "blindness", "pages"],
)
def test_a_control_fails_when_the_check_that_it_needs_is_removed(
    location: str, substitute: Callable[..., Any], failure: str
) -> None:
    judge = Judge(SMALL_TABLE.image(), "/table")
    assert failed_controls(judge) == []
    with (
        replaced(location, substitute),
        replaced("tornproof.impl.verify.verify:check_thrift_footer", lambda resolved: (None, [])),
    ):
        failures = failed_controls(judge)
    assert [failure in each for each in failures].count(True) == 1


def test_the_control_of_size_cuts_one_byte_before_the_token() -> None:
    judge = Judge(SMALL_TABLE.image(), "/table")
    token = SIZES[tb.DATA]
    assert judge.judge(Cut(tb.DATA, token - 1))[0] is Outcome.REJECTED
