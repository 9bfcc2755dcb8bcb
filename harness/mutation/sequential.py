"""The detectors that inject nothing: commits in sequence, which are read, counted, and watched step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.baseline import Baseline, Catch
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.search.crash_world import WRITER_INDEX
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.trace_rules import Broken
from tornproof.harness.systems.protected import PROTECTIONS, files_but_pins
from tornproof.harness.systems.table import TableCommits, TableTarget
from tornproof.harness.systems.table_readers import Seen, see, seen_in
from tornproof.harness.systems.table_rules import TableRules
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.table.partition_names import looks_like_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.commit import Protocol
from tornproof.impl.write.table_writer import TableWriter, open_writer

SOUND = "the files are sound"
ELSEWHERE = "files that a soft link leads to stay"
VOLUME = "/volume"
PM_LIMIT = "tornproof.impl.limits:PM_LIMIT_BYTES"
PINNED = "a pinned snapshot stays readable and equal to itself"
COUNTERS = "the files count their bytes and generations as the model does"


class BrokenError(Exception):
    """A property does not hold."""

    def __init__(self, violated: str) -> None:
        self.violated = violated


class SequentialRun:
    """One run of a scenario's sessions by a writer with the fault; readers are other processes on the same disk."""

    def __init__(self, baseline: Baseline, mutant: Mutant) -> None:
        """Start with the files of the scenario."""
        self.storage = baseline.storage()
        self.read_count = 0
        self._baseline = baseline
        self._mutant = mutant
        self._pins: list[tuple[Pin, Seen]] = []
        self._opened = ExitStack()

    def commits(self) -> Iterator[tuple[int, ...]]:
        """Yield what is committed after each commit; raises what committing raises."""
        done: tuple[int, ...] = ()
        for session in self._baseline.sessions:
            with ExitStack() as opened:
                with self._mutant.planted():
                    writer = opened.enter_context(TableTarget().open_writer(self.storage, self.path))
                for number in session:
                    self._commit(writer, number)
                    done = (*done, number)
                    yield done

    @property
    def path(self) -> str:
        """The path of the table."""
        return self._baseline.sound.path

    def pin(self, expected: Seen) -> None:
        """Pin the current version in a new reader."""
        reader = self.storage.fork_process()
        self._pins.append((self._opened.enter_context(pin_committed(reader, self.path)), expected))

    def read(self, expected: Seen) -> None:
        """Read with all readers, with and without the fault; raises BrokenError."""
        for is_planted in (True, False):
            with ExitStack() as planted:
                if is_planted:
                    planted.enter_context(self._mutant.planted())
                self._read(expected, TableTarget())

    def _read(self, expected: Seen, target: TableTarget) -> None:
        self.read_count += 1
        try:
            seen = see(self.storage.fork_process(), self.path, target.reader)
        except TornproofError as error:
            raise BrokenError(Property.REJECTED) from error
        if seen != expected:
            raise BrokenError(Property.WRONG_SNAPSHOT)
        for pin, before in self._pins:
            self.read_count += 1
            try:
                table = open_table(self.storage.fork_process(), self.path)
                seen = seen_in(snapshot_of(table, pin.transaction, target.reader))
            except TornproofError as error:
                raise BrokenError(PINNED) from error
            if seen != before:
                raise BrokenError(PINNED)

    def verify(self) -> None:
        """Verify without the fault; raises BrokenError."""
        if not verify_table(open_table(self.storage, self.path)).sound:
            raise BrokenError(SOUND)

    def close(self) -> None:
        """Release all pins."""
        self._opened.close()

    def _commit(self, writer: TableCommits, number: int) -> None:
        try:
            with self._mutant.planted():
                writer.commit(self._baseline.operation(number))
        except TornproofError as error:
            raise BrokenError(Property.COMMIT) from error


def sequential(baseline: Baseline, mutant: Mutant) -> Catch:
    """Make all commits in sequence; after each, read with pinned readers of every version so far, and verify."""
    return _sequential(baseline, SequentialRun(baseline, mutant))


def soft_links(baseline: Baseline, mutant: Mutant) -> Catch:
    """Do the same where each partition is a link to another volume, and purge: the volume must keep its files."""
    run = SequentialRun(baseline, mutant)
    before = set(_moved_partitions(run.storage, run.path))
    caught = _sequential(baseline, run)
    with mutant.planted(), open_writer(run.storage, run.path) as writer:
        writer.purge()
    is_lost = any(run.storage.kind(path) is EntryKind.MISSING for path in before)
    return caught._replace(property=ELSEWHERE) if is_lost else caught


def protected(baseline: Baseline, mutant: Mutant) -> Catch:
    """Open a writer and commit where a server would lose by it: each time it must reject, and change nothing."""
    path = baseline.sound.path
    for count, protection in enumerate(PROTECTIONS, start=1):
        storage = baseline.storage()
        protection.protect(storage, path)
        before = files_but_pins(storage)
        with (
            suppress(TornproofError),
            mutant.planted(),
            TableOfServer().open_writer(storage, path) as writer,
        ):
            writer.commit(baseline.operation(baseline.sound.first_session[0]))
        if files_but_pins(storage) != before:
            return Catch(count, protection.property)
    return Catch(len(PROTECTIONS))


