"""A finding of the state machine says which file is wrong first and what wrote it, or that what reads it is wrong."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import sampled
from planted_faults import planted

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding
from tornproof.harness.explorers.model_based import audit
from tornproof.harness.explorers.model_based.audit import Audit, Difference, Expected
from tornproof.harness.explorers.model_based.cause import RIGHT, Watch
from tornproof.harness.explorers.model_based.explorer import start_of
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import COMMITS, FIXED_PROGRAMS
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.explorers.model_based.rows import WITHOUT_NULL
from tornproof.harness.explorers.model_based.smaller import Steps
from tornproof.harness.explorers.model_based.start import StorageKind, prepare
from tornproof.harness.explorers.model_based.tables import OTHERS, TABLES
from tornproof.harness.explorers.model_based.world import World
from tornproof.harness.mutation.causes import found_by_programs
from tornproof.impl.layout import pm, txn
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.block import chunk_offset
from tornproof.impl.pm.chain import decode_chain, walk
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE

PATH = "/table"
COMPARED = "files compared without our decoders"
VALUE_BYTES = 8
"""At the end of a page, behind its header."""
GROWN: Steps = (
    {"rule": "insert", "rows": [0, 3, 6, 30]},
    {"rule": "commit"},
    {"rule": "append", "place": 0, "count": 2},
    {"rule": "commit"},
)
PARTITION = "2024-01-01.0"
DATA, PM = f"{PARTITION}/{DATA_FILE}", f"{PARTITION}/{PM_FILE}"
Damage = Callable[[bytearray], None]


def search_on(table: str | None) -> Search:
    encode = remembered_encoder()
    start = prepare(None, PATH) if table is None else start_of(table, encode)
    return Search(start=start, kind=StorageKind.MEMORY, scratch="", encode=encode, steps=0)


def programs() -> Iterator[tuple[str | None, int, Steps]]:
    yield from ((None, number, steps) for number, steps in enumerate(COMMITS))
    for table in TABLES:
        yield from ((table.name, number, steps) for number, steps in enumerate(FIXED_PROGRAMS[table.name]))


class LastWorld(Watch):
    """Keeps the world of a replay and what it has at the end."""

    world: World
    files: dict[str, bytes]

    def stepped(self, world: World) -> None:
        """Keep it, and the files of its partitions."""
        super().stepped(world)
        self.world = world
        assert self.recorder is not None
        names = [world.files.name_of(entry.directory) for entry in world.state.committed.entries]
        files = [TXN_FILE, *(f"{name}/{file}" for name in names for file in (DATA_FILE, PM_FILE))]
        self.files = {file: self.recorder.content(f"{world.files.path}/{file}") or b"" for file in files}


@pytest.mark.parametrize(("table", "number", "steps"), sampled(3, list(programs())))
def test_files_of_a_sound_writer_are_what_the_model_has_after_each_step(
    table: str | None, number: int, steps: Steps
) -> None:
    search, watch = search_on(table), Watch()
    with remembered_decoding():
        assert replay(search, number % len(search.start.options), steps, watch=watch) is None
    assert watch.wrong is None


class Asked(Watch):
    """Keeps of which steps the ends of generations are asked for."""

    asked: dict[str, bool]

    def stepping(self, world: World, step: Any) -> None:
        """Note it."""
        super().stepping(world, step)
        self.asked = getattr(self, "asked", {}) | {step["rule"]: None not in self._expected[0].known_ends.values()}


def test_ends_from_before_are_asked_for_after_each_step_but_a_recovery() -> None:
    watch, repair = Asked(), {"rule": "repair", "nth": 0, "count": 3}
    killed = {"rule": "commit that is killed", "kind": "store", "at": 0, "written_bytes": 0}
    assert replay(search_on(None), 1, (*GROWN, GROWN[2], killed, repair), watch=watch) is None
    assert {rule for rule, is_asked in watch.asked.items() if not is_asked} == {"repair"}


def grown() -> LastWorld:
    """Return a table with two partitions, of which the first has two generations."""
    watch = LastWorld()
    assert replay(search_on(None), 1, GROWN, watch=watch) is None
    return watch


def test_an_action_is_blamed_only_for_bytes_that_it_wrote() -> None:
    watch = grown()
    assert watch.recorder is not None
    written: dict[str, set[int]] = {}
    for call, _, _ in watch.recorder.written:
        ends = range(call.offset_bytes, call.offset_bytes + len(call.content))
        written.setdefault(call.path.removeprefix(f"{PATH}/"), set()).update(ends)
    assert {DATA, PM, TXN_FILE} <= written.keys()
    for file, places in written.items():
        for at in {place + step for place in places for step in (-1, 0, 1)}:
            difference = Difference(file, "", at, at + 1, "", "", "")
            assert (watch.written_by(watch.world, difference) != "") == (at in places)


@pytest.mark.parametrize("at", range(4))
def test_only_generations_that_are_there_after_a_recovery_are_still_known(at: int) -> None:
    watch, repair = LastWorld(), {"rule": "repair", "nth": 0, "count": 3}
    killed = {"rule": "commit that is killed", "kind": "store", "at": at, "written_bytes": 0}
    steps: Steps = (*GROWN, {"rule": "append", "place": 0, "count": 2}, killed, repair)
    assert replay(search_on(None), 1, steps, watch=watch) is None
    content = watch.files[PM]
    there = {each.end_bytes for each in walk(content, file=PM, end_bytes=int.from_bytes(content[:8], "little"))}
    assert watch.world.files.known_ends(watch.world.state.committed.entries[0].directory) == there


def compared(world: World) -> int:
    world.check_files()
    return world.reached[COMPARED]


def test_files_count_as_compared_only_where_they_were_and_are_right() -> None:
    """Those with holes, which are not read, and those that differ were counted, too."""
    world = grown().world
    count = world.reached[COMPARED]
    assert count > 0 and compared(world) == count + 1
    name = world.state.committed.entries[0].directory
    world.files.holes[name] = range(1)
    assert compared(world) == count + 1
    world.files.holes.clear()
    with world.files.storage.open_for_writing(f"{PATH}/{DATA}") as data:
        data.truncate(VALUE_BYTES)
    with pytest.raises(ViolationError, match="without our decoders"):
        compared(world)
    assert world.reached[COMPARED] == count + 1


def audited(damages: dict[str, Damage], watch: LastWorld) -> list[str]:
    """Return what is wrong after some files of a sound table were damaged."""
    world, state = watch.world, watch.world.state
    changed = {file: bytearray(watch.files[file]) for file in damages}
    for file, damage in damages.items():
        damage(changed[file])
    files = {**watch.files, **{file: bytes(content) for file, content in changed.items()}}
    audit = Audit(files.get, world.rows, world.files.name_of)
    known = {name: world.files.known_ends(name) for name, _ in state.directories}
    return [each.text for each in audit.differences(Expected(state.committed, known))]


def adding(number: int, at: Callable[[bytes], int]) -> Damage:
    def damage(content: bytearray) -> None:
        start = at(bytes(content))
        content[start] = (content[start] + number) % 256

    return damage


def flipped(at: int) -> Damage:
    return adding(0x20, lambda content: at)


def record(name: str) -> Callable[[bytes], int]:
    """Return where a field of the committed record is."""

    def at(content: bytes) -> int:
        base = txn.BaseHeader.unpack(content, 0, file=TXN_FILE)
        start = base.b_record_offset if base.version % 2 else base.a_record_offset
        return start + txn.TransactionRecord.layout.offset_of(name)

    return at


def entry(name: str) -> Callable[[bytes], int]:
    """Return where a field of the first partition's entry is; the table has no symbols."""
    end = txn.TransactionRecord.layout.size_bytes + txn.PartitionTableSize.layout.size_bytes
    return lambda content: record("txn")(content) + end + txn.PartitionEntry.layout.offset_of(name)


