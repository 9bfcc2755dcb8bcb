"""Random programs of two writers that change one table in turn; the second player of Hypothesis is the server."""

import contextlib

from hypothesis import Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from interop_table import KNOWN_SYMBOLS, SYMBOLS, Ending, Form, NewRow, SharedTable
from interop_tally import Tally

from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis, quiet_settings
from tornproof.harness.systems.server.client import ServerError
from tornproof.harness.systems.server.process import Server

STEPS_IN_PROGRAM = 10
HOURS = 6
SECONDS_IN_PROGRAM = 20
"""Few, so that rows of equal times are common."""
ROWS_MAX = 6
FIRST_ROWS_MAX = 24
KILL_STEPS_MAX = 60
CONVERTED_FIRST = 3
FORMS = (
    Form(),
    Form(has_keys=True),
    Form(has_log=False),
    # So few that hashes collide, and that the server makes the dictionary anew.
    Form(symbol_capacity=2),
    Form(has_log=False, symbol_capacity=4),
)

# Half of the time the partitions that are in Parquet first, so that these get a long history.
_HOURS = st.one_of(st.integers(0, CONVERTED_FIRST - 1), st.integers(0, HOURS - 1))
# Of what there is, modulo its number: what is drawn must depend on nothing but the seed.
_PLACES = st.integers(0, HOURS - 1)
_ROWS = st.tuples(
    _HOURS, st.integers(0, SECONDS_IN_PROGRAM - 1), st.one_of(st.none(), st.integers(0, len(SYMBOLS) - 1))
)


def run_programs(server: Server, tally: Tally, *, count: int, seed_number: int) -> None:
    """Run so many programs; raises the difference of the smallest one that shows it, with its steps as a note."""

    class Programs(_Programs):
        shared_server = server
        shared_tally = tally

    with quiet_hypothesis():
        run_state_machine_as_test(
            seed(seed_number)(Programs),
            # The program that shows a difference becomes a note of the error.
            settings=settings(
                quiet_settings(count, shrinks=True, rules_max=STEPS_IN_PROGRAM), verbosity=Verbosity.normal
            ),
        )


