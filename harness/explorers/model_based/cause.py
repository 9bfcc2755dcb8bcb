"""Infers the cause of a finding: the action that makes files wrong first, or the changes of the program that it needs.

The program is replayed. After each step the files are compared with the model by readers that share nothing with the
implementation (`audit.py`): so it is known whether the files are wrong, since which step, and which call wrote that
field, or whether the files are right, and what reads them is wrong. Then the program is replayed with one small change
at a time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tornproof.harness.common.verdict import shortened
from tornproof.harness.counterexamples.actions import ActionNames
from tornproof.harness.explorers.model_based.audit import MISSING, UNREADABLE, Audit, Difference, Expected
from tornproof.harness.explorers.model_based.commit import expected_changes
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.rules import RULES, Step
from tornproof.harness.explorers.model_based.smaller import Failure, Steps
from tornproof.harness.explorers.model_based.start import Copy
from tornproof.harness.explorers.model_based.world import ALLOWED, DURABLE, NAMED_EARLY, ORDERLY, ROWS, UNSYNCED, World
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.model.table import Entry, Version

SEEN_CHARACTERS_MAX = 160
MIGRATIONS = ("migrate", "migrate that fails", "migrate that is killed", "pages of another writer")
RESTATING = (*MIGRATIONS, "repair", "repair that is killed", "repair that fails")
REMOVING = ("purge", "reopen")
RIGHT = "rows (read by pyarrow) and fields of _txn and _pm are right"
STOPPED = tuple(
    f"{rule} {how}" for rule in ("commit", "reopen", "repair", "migrate") for how in ("that fails", "that is killed")
)
KILLED = ("commit that is killed", "reopen that is killed")
FILES = (DATA_FILE, PM_FILE, TXN_FILE)
DICTIONARY_FILE = re.compile(r"[^\s/]+\.[ckov]\b")
CLOSE, REOPEN = {"rule": "close"}, {"rule": "reopen"}
NOUNS = {
    "read where": "a read with a condition",
    "read each value": "a read with a condition on one value of a column",
    "read between": "a read of a range of times",
    "read token": "a read by a token",
    "read committed": "a read of all rows",
    "read pinned": "a read of a pinned version",
    "reload": "the reload of a reader that stays open",
    "reopen": "the recovery by a writer that opens",
    "reopen that fails": "a recovery of which a call fails",
    "reopen that is killed": "a recovery that is killed",
    "open a second writer": "the lock against a second writer",
    "use a dead writer": "a writer whose commit failed",
    "close": "the end of a writer",
    "repair": "the recovery of the whole table",
    "repair that is killed": "the recovery of the whole table after one that was killed",
    "repair that fails": "the recovery of the whole table after one that failed",
    "migrate": "the migration",
    "migrate that is killed": "the migration after one that was killed",
    "migrate that fails": "the migration after one that failed",
    "pages of another writer": "the migration of a file that pyarrow wrote",
    "adopt": "the preparation of a partition",
    "grow": "one of many commits",
}
"""What a rule does, as a noun; others are their own."""
READS = frozenset({"read where", "read each value", "read between", "read token", "read committed", "read pinned"})
ALL_ROWS = ("read committed", "all rows are read, without a condition")
OTHERWISE = {
    "read where": (ALL_ROWS,),
    "read each value": (ALL_ROWS,),
    "read between": (ALL_ROWS,),
    "stretch": (("read committed", "no committed end is beyond 2 GiB"),),
    "reload": (("read committed", "a reader opens the table anew"),),
    "read token": (("read committed", "the committed version is read, and not an earlier token"),),
    "commit that is killed": (("commit", "the commit is not killed before: {call}"),),
    "commit that fails": (("commit", "this call of the commit does not fail: {call}"),),
    "reopen that is killed": (("reopen", "the recovery is not killed before: {call}"),),
    "reopen that fails": (("reopen", "this call of the recovery does not fail: {call}"),),
    "repair that is killed": (("repair", "the recovery is not killed before: {call}"),),
    "repair that fails": (("repair", "this call of the recovery does not fail: {call}"),),
    "migrate that is killed": (("migrate", "the migration is not killed before: {call}"),),
    "migrate that fails": (("migrate", "this call of the migration does not fail: {call}"),),
}
"""The rules that can stand in the place of another one, and what it is then that differs."""


class Written(NamedTuple):
    """A call that changes a file, with its content before and after."""

    call: Call
    old: bytes
    new: bytes


class Recorder(InterceptedStorage):
    """Keeps what is written since a step began."""

    def __init__(self, inner: Storage, *, is_on_disk: bool) -> None:
        """Keep nothing yet."""
        super().__init__(inner)
        self._is_on_disk = is_on_disk
        self.written: list[Written] = []
        self.removed: list[str] = []

    def begin_step(self) -> None:
        """Forget the step before."""
        self.written.clear()
        self.removed.clear()

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Keep a call that changes bytes, or removes a directory."""
        if call.kind is CallKind.RMDIR:
            self.removed.append(call.path)
        if call.kind not in (CallKind.PWRITE, CallKind.STORE, CallKind.TRUNCATE):
            return run()
        old = self.content(call.path)
        answer = run()
        self.written.append(Written(call, old or b"", self.content(call.path) or b""))
        return answer

    def content(self, path: str) -> bytes | None:
        """Return what a file holds, None where there is none."""
        if self._is_on_disk:
            # The storage itself may be what is wrong.
            with suppress(OSError):
                return Path(path).read_bytes()
            return None
        with suppress(StorageError):
            if self._inner.kind(path) is EntryKind.FILE:
                with self._inner.open_for_reading(path) as file:
                    return file.pread(file.size_bytes(), 0)
        return None


