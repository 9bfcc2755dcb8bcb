"""Files of servers: what breaks a rule is reported and nothing else is; a check that looks at less is found."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from depth import nightly, sampled

from tornproof.harness.common.patch import replaced, wrapped
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.judge import FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Again, Kind, damage_of, evidence_of
from tornproof.harness.explorers.corruption.served import (
    ENTRY,
    INDEXED,
    LATE,
    OLDER_COUNT,
    PATH,
    ROW_COUNT,
    SIZE,
    WIDTHS_BYTES,
    WORD,
    _suffix,
    served_image,
)
from tornproof.harness.explorers.corruption.served_changes import _of_positions, _of_versions, served_files
from tornproof.harness.replay import replay_finding
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.table.table import open_table
from tornproof.impl.verify import native
from tornproof.impl.verify.indexes import NotComparedError
from tornproof.impl.verify.verify import verify_table

INDEXES = "tornproof.impl.verify.indexes"


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


def changes_of(judge: Judge, *ends: str) -> list[Again]:
    files = [file for file in judge.files(Kind.SERVED) if file.endswith(ends)]
    return [each for file in files for each in listed(judge, Kind.SERVED, file) if isinstance(each, Again)]


def outcomes(judge: Judge, *ends: str) -> Counter[Outcome]:
    return Counter(judge.of(Kind.SERVED).judge(each)[0] for each in changes_of(judge, *ends))


def test_the_table_is_sound_and_all_of_it_is_looked_at() -> None:
    report = verify_table(open_table(served_image(), PATH))
    assert (report.all_problems, report.notes) == ((), ())
    assert report.counts.indexes == 6
    assert {each.format for each in report.partitions} == {"native", "parquet"}


def test_an_index_of_each_day_is_changed_and_where_a_column_came_late_its_own() -> None:
    """The rows of a column that has none before its first one would be looked at in no index."""
    sizes = {path.removeprefix(f"{PATH}/"): len(content) for path, content in served_image().files.items()}
    days = sorted({file.partition("/")[0] for file in sizes if "/" in file})
    files = {(day, of): f"{day}/{of}.{{}}{_suffix(of)}" for day in days for of in (INDEXED, LATE)}
    # Only values in the native format have a size that says how many there are.
    (late,) = (day for day in days if sizes.get(files[day, LATE].format("d")) == SIZE.size * (ROW_COUNT - OLDER_COUNT))
    tried = {files[day, LATE if day == late else INDEXED] for day in days} | {f"{INDEXED}.{{}}"}
    changed = {file for file in served_files() if re.search(r"\.[kv](\.\d+)?$", file)}
    assert changed == {file.format(kind) for file in tried for kind in "kv"}


def test_the_widths_of_values_are_those_that_are_checked() -> None:
    assert {tag.name: width for tag, width in native.WIDTHS_BYTES.items() if tag is not None} == WIDTHS_BYTES


@pytest.mark.parametrize(("every", "least"), [(15, 5), nightly(1, 81)])
def test_what_breaks_a_rule_is_reported_and_what_is_left_free_is_not(made: Judge, every: int, least: int) -> None:
    changes = changes_of(made, "")[::every]
    found = Counter(made.of(Kind.SERVED).judge(each)[0] for each in changes)
    kinds = Counter(each.damage.kind for each in changes)
    assert kinds.keys() == {Kind.BROKEN, Kind.ALLOWED} and min(kinds.values()) >= least
    assert found == {Outcome.REJECTED: kinds[Kind.BROKEN], Outcome.HARMLESS: kinds[Kind.ALLOWED]}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("location", "broken", "ends"),
    sampled(
        1,
        [
            (f"{INDEXES}:OLDER_ROW", 0, (".v",)),
            (f"{INDEXES}:key_position", lambda *_: 1 / 0, (".v",)),
            ("tornproof.impl.table.symbol_index:_check_counts", lambda *_: None, (".k",)),
            ("tornproof.impl.verify.native:NULL_SYMBOL", -1, (".d",)),
            ("tornproof.impl.verify.native:VARCHAR_NULL", 0, (".i", ".7")),
            ("tornproof.impl.verify.dictionaries:buckets_of", lambda symbols, _: [0] * len(symbols), (".k",)),
        ],
        seed=3,
    ),
)
def test_a_check_that_looks_otherwise_is_found(made: Judge, location: str, broken: Any, ends: tuple[str, ...]) -> None:
    with replaced(location, broken):
        assert any(outcomes(made, *ends)[each] for each in FOUND)


@pytest.mark.nightly
def test_a_check_that_ends_after_the_first_piece_is_found(made: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    every: Callable[..., Any] = native.NativeColumn._pieces
    monkeypatch.setattr(native.NativeColumn, "_pieces", lambda self, *sizes: islice(every(self, *sizes), 1))
    assert outcomes(made, "plain.d", ".i")[Outcome.NONCONFORMING]


def test_an_index_that_is_skipped_with_a_note_is_found(made: Judge) -> None:
    def skipped(*_: object) -> None:
        raise NotComparedError("its blocks are of an unknown size")

    judge, change = made.of_server, next(each for each in changes_of(made, ".v") if each.damage.kind is Kind.ALLOWED)
    with replaced(f"{INDEXES}:_difference", skipped):
        assert judge.judge(change)[0] is Outcome.NONCONFORMING
    assert "its blocks are of an unknown size" in judge.reason


def test_a_finding_replays(made: Judge) -> None:
    change = next(each for each in changes_of(made, "indexed.v") if "instead of" in str(each))
    evidence = json.loads(json.dumps(evidence_of(change, "content")))
    assert damage_of(evidence) == change
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, made.image, MADE_PATH) is Verdict.VALID
    with wrapped(f"{INDEXES}:_difference", lambda _: lambda *_: None):
        assert replay_finding(finding, made.image, MADE_PATH) is Verdict.INVALID


def test_what_is_changed_by_the_least_is_changed_by_no_more() -> None:
    """Ends that are further away, and areas that are no whole entries, are found by checks that are wrong by less."""
    positions = b"".join(map(WORD.pack, (0, 3, 6, 9)))
    assert f"end 3 is {9 + 1}" in {name for _, name, _ in _of_positions("STRING", positions, 9)}
    (versions,) = (content for path, content in served_image().files.items() if path.endswith("/_cv"))
    (made,) = (made for _, name, made in _of_versions(versions) if name == "with fewer entries than none")
    assert made[2 * WORD.size : 3 * WORD.size] == WORD.pack(-ENTRY.size)