def trailer(content: bytes) -> int:
    return int.from_bytes(content[:8], "little") - pm.Trailer.layout.size_bytes


FIELDS: dict[str, tuple[str, Damage]] = {
    "VERSION in _txn is": (TXN_FILE, adding(2, lambda content: 0)),
    "TXN in _txn is": (TXN_FILE, adding(1, record("txn"))),
    "TRANSIENT_ROW_COUNT in _txn is": (TXN_FILE, adding(1, record("transient_row_count"))),
    "FIXED_ROW_COUNT in _txn is": (TXN_FILE, adding(1, record("fixed_row_count"))),
    "MIN_TIMESTAMP in _txn is": (TXN_FILE, adding(1, record("min_timestamp"))),
    "MAX_TIMESTAMP in _txn is": (TXN_FILE, adding(1, record("max_timestamp"))),
    f"TIMESTAMP of {PARTITION} in _txn is": (TXN_FILE, adding(1, entry("timestamp"))),
    f"NAME_TXN of {PARTITION} in _txn is": (TXN_FILE, adding(1, entry("name_txn"))),
    f"row count of {PARTITION} in _txn is": (TXN_FILE, adding(1, entry("row_count_and_flags"))),
    f"token of {PARTITION} in _txn is": (TXN_FILE, adding(1, entry("token"))),
    f"_pm size in {PM} is": (PM, adding(9, lambda content: 1)),
    f"CHECKSUM in {PM} is": (PM, adding(1, trailer)),
}