class Wrong(NamedTuple):
    """What is wrong first in the files, after which rule, and the action that wrote it, "" if none did."""

    difference: Difference
    rule: str
    action: str


class Watch:
    """Follows one replay of a program and audits its files after each step."""

    def __init__(self) -> None:
        """Wait for the replay."""
        self.recorder: Recorder | None = None
        self.wrong: Wrong | None = None
        self.rule = "reopen"
        self.step: Step = {}
        self.stopped: list[tuple[Step, str]] = []
        self.is_unfinished = False
        self.removed: tuple[str, ...] = ()
        self.pinned: tuple[int, ...] = ()
        self._expected: tuple[Expected, ...] = ()

    def watched(self, copy: Copy) -> Copy:
        """Return a copy of the table through whose storage everything of the replay goes."""
        self.recorder = Recorder(copy.storage, is_on_disk=copy.durable is not None)
        return copy._replace(storage=self.recorder)

    def stepping(self, world: World, step: Step) -> None:
        """Note what the model has, and what it will have after each commit of the step."""
        assert self.recorder is not None
        self.recorder.begin_step()
        self.rule, self.step = step["rule"], step
        self._expected = (_unchanged(world, self.rule),)
        world.committing = self._committing

    def stepped(self, world: World) -> None:
        """Compare the files with the model, unless they were wrong before, and note which call was stopped."""
        failed = world.process.failed
        if failed is not None and self.rule in STOPPED:
            names = ActionNames(TableTarget(), world.files.path, {})
            self.stopped.append((self.step, names.action(failed, b"", failed.content).text))
        assert self.recorder is not None
        path, recorder = world.files.path, self.recorder
        self.removed = tuple(each.removeprefix(f"{path}/") for each in recorder.removed)
        self.pinned = tuple(sorted({version.number for _, version in world.state.pins}))
        if self.wrong is not None:
            return
        audit = Audit(lambda file: recorder.content(f"{path}/{file}"), world.rows, world.files.name_of)
        number = audit.committed_number()
        possible = [each for each in self._expected if each.version.number == number] or self._expected[-1:]
        found = [next(audit.differences(each), None) for each in possible]
        if None not in found and found[0] is not None:
            # A migration begins without `_pm`, or with one of which nothing is left.
            is_gone = found[0].file == UNREADABLE or found[0].found == MISSING
            self.is_unfinished = is_gone and self.rule in MIGRATIONS
            self.wrong = None if self.is_unfinished else Wrong(found[0], self.rule, self.written_by(world, found[0]))

    def _committing(self, world: World) -> None:
        self._expected = (_unchanged(world, self.rule), *_committed(world))

    def stopped_at(self, step: Step) -> str:
        """Return the call at which a step was stopped, "" if it was not."""
        return next((text for each, text in self.stopped if each is step), "")

    def written_by(self, world: World, difference: Difference) -> str:
        """Return the last action of this step that wrote bytes of a difference, "" if none did."""
        assert self.recorder is not None
        path = f"{world.files.path}/{difference.file}"
        written = [
            each
            for each in self.recorder.written
            if each.call.path == path
            and each.call.kind is not CallKind.TRUNCATE
            and each.call.offset_bytes < difference.end
            and difference.start < each.call.offset_bytes + len(each.call.content)
        ]
        if not written:
            return ""
        content = {
            f"{world.files.path}/{name}": self.recorder.content(f"{world.files.path}/{name}") or b""
            for name in ("_txn", "_meta")
        }
        names = ActionNames(TableTarget(), world.files.path, content)
        call, old, new = written[-1]
        return names.action(call, old, new).text


