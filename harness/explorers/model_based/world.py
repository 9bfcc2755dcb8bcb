"""A table of the implementation with the model's state of it, and the comparisons after each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tornproof.harness.common.whose_error import NoRoomError, is_of_explorers, is_of_machine
from tornproof.harness.explorers.model_based.audit import Audit, Expected
from tornproof.harness.explorers.model_based.differences import difference_of_chains, difference_of_versions
from tornproof.harness.explorers.model_based.files import (
    Chain,
    Files,
    Process,
    ViolationError,
    counted,
    entry_of,
    expected_chain,
    version_of,
)
from tornproof.harness.explorers.model_based.start import Copy, Start
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.process.observer import Property
from tornproof.impl.layout.parquet import DATA_FILE, ParquetTail
from tornproof.impl.pm.header import FileHeader, decode_header
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.pins import Pin
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, TXN_FILE, Partition, Transaction
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_change import RowGroupEncoder, WriterOptions
from tornproof.impl.write.table_writer import TableWriter
from tornproof.model.table import DirectoryName, Entry, Generation, Generations, Outcome, State, Version

ORDERLY = "every call answers or refuses in an orderly way"
ALLOWED = "the files are what the model allows"
ROWS = "a version has exactly its rows"
DURABLE = "what is acknowledged is durable"
UNSYNCED = "a commit was acknowledged, and not synced is "
NAMED_EARLY = "not synced before it took the place of another file is "
# The model's generations of a partition that is not in Parquet: no operation changes them.
NATIVE = (Generation(token=-1, rows=()),)
LARGE_TOKEN_BITS = (31, 32)


@contextmanager
def orderly(what: str, *answers: type[Exception]) -> Iterator[None]:
    """Turn any exception but `answers` into a violation; one raised by the explorer's own code stays as it is.

    Raises NoRoomError if this machine is to blame, and no fault that was injected.
    """
    try:
        yield
    except EndlessError as error:
        raise ViolationError(Property.ENDS, f"{what} does not end: {error}") from error
    except Exception as error:
        if is_of_machine(error):
            raise NoRoomError(f"{what}: {error}") from error
        if isinstance(error, (ViolationError, *answers)) or is_of_explorers(error):
            raise
        raise ViolationError(ORDERLY, f"{what}: {type(error).__name__}: {error}") from error


@dataclass(slots=True)
class Staged:
    """What the writer has staged and not committed; rows in the order of writing.

    `adopted` are the starts of prepared partitions, whose rows are among `rows`, and how many they are.
    """

    rows: list[int] = field(default_factory=list)
    adopted: dict[int, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    rewritten: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        """Whether a commit has something to do."""
        return bool(self.rows or self.dropped or self.rewritten)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the committed generation of a directory says of itself, for checking the next growth in place."""

    unused_bytes: int
    footer_bytes: int
    blocks: tuple[int, ...]
    token: int
    header: FileHeader

    @property
    def filtered(self) -> frozenset[int]:
        """The writer indexes of the columns that have bloom filters."""
        return frozenset(self.header.columns[index].id for index in self.header.bloom_columns)

    @classmethod
    def of(cls, chain: Chain, token: int) -> Facts:
        """Return the facts of the generation with a token, which need not be the newest: an orphan may follow it."""
        position = next(each for each in chain.positions if each.token == token)
        return cls(
            unused_bytes=position.fixed.unused_bytes,
            footer_bytes=position.fixed.parquet_footer_length + ParquetTail.layout.size_bytes,
            blocks=chain.blocks_of(position),
            token=token,
            header=decode_header(chain.content, file=chain.file),
        )


