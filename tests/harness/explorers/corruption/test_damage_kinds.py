"""Zeros, stale blocks, misdirected writes, wrong fields, forged ones, pairs: what each does; none is silent."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import table_builder as tb
from command_line import ROOT
from damage import ends_in_an_error
from depth import sampled
from golden_data import CHAIN
from planted_faults import planted

from tornproof.harness.check import capture_table
from tornproof.harness.common.effort import DEFAULT, EFFORTS, Bounds
from tornproof.harness.common.patch import replaced, wrapped
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.beside import DAMAGES_MAX, FILES_MAX, beside_damages, beside_files
from tornproof.harness.explorers.corruption.blocks import block_starts, lost, misdirected, stale, zeroed
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.controls import blind_to_contradictions
from tornproof.harness.explorers.corruption.every_type import PATH, TYPES, image_of_every_type
from tornproof.harness.explorers.corruption.fields import Spot, field_damages, txn_spots
from tornproof.harness.explorers.corruption.judge import CONTENT, EXPECTED, FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.pairs import choose_pairs, pair_tasks
from tornproof.harness.explorers.corruption.plan import (
    Again,
    Crafted,
    Edit,
    Flip,
    Kind,
    Overwrite,
    Pair,
    damage_of,
    evidence_of,
)
from tornproof.harness.explorers.corruption.recovered import FLIPS_MAX
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.pm import footer_comparison
from tornproof.impl.pm.chain import check_checksum, walk
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag, tag_of

WITHOUT_META = "tables/9.4.2/history/history/00"
OLD, NEW = bytes(range(1, 21)), bytes(range(1, 17)) + bytes([99, 98, 97, 96]) + bytes(range(50, 62))
LISTED = [kind for kind in Kind if kind not in (Kind.FLIP, Kind.CUT, Kind.PAIR)]


@pytest.fixture(scope="module")
def chain(questdb_data: Path) -> Judge:
    path = str(questdb_data / CHAIN)
    return Judge(capture_table(OperatingSystemStorage(), path), path)


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


def test_zeroed_words_cover_all_that_is_not_zero() -> None:
    content = bytes(8) + b"\0\1\0\0\0\0\2\0" + b"\3" * 5
    damages = list(zeroed({"f": content}, "f", (8,), 100))
    assert [damage.edits for damage in damages] == [(Edit("f", 9, bytes(6)),), (Edit("f", 16, bytes(5)),)]
    assert damages[0].apply(content) == bytes(16) + b"\3" * 5


def test_of_too_many_blocks_an_even_sample_is_damaged() -> None:
    assert list(block_starts(100, 8, 13)) == list(range(0, 100, 8))
    assert list(block_starts(100, 8, 5)) == [0, 24, 48, 72, 96]


def test_stale_blocks_hold_older_content_and_zeros_past_its_end() -> None:
    damages = list(stale({"f": NEW}, "f", (8,), 100, [{"f": OLD}, {"f": OLD[:4]}, {}]))
    assert [damage.apply(NEW) for damage in damages] == [
        NEW[:4] + bytes(4) + NEW[8:],
        NEW[:8] + bytes(8) + NEW[16:],
        NEW[:16] + OLD[16:] + bytes(4) + NEW[24:],
        NEW[:16] + bytes(8) + NEW[24:],
        NEW[:24] + bytes(8),
    ]
    assert list(stale({"f": NEW}, "f", (8,), 100, [{"f": NEW}, {}])) == []


def test_a_misdirected_block_is_a_neighbour_the_first_one_or_of_another_file() -> None:
    contents = {
        "_txn": b"t" * 24,
        "p/_pm": b"ABCDEFGHIJKLMNOPQRSTUVWXYZ01234567",
        "p/data": b"d" * 20,
        "q/_pm": b"q" * 34,
    }
    damages = list(misdirected(contents, "p/_pm", (8,), 100))
    second = {damage.apply(contents["p/_pm"])[8:16] for damage in damages if 8 <= damage.offset_bytes < 16}
    assert second == {b"ABCDEFGH", b"QRSTUVWX", b"d" * 8, b"t" * 8, b"q" * 8}
    assert all(len(damage.apply(contents["p/_pm"])) == 34 for damage in damages)


def test_the_kind_of_a_misdirected_block_is_that_of_its_size_also_at_the_end_of_a_file() -> None:
    contents = {"f": bytes(range(32)) + bytes(range(100, 108)), "g": bytes(range(50, 84))}
    for block_bytes, kind in ((8, Kind.MISDIRECTED_WORD), (16, Kind.MISDIRECTED_BLOCK)):
        for file in contents:
            damages = list(misdirected(contents, file, (block_bytes,), 100))
            assert {damage.kind for damage in damages} == {kind}
            assert any(not damage.description.startswith(f"{block_bytes} bytes ") for damage in damages)


def test_a_block_written_elsewhere_is_missing_and_overwrites_another() -> None:
    contents = {"p/f": NEW, "p/g": b"g" * 40}
    damages = list(lost(contents, "p/f", (8,), 100, [{"p/f": OLD}]))
    both = [(damage.apply(NEW), damage.apply(contents["p/g"], "p/g")) for damage in damages]
    missing = NEW[:16] + OLD[16:] + bytes(4)
    assert both[0] == (missing + NEW[16:24], contents["p/g"])
    assert both[1] == (missing + NEW[24:], b"g" * 16 + NEW[16:24] + b"g" * 16)
    assert list(lost(contents, "p/f", (8,), 100, [{}])) == []


def test_a_field_is_given_every_wrong_value_once() -> None:
    content = (5 << 40 | 7).to_bytes(8, "little") + (9).to_bytes(8, "little")
    values = {
        int.from_bytes(damage.apply(content)[:8], "little") - (5 << 40)
        for damage in field_damages([Spot(0, 8, 8)], "f", content)
    }
    assert {value + (5 << 40) for value in values} == {
        0,
        2**64 - 1,
        2**63 - 1,
        2**63,
        (5 << 40) + 8,
        (5 << 40) + 6,
        (5 << 40) + 7 + 2**32,
        7,
        9,
    }
    narrow = [damage.apply(b"\0\0") for damage in field_damages([Spot(0, 1, 1)], "f", b"\0\0")]
    assert narrow == [b"\xff\0", b"\x7f\0", b"\x80\0", b"\1\0"]


def test_fields_of_both_areas_are_set_also_to_their_counterparts(chain: Judge) -> None:
    content = chain.contents[TXN_FILE]
    spots = list(txn_spots(content))
    offsets = [spot.offset_bytes for spot in spots]
    assert len(set(offsets)) == len(offsets)
    live = txn_layout.BaseHeader.unpack(content, 0, file=TXN_FILE)
    token = txn_layout.TransactionRecord.layout.offset_of("txn")
    records = {live.a_record_offset + token, live.b_record_offset + token}
    counterparts = {spot.offset_bytes: spot.counterpart_offset_bytes for spot in spots}
    assert records == {counterparts[record] for record in records} and counterparts[0] in records


def test_forged_fields_of_pm_have_checksums_that_hold(chain: Judge) -> None:
    (file,) = (file for file in chain.regions if file.endswith(PM_FILE))
    content, checked = chain.contents[file], 0
    positions = list(walk(content, file=file))
    for damage in itertools.islice(listed(chain, Kind.FORGED, file), 0, None, 7):
        forged = damage.apply(content)
        if all(
            damage.ranges[0][2] <= position.offset_bytes or damage.ranges[0][1] >= position.end_bytes
            for position in positions
        ):
            for position in walk(forged, file=file):
                check_checksum(forged, position, file=file)
            checked += 1
    assert checked > 100


# By day a check of the same table from a shell does the same damage.
@pytest.mark.nightly
def test_no_damage_of_any_kind_is_silent_and_rollbacks_are_stale_blocks_of_txn(chain: Judge, made: Judge) -> None:
    for judge in (chain, made):
        found: Counter[tuple[Kind, Outcome]] = Counter()
        for kind in LISTED:
            every = 83 if kind is Kind.FORGED else 13
            for damage in (each for file in judge.files(kind) for each in listed(judge, kind, file)[::every]):
                found[kind, judge.of(kind).judge(damage)[0]] += 1
        assert {kind for kind, _ in found} == set(LISTED)
        # No checksum covers other files than those of partitions and versions.
        outcomes = {outcome for kind, outcome in found if (kind, outcome) != (Kind.BESIDE, Outcome.EXPOSURE)}
        assert outcomes <= {Outcome.REJECTED, Outcome.HARMLESS, Outcome.LEGAL_STATE, Outcome.ROLLBACK}
        assert {kind for kind, outcome in found if outcome is Outcome.ROLLBACK} <= {Kind.STALE_BLOCK}
        assert all(found[kind, EXPECTED.get(kind, Outcome.REJECTED)] for kind in LISTED)


def test_a_bit_of_a_filter_beside_checksums_is_rejected_and_found_if_filters_are_not_compared(chain: Judge) -> None:
    judge = chain.of(Kind.FILTER_BIT)
    cleared = [each for file in chain.files(Kind.FILTER_BIT) for each in listed(chain, Kind.FILTER_BIT, file)]
    assert len(cleared) >= 4 and {judge.judge(each)[0] for each in cleared} == {Outcome.REJECTED}
    evidence = evidence_of(cleared[0], judge.field_of(cleared[0]))
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, chain.image, chain.path) is Verdict.VALID
    with replaced("tornproof.impl.verify.pages:missing_values", lambda *_: 0):
        assert {judge.judge(each)[0] for each in cleared} == {Outcome.SILENT}
        assert replay_finding(finding, chain.image, chain.path) is Verdict.INVALID


def test_an_older_txn_is_a_legal_state_one_version_back_and_a_rollback_beyond(chain: Judge) -> None:
    judge = chain.of(Kind.STALE_BLOCK)
    whole = [damage for damage in listed(chain, Kind.STALE_BLOCK, TXN_FILE) if "4096 bytes at 0" in str(damage)]
    assert [judge.judge(damage)[0] for damage in whole] == [Outcome.LEGAL_STATE, Outcome.ROLLBACK, Outcome.ROLLBACK]
    assert [judge.judge_whole(damage) for damage in whole] == [judge.judge(damage)[0] for damage in whole]


def test_an_entry_that_says_native_but_has_a_token_is_rejected_for_that_and_for_its_name(chain: Judge) -> None:
    judge = chain.of(Kind.LOST_WORD)
    entry = judge.snapshot.transaction.partitions[-1].entry_offset_bytes
    flags = entry + txn_layout.PartitionEntry.layout.offset_of("row_count_and_flags")
    moved = [damage for damage in listed(chain, Kind.LOST_WORD, TXN_FILE) if f"instead of {flags}" in str(damage)]
    assert Outcome.REJECTED in {judge.judge(damage)[0] for damage in moved}
    with (
        replaced("tornproof.impl.verify.verify:check_native", lambda *_: iter(())),
        replaced("tornproof.impl.read.reader:check_native", lambda *_: iter(())),
    ):
        unseen = Judge(judge.image, judge.path, older=judge.older)
        assert {unseen.judge(damage)[0] for damage in moved} == {Outcome.REJECTED}


def test_a_table_that_takes_no_commits_has_no_older_content(questdb_data: Path) -> None:
    path = str(questdb_data / WITHOUT_META)
    judge = Judge(capture_table(OperatingSystemStorage(), path), path)
    assert judge.files(Kind.STALE_WORD) == () != judge.files(Kind.ZEROED_WORD)
    assert "it has no partition that rows can be written to" in judge.no_past


def flips(count: int, file: str = "f") -> list[tuple[Flip, str]]:
    return [(Flip(file, bit), f"field {bit % 7}") for bit in range(count)]


def test_few_pairs_are_all_tried_and_those_within_a_file_first() -> None:
    chosen = choose_pairs(flips(3), [*flips(2, "g"), (Flip("f", 9), "x")], 15)
    assert not chosen.are_sampled and chosen.total == len(set(chosen.pairs)) == 15
    within = [pair.first.file == pair.second.file for pair in chosen.pairs]
    assert within == sorted(within, reverse=True) and within.count(True) == 7
    tasks = list(pair_tasks(chosen.pairs, 4))
    assert [pair for task in tasks for pair in task.pairs] == list(chosen.pairs)
    assert all(task.size == len(task.pairs) <= 4 and task.file == task.pairs[0].file for task in tasks)


def test_many_pairs_are_sampled_the_same_each_time_with_all_of_what_differed() -> None:
    different, harmless = [(Flip("f", 1_000), "VERSION")], flips(900)
    chosen = choose_pairs(different, harmless, 5_000)
    assert chosen == choose_pairs(different, list(reversed(harmless)), 5_000)
    assert chosen.are_sampled and chosen.total == 901 * 900 // 2
    assert len(set(chosen.pairs)) == len(chosen.pairs) == 5_000
    assert sum(Flip("f", 1_000) in (pair.first, pair.second) for pair in chosen.pairs) >= 900


TABLE = tb.SMALL


@pytest.mark.parametrize(
    "evidence",
    [
        {"kind": "words zeroed", "edits": [], "description": ""},
        {"kind": "words zeroed", "edits": [{"file": "_txn", "offset_bytes": 0, "content": ""}], "description": ""},
        {
            "kind": "words zeroed",
            "edits": [{"file": "_txn", "offset_bytes": 10**9, "content": "00"}],
            "description": "",
        },
        {"kind": "words zeroed", "edits": [{"file": "_txn", "offset_bytes": -1, "content": "00"}], "description": ""},
        {"kind": "words zeroed", "edits": [{"file": "_txn", "offset_bytes": 0, "content": "0x"}], "description": ""},
        {"kind": "words zeroed", "edits": [{"file": "none", "offset_bytes": 0, "content": "00"}], "description": ""},
        {"kind": "bits flipped", "edits": [{"file": "_txn", "offset_bytes": 0, "content": "00"}], "description": ""},
        {"kind": "pair", "bits": [{"file": "_txn", "bit": 1}]},
        {"kind": "pair", "bits": [{"file": "_txn", "bit": 1}, {"file": "_txn", "bit": 10**9}]},
    ],
)
def test_evidence_that_names_no_damage_is_unknown(evidence: dict[str, object]) -> None:
    finding = Finding(property="p", phase="damage", sentence="s", evidence={"file": "_txn", **evidence})
    assert replay_finding(finding, TABLE.image(), "/table") is Verdict.UNKNOWN


def test_a_pair_is_worse_than_its_bits(made: Judge) -> None:
    """With VERSION and TXN damaged alike, the right rows have a wrong version, which only the lag's checksum tells."""
    record = made.contents[TXN_FILE].index(made.snapshot.transaction.record.pack())
    version, txn = Flip(TXN_FILE, 3), Flip(TXN_FILE, 8 * record + 3)
    pair = Pair(version, txn)
    assert {made.judge(flip)[0] for flip in (version, txn)} == {Outcome.REJECTED}
    assert made.judge(pair)[0] is Outcome.SILENT
    assert made.judge_whole(pair) is Outcome.REJECTED