@pytest.mark.parametrize("said", FIELDS)
def test_a_field_that_is_wrong_is_said_with_its_file_and_both_values(said: str) -> None:
    file, damage = FIELDS[said]
    texts = audited({file: damage}, grown())
    assert any(text.startswith(said) and ", and should be " in text for text in texts), texts


def test_of_a_sound_table_nothing_is_wrong() -> None:
    assert audited({}, grown()) == []


def test_every_changed_byte_of_pm_behind_its_size_is_noticed_and_of_values() -> None:
    watch = grown()
    metadata = pq.read_metadata(pa.BufferReader(watch.files[DATA]))
    chunks = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]
    ends = [each.data_page_offset + each.total_compressed_size for each in chunks]
    pages = [range(end - VALUE_BYTES, end) for end in ends]
    for file, places in ((PM, [range(8, len(watch.files[PM]))]), (DATA, pages)):
        for at in itertools.chain(*places):
            assert audited({file: flipped(at)}, watch), (file, at)


def test_a_count_of_nulls_is_compared_also_where_there_are_no_bounds() -> None:
    watch = LastWorld()
    table = "weeks in nanoseconds, decimals and arrays"
    assert replay(search_on(table), 1, ({"rule": "insert", "rows": [0, 3]}, {"rule": "commit"}), watch=watch) is None
    unbounded = 0
    for file, content in watch.files.items():
        if file.endswith(PM_FILE):
            rows = pq.read_metadata(pa.BufferReader(watch.files[file.replace(PM_FILE, DATA_FILE)]))
            end_bytes = int.from_bytes(content[:8], "little")
            block = next(decode_chain(content, file=file, end_bytes=end_bytes)).blocks[0]
            for column in range(rows.num_columns):
                statistics = rows.row_group(0).column(column).statistics
                if statistics is not None and statistics.has_null_count and not statistics.has_min_max:
                    unbounded += 1
                    at = chunk_offset(block.offset_bytes, column) + pm.ColumnChunk.layout.offset_of("null_count")
                    texts = audited({file: flipped(at)}, watch)
                    assert any(text.startswith("NULL_COUNT of ") for text in texts), texts
    assert unbounded > 3


