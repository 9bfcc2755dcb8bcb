"""Outcomes of damage to real tables, and that judging by a part and by the whole table agree."""

import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb
from depth import nightly, sampled
from explorations import explore_damage
from golden_data import BLOOM, CHAIN, ORPHANED, TYPES
from hypothesis import given
from hypothesis import strategies as st
from writer_run import start_run
from written_tables import DAY, PATH, new_table, write

from tornproof.harness.check import capture_table
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.counterexamples.regions import PAGE, PAGE_HEADER
from tornproof.harness.explorers.corruption.catalogue import damages_of
from tornproof.harness.explorers.corruption.explorer import judge_task, plan
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Cut, Damage, Flip, Kind
from tornproof.harness.explorers.corruption.tally import Tally
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.types.questdb import TypeTag

WITHOUT_META = "tables/9.4.2/history/history/00"
PAGES = (PAGE, PAGE_HEADER)
VERSION_BIT = Flip("_txn", 0)


@functools.cache
def judge_of(path: Path) -> Judge:
    return Judge(capture_table(OperatingSystemStorage(), str(path)), str(path))


def built(**options: Any) -> tb.BuiltTable:
    """A table of a few hundred bytes a file, with what real ones lack: NaN, -0.0 and, on demand, page checksums."""
    return tb.build(
        {
            "v": (TypeTag.LONG, pa.array([1, 2, None])),
            "d": (TypeTag.DOUBLE, pa.array([1.5, math.nan, -0.0])),
            "s": (TypeTag.VARCHAR, pa.array(["a", "bb", "c"])),
        },
        **options,
    )


def file_of(judge: Judge, name: str) -> str:
    (file,) = (file for file in judge.regions if file.endswith(name))
    return file


def every(judge: Judge, file: str, step: int = 1) -> Iterator[Damage]:
    """All flips and cuts of a file, or with an odd `step` a sample that is spread over all offsets and bits."""
    yield from (Flip(file, bit) for bit in range(0, judge.size_bytes(file) * BITS_IN_BYTE, step))
    yield from (Cut(file, size_bytes) for size_bytes in range(0, judge.size_bytes(file), step))


def outcomes(judge: Judge, damages: Iterator[Damage]) -> Counter[Outcome]:
    return Counter(judge.judge(damage)[0] for damage in damages)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *sampled(2, [(CHAIN, 5), (ORPHANED, 9), (WITHOUT_META, 9)]),
        nightly(CHAIN, 1),
    ],
)
def test_the_lowest_bit_of_version_is_the_one_legal_state(questdb_data: Path, name: str, step: int) -> None:
    judge = judge_of(questdb_data / name)
    found = {damage: judge.judge(damage) for damage in every(judge, "_txn", step)}
    assert found[VERSION_BIT] == (Outcome.LEGAL_STATE, "VERSION")
    del found[VERSION_BIT]
    assert {outcome for outcome, _ in found.values()} == {Outcome.REJECTED, Outcome.HARMLESS}
    rejected = {field for outcome, field in found.values() if outcome is Outcome.REJECTED}
    assert {
        "VERSION",
        "TXN",
        "TRANSIENT_ROW_COUNT",
        "FIXED_ROW_COUNT",
        "partition TOKEN",
        "partition NAME_TXN",
    } <= rejected