def test_forged_damage_that_would_be_silent_is_an_outcome_of_its_own(made: Judge) -> None:
    damages = [each for file in made.files(Kind.FORGED) for each in listed(made, Kind.FORGED, file)]
    with blind_to_contradictions():
        ids = [damage for damage in damages if made.field_of(damage) == "column ID"]
        found = {made.judge(damage)[0] for damage in ids[:20] if "one more" in str(damage)}
    assert Outcome.FORGED in found and Outcome.SILENT not in found


def test_the_document_names_the_bounds_of_the_usual_effort() -> None:
    document = (ROOT / "docs" / "damage.md").read_text()
    usual = Bounds.of(EFFORTS[DEFAULT])
    assert f"up to {usual.damages:,} by the usual effort" in document
    assert f"| {usual.pairs} by the usual effort" in document


# Files as another writer could have made them


TABLES = (
    *(f"tables/2026-07/{name}/table" for name in ("chain", "nanosecond", "rewrite")),
    *(f"tables/9.4.2/{name}/table" for name in ("bloom", "chain", "dedup", "fastpath", "nonwal", "oddcols", "types")),
    *(f"crashes/{name}/table" for name in ("2026-07/sync-2-17", "9.4.2/sync-1-06", "9.4.3/sync-4-15")),
    "indexed/2026-07/indexed_wal/table",
    "tables/9.4.3/many/table",
)
FAULTS = (
    "a token may stand for two generations",
    "scratchpad is not carried on",
    "a chain may lead forward",
    "end of data.parquet is not looked at",
    "more rows than the version has",
    "size of the partition table is not compared",
    "unknown optional features are rejected",
    "unknown required features are ignored",
)
"""What nothing else in a check finds: files with other mistakes are also wrong in another way."""