class Followed(Watch):
    """Follows a replay without looking into files."""

    def watched(self, copy: Copy) -> Copy:
        """Leave the copy as it is."""
        return copy

    def stepping(self, world: World, step: Step) -> None:
        """Note which step it is."""
        self.step = step

    def stepped(self, world: World) -> None:
        """Do nothing."""


def _unchanged(world: World, rule: str) -> Expected:
    """Return what the files say after a step that commits nothing."""
    known = {name: None if rule in RESTATING else world.files.known_ends(name) for name, _ in world.state.directories}
    return Expected(world.state.committed, known)


def _committed(world: World) -> Iterator[Expected]:
    """Yield what the files may say after a commit of what is staged: a partition that grows may also be rewritten."""
    committed = world.state.committed
    known = {name: world.files.known_ends(name) for name, _ in world.state.directories}
    entries = {entry.directory[0]: entry for entry in committed.entries}
    changes = expected_changes(world)
    growing = [key for key in changes if key in entries and key not in world.staged.dropped | world.staged.rewritten]
    kept = {key: entry for key, entry in entries.items() if key not in changes}
    for rewritten in itertools.product((False, True), repeat=len(growing)):
        in_place = {key for key, is_new in zip(growing, rewritten, strict=True) if not is_new}
        changed = {
            key: Entry(
                directory=entries[key].directory if key in in_place else (key, committed.number), rows=rows, token=0
            )
            for key, rows in changes.items()
            if rows is not None
        }
        after = {**kept, **changed}
        yield Expected(Version(number=committed.number + 1, entries=tuple(after[key] for key in sorted(after))), known)


class Variation(NamedTuple):
    """A program that differs in one thing, which is said in words."""

    sentence: str
    options: int
    steps: Steps


def cause_of(
    failure: Failure, replay: Callable[[int, Steps, Watch | None], ViolationError | None], bloomless: Collection[int]
) -> dict[str, Any]:
    """Return why a program fails, as JSON: what is wrong first, and the changes of it that pass.

    `bloomless` are the options of the writer that make no bloom filters.
    """
    watch = Watch()
    ends = [step["token_bytes"] for step in failure.steps if step["rule"] == "stretch"]
    if ends:
        # To audit files of gigabytes would take as much memory.
        seen = shortened(failure.violation.text, SEEN_CHARACTERS_MAX)
        words, kind = f"{seen}, where the committed end of a data.parquet is near byte {ends[-1]}", "stretch"
    else:
        replay(failure.options, failure.steps, watch)
        words, kind = _said(failure, watch)
    tried = list(_variations(failure, bloomless, watch))
    enough = [each for each in tried if _passes(each, replay)]
    return {
        "cause": words,
        "kind": kind,
        "passes_when": {
            "tried": len(tried),
            "enough": len(enough),
            "changes": [{"text": each.sentence, "kind": each.sentence} for each in enough],
        },
    }


def _passes(variation: Variation, replay: Callable[[int, Steps, Watch | None], ViolationError | None]) -> bool:
    """Say whether a variation violates nothing although its last step is taken: a step is left out if it cannot be."""
    followed = Followed()
    return replay(variation.options, variation.steps, followed) is None and followed.step is variation.steps[-1]