def test_a_null_that_others_read_in_a_column_without_nulls_stands_for_zero_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, rows = LastWorld(), [0, 3, 6, 9]
    steps: Steps = ({"rule": "insert", "rows": rows}, {"rule": "commit"})
    assert replay(search_on(OTHERS.name), 1, steps, watch=watch) is None
    shape, contents = watch.world.rows.shape, [watch.world.rows.contents[row] for row in rows]
    columns = [index for index in range(len(shape.schema)) if shape.tag_of(index) in WITHOUT_NULL]
    assert len(columns) == 2
    read = audit._column
    for index in columns:
        assert any(values[index] for values in contents)
        for are_all_null in (False, True):

            def with_nulls(table: pa.Table, column: pa.Field, of: int = index, all_null: bool = are_all_null) -> Any:
                found = read(table, column)
                is_this = column == shape.schema[of]
                return [None if is_this and (all_null or not each) else each for each in found or ()]

            monkeypatch.setattr(audit, "_column", with_nulls)
            assert (audited({}, watch) == []) is not are_all_null


def test_rules_that_are_not_possible_are_neither_counted_nor_reached() -> None:
    search = search_on(None)
    search.run_fixed(({"rule": "close"}, {"rule": "commit"}, {"rule": "close"}), 0)
    assert search.counts == {"close": 1}


def cause_of(fault: str, table: str | None = None, kind: StorageKind = StorageKind.MEMORY) -> tuple[Finding, str]:
    """Return the finding of the fixed programs for a planted fault, and its cause."""
    with planted(fault):
        finding = found_by_programs([table], kind)
    assert finding is not None
    return finding, finding.evidence["why"]["cause"]


CAUSES = {
    "merge loses a row": f"the commit leaves a wrong file: number of rows in {DATA}",
    "token forgotten": f"the commit leaves a wrong file: token of {PARTITION} in _txn",
    "prev is always 0": f"the commit leaves a wrong file: PREV_PARQUET_META_FILE_SIZE in {PM}",
    "CRC starts over": f"the commit leaves a wrong file: CHECKSUM in {PM}",
    "version before stored again": "the recovery by a writer that opens leaves a wrong file: VERSION in _txn",
    "size of the table stays": "the commit leaves a wrong file: size of the partition table in _txn",
    "up to a time is before it": f"{RIGHT}; wrong is a read",
    "decoded by the newest footer": f"{RIGHT}; wrong is a read",
}
"""By planted fault: the action and the file that it is in."""


@pytest.mark.nightly
@pytest.mark.parametrize("fault", sampled(1, list(CAUSES)))
def test_the_cause_is_the_action_and_the_file_in_which_a_fault_is_planted(fault: str) -> None:
    finding, cause = cause_of(fault)
    assert cause.startswith(CAUSES[fault]), cause
    changes = finding.evidence["why"]["passes_when"]
    assert changes["tried"] >= changes["enough"] == len(changes["changes"])


@pytest.mark.nightly
def test_what_is_not_synced_is_named() -> None:
    _, cause = cause_of("data not synced (F1)", kind=StorageKind.FILES)
    assert "does not sync what it writes: byte" in cause and DATA_FILE in cause


@pytest.mark.nightly
def test_what_a_purge_removes_is_named_with_the_pins_beside_it() -> None:
    _, cause = cause_of("pins not asked for")
    start, _, removed = cause.partition(", which removes ")
    assert start == f"{RIGHT}; wrong is the purge" and removed == "directory 2024-01-02.0, while version 1 is pinned"


def test_a_table_that_cannot_be_made_has_a_cause_too() -> None:
    _, cause = cause_of("a slice of decimals is its beginning", "weeks in nanoseconds, decimals and arrays")
    assert cause.startswith("the commit leaves a wrong file: value of price in row")


@pytest.mark.nightly
def test_a_condition_is_to_blame_where_all_rows_are_right() -> None:
    finding, _ = cause_of("up to a time is before it")
    texts = [each["text"] for each in finding.evidence["why"]["passes_when"]["changes"]]
    assert "all rows are read, without a condition" in texts