def judge_of(table: Path) -> Judge:
    return Judge(capture_table(OperatingSystemStorage(), str(table)), str(table))


def crafted(judge: Judge) -> Iterator[Crafted]:
    for kind in EXPECTED:
        for file in judge.files(kind):
            for damage in listed(judge, kind, file):
                assert isinstance(damage, Crafted)
                yield damage


@pytest.mark.parametrize("name", sampled(1, TABLES, seed=1))
def test_in_real_tables_what_breaks_a_rule_is_rejected_and_what_is_allowed_is_read(
    name: str, questdb_data: Path
) -> None:
    judge, outcomes = judge_of(questdb_data / name), Counter[object]()
    with remembered_decoding():
        for damage in crafted(judge):
            outcome, _ = judge.judge(damage)
            outcomes[outcome] += 1
            assert outcome is EXPECTED[damage.kind], (damage, judge.reason)
    assert (
        set(outcomes) == set(EXPECTED.values()) and outcomes.total() == len({str(each) for each in crafted(judge)}) > 90
    )


@pytest.mark.parametrize("name", sampled(3, list(FAULTS)))
def test_a_reader_that_leaves_a_rule_out_is_found_and_the_finding_replays(name: str, questdb_data: Path) -> None:
    path = questdb_data / CHAIN
    image = capture_table(OperatingSystemStorage(), str(path))
    with planted(name), bounded_computation(image.size_bytes):
        judge = Judge(image, str(path))
        damage, reason = next((each, judge.reason) for each in crafted(judge) if judge.judge(each)[0] in FOUND)
    assert reason
    finding = Finding(property="p", phase="damage", sentence=reason, evidence=evidence_of(damage, "field"))
    assert damage_of(finding.evidence) == damage
    assert replay_finding(finding, image, str(path)) is Verdict.VALID
    with planted(name):
        assert replay_finding(finding, image, str(path)) is Verdict.INVALID