class _Programs(RuleBasedStateMachine):
    """One program is one table; `run_programs` gives the server."""

    shared_server: Server
    shared_tally: Tally
    table: SharedTable | None = None

    @initialize(
        form=st.sampled_from(FORMS),
        rows=st.lists(_ROWS, min_size=CONVERTED_FIRST, max_size=FIRST_ROWS_MAX),
        with_null=st.booleans(),
        ours=st.lists(_ROWS, max_size=ROWS_MAX),
    )
    def create(self, form: Form, rows: list[NewRow], with_null: bool, ours: list[NewRow]) -> None:
        """The server creates a table with some symbols, and converts some partitions; we commit to one or more."""
        counts = self.shared_tally.counts
        counts["programs begun"] += 1
        self.table = SharedTable(self.shared_server, f"program_{counts['programs begun']}", form, self.shared_tally)
        every = [(hour, hour, hour % KNOWN_SYMBOLS) for hour in range(CONVERTED_FIRST + 1)]
        self.table.server_inserts(every + ([(0, 0, None)] if with_null else []))
        self.table.server_inserts(rows)
        for hour in range(CONVERTED_FIRST):
            self.table.server_converts(hour)
        self.table.we_commit([(0, 0, 0), *self._possible(ours)])

    @rule(rows=st.lists(_ROWS, min_size=1, max_size=ROWS_MAX))
    def server_inserts(self, rows: list[NewRow]) -> None:
        """The server merges rows."""
        self._table.server_inserts(rows)

    @rule(rows=st.lists(_ROWS, min_size=1, max_size=ROWS_MAX))
    def server_inserts_more(self, rows: list[NewRow]) -> None:
        """The same, so that it happens more often."""
        self.server_inserts(rows)

    @rule(place=_PLACES)
    def server_converts(self, place: int) -> None:
        """The server converts one more partition to Parquet."""
        table = self._table
        # A parquet partition as the last one of a table without log is a defect of servers (docs/interop.md).
        hours = [hour for hour in table.hours(parquet=False) if table.form.has_log or hour != self._last()]
        if hours:
            table.server_converts(hours[place % len(hours)])

    @rule(place=_PLACES)
    def server_restores(self, place: int) -> None:
        """The server converts a partition to the native format."""
        if hours := self._table.hours(parquet=True):
            self._table.server_restores(hours[place % len(hours)])

    @rule(place=_PLACES)
    def server_drops(self, place: int) -> None:
        """The server drops a partition, not the last one."""
        hours = [*self._table.hours(parquet=True), *self._table.hours(parquet=False)]
        if hours := [hour for hour in sorted(hours) if hour != self._last()]:
            self._table.server_drops(hours[place % len(hours)])

    @rule(rows=st.lists(_ROWS, min_size=1, max_size=ROWS_MAX))
    def we_commit(self, rows: list[NewRow]) -> None:
        """We commit rows to parquet partitions and new ones."""
        if rows := self._possible(rows):
            self._table.we_commit(rows)

    @rule(rows=st.lists(_ROWS, min_size=1, max_size=ROWS_MAX))
    def we_commit_more(self, rows: list[NewRow]) -> None:
        """The same, so that it happens more often."""
        self.we_commit(rows)

    @rule(place=_PLACES)
    def we_rewrite(self, place: int) -> None:
        """We rewrite a partition."""
        if hours := self._table.hours(parquet=True):
            self._table.we_rewrite(hours[place % len(hours)])

    @rule(place=_PLACES)
    def we_drop(self, place: int) -> None:
        """We drop a parquet partition."""
        if hours := [hour for hour in self._table.hours(parquet=True) if hour != self._last()]:
            self._table.we_drop(hours[place % len(hours)])

    @rule(
        rows=st.lists(_ROWS, min_size=1, max_size=ROWS_MAX),
        after_steps=st.integers(0, KILL_STEPS_MAX),
        written_bytes=st.sampled_from((0, 1, 8, 99)),
        ends=st.sampled_from((Ending.RECOVER, Ending.NEXT_WRITER)),
    )
    def we_are_killed(self, rows: list[NewRow], after_steps: int, written_bytes: int, ends: Ending) -> None:
        """We die in a commit, and recover."""
        if rows := self._possible(rows):
            self._table.we_are_killed(rows, after_steps=after_steps, written_bytes=written_bytes, ends=ends)

    @rule(place=_PLACES)
    def we_are_rejected(self, place: int) -> None:
        """We try to write into a native partition."""
        if hours := self._table.hours(parquet=False):
            self._table.we_are_rejected([(hours[place % len(hours)], 0, 0)], "commits into a native partition")

    def teardown(self) -> None:
        """Let both compare a last time."""
        if self.table is None:
            return
        table, self.table = self.table, None
        try:
            table.end()
        except BaseException:
            with contextlib.suppress(ServerError):
                table.drop()
            if not self.shared_server.is_alive:
                self.shared_server.restart()
            raise
        counts = self.shared_tally.counts
        counts["programs without a difference"] += 1
        counts["programs in which both wrote"] += all(table.commit_counts.values())
        counts["changes by the server"] += table.commit_counts["server"]
        counts["commits of ours"] += table.commit_counts["ours"]

    @property
    def _table(self) -> SharedTable:
        assert self.table is not None
        return self.table

    def _last(self) -> int:
        return max(self._table.hours(parquet=True) + self._table.hours(parquet=False))

    def _possible(self, rows: list[NewRow]) -> list[NewRow]:
        """Return the rows that we can write: to parquet and new partitions."""
        table = self._table
        native, last = set(table.hours(parquet=False)), self._last()
        return [row for row in rows if row[0] not in native and (table.form.has_log or row[0] < last)]
