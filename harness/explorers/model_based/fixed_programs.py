"""Programs that are always run: together they take every rule and reach every coverage goal on our own tables."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tornproof.harness.explorers.model_based.commit import FAULT_KINDS
from tornproof.harness.explorers.model_based.conditions import FORMS, OPERATORS
from tornproof.harness.explorers.model_based.other_writers import FORM_COUNT
from tornproof.harness.explorers.model_based.rows import Making
from tornproof.harness.explorers.model_based.rules import KEY_COUNT, Step
from tornproof.harness.explorers.model_based.sessions import MIGRATION_STEPS, RECOVERY_STEPS, REPAIR_STEPS
from tornproof.harness.explorers.model_based.smaller import Steps
from tornproof.harness.explorers.model_based.start import TIMES_IN_INTERVAL
from tornproof.harness.explorers.model_based.surroundings import ENCODING_NAMES, LIMITS
from tornproof.harness.explorers.model_based.tables import (
    CHANGED,
    EXTREMES,
    OTHERS,
    PLAIN,
    SPLIT,
    SYMBOLS,
    TABLES,
    TEXTS,
)
from tornproof.harness.explorers.model_based.world import LARGE_TOKEN_BITS

BYTES_BEFORE = 100
STATISTIC_BYTES_MAX = 4_096
"""Of longer texts, no statistics are written."""
STORES_BEFORE_VERSION = range(24, 40)
"""Among so many stores of a small commit is the one of the version."""


def _step(rule: str, **arguments: Any) -> Step:
    return {"rule": rule, **arguments}


def _insert(*rows: int) -> Step:
    return _step("insert", rows=list(rows))


def _alike(making: Making, *rows: int) -> Step:
    return _step("insert alike", rows=list(rows), making=making)


def _stopped(rule: str, **fault: Any) -> Steps:
    """Return a commit into a partition that was committed before, and is stopped; then a recovery and a commit."""
    stop = _step(rule, written_bytes=8, **fault)
    return (_insert(0), COMMIT, _insert(0, 3), stop, *AFTER_STOP)


COMMIT, PURGE, REOPEN, CLOSE = _step("commit"), _step("purge"), _step("reopen"), _step("close")
APPEND = (_step("append", place=0, count=4), COMMIT)
PIN, READ_PINNED, UNPIN = (_step(rule, reader=0) for rule in ("pin", "read pinned", "unpin"))
KILLED_LATE = _step("commit that is killed", kind="sync mapping", at=1, written_bytes=0)
REWRITE = _step("rewrite", nth=0)
MIGRATE = _step("migrate")
REPAIR = _step("repair", nth=0, count=3)
DROPS = tuple(_step("drop", nth=nth) for nth in range(3))
READ = (_step("read token", nth=0), _step("read committed"), _step("reload"))
REOPENED = (CLOSE, REOPEN)
SELECTED = tuple(
    _step("read where", nth=nth, at=at) for nth in range(9) for at in range(nth, 4 * FORMS * len(OPERATORS), 7)
)
"""More than half of all conditions for each column, others for the next one."""
EACH_VALUE = tuple(_step("read each value", nth=nth) for nth in range(9))
BETWEEN = tuple(_step("read between", nth=nth, at=at) for nth in range(3) for at in (3, 7))
VERIFY = _step("verify")
AFTER_STOP = (VERIFY, _step("use a dead writer"), CLOSE, VERIFY, REOPEN, _insert(6, 12), COMMIT, *READ)
STRETCHED = tuple(
    (
        *(_insert(0), COMMIT, CLOSE, _step("stretch", token_bytes=(1 << bits) - BYTES_BEFORE), REOPEN, *APPEND, *READ),
        *(*REOPENED, *APPEND, *READ, _insert(0, 9), COMMIT, *REOPENED, *READ),
    )
    for bits in LARGE_TOKEN_BITS
)
STATISTIC_BYTES_INLINE = 8
"""Longer bounds are in another place, whose size is theirs."""
LONG_TEXTS: Steps = (
    *(_step("write long texts", sizes_bytes=[STATISTIC_BYTES_MAX + more for more in (-1, 0, 1)]), COMMIT, *EACH_VALUE),
    *(_step("write long texts", sizes_bytes=[(1 << 16) + more for more in (-1, 0, 1)]), COMMIT, *READ),
    *(_insert(0, 3), COMMIT, *REOPENED, *READ, REWRITE, COMMIT, *READ),
)
MANY_PARTITIONS, MANY_GENERATIONS = 140, 210
"""The first makes the record longer than a page of `_txn`."""
EACH_ROW_AGAIN = tuple(step for row in range(TIMES_IN_INTERVAL * KEY_COUNT) for step in (_insert(row), COMMIT))
LOST_SIZES: Steps = tuple(
    step
    for count in range(1, 5)
    for step in (
        *(_step("write long texts", sizes_bytes=[STATISTIC_BYTES_INLINE + count + more for more in (0, 1)]), COMMIT),
        CLOSE,
        *(_step("repair", nth=1, count=2), REOPEN, *READ),
    )
)
"""Generations end at any byte, because of bounds that are not among the fields of their chunks."""
COMMITS: tuple[Steps, ...] = (
    # Row groups are replaced until the unused bytes are too many.
    (_insert(0, 3, 6), COMMIT, *READ, *((_insert(0, 3, 6), COMMIT) * 5), *READ),
    # Generations in place, with a reader of the oldest and rows at the start, between and over several row groups.
    (
        _step("read by threads"),
        _insert(0, 9, 23),
        COMMIT,
        PIN,
        *APPEND,
        *APPEND,
        READ_PINNED,
        *READ,
        UNPIN,
        _step("open a second writer"),
    ),
    (
        _insert(3, 21),
        COMMIT,
        *APPEND,
        _insert(12),
        COMMIT,
        _insert(3, 6, 9, 12, 15, 18, 21),
        COMMIT,
        _insert(0),
        COMMIT,
    ),
    (*APPEND, *APPEND, _insert(0, 1, 2, 3, 4, 5), COMMIT, _step("upsert", rows=[0, 4, 4]), COMMIT, *READ, *EACH_VALUE),
    (_insert(0, 5, 9, 12, 14, 18, 20, 23, 24), COMMIT, *BETWEEN, _insert(9, 12), COMMIT, *SELECTED, *EACH_VALUE),
    # Each row of several row groups once more, alone: those at a bound, and those whose time two row groups share.
    (_insert(*range(TIMES_IN_INTERVAL * KEY_COUNT)), COMMIT, *EACH_ROW_AGAIN, *READ, *EACH_VALUE),
    # Several partitions, and directories that are left behind.
    (_insert(0, 24, 48), COMMIT, PIN, REWRITE, COMMIT, PURGE, READ_PINNED, UNPIN, PURGE, *APPEND, CLOSE, REOPEN, *READ),
    (
        _insert(0, 24),
        COMMIT,
        *DROPS,
        COMMIT,
        PURGE,
        _insert(0, 24),
        COMMIT,
        *DROPS,
        _insert(0, 24),
        COMMIT,
        *READ,
        PURGE,
    ),
    (_insert(0), _step("roll back"), _step("commit nothing"), _insert(0), COMMIT, *READ),
    # Two writes of one row in one commit; a partition that was prepared beside the table.
    (_insert(0, 3), _insert(3, 9), _insert(0), COMMIT, _insert(0), _insert(0), COMMIT, *READ),
    (_step("adopt", place=0, count=3), COMMIT, _insert(24, 48, 27), COMMIT, *READ),
    _stopped("commit that is killed", kind="sync mapping", at=1),
    # Files of a release without `_pm`, with several row groups and one that was merged, and what is read by its bounds.
    (
        _insert(0, 5, 9, 12, 14, 18, 20, 23, 24),
        COMMIT,
        *APPEND,
        _insert(9, 12, 30),
        COMMIT,
        CLOSE,
        MIGRATE,
        *READ,
        *SELECTED[::6],
        REOPEN,
        _insert(0, 6),
        COMMIT,
        *READ,
    ),
    # A recovery of the whole table after a killed commit, and one that has nothing to do but to cut.
    (
        _insert(0),
        COMMIT,
        _insert(0, 3),
        KILLED_LATE,
        REPAIR,
        *READ,
        REOPEN,
        _insert(0, 6),
        COMMIT,
        CLOSE,
        REPAIR,
        REPAIR,
        _step("repair", nth=0, count=2),
        *READ,
    ),
    # All partitions anew, whatever their first writer gave them: filters stay, unless others are asked for.
    (*(_step("rewrite", nth=nth) for nth in range(3)), COMMIT, *READ),
    # Row groups of nulls alone, the first of a partition and in the middle of others.
    (
        *(_alike(Making.NULLS, 0, 3, 6, 24), COMMIT, *READ, _insert(9, 21), COMMIT, _alike(Making.NULLS, 12, 15, 18)),
        *(COMMIT, *READ, *EACH_VALUE, *SELECTED[::9], REWRITE, COMMIT, *REOPENED, *READ),
    ),
    # What was prepared is merged with what is there, unless that has changed; a row that no partition can have.
    (
        *(_insert(0, 9, 24), COMMIT, _step("adopt merged", nth=0, count=3, grows=False), COMMIT, *READ),
        *(_step("adopt merged", nth=0, count=2, grows=True), *READ, _insert(3), COMMIT),
        *(_step("insert impossible"), _insert(0, 6), COMMIT, *READ),
    ),
)
"""Run on every table."""
LAST_AND_FIRST: Steps = (_insert(48), COMMIT, _insert(0), COMMIT)
SECOND_WRITER: Steps = (_insert(0), COMMIT, _step("open a second writer"))
FAILED_COMMIT: Steps = (*_stopped("commit that fails", call="sync data", at=0)[:4], _step("use a dead writer"))
KILLED_COMMIT = _stopped("commit that is killed", kind="sync mapping", at=1)
RECOVERED: Steps = (*KILLED_COMMIT[:4], REOPEN)
PURGED: Steps = (_insert(0), COMMIT, REWRITE, COMMIT, PURGE)
NEW_SYMBOLS: Steps = (_insert(*range(0, 30, KEY_COUNT)), COMMIT)
KILLED_SYMBOLS: Steps = (
    *(_insert(*range(0, 30, KEY_COUNT)), KILLED_LATE, VERIFY, REOPEN, VERIFY, _insert(*range(30, 60, KEY_COUNT))),
    *(COMMIT, VERIFY, *READ, *EACH_VALUE),
)
"""The dictionaries have more symbols than the committed version."""
REPAIRED: Steps = (_insert(0), COMMIT, CLOSE, REPAIR)
"""Short ones, which show what controls have broken."""
SIZES: tuple[Steps, ...] = (
    (
        _step("spread", count=MANY_PARTITIONS),
        COMMIT,
        *READ,
        CLOSE,
        REOPEN,
        _insert(0, 24),
        COMMIT,
        *DROPS,
        COMMIT,
        *READ,
    ),
    (*APPEND, _step("grow", count=MANY_GENERATIONS), *READ, *REOPENED, _insert(0, 9), COMMIT, *READ),
    *STRETCHED,
    # A process that dies while it makes `_txn` longer.
    (
        *(
            _step("spread", count=MANY_PARTITIONS),
            _step("commit that is killed", kind="sync file", at=0, written_bytes=0),
        ),
        *(REOPEN, _step("spread", count=MANY_PARTITIONS), COMMIT, *READ),
    ),
)
"""Run on one table; with the options of the second one, no partition is rewritten because of its unused bytes."""
LIMITED: tuple[Steps, ...] = tuple(
    (
        *(_insert(0, 3, 24), COMMIT, _step("limit", of=limit), *READ, *EACH_VALUE[:3]),
        *(step for row in range(0, 60, 7) for step in (_insert(row, row + 3), COMMIT, _step("roll back"))),
        *(_insert(0, 6), KILLED_LATE, REOPEN, _insert(3, 9), COMMIT, _step("roll back"), *READ, *SELECTED[::12]),
    )
    for limit in LIMITS
)
"""What a commit acknowledges must be readable, whatever the limits of readers are."""
IN_PIECES: Steps = (
    *(_step("work in pieces"), _insert(0, 3, 9, 24, 48), COMMIT, *APPEND, _insert(6, 12), COMMIT, VERIFY, *READ),
    *(*EACH_VALUE, *BETWEEN, *SELECTED[::9], _step("insert impossible"), REWRITE, COMMIT, _step("insert impossible")),
    *(_insert(0, 3), KILLED_LATE, CLOSE, REPAIR, VERIFY, REOPEN, *(_insert(3, 27), COMMIT) * 6, PURGE, *READ, VERIFY),
    *(CLOSE, MIGRATE, VERIFY, *READ, _step("work as usual"), VERIFY, *READ, _step("write to a protected table")),
)
"""What is done piece by piece only with large tables."""
ENCODED: tuple[Steps, ...] = tuple(
    (
        *(_insert(0, 3, 24), COMMIT, CLOSE, _step("encode", form=form), REOPEN, _insert(0, 6, 9, 12, 27, 48)),
        *(COMMIT, VERIFY, *APPEND, _insert(3, 9), COMMIT, VERIFY, *READ, *EACH_VALUE[::3]),
        *(REWRITE, COMMIT, VERIFY, CLOSE),
        *(_step("encode", form=other), REOPEN, _insert(0, 3, 12, 24, 51), COMMIT, *APPEND, VERIFY, *READ),
    )
    for form, other in pairwise((*ENCODING_NAMES, ENCODING_NAMES[0]))
)
"""Files of one form are gone on with in another one."""
MOVED: Steps = (
    *(_insert(0, 24, 48), COMMIT, CLOSE, *(_step("move", nth=nth) for nth in range(3)), REOPEN, *READ),
    *(_insert(0, 9), COMMIT, REWRITE, COMMIT, PURGE, *DROPS, COMMIT, PURGE, *READ, *REOPENED, *READ),
)
STOPPED_RECOVERIES: tuple[tuple[str, range, dict[str, int]], ...] = tuple(
    (f"{rule} {how}", range(0, step_count, every), more)
    for rule, step_count, every, more in (
        ("reopen", RECOVERY_STEPS, 3, {}),
        ("repair", REPAIR_STEPS, 3, {"nth": 0, "count": 3}),
        ("migrate", MIGRATION_STEPS, 1, {}),
    )
    for how in ("that is killed", "that fails")
)
STOPS: tuple[tuple[Steps, ...], ...] = (
    tuple(
        _stopped("commit that fails", call=kind, at=at) for kind in FAULT_KINDS if kind != "store" for at in range(3)
    ),
    tuple(
        _stopped("commit that is killed", kind=kind, at=at)
        for kind in FAULT_KINDS
        if kind != "store"
        for at in range(3)
    ),
    tuple(_stopped("commit that is killed", kind="store", at=at) for at in (0, 1, *STORES_BEFORE_VERSION)),
    tuple(
        (_insert(0), COMMIT, _insert(3, 24), KILLED_LATE, _step(rule, at=at, **more), CLOSE, REOPEN, *READ)
        for rule, steps, more in STOPPED_RECOVERIES
        for at in steps
    ),
)
"""Each group is run on another table: on which one does not matter."""
WRITTEN_OTHERWISE: tuple[Steps, ...] = tuple(
    (
        *(_alike(Making.DAYS, 0, 3, 6, 9, 24, 48, 57, 60, 63, 66), COMMIT, CLOSE),
        *(_step("pages of another writer", nth=form // 3 % 4, form=form, footer=number), REOPEN, *READ),
        *(CLOSE, _step("pages of another writer", nth=form // 3 % 4 + 1, form=form & ~4, footer=-1 - number % 7)),
        *(REOPEN, *READ),
        *(_step("read between", nth=nth, at=nth + 1) for nth in range(8)),
        *(_step("read each value", nth=nth) for nth in range(form % 2, 26, 2)),
        *(_insert(3, 12, 27, 51), COMMIT, *READ),
    )
    for number, form in enumerate(range(0, FORM_COUNT, 3))
)
"""Run on one table. Of each two files the second one has statistics, in which the last footers differ."""
ANNOUNCE, ELSEWHERE = _step("announce"), _step("migrate elsewhere")
PROTECTED: Steps = (_insert(0), COMMIT, CLOSE, _step("write to a protected table"))
OPERATED: Steps = (
    *(_insert(0, 6, 24), COMMIT, _step("put own files"), CLOSE, ELSEWHERE, REPAIR, ANNOUNCE, REOPEN, _insert(3)),
    *(COMMIT, CLOSE, ELSEWHERE, _step("repair", nth=1, count=1), _step("forget"), REOPEN, REWRITE, COMMIT, PURGE),
    *(*READ, _insert(0, 3), KILLED_LATE, REOPEN, CLOSE, MIGRATE, ELSEWHERE, _step("forget"), ANNOUNCE, VERIFY),
)
"""What operators do beside commits."""
BESIDE_A_WRITER: Steps = (_insert(0, 6, 24), COMMIT, CLOSE, _step("recover beside a writer"), VERIFY)
ENCODED_IN_PIECES: tuple[Steps, ...] = tuple(
    (_step("work in pieces"), *program, _step("work as usual"), VERIFY, *READ) for program in ENCODED
)
ALL_VALUES: Steps = (
    *(_insert(*range(24)), COMMIT, *READ, *EACH_VALUE, *BETWEEN, *SELECTED[::2], _insert(*range(12, 30)), COMMIT),
    *(VERIFY, *READ, REWRITE, COMMIT, *READ, CLOSE, MIGRATE, VERIFY, *READ, *SELECTED[1::6]),
)
PREPARED: Steps = (
    *(_insert(0, 3, 6, 9, 24), COMMIT),
    *(
        step
        for form in ENCODING_NAMES
        for step in (
            *(CLOSE, _step("encode", form=form), REOPEN, _step("adopt instead", nth=0, count=TIMES_IN_INTERVAL)),
            *(COMMIT, VERIFY, *READ, _insert(0, 12), COMMIT, VERIFY, *READ),
        )
    ),
    *(_step("adopt", place=0, count=2), CLOSE, REOPEN, _step("adopt", place=0, count=2), COMMIT, *READ),
)
"""Partitions that are prepared in each form, in the place of others, and left without a commit."""
RESIZED: tuple[Steps, ...] = tuple(
    (
        *(_insert(0, 3, 24), COMMIT, CLOSE, _step("resize", group_bytes=size_bytes, unused_bytes=2_000), REOPEN),
        *(step for row in range(0, 42, 5) for step in (_insert(row, row + 3), COMMIT)),
        *(*READ, _step("limit", of="row groups")),
        *(step for row in range(0, 42, 7) for step in (_insert(row, row + 3), COMMIT)),
        *(*READ, REWRITE, COMMIT, *READ),
    )
    for size_bytes in (1, 100)
)
"""Partitions that are rewritten because of their unused bytes, and row groups that are cut by their size."""
UNWRITABLE: Steps = (
    *(_insert(0, 9, 24), COMMIT, *APPEND, CLOSE, _step("write to unwritable partitions")),
    *(_step("work in pieces"), _step("write to unwritable partitions")),
)
OUTGROWN: Steps = (
    *(*DROPS, COMMIT, _insert(0), COMMIT, _step("limit", of="row groups")),
    *(_insert(*range(TIMES_IN_INTERVAL * KEY_COUNT)), COMMIT, *READ),
)
"""A partition whose new rows are many more than its old ones, in as many row groups as readers take."""
CHANGED_TWICE: Steps = (
    *(_insert(0, 24), COMMIT, REWRITE, DROPS[0], COMMIT, *READ),
    *(_insert(0, 24), COMMIT, REWRITE, DROPS[0], _insert(3), COMMIT, *READ),
    *(REWRITE, _insert(6), DROPS[1], COMMIT, *READ),
)
"""What is staged of one partition contradicts itself: the drop comes first."""
FIXED_PROGRAMS = {table.name: (*COMMITS, *more) for table, more in zip(TABLES, STOPS, strict=True)}
FIXED_PROGRAMS = {name: (*programs, IN_PIECES, OPERATED) for name, programs in FIXED_PROGRAMS.items()}
FIXED_PROGRAMS[TEXTS.name] += (LONG_TEXTS, LOST_SIZES)
FIXED_PROGRAMS[PLAIN.name] = (*SIZES, MOVED, *LIMITED, *ENCODED[1::2])
FIXED_PROGRAMS[SYMBOLS.name] += (KILLED_SYMBOLS, *LIMITED, BESIDE_A_WRITER)
FIXED_PROGRAMS[CHANGED.name] += (*LIMITED, *ENCODED)
FIXED_PROGRAMS[OTHERS.name] = (*WRITTEN_OTHERWISE, *ENCODED[::2], ENCODED_IN_PIECES[0])
FIXED_PROGRAMS[SPLIT.name] = COMMITS
FIXED_PROGRAMS[SYMBOLS.name] += (PREPARED, UNWRITABLE)
FIXED_PROGRAMS[CHANGED.name] += (PREPARED, UNWRITABLE)
FIXED_PROGRAMS[PLAIN.name] += (*RESIZED, OUTGROWN, CHANGED_TWICE)
FIXED_PROGRAMS[EXTREMES.name] = (ALL_VALUES, IN_PIECES, *ENCODED, ENCODED_IN_PIECES[1])