def belongs_to_no_newer(record: Any, *_: object) -> None:
    """Reject no record that is older than the version, and none that contradicts itself."""


def test_a_version_with_the_record_of_an_older_one_is_rejected_and_never_a_legal_state(questdb_data: Path) -> None:
    """The reader under test does not say what a crash may leave: here it takes any record for that of the version."""
    path = questdb_data / CHAIN
    judge = judge_of(path)
    following = Edit(TXN_FILE, 0, bytes([judge.snapshot.transaction.version + 1]))
    wrong = [each for each in crafted(judge) if ": version " in str(each) or "slot" in str(each)]
    broken = [each for each in wrong if each.kind is Kind.BROKEN]
    assert len(broken) >= 7 and {judge.judge(each)[0] for each in broken} == {EXPECTED[Kind.BROKEN]}
    with replaced("tornproof.impl.txn.transaction:_check_record", belongs_to_no_newer):
        judge = judge_of(path)
        assert sum(judge.judge(each)[0] in FOUND for each in broken) >= 5
        assert judge.judge(Overwrite(Kind.FIELD, (following,), ""))[0] is Outcome.SILENT


@pytest.mark.parametrize("broken", ["repair_table", "committed"])
def test_an_error_of_a_recovery_or_a_writer_is_found_and_one_of_ours_is_not(broken: str, questdb_data: Path) -> None:
    judge = judge_of(questdb_data / CHAIN)
    damage = next(each for each in crafted(judge) if each.kind is Kind.ALLOWED and each.file.endswith("_pm"))
    assert judge.takes_commits and judge.judge(damage)[0] is EXPECTED[Kind.ALLOWED]
    location = f"{Judge.__module__}:{broken}"
    with replaced(location, FunctionType(ends_in_an_error.__code__, {"__name__": "tornproof.impl"})):
        assert judge.judge(damage)[0] in FOUND and judge.reason == "LookupError: a mistake"
    ours = FunctionType(ends_in_an_error.__code__, {"__name__": Judge.__module__})
    with replaced(location, ours), pytest.raises(LookupError):
        judge.judge(damage)