def test_without_a_readable_neighbour_no_version_is_legal(questdb_data: Path) -> None:
    judge = judge_of(questdb_data / TYPES)
    assert judge.judge(VERSION_BIT) == (Outcome.REJECTED, "VERSION")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *sampled(2, [(CHAIN, 9), (ORPHANED, 9), (WITHOUT_META, 9)], seed=2),
        nightly(CHAIN, 1),
        nightly(ORPHANED, 5),
        nightly(WITHOUT_META, 5),
    ],
)
def test_every_damage_of_committed_bytes_of_pm_is_rejected(questdb_data: Path, name: str, step: int) -> None:
    judge = judge_of(questdb_data / name)
    (resolved,) = judge.partitions.values()
    committed = resolved.resolved.position.end_bytes
    file = file_of(judge, PM_FILE)
    found = {damage: judge.judge(damage)[0] for damage in every(judge, file, step)}
    inside = {damage: outcome for damage, outcome in found.items() if damage.offset_bytes < committed}
    assert set(inside.values()) == {Outcome.REJECTED}
    assert len(inside) >= 9 * committed // step
    # Of an orphan, readers only read the footer.
    assert set(found.values()) <= {Outcome.REJECTED, Outcome.HARMLESS}
    assert (Outcome.HARMLESS in found.values()) == (name == ORPHANED)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        (CHAIN, 39),
        (ORPHANED, 39),
        (WITHOUT_META, 39),
        (TYPES, 1_003),
        nightly(CHAIN, 19),
        nightly(ORPHANED, 19),
        nightly(WITHOUT_META, 19),
        nightly(TYPES, 503),
    ],
)
def test_damage_of_data_is_exposed_in_pages_only_and_never_silent(questdb_data: Path, name: str, step: int) -> None:
    judge = judge_of(questdb_data / name)
    file = file_of(judge, DATA_FILE)
    (resolved,) = judge.partitions.values()
    by_field: dict[str, Counter[Outcome]] = {}
    for damage in every(judge, file, step):
        outcome, field = judge.judge(damage)
        by_field.setdefault(field, Counter())[outcome] += 1
        if isinstance(damage, Cut):
            assert outcome is (
                Outcome.REJECTED if damage.size_bytes < resolved.partition.token else Outcome.HARMLESS
            ), damage
    assert {field for field, found in by_field.items() if Outcome.EXPOSURE in found} <= {"page", "page header"}
    assert by_field["page"][Outcome.EXPOSURE] > 0 < by_field["page"][Outcome.REJECTED]
    assert not any(found[Outcome.SILENT] or found[Outcome.LEGAL_STATE] for found in by_field.values())
    tail = range(resolved.partition.token - 8, resolved.partition.token)
    assert {judge.judge(Flip(file, 8 * offset))[0] for offset in tail} == {Outcome.REJECTED}


def test_bytes_that_are_never_read_are_harmless_and_counted(questdb_data: Path) -> None:
    judge = judge_of(questdb_data / ORPHANED)
    (resolved,) = judge.partitions.values()
    file = file_of(judge, DATA_FILE)
    dead = [Flip(file, 8 * offset) for offset in range(resolved.partition.token, judge.size_bytes(file))]
    judge.reached.clear()
    assert {judge.judge(flip) for flip in dead} == {(Outcome.HARMLESS, "past the token")}
    assert judge.reached["a byte that is never read"] == len(dead) > 100
    assert {judge.judge_whole(flip) for flip in dead[::97]} == {Outcome.HARMLESS}