def _said(failure: Failure, watch: Watch) -> tuple[str, str]:
    """Return the cause in words, and its kind without values."""
    if watch.wrong is not None:
        difference, rule, action = watch.wrong
        noun = _noun(rule)
        by = f"; written by: {action}" if action else ", which nothing writes"
        file = difference.file.rpartition("/")[2]
        return f"{noun} leaves a wrong file: {difference.text}{by}", f"{rule}: {difference.field} in {file}"
    stopped_at = watch.stopped_at(watch.step)
    noun = _noun(watch.rule) + (f", at: {stopped_at}" if stopped_at else _directories(watch))
    if failure.violation.broken == DURABLE:
        missing = failure.violation.text.removeprefix(UNSYNCED).removeprefix(NAMED_EARLY)
        return f"{noun} does not sync what it writes: {missing}", f"{watch.rule}: sync {_file_in(missing)}"
    if watch.rule not in READS and failure.violation.broken in (ORDERLY, ROWS):
        noun = f"a read after {noun}"
    file = _file_of_error(failure.violation.text)
    at = f", which stops at {file}" if file else ""
    dictionary = DICTIONARY_FILE.search(failure.violation.text)
    if failure.violation.broken == ALLOWED and dictionary is not None:
        file, at = dictionary[0], f", in {dictionary[0]}"
    kind = f"{watch.rule}: {file.rpartition('/')[2]}" if file else watch.rule
    return f"{'' if watch.is_unfinished else f'{RIGHT}; '}wrong is {noun}{at}", kind


def _directories(watch: Watch) -> str:
    """Return which directories a purge or a recovery removed, and beside which pins, "" for other rules."""
    if watch.rule not in REMOVING:
        return ""
    noun = "directory" if len(watch.removed) == 1 else "directories"
    removed = f"{noun} {', '.join(watch.removed)}" if watch.removed else "no directory"
    pinned = f", while version {' and '.join(map(str, watch.pinned))} is pinned" if watch.pinned else ""
    return f", which removes {removed}{pinned}"


def _file_of_error(text: str) -> str:
    """Return the file that an error of the implementation names: "reading …: CorruptError: FILE: FIELD at byte …"."""
    parts = text.split(": ")
    return next((part for part in parts[1:] if part.rpartition("/")[2] in FILES), "")


def _file_in(missing: str) -> str:
    """Return the file that a text about what is not synced names."""
    file = missing.partition(" in ")[0].rpartition(" of ")[2]
    return next((name for name in FILES if name in missing), "a directory" if "name of" in missing else file)


def _noun(rule: str) -> str:
    return NOUNS.get(rule, f"the {rule}")


def _variations(failure: Failure, bloomless: Collection[int], watch: Watch) -> Iterator[Variation]:
    """Yield programs with one step that is done otherwise, the ones that say most first."""
    options, steps = failure.options, failure.steps
    for number, step in enumerate(steps):
        for rule, sentence in OTHERWISE.get(step["rule"], ()):
            # What is killed has no open writer afterwards.
            closed = (CLOSE,) if step["rule"] in KILLED and number + 1 < len(steps) else ()
            instead = ({"rule": rule, **{name: step[name] for name in RULES[rule].arguments}}, *closed)
            sentence = sentence.format(call=watch.stopped_at(step))
            yield Variation(sentence, options, (*steps[:number], *instead, *steps[number + 1 :]))
    commits = [number for number, step in enumerate(steps) if step["rule"].startswith("commit")]
    before = commits[-2] + 1 if len(commits) > 1 else 0
    if before:
        yield Variation(
            "a new writer makes the last commit", options, (*steps[:before], CLOSE, REOPEN, *steps[before:])
        )
    if commits:
        last = commits[-1]
        rewritten = (*steps[:last], {"rule": "rewrite", "nth": 0}, *steps[last:])
        yield Variation("the last commit rewrites the partition, and does not add to it", options, rewritten)
    if options not in bloomless:
        yield Variation("the writer makes no bloom filters", next(iter(bloomless)), steps)