def test_a_file_of_evidence_that_is_longer_than_the_table_s_is_unknown(questdb_data: Path) -> None:
    path = questdb_data / CHAIN
    judge = judge_of(path)
    evidence = evidence_of(next(crafted(judge)), "field")
    for wrong in ({"offset_bytes": 1 << 40}, {"offset_bytes": -1}, {"removed_bytes": 1 << 40}, {"removed_bytes": -5}):
        finding = Finding(property="p", phase="damage", sentence="s", evidence={**evidence, **wrong})
        assert replay_finding(finding, judge.image, str(path)) is Verdict.UNKNOWN


# Files that no checksum covers


INDEXED = "indexed/2026-07/indexed_wal/table"
TABLES_BESIDE = (
    INDEXED,
    *(f"tables/9.4.2/{name}/table" for name in ("chain", "oddcols")),
    "crashes/9.4.3/sync-4-15/table",
)


def damages_of(judge: Judge) -> list[Any]:
    return [each for file in judge.files(Kind.BESIDE) for each in listed(judge, Kind.BESIDE, file)]


@pytest.mark.parametrize("name", sampled(1, TABLES_BESIDE, seed=1))
def test_damage_of_other_files_of_a_real_table_is_no_finding(name: str, questdb_data: Path) -> None:
    judge = judge_of(questdb_data / name)
    damages = damages_of(judge)
    found = Counter(judge.judge(damage)[0] for damage in damages)
    assert not set(FOUND) & set(found), judge.reason
    assert found[Outcome.REJECTED] > 20 and found.total() <= DAMAGES_MAX
    assert {judge.field_of(damage) for damage in damages} == {CONTENT}