def test_other_values_than_the_bloom_filter_has_are_rejected_as_verifying_the_whole_table_does(
    questdb_data: Path,
) -> None:
    judge = judge_of(questdb_data / BLOOM)
    file = file_of(judge, DATA_FILE)
    pages = [offset for offset in range(judge.size_bytes(file)) if judge.regions[file].label(offset) == "page"]
    flips = [Flip(file, 8 * offset) for offset in pages[:: len(pages) // 20]]
    by_part = [judge.judge(flip)[0] for flip in flips]
    assert by_part == [judge.judge_whole(flip) for flip in flips]
    assert judge.reached["a page rejected by its bloom filter"] and Outcome.EXPOSURE in by_part


def sample(judge: Judge, count: int) -> list[Damage]:
    """About `count` damages, spread over all files and fields, each field at least once."""
    planned = [damage for task in plan(judge) for damage in damages_of(judge, task)]
    by_field = {judge.field_of(damage): damage for damage in planned if damage.kind in (Kind.FLIP, Kind.CUT)}
    by_kind = {(damage.kind, index % 5): damage for index, damage in enumerate(planned)}
    return [*by_field.values(), *by_kind.values(), *planned[:: max(1, len(planned) // count)]]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *sampled(1, [(CHAIN, 20), (ORPHANED, 20), (WITHOUT_META, 20)], seed=1),
        nightly(CHAIN, 160),
        nightly(ORPHANED, 90),
        nightly(WITHOUT_META, 90),
        nightly(TYPES, 25),
        nightly(BLOOM, 90),
    ],
)
def test_judging_the_part_and_the_whole_agree(questdb_data: Path, name: str, count: int) -> None:
    judge = judge_of(questdb_data / name)
    damages = sample(judge, count)
    by_part = {damage: judge.of(damage.kind).judge(damage)[0] for damage in damages}
    by_whole = {damage: judge.of(damage.kind).judge_whole(damage) for damage in by_part}
    # What a page says alone cannot show its damage, but other pages may: the order of times.
    assert {(by_part[each], by_whole[each]) for each in by_part if by_part[each] is not by_whole[each]} <= {
        (Outcome.EXPOSURE, Outcome.REJECTED)
    }
    assert {damage.file for damage in by_part} >= judge.regions.keys()
    kinds = {kind for kind in Kind if kind is not Kind.PAIR and judge.files(kind)}
    assert {damage.kind for damage in by_part} == kinds
    assert {Outcome.REJECTED, Outcome.HARMLESS} <= set(by_part.values())
    assert len(by_part) >= count


@functools.cache
def built_judge(**options: Any) -> Judge:
    return Judge(built(**options).image(), "/table")


@given(st.data())
def test_whatever_damage_is_chosen_both_ways_agree(data: st.DataObject) -> None:
    judge = built_judge()
    file = data.draw(st.sampled_from(sorted(judge.regions)))
    size_bytes = judge.size_bytes(file)
    flips = st.integers(0, size_bytes * BITS_IN_BYTE - 1).map(lambda bit: Flip(file, bit))
    cuts = st.integers(0, size_bytes - 1).map(lambda size: Cut(file, size))
    damage = data.draw(flips | cuts)
    assert judge.judge(damage)[0] is judge.judge_whole(damage)


def test_a_page_with_checksum_is_never_exposed() -> None:
    protected, bare = built_judge(write_page_checksum=True), built_judge()
    found = {}
    for judge in (protected, bare):
        bits = range(0, judge.size_bytes(tb.DATA) * BITS_IN_BYTE, 3)
        judged = (judge.judge(Flip(tb.DATA, bit)) for bit in bits)
        found[judge is protected] = Counter(
            (field, outcome) for outcome, field in judged if field in (PAGE, PAGE_HEADER)
        )
    assert found[False]["page", Outcome.EXPOSURE] > 5
    assert found[True]["page", Outcome.EXPOSURE] == found[True]["page", Outcome.HARMLESS] == 0
    assert not any(outcome is Outcome.SILENT for by_field in found.values() for _, outcome in by_field)


def test_a_page_with_checksum_that_decodes_to_other_values_is_silent_damage() -> None:
    judge = built_judge(write_page_checksum=True)
    (resolved,) = judge.partitions.values()
    chunk = resolved.metadata.blocks[0].chunks[1]
    flip = Flip(tb.DATA, (chunk.byte_range_end - 1) * BITS_IN_BYTE)
    assert judge.judge(flip)[0] is Outcome.REJECTED

    def careless(content: bytes, *_: object, **__: object) -> pa.Array:
        return pa.array(list(content))

    with replaced("tornproof.harness.explorers.corruption.judge:decode_chunk", careless):
        assert judge.judge(flip)[0] is Outcome.SILENT
        bare = built_judge()
        (unprotected,) = bare.partitions.values()
        end_bytes = unprotected.metadata.blocks[0].chunks[1].byte_range_end
        assert bare.judge(Flip(tb.DATA, (end_bytes - 1) * BITS_IN_BYTE))[0] is Outcome.EXPOSURE


def test_a_page_checksum_does_not_cover_the_page_header() -> None:
    judge = built_judge(write_page_checksum=True)
    (resolved,) = judge.partitions.values()
    start = resolved.metadata.blocks[0].chunks[1].byte_range_start
    with replaced(
        "tornproof.harness.explorers.corruption.judge:decode_chunk",
        lambda content, *_, **__: pa.array(list(content)),
    ):
        assert judge.judge(Flip(tb.DATA, start * BITS_IN_BYTE)) == (Outcome.EXPOSURE, "page header")


def test_a_table_that_holds_nan_equals_itself() -> None:
    sound = built()
    table = sound.with_file(tb.DATA, sound.files[tb.DATA] + b"dead")
    judge = Judge(table.image(), "/table")
    dead = Flip(tb.DATA, len(sound.files[tb.DATA]) * BITS_IN_BYTE)
    assert judge.judge_whole(dead) is judge.judge(dead)[0] is Outcome.HARMLESS


def test_a_sign_of_zero_is_a_difference() -> None:
    zeros = {"d": (TypeTag.DOUBLE, pa.array([1.5, -0.0]))}
    judge = Judge(tb.build(zeros, use_dictionary=False, compression="none").image(), "/table")
    (resolved,) = judge.partitions.values()
    sign = Flip(tb.DATA, resolved.metadata.blocks[0].chunks[1].byte_range_end * BITS_IN_BYTE - 1)
    with replaced("tornproof.impl.chunk.chunk:check_bounds_of_pages", lambda *_, **__: False):
        assert judge.judge(sign)[0] is judge.judge_whole(sign) is Outcome.EXPOSURE


# A table that our own writer grew in place


SAMPLED = 161
"""One of so many damages is tried by default; odd, so that all bits of a byte are tried."""


def grown_table() -> DiskImage:
    types = {"i": TypeTag.INT, "b": TypeTag.BOOLEAN, "d": TypeTag.DOUBLE, "u": TypeTag.UUID}
    storage, table = new_table(*(NewColumn(name=name, type=tag) for name, tag in types.items()))
    write(storage, *(rows_for(table, [DAY + 7 * row + step for row in range(5)], seed=10 * step) for step in range(3)))
    return storage.image()


@pytest.mark.nightly
def test_sampled_damage_of_a_written_table_is_noticed_or_harmless() -> None:
    judge = Judge(grown_table(), PATH)
    tally = Tally()
    tasks = plan(judge)
    assert [task.kind in (Kind.FLIP, Kind.CUT) for task in tasks].count(True) == 6
    for task in tasks:
        tally.add(judge_task(judge, replace(task, step=SAMPLED)))
    outcomes = {outcome for _, _, outcome in tally.outcomes}
    assert outcomes <= {Outcome.REJECTED, Outcome.HARMLESS, Outcome.LEGAL_STATE, Outcome.ROLLBACK}
    assert tally.disagreements == [] and tally.tried > 750
    assert sum(count for (file, _, _), count in tally.outcomes.items() if file.endswith(DATA_FILE)) > 250


@pytest.mark.nightly
def test_no_damage_of_a_written_table_is_silent_or_undetectable() -> None:
    check(grown_table(), PATH)


@pytest.mark.nightly
def test_no_damage_of_a_real_table_that_was_written_anew_is_silent_or_undetectable(
    questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / "tables/9.4.2/oddcols/table")
    with run.writer as writer:
        for start in run.rows:
            writer.rewrite_partition(start)
        writer.commit()
        times = run.times()
        for step in range(2):
            writer.write(rows_for(writer.table, [times[0] + step, times[len(times) // 2]], seed=step))
            writer.commit()
    check(run.storage.image(), run.path)


def check(image: DiskImage, path: str) -> None:
    phase = explore_damage(image, path)
    assert phase.verdict is Verdict.VALID and "not tried" not in phase.bound
    # A whole older `_txn`: no checksum ties it to the files, which are newer. Nor does any cover names in `_meta`.
    assert phase.exposures.keys() <= {"_txn VERSION (rollback)", "_meta content"}
    assert phase.counts["exposure"] == phase.exposures.get("_meta content", 0)
    assert phase.counts["silent"] == phase.counts["forged"] == 0 < phase.counts["rejected"]