class World:
    """The table of one program, and the model's state of it; `reached` counts the points that a run must reach.

    `transaction` is the committed version as it was read when table and state were last compared, `before` the one that
    it has replaced.
    """

    def __init__(self, start: Start, copy: Copy, *, options: WriterOptions, encode: RowGroupEncoder) -> None:
        """Take over a fresh copy of the start's table; no writer is open."""
        storage, path, self.durable = copy
        self.start = start
        self.options = options
        self.encode = encode
        self.rows = start.rows.copy()
        self.files = Files(storage=storage, path=path, metadata=start.metadata, rows=self.rows)
        self.files.names.update(start.unreferenced)
        self.writer: TableWriter | None = None
        self.is_dead = False
        self.reads_commits = True
        self.committing: Callable[[World], None] = lambda world: None
        """What is told before each commit, with what is staged for it."""
        self.process = Process(storage)
        self.staged = Staged()
        self.pins: dict[int, Pin] = {}
        self.follow_anew()
        self.facts: dict[DirectoryName, Facts] = {}
        self.ceased: dict[DirectoryName, int] = dict.fromkeys(start.unreferenced, start.transaction.version)
        self.was_replaced: set[DirectoryName] = set()
        self.opened_at = start.transaction.version
        """The version that the writer was opened at, which does not know which directories versions before it named."""
        self.committed_partitions: dict[tuple[DirectoryName, int], Partition] = {}
        self.reached: Counter[str] = Counter()
        self.around = ExitStack()  # what is other than usual as long as the program runs
        self.is_limited = self.may_reject = False
        self.moved: list[Path] = []
        self.own_files: dict[str, bytes] = {}  # of a user, by path
        self.of_others: set[DirectoryName] = set()
        self.transaction = self.before = start.transaction
        self.state = self._first_state()

    @property
    def open_writer(self) -> TableWriter:
        """The open writer, which may be dead."""
        assert self.writer is not None, "a rule that uses a writer is possible only with one"
        return self.writer

    def follow_anew(self) -> None:
        """Let the reader that is open for the whole program begin anew."""
        self.follower = TransactionReader(self.files.storage, f"{self.files.path}/{TXN_FILE}")
        self.followed: Transaction | None = None

    def end(self) -> None:
        """Close everything that is open."""
        with self.around:
            for pin in self.pins.values():
                pin.release()
            self.process.end()

    def accept(self, outcomes: Iterable[Outcome], changed: Iterable[DirectoryName], what: str) -> Outcome:
        """Set the model's state to the outcome that the files show, and return it; ViolationError if they show none."""
        if self.durable is not None and self.durable.named_early:
            raise ViolationError(DURABLE, f"{NAMED_EARLY}{self.durable.named_early[0]}")
        with orderly(f"reading the files after {what}"):
            transaction = self.files.transaction()
            names = self.files.directories()
            chains = {name: tokens for name in changed if (tokens := self._tokens(name, names)) is not None}
            differences: list[str] = []
            for outcome in outcomes:
                difference = self._difference(outcome.state, transaction, names, chains)
                if difference is None:
                    if transaction.version != self.transaction.version:
                        self.before = self.transaction
                    self.state, self.transaction = outcome.state, transaction
                    return outcome
                differences.append(difference)
        problems = "; or ".join(dict.fromkeys(differences)) or "the model does not allow it"
        raise ViolationError(ALLOWED, f"after {what}: {problems}")

    def check_rows(self, transaction: Transaction, version: Version, partitions: Iterable[int] | None = None) -> None:
        """Compare the rows that readers find in some partitions of a version, by default in all, with the model's."""
        wanted = [p for p in transaction.partitions if partitions is None or p.timestamp in partitions]
        with orderly(f"reading version {version.number}"):
            found = self.files.read(transaction, tuple(wanted))
        expected = {entry.directory[0]: entry.rows for entry in version.entries if entry.token >= 0}
        for timestamp, rows in found.items():
            if rows != expected[timestamp]:
                raise ViolationError(ROWS, self._difference_of_rows(version, timestamp, expected[timestamp], rows))

    def check_times(self, transaction: Transaction) -> None:
        """Compare the record's first and last time with those of the rows."""
        entries = self.state.committed.entries
        if not entries:
            expected = (I64_MAX, I64_MIN)
        else:
            known = self.start.transaction.record
            first, last = entries[0], entries[-1]
            low = min(map(self.rows.timestamp, first.rows)) if first.token >= 0 else known.min_timestamp
            high = max(map(self.rows.timestamp, last.rows)) if last.token >= 0 else known.max_timestamp
            expected = (low, high)
        found = (transaction.record.min_timestamp, transaction.record.max_timestamp)
        if found != expected:
            raise ViolationError(ROWS, f"_txn says that the rows lie in {found}, and they lie in {expected}")

    def resume(self, after: str) -> None:
        """Take over the files as they are now, which must have the committed version and its rows."""
        before = self.state
        self.files.forget_generations()
        self.committed_partitions.clear()
        found = self._first_state()
        if found.committed != before.committed:
            difference = difference_of_versions(counted(found.committed), counted(before.committed), self.files.name_of)
            rows = difference or "rows have other values"
            raise ViolationError(ROWS, f"after {after} the table has another content: {rows}")
        self.state = found.with_directories({**dict(before.directories), **dict(found.directories)})

    def check_durable(self, changed: Iterable[int], *, with_version: bool = True) -> None:
        """Compare what an acknowledged commit needs with what was synced of it, where that is known.

        Without the dictionaries of symbols (`dictionaries.py`). A killed commit leaves bytes in `_txn` that nobody
        needs: what changes no version is not asked for it.
        """
        root = Path(self.files.path)
        names: dict[Path, int | None] = {}
        sizes: dict[Path, int | None] = {root / TXN_FILE: None} if with_version else {}
        for partition in self.transaction.partitions:
            if partition.timestamp in changed and partition.is_parquet:
                name = entry_of(partition).directory
                directory = root / self.files.name_of(name)
                names[directory] = 0
                sizes |= {directory / DATA_FILE: partition.token, directory / PM_FILE: self.files.chain(name).end_bytes}
        self.check_synced(names | sizes)

    def expect_token(self, directory: DirectoryName, token: int) -> None:
        """Let the model have a directory with another token, whose bytes before are gone."""
        committed = self.state.committed
        entries = tuple(
            each._replace(token=token) if each.directory == directory else each for each in committed.entries
        )
        self.state = self.state._replace(committed=committed._replace(entries=entries))
        self.files.forget(directory)

    def check_synced(self, sizes: Mapping[Path, int | None]) -> None:
        """Compare the first bytes of files, or all, and their names with what was synced, where that is known."""
        if self.durable is None:
            return
        for path, size_bytes in sizes.items():
            missing = self.durable.missing(path, path.stat().st_size if size_bytes is None else size_bytes)
            if missing is not None:
                where = path.parent.relative_to(Path(self.files.path).parent)
                raise ViolationError(DURABLE, f"{UNSYNCED}{missing} in {where}")

    def check_everything(self) -> None:
        """Compare all directories, the committed version and every pinned version."""
        self.accept([Outcome(state=self.state)], dict(self.state.directories), "everything")
        self.check_rows(self.transaction, self.state.committed)
        for pinned, version in self.state.pins:
            self.check_rows(self.pins[pinned].transaction, version)
        lost = [file for file in self.moved if not file.exists()]
        if lost:
            raise ViolationError(ALLOWED, f"a file that is on another volume was removed: {lost[0].name}")
        self.check_own_files()
        self.check_files()

    def check_files(self) -> None:
        """Compare files and model once more, by code that shares no decoder with the implementation."""
        # A file with a hole has gigabytes.
        if self.files.holes:
            return
        audit = Audit(self.files.content, self.rows, self.files.name_of)
        known = dict.fromkeys(name for name, _ in self.state.directories)
        with orderly("reading the files"):
            difference = next(audit.differences(Expected(self.state.committed, known)), None)
        if difference is not None:
            raise ViolationError(ALLOWED, f"without our decoders, {difference.text}")
        self.reached["files compared without our decoders"] += 1

    def check_own_files(self) -> None:
        """Compare the files that a user has put beside those of the table."""
        for path, content in self.own_files.items():
            with orderly(f"reading {path}, a file of a user"), self.files.storage.open_for_reading(path) as handle:
                found = handle.pread(handle.size_bytes(), 0)
            if found != content:
                raise ViolationError(ALLOWED, f"a file of a user is another one: {path}")

    def check_sound(self, when: str) -> None:
        """Verify the committed version, and of a table of our own also what lies beside its partitions."""
        with orderly("verify"):
            problems = verify_table(self.files.table(), whole=self.start.is_ours).all_problems
        if problems:
            raise ViolationError(ALLOWED, f"{when} {problems[0]}")

    def remember(self, transaction: Transaction, changed: Iterable[DirectoryName]) -> None:
        """Remember what was committed: its tokens, for later reads, and its bytes, which must not change."""
        for partition in transaction.partitions:
            entry = entry_of(partition)
            if entry.directory in changed and partition.is_parquet:
                self.committed_partitions[entry.directory, entry.token] = partition
                self.facts[entry.directory] = Facts.of(self.files.chain(entry.directory), entry.token)
                self.files.check_data(entry.directory, entry.token)
                for bits in LARGE_TOKEN_BITS:
                    self.reached[f"token of {bits + 1} bits"] += entry.token >= 1 << bits

    def _tokens(self, name: DirectoryName, names: set[str]) -> tuple[int, ...] | None:
        """Return the tokens of a directory's chain; None where the model has no chain or the directory is missing."""
        known = dict(self.state.directories).get(name)
        if self.files.name_of(name) not in names or known == () or known == NATIVE:
            return None
        self.files.check_data(name)
        return tuple(position.token for position in self.files.chain(name).positions)

    def _difference(
        self,
        state: State,
        transaction: Transaction,
        found_names: set[str],
        chains: dict[DirectoryName, tuple[int, ...]],
    ) -> str | None:
        if transaction.version != state.committed.number:
            return f"the version is {transaction.version}, and should be {state.committed.number}"
        found, expected = version_of(transaction), counted(state.committed)
        if found != expected:
            return f"in _txn {difference_of_versions(found, expected, self.files.name_of)}"
        if state.other is not None:
            before, wanted = self.files.version_in_area(state.other.number), counted(state.other)
            if before != wanted:
                difference = difference_of_versions(before, wanted, self.files.name_of)
                return f"in the area of the version before {difference}"
        names = {self.files.name_of(name) for name, _ in state.directories} - self.start.absent
        if names != found_names:
            return f"there are the directories {sorted(found_names)}, and should be {sorted(names)}"
        for name, tokens in chains.items():
            expected_tokens = expected_chain(state, name)
            if tokens != expected_tokens:
                return f"the chain of {self.files.name_of(name)} {difference_of_chains(tokens, expected_tokens)}"
        return None

    def _difference_of_rows(
        self, version: Version, timestamp: int, expected: tuple[int, ...], found: tuple[int, ...]
    ) -> str:
        missing, added = (Counter(expected) - Counter(found)), (Counter(found) - Counter(expected))
        contents = self.rows.contents
        parts = [
            f"{word} {[contents[identity] for identity in sorted(rows)]}"
            for word, rows in (("missing are", missing), ("too many are", added))
            if rows
        ]
        return (
            f"partition {timestamp} of version {version.number} has {len(found)} rows where {len(expected)} should be: "
            + ("; ".join(parts) or "the same in another order")
        )

    def _first_state(self) -> State:
        with orderly("reading the start"):
            transaction = self.files.transaction()
            found = self.files.read(transaction, transaction.partitions)
            entries = [entry_of(each)._replace(rows=found.get(each.timestamp, ())) for each in transaction.partitions]
            directories: dict[DirectoryName, Generations] = dict.fromkeys(self.start.unreferenced, ())
            directories |= {entry.directory: tuple(self._generations(entry)) for entry in entries}
            state = State(Version(number=transaction.version, entries=tuple(entries)), open=False)
            self.state = state.with_directories(directories)
            self.remember(transaction, {entry.directory for entry in entries})
        return self.state

    def _generations(self, entry: Entry) -> Iterator[Generation]:
        """Yield the generations of a start's directory, oldest first, with the rows of the committed one alone."""
        if entry.token < 0:
            yield from NATIVE
            return
        positions = self.files.chain(entry.directory).positions
        resolved = next(position for position in positions if position.token == entry.token)
        for number, position in enumerate(reversed(positions)):
            yield Generation(token=position.token, rows=entry.rows if position is resolved else (), prev=number)