def test_files_of_each_kind_are_damaged() -> None:
    names = [
        "_meta",
        "_cv",
        "_txn",
        "p0/_pm",
        "p0/data.parquet",
        "s.k",
        "s.k.12",
        *(f"p{n}/s.{kind}" for n in range(30) for kind in "kv"),
    ]
    image = DiskImage.of_files({f"t/{name}": b"x" for name in names} | {"t/empty": b""})
    chosen = beside_files(image, "t")
    assert len(chosen) == FILES_MAX and chosen.keys() >= {"_meta", "_cv", "s.k", "p0/s.k", "p0/s.v"}
    assert not chosen.keys() & {"_txn", "empty", "p0/_pm", "p0/data.parquet"}


def test_each_damage_of_a_file_changes_it() -> None:
    content = bytes(range(9)) + bytes(100)
    damages = list(beside_damages("f", content, 1))
    assert all(damage.apply(content) != content for damage in damages) and len(set(map(str, damages))) == len(damages)
    assert {type(each.damage).__name__ for each in damages} == {"Overwrite", "Flip", "Cut"}


def counted_short(count: Any) -> Any:
    """Return NumPy whose arrays of zeros are too short."""

    class Short:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @staticmethod
        def zeros(size: int, *arguments: Any) -> Any:
            return np.zeros(size - count, *arguments)

    return Short()


def test_an_index_that_is_counted_short_is_found_and_replays(questdb_data: Path) -> None:
    path = questdb_data / INDEXED
    judge = judge_of(path)
    damages = [each for each in damages_of(judge) if each.file.endswith("/s.k") and "one less" in str(each)]
    location = "tornproof.impl.verify.indexes:np"
    assert not any(judge.judge(damage)[0] in FOUND for damage in damages)
    with replaced(location, counted_short(1)):
        damage = next(each for each in damages if judge.judge(each)[0] in FOUND)
        assert judge.reason.startswith("ValueError: ")
    evidence = json.loads(json.dumps(evidence_of(damage, CONTENT)))
    assert damage_of(evidence) == damage
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, judge.image, str(path)) is Verdict.VALID


# Recovery


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(made_image(), MADE_PATH)


def outcomes(judge: Judge) -> Counter[Outcome]:
    damages = [each for file in judge.files(Kind.RECOVERED) for each in listed(judge, Kind.RECOVERED, file)]
    assert len(judge.files(Kind.RECOVERED)) - 1 <= len(damages) // FLIPS_MAX + 1
    return Counter(judge.judge(each)[0] for each in damages)