class TableOfServer(TableTarget):
    """A table that is no copy: a server goes on with it."""

    def writer(self, storage: Storage, path: str, protocol: Protocol) -> TableWriter:
        """Open a writer that allows nothing by which a server would lose."""
        return open_writer(storage, path, options=self.options, protocol=protocol)


def small_limits(baseline: Baseline, mutant: Mutant) -> Catch:
    """Do the same where readers take a `_pm` that is at most twice as large as the largest at the start.

    Directories may have other names than without that limit.
    """
    sizes = [len(content) for path, content in baseline.start.files.items() if path.endswith(f"/{PM_FILE}")]
    run, count = SequentialRun(baseline, mutant), 0
    with wrapped(PM_LIMIT, lambda _: 2 * max(sizes)):
        try:
            for count, done in enumerate(run.commits(), start=1):
                seen, expected = see(run.storage.fork_process(), run.path), baseline.expected(done)
                if replace(seen, names=expected.names) != expected:
                    return Catch(count, Property.WRONG_SNAPSHOT)
                run.verify()
        except BrokenError as broken:
            return Catch(count, broken.violated)
        except TornproofError:
            return Catch(count, Property.REJECTED)
    return Catch(count)


def _moved_partitions(storage: MemoryStorage, path: str) -> Iterator[str]:
    """Move each partition to a volume, leave a link behind, and yield the paths of the files there."""
    storage.mkdir(VOLUME)
    for name in filter(looks_like_partition, storage.listdir(path)):
        storage.rename(f"{path}/{name}", f"{VOLUME}/{name}")
        storage.link_symbolically(f"{VOLUME}/{name}", f"{path}/{name}")
        yield from (f"{VOLUME}/{name}/{file}" for file in storage.listdir(f"{VOLUME}/{name}"))


def _sequential(baseline: Baseline, run: SequentialRun) -> Catch:
    try:
        run.pin(baseline.expected(()))
        for done in run.commits():
            expected = baseline.expected(done)
            run.read(expected)
            run.verify()
            run.pin(expected)
    except BrokenError as broken:
        return Catch(run.read_count, broken.violated)
    except Exception:
        return Catch(run.read_count, Property.DISORDERLY)
    finally:
        run.close()
    return Catch(run.read_count)


def metric(baseline: Baseline, mutant: Mutant) -> Catch:
    """Compare the counters in the files after each commit with those of a run without the fault."""
    run, storage = SequentialRun(baseline, mutant), baseline.storage()
    count = 0
    with ExitStack() as opened:
        opened.callback(run.close)
        writers = [TableTarget().open_writer(storage, baseline.sound.path)]
        for count, done in enumerate(run.commits(), start=1):
            if done[-1] in baseline.sound.second_session[:1]:
                writers.pop().__exit__()
                writers.append(TableTarget().open_writer(storage, baseline.sound.path))
            writers[0].commit(baseline.operation(done[-1]))
            if _counters(storage, baseline) != _counters(run.storage, baseline):
                return Catch(count, COUNTERS)
    return Catch(count)


def _counters(storage: MemoryStorage, baseline: Baseline) -> object:
    table = open_table(storage, baseline.sound.path)
    report = verify_table(table)
    return report.version, report.partitions, report.unreferenced, _filter_count(table)


def _filter_count(table: Table) -> int:
    """Return how many chunks of the committed version have a bloom filter."""
    resolved = (resolve_partition(table.files_of(each), each) for each in table.transaction().partitions)
    rows = (row for each in resolved for row in each.metadata.generation.blooms)
    return sum(reference is not None for row in rows for reference in row)


def trace_rule(baseline: Baseline, mutant: Mutant) -> Catch:
    """Watch each step of both sessions of a fault-free writer."""
    with mutant.planted():
        case = baseline.case(TableTarget(), PublishingRules(baseline.sound.path))
        process_group = case.process_group((*case.first_session, *case.second_session))
        world = case.begin(process_group)
        while world.nodes[WRITER_INDEX].call is not None and not world.progress.violations:
            world.step(WRITER_INDEX)
        process_group.close()
    violated = [each.property for each in world.progress.violations]
    return Catch(world.nodes[WRITER_INDEX].depth, violated[0] if violated else "")


class PublishingRules(TableRules):
    """The rules for one table, and one more: no generation is published before the bytes of data.parquet it describes.

    Breaking it harms no reader, because only `_txn` says which generation counts; so only this rule detects it.
    """

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Check the store of a size into the header of a `_pm`, then the other rules."""
        directory, _, name = call.path.rpartition("/")
        if call.kind is CallKind.STORE and name == PM_FILE and call.offset_bytes == 0:
            end_bytes = int.from_bytes(call.content, "little")
            token = _token(_content(kernel, call.path), end_bytes)
            if token > len(_content(kernel, f"{directory}/{DATA_FILE}")):
                return Broken(False, f"{call.path} publishes a generation for {token} bytes that are not written yet")
        return super().before(kernel, call)


def _token(pm: bytes, end_bytes: int) -> int:
    try:
        return locate_footer(pm, end_bytes, file=PM_FILE).token
    except TornproofError:
        return 0


def _content(kernel: Kernel, path: str) -> bytes:
    number = kernel.find(path)
    return b"" if number is None else kernel.files[number].content
