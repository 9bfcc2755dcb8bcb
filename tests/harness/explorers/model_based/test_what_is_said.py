"""Each sentence with which a program of rules fails is said of the mistake that it is about, and of no sound table.

Each mistake is shown by the shortest program that does, so that what is broken is this comparison and no other one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.explorers.model_based.explorer import start_of
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import (
    ANNOUNCE,
    CLOSE,
    COMMIT,
    DROPS,
    ELSEWHERE,
    MIGRATE,
    PIN,
    PROTECTED,
    PURGE,
    REOPEN,
    REPAIR,
    REWRITE,
    SECOND_WRITER,
    VERIFY,
)
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.explorers.model_based.rules import Step
from tornproof.harness.explorers.model_based.smaller import Steps
from tornproof.harness.explorers.model_based.start import Start, StorageKind, prepare
from tornproof.harness.explorers.model_based.tables import CHANGED, TEXTS
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.txn import SQUASH_COUNT
from tornproof.impl.migrate.plan import Outcome
from tornproof.impl.repair.kept import kept_files
from tornproof.impl.repair.plan import CommittedFile
from tornproof.impl.repair.repair import ActionKind
from tornproof.impl.storage.interface import LockMode, OpenMode, StorageReason
from tornproof.impl.table.metadata_file import NAME_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.pins import PINS_FILE, WRITER_LOCK_OFFSET_BYTES, WriterLock
from tornproof.impl.types.arrow import arrow_type
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.write.commit import Action
from tornproof.impl.write.recovery import _store_version_again

ENCODE = remembered_encoder()
Wrap = Callable[[Any], Any]
RULES = "tornproof.harness.explorers.model_based"
MIGRATION = "tornproof.impl.migrate"
REPAIRING = "tornproof.impl.repair"
WRITE = "tornproof.impl.write"
WRITER = f"{WRITE}.table_writer"


def step(rule: str, **arguments: Any) -> Step:
    return {"rule": rule, **arguments}


def insert(*rows: int) -> Step:
    return step("insert", rows=list(rows))


ONE: Steps = (insert(0), COMMIT)
TWO: Steps = (*ONE, insert(3), COMMIT)
TWO_PARTITIONS: Steps = (insert(0, 24), COMMIT)
RELOAD, READ_FIRST = step("reload"), step("read token", nth=0)
KILLED_AT_SYNC = step("commit that is killed", kind="sync mapping", at=0, written_bytes=0)
ADOPTED: Steps = (step("adopt", place=0, count=3), step("append", place=0, count=1), COMMIT)
WRITE_UNWRITABLE = step("write to unwritable partitions")


def returning(answer: Any) -> Wrap:
    return lambda _: lambda *_, **__: answer


def raising(error: type[Exception], *arguments: str) -> Wrap:
    def wrap(_: Any) -> Any:
        def failing(*_: Any, **__: Any) -> Any:
            # Anew each time, because it keeps the frames alive that it went through.
            raise error(*arguments)

        return failing

    return wrap


def committing(commit: Callable[[Any, Callable[[], int]], int]) -> Wrap:
    """Return a writer whose commits are made by a function of it and of what a sound one does."""

    def wrap(writer: Any) -> Any:
        class Other(writer):  # type: ignore[misc]
            def commit(self) -> int:
                return commit(self, super().commit)

        return Other

    return wrap


def leaving_out(writer: Any, commit: Callable[[], int]) -> int:
    """Commit without the rows that are rejected."""
    try:
        return commit()
    except RowsRejectedError:
        writer._staged.clear()
        return commit()


def having_staged(answer: bool) -> Wrap:
    return lambda writer: type("Other", (writer,), {"_has_staged": lambda self: answer})


def publishing(**more: Callable[[dict[Action, Any], Any], None]) -> Wrap:
    """Return other steps of publishing a version, by their names."""

    def wrap(actions: dict[Action, Any]) -> dict[Action, Any]:
        others = {Action[name]: functools.partial(run, actions) for name, run in more.items()}
        return {**actions, **others}

    return wrap


def storing_first(actions: dict[Action, Any], run: Any) -> None:
    actions[Action.STORE_VERSION](run)
    actions[Action.SYNC_RECORD](run)


def storing_once(actions: dict[Action, Any], run: Any) -> None:
    if run._plan.version_store.value == 1:
        actions[Action.STORE_VERSION](run)


def without_last(next_version: Callable[..., Any]) -> Callable[..., Any]:
    return lambda current, **settings: next_version(
        current, **{**settings, "partitions": settings["partitions"][:-1] or settings["partitions"]}
    )


def without_squashes(next_version: Callable[..., Any]) -> Callable[..., Any]:
    def following(current: Any, **settings: Any) -> Any:
        kept = [structs.replace(each, flags=SQUASH_COUNT.put(each.flags, 0)) for each in settings["partitions"]]
        return next_version(current, **{**settings, "partitions": kept})

    return following


def promising_ascii(new_header: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **settings: Any) -> Any:
        header = new_header(*arguments, **settings)
        is_text = [tag_of(each.type) is TypeTag.VARCHAR for each in header.columns]
        columns = tuple(
            structs.replace(each, flags=layout.IS_ASCII.put(each.flags, int(flag)))
            for each, flag in zip(header.columns, is_text, strict=True)
        )
        return structs.replace(header, columns=columns)

    return made


def rewriting(must_rewrite: bool) -> Wrap:
    return lambda changer: type("Other", (changer,), {"must_rewrite": lambda *_: must_rewrite})


def also_purged(purge: Callable[..., tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    return lambda *arguments: (*purge(*arguments), "1970-01-01")


def remembering(read: Callable[..., Any]) -> Callable[..., Any]:
    """Answer as the first time whenever the same is read."""
    known: dict[object, Any] = {}

    def remembered(first: Any, *arguments: Any) -> Any:
        key = tuple(getattr(each, "path", None) or getattr(each, "identity", each) for each in arguments)
        if key not in known:
            known[key] = read(first, *arguments)
        return known[key]

    return remembered


def resolving(resolve: Callable[[Any, Any, Callable[[Any], Any]], Any]) -> Wrap:
    """Return a snapshot that finds a partition by a function of it, the partition and what a sound one does."""

    def wrap(snapshot: Any) -> Any:
        class Other(snapshot):  # type: ignore[misc]
            def _resolve(self, partition: Any) -> Any:
                return resolve(self, partition, super()._resolve)

        return Other

    return wrap


def without_identity(partition: Any) -> Any:
    return type(partition)("Alike", (partition,), {"identity": property(lambda _: ())})


def resolving_once(snapshot: Any) -> Any:
    known: dict[object, Any] = {}

    def resolved(_: Any, partition: Any, resolve: Callable[[Any], Any]) -> Any:
        if partition.identity not in known:
            known[partition.identity] = resolve(partition)
        return known[partition.identity]

    return resolving(resolved)(snapshot)


def resolving_committed(snapshot: Any, partition: Any, resolve: Callable[[Any], Any]) -> Any:
    return resolve(
        next(each for each in snapshot.table.transaction().partitions if each.timestamp == partition.timestamp)
    )


def newest(resolve: Callable[..., Any]) -> Callable[..., Any]:
    return lambda generations, token: len(generations) if generations[-1].token == token else 0


def cutting_nothing(execute: Callable[..., None]) -> Callable[..., None]:
    def executed(storage: Any, path: str, action: Any, *more: Any) -> None:
        if action.kind is not ActionKind.CUT_DATA:
            execute(storage, path, action, *more)

    return executed


def copying_no_pm(copy: Callable[..., None]) -> Callable[..., None]:
    def copied(storage: Any, source: str, start_bytes: int, target: str) -> None:
        copy(storage, source, start_bytes, target)
        if source.endswith(PM_FILE):
            with storage.open_for_writing(target) as file:
                file.pwrite(b"\xa5", 0)

    return copied


def migrated_always(publish: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def published(*arguments: Any, **settings: Any) -> Outcome:
        publish(*arguments, **settings)
        return Outcome.MIGRATED

    return published


def without_problems(find: Callable[..., Any]) -> Callable[..., Any]:
    def found(*arguments: Any) -> Any:
        committed = find(*arguments)
        return committed if isinstance(committed, CommittedFile) else ()

    return found


def with_values_of_another(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    """Let row groups have the chunks of the last column the other way round."""

    def encoded(header: Any, blocks: Sequence[Any], *more: Any) -> bytes:
        chunks = [(*each.chunks[:-1], other.chunks[-1]) for each, other in zip(blocks, blocks[::-1], strict=True)]
        changed = [structs.replace(each, chunks=new) for each, new in zip(blocks, chunks, strict=True)]
        return encode(header, changed, *more)

    return encoded


def waiting(_: Any) -> Callable[..., WriterLock]:
    """Return what waits for the lock of another writer."""

    def taken(storage: Any, path: str) -> WriterLock:
        file = storage.open_for_writing(f"{path}/{PINS_FILE}", OpenMode.EXISTING_OR_NEW)
        file.lock(LockMode.EXCLUSIVE, offset_bytes=WRITER_LOCK_OFFSET_BYTES, size_bytes=1)
        return WriterLock(file)

    return taken


def returning_to_version(_: Any) -> Callable[..., None]:
    def unchanged(table: Any, transaction: Any) -> None:
        _store_version_again(table.storage, table.path, transaction.version)

    return unchanged


def without_name(writer: Any, commit: Callable[[], int]) -> int:
    writer._storage.unlink(f"{writer.table.path}/{NAME_FILE}")
    return commit()


def without_nulls(missing_value: Callable[..., pa.Scalar]) -> Callable[..., pa.Scalar]:
    return lambda of, **form: pa.scalar(None, arrow_type(of, **form))


def emptying(forget: Callable[..., None]) -> Callable[..., None]:
    def forgotten(storage: Any, path: str, files: list[str]) -> None:
        for file in kept_files(storage, path)[1]:
            if file.endswith(".analysed"):
                with storage.open_for_writing(f"{path}/{file}") as opened:
                    opened.truncate(0)
        forget(storage, path, files)

    return forgotten


UNCOMPARED: Mapping[str, Wrap] = {"tornproof.impl.verify.verify:compare_footer": lambda _: lambda *_, **__: iter(())}
"""Else a migration itself rejects what it has made."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mistake, the place in which it is planted, and a program with words of what it then violates.

    Programs are run on a new table without rows, or on one of our own tables.
    """

    location: str
    broken: Wrap
    program: Steps
    said: str
    table: str | None = None
    kind: StorageKind = StorageKind.MEMORY
    also: Mapping[str, Wrap] = field(default_factory=dict)


COMMITS: dict[str, Case] = {
    "a call that fails by itself": Case(
        location=f"{WRITER}:execute",
        broken=raising(StorageError, "_txn", "write", "no space"),
        program=ONE,
        said="commit: StorageError: _txn",
    ),
    "every partition is frozen": Case(
        location=f"{WRITER}:reject_unless_writable",
        broken=raising(RowsRejectedError, "frozen"),
        program=TWO,
        said="commit: frozen",
    ),
    "rejected rows are left out": Case(
        location=f"{WRITER}:TableWriter",
        broken=committing(leaving_out),
        program=ADOPTED,
        said="should have been rejected",
    ),
    "the version before is returned": Case(
        location=f"{WRITER}:TableWriter",
        broken=committing(lambda _, commit: commit() - 1),
        program=ONE,
        said="commit returned 0, and should have returned 1",
    ),
    "the version is stored before the record is synced": Case(
        location=f"{WRITE}.commit:_PUBLISH_ACTIONS",
        broken=publishing(SYNC_RECORD=storing_first),
        program=(insert(0), KILLED_AT_SYNC),
        said="was stopped when it was PUBLISHED, and is_committed is True",
    ),
    "the last partition is not named": Case(
        location=f"{WRITER}:next_version",
        broken=without_last,
        program=TWO_PARTITIONS,
        said="after a commit partition",
    ),
    "a version is not stored": Case(
        location=f"{WRITE}.commit:_PUBLISH_ACTIONS",
        broken=publishing(STORE_VERSION=storing_once),
        program=(*ONE, DROPS[0], COMMIT),
        said="the version is 1, and should be 2",
    ),
    "all texts are said to be ASCII": Case(
        location=f"{WRITE}.partition_change:new_header",
        broken=promising_ascii,
        program=(insert(*range(24)), REWRITE, COMMIT),
        said="is ASCII, and not all is",
        table=TEXTS.name,
    ),
    "every commit rewrites": Case(
        location=f"{WRITE}.partition_change:PartitionChanger",
        broken=rewriting(must_rewrite=True),
        program=TWO,
        said="was rewritten, and should not have",
    ),
    "no commit rewrites because of unused bytes": Case(
        location=f"{WRITE}.partition_change:PartitionChanger",
        broken=rewriting(must_rewrite=False),
        program=(CLOSE, step("resize", group_bytes=1_000, unused_bytes=100), REOPEN, *ONE * 3),
        said="grew in place, and should not have",
    ),
    "a rewrite is not asked for": Case(
        location=f"{WRITER}:TableWriter",
        broken=lambda writer: type("Other", (writer,), {"rewrite_partition": lambda *_: None}),
        program=(*ONE, insert(3), REWRITE, COMMIT),
        said="grew in place, and should not have",
    ),
    "the name of the table is removed": Case(
        location=f"{WRITER}:TableWriter",
        broken=committing(without_name),
        program=(*ONE, VERIFY),
        said="verify: _name",
    ),
    "a row is rejected for a file": Case(
        location=f"{WRITER}:portions",
        broken=raising(RowsRejectedError, "the disk is full"),
        program=(step("insert impossible"),),
        said="was rejected for something else: the disk is full",
    ),
}
READERS: dict[str, Case] = {
    "a pin is not held": Case(
        location="tornproof.impl.txn.pins:_lock_committed",
        broken=raising(StorageError, "_pins", "lock", StorageReason.NO_LOCKS),
        program=(*ONE, PIN),
        said="version 1 was pinned, lock held: False",
    ),
    "more is said to be purged than there was": Case(
        location=f"{WRITER}:purge",
        broken=also_purged,
        program=(*ONE, PURGE),
        said="purged were ['1970-01-01'], which are needed or never existed",
    ),
    "what was resolved once is never looked for again": Case(
        location="tornproof.impl.read.reader:Snapshot",
        broken=resolving_once,
        program=(*ONE, REWRITE, COMMIT, PURGE),
        said="what was purged can still be read",
    ),
    "a reader keeps its first version": Case(
        location="tornproof.impl.txn.reader:safe_read",
        broken=remembering,
        program=(*ONE, RELOAD, insert(24), COMMIT, RELOAD),
        said="a long-lived reader sees version 1",
    ),
    "partitions are compared by nothing": Case(
        location="tornproof.impl.txn.transaction:Partition",
        broken=without_identity,
        program=(*ONE, RELOAD, insert(3), COMMIT, RELOAD),
        said="a long-lived reader is wrong about what it may keep open",
    ),
    "the model knows the newest generation alone": Case(
        location=f"{RULES}.readers:resolve",
        broken=newest,
        program=(*TWO, READ_FIRST),
        said="the model cannot resolve token",
    ),
    "an earlier token is taken for the committed one": Case(
        location="tornproof.impl.read.reader:Snapshot",
        broken=resolving(resolving_committed),
        program=(*TWO, READ_FIRST),
        said="no longer has its rows",
    ),
}
SESSIONS: dict[str, Case] = {
    "staged rows are lost in silence": Case(
        location=f"{WRITER}:TableWriter",
        broken=having_staged(answer=False),
        program=(insert(0), CLOSE),
        said="close: it says nothing of staged changes, and the model has 1 staged rows",
    ),
    "rows are said to be lost that never were": Case(
        location=f"{WRITER}:TableWriter",
        broken=having_staged(answer=True),
        program=(CLOSE,),
        said="close: it says that staged changes are discarded, and the model has 0 staged rows",
    ),
    "a file cannot be recovered": Case(
        location=f"{WRITER}:recover_for_writing",
        broken=raising(StorageError, "_txn", "write", "no space"),
        program=(),
        said="open_writer: StorageError: _txn",
    ),
    "a recovery cuts nothing": Case(
        location=f"{REPAIRING}.repair:_execute",
        broken=cutting_nothing,
        program=(*ONE, CLOSE, REPAIR),
        said="and a second one did (Action(kind=<ActionKind.CUT_DATA",
    ),
    "a recovery keeps another _pm": Case(
        location=f"{REPAIRING}.kept:_copy",
        broken=copying_no_pm,
        program=(*ONE, CLOSE, step("repair", nth=0, count=2)),
        said=f"{PM_FILE} than it changed",
    ),
    "a file of a user is emptied": Case(
        location=f"{REPAIRING}.repair:forget_files",
        broken=emptying,
        program=(*ONE, step("put own files"), CLOSE, step("forget")),
        said="a file of a user is another one: ",
    ),
}
OPERATORS: dict[str, Case] = {
    "no directory is a table": Case(
        location="tornproof.impl.table.tables_below:is_table",
        broken=returning(False),
        program=(*ONE, CLOSE, ANNOUNCE),
        said="the table is not found below the folder that it is in",
        kind=StorageKind.FILES,
    ),
    "a file is always migrated": Case(
        location=f"{MIGRATION}.plain_file:publish_output",
        broken=migrated_always,
        program=(*ONE, CLOSE, ELSEWHERE),
        said="migrating a file: ",
    ),
    "a file is migrated as by the tool": Case(
        location=f"{MIGRATION}.plain_file:convert",
        broken=lambda convert: lambda *arguments, **settings: convert(*arguments, **settings) + b" ",
        program=(*ONE, CLOSE, ELSEWHERE),
        said="the `_pm` of a file is not that of a partition with the same data",
    ),
    "a lost file is no problem": Case(
        location=f"{REPAIRING}.repair:find_committed",
        broken=without_problems,
        program=(*ONE, CLOSE, ANNOUNCE),
        said="_pm is missing; verify reports it: True, and recover: False",
    ),
    "a lost file is verified as if it was there": Case(
        location="tornproof.impl.verify.verify:resolve_partition",
        broken=remembering,
        program=(*ONE, CLOSE, VERIFY, ANNOUNCE),
        said="_pm is missing; verify reports it: False",
    ),
    "values of another row group elsewhere": Case(
        location=f"{MIGRATION}.convert:encode_file",
        broken=with_values_of_another,
        also=UNCOMPARED,
        program=(insert(*range(0, 24, 2)), COMMIT, CLOSE, ELSEWHERE),
        said="what was migrated to another place shows other rows",
    ),
    "values of another row group": Case(
        location=f"{MIGRATION}.convert:encode_file",
        broken=with_values_of_another,
        also=UNCOMPARED,
        program=(insert(*range(0, 24, 2)), COMMIT, CLOSE, MIGRATE),
        said="after a migration the table has another content: rows have other values",
    ),
    "a recovery takes back what was committed meanwhile": Case(
        location=f"{REPAIRING}.repair:_check_unchanged",
        broken=returning_to_version,
        program=(*ONE, CLOSE, step("recover beside a writer")),
        said="of a recovery another process committed: other rows are there afterwards, or ",
    ),
    "who maps a file is not known": Case(
        location="tornproof.impl.storage.operating_system:mappers_of",
        broken=returning(()),
        program=PROTECTED,
        said="a writer was opened while another process has _txn mapped",
        kind=StorageKind.FILES,
    ),
    "a second writer waits": Case(
        location=f"{WRITER}:take_writer_lock",
        broken=waiting,
        program=SECOND_WRITER,
        said="opening a second writer does not end: it waits for the lock",
    ),
}
REFUSED: dict[str, Case] = {
    "how often a partition was squashed is forgotten": Case(
        location=f"{WRITER}:next_version",
        broken=without_squashes,
        program=(insert(0, 24), COMMIT, WRITE_UNWRITABLE),
        said="the flags of the entries are",
    ),
    "row groups are not counted": Case(
        location="tornproof.impl.limits:excess",
        broken=lambda excess: lambda **counts: excess(**{**counts, "row_group_count": 0}),
        program=(insert(0, 24), COMMIT, WRITE_UNWRITABLE),
        said="a partition was prepared with a row group more than readers take",
    ),
    "what was written for a refused commit stays": Case(
        location=f"{WRITER}:remove_streamed",
        broken=returning(None),
        program=(insert(0, 24), COMMIT, step("work in pieces"), WRITE_UNWRITABLE),
        said="was refused, and then /",
    ),
}
CASES = {**REFUSED, **COMMITS, **READERS, **SESSIONS, **OPERATORS}


@functools.cache
def start_on(table: str | None) -> Start:
    return prepare(None, "/table") if table is None else start_of(table, ENCODE)


@pytest.fixture(scope="module")
def violation_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], ViolationError | None]:
    scratch = str(tmp_path_factory.mktemp("said"))

    def violation(case: Case) -> ViolationError | None:
        search = Search(start=start_on(case.table), kind=case.kind, scratch=scratch, encode=ENCODE, steps=0)
        with remembered_decoding():
            return replay(search, 0, case.program)

    return violation


@pytest.fixture(scope="module")
def demand_sound(violation_of: Callable[[Case], ViolationError | None]) -> Callable[[Case], None]:
    known: list[tuple[str | None, StorageKind, Steps]] = []

    def demand(case: Case) -> None:
        """Without a mistake nothing is found, for which each program is run once."""
        key = (case.table, case.kind, case.program)
        if key not in known:
            assert violation_of(case) is None
            known.append(key)

    return demand


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_said_in_words_of_its_own(
    name: str, violation_of: Callable[[Case], ViolationError | None], demand_sound: Callable[[Case], None]
) -> None:
    case = CASES[name]
    demand_sound(case)
    with ExitStack() as planted:
        for location, broken in {case.location: case.broken, **case.also}.items():
            planted.enter_context(wrapped(location, broken))
        found = violation_of(case)
    assert found is not None and case.said in str(found)


def test_rows_that_a_change_of_columns_changes_are_said() -> None:
    with (
        wrapped("tornproof.impl.table.columns:missing_value", without_nulls),
        pytest.raises(ViolationError, match="after columns were changed the rows are"),
    ):
        start_of(CHANGED.name, ENCODE)