def test_a_recovery_reports_damage_or_leaves_all_rows(judge: Judge) -> None:
    found = outcomes(judge)
    assert found[Outcome.REJECTED] > FLIPS_MAX and found[Outcome.HARMLESS] > 0
    assert not {*found} & {*FOUND}
    assert judge.reached["a recovery of a damaged table"] >= sum(found.values())


def test_a_recovery_that_looks_at_no_pages_is_found(judge: Judge) -> None:
    def quickly(verify: object) -> object:
        return lambda *arguments, **settings: verify(*arguments, **{**settings, "quick": True})  # type: ignore[operator]

    with wrapped("tornproof.impl.repair.plan:verify_partition", quickly):
        assert outcomes(judge)[Outcome.NONCONFORMING] > 0


def test_a_recovery_that_changes_what_it_reports_is_found(judge: Judge) -> None:
    def reporting(repair: object) -> object:
        def repaired(storage: object, path: str) -> object:
            report = repair(storage, path)  # type: ignore[operator]
            with storage.open_for_writing(f"{path}/{judge.files(Kind.RECOVERED)[0]}") as file:  # type: ignore[attr-defined]
                file.truncate(0)
            return report

        return repaired

    with wrapped("tornproof.harness.explorers.corruption.judge:repair_table", reporting):
        assert outcomes(judge)[Outcome.NONCONFORMING] > 0


# Values of every type


def damaged_values(judge: Judge) -> list[Again]:
    damages = [each for file in judge.files(Kind.VALUE) for each in listed(judge, Kind.VALUE, file)]
    return [each for each in damages if isinstance(each, Again)]


def test_the_table_has_every_type_that_a_column_can_have() -> None:
    columns = Judge(image_of_every_type(), PATH).snapshot.columns
    assert len(columns) == len(TYPES)
    parameters_or_no_columns = {TypeTag.LONG128} | {tag for tag in TypeTag if tag.name.startswith(("GEO", "DECIMAL"))}
    assert {tag_of(column.type) for column in columns} >= set(TypeTag) - parameters_or_no_columns


def test_no_damaged_value_ends_in_another_error_and_arrays_fit_their_lengths(made: Judge) -> None:
    judge, damages = made.of(Kind.VALUE), damaged_values(made)
    arrays = [each for each in damages if isinstance(each.damage, Overwrite)]
    assert {judge.judge(each)[0] for each in arrays} == {Outcome.REJECTED} and len(arrays) > 50
    assert {judge.judge(each)[0] for each in damages} == {Outcome.REJECTED, Outcome.HARMLESS}


def any_page_offset(found: Any, chunk: Any, column: Any) -> Iterator[tuple[str, object, object]]:
    """Compare everything but where the first data page begins."""
    return (each for each in compare_chunk(found, chunk, column) if each[0] != "data_page_offset")


compare_chunk = footer_comparison._compare_chunk


def test_a_data_page_before_the_dictionary_is_rejected_and_found_if_it_is_not_compared(made: Judge) -> None:
    judge = made.of(Kind.VALUE)
    wrong = [each for each in damaged_values(made) if "data_page_offset" in str(each)]
    assert len(wrong) >= 4 and {judge.judge(each)[0] for each in wrong} == {Outcome.REJECTED}
    with replaced("tornproof.impl.pm.footer_comparison:_compare_chunk", any_page_offset):
        assert sum(judge.judge(each)[0] is Outcome.SILENT for each in wrong) >= 3


def test_a_decoder_that_fails_or_takes_what_does_not_fit_is_found_and_replays(made: Judge) -> None:
    judge = made.of(Kind.VALUE)
    damage = next(each for each in damaged_values(made) if isinstance(each.damage, Overwrite))
    evidence = json.loads(json.dumps(evidence_of(damage, "page")))
    assert damage_of(evidence) == damage
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, made.image, MADE_PATH) is Verdict.VALID

    def lists_of_flat(values: Any, *_: Any, **__: Any) -> Any:
        return values

    with replaced("tornproof.impl.chunk.chunk:lists_of", lists_of_flat):
        assert judge.judge(damage)[0] is Outcome.SILENT
    with replaced("tornproof.impl.chunk.chunk:lists_of", int):
        assert judge.judge(damage)[0] in FOUND and judge.reason.startswith("TypeError: ")
