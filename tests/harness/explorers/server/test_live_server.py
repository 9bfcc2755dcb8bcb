"""The explorer of a live server, against one that answers from memory: right, or with one planted defect."""

from dataclasses import replace
from types import SimpleNamespace

import fake_server
import pyarrow.compute as pc
import pytest
from depth import always_if
from fake_server import Defect, FakeServer
from golden_data import CopyOf
from real_tables import CHAIN

from tornproof.harness.checkers.snapshot_isolation import judge
from tornproof.harness.common.history import SCHEMA
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.server.clients import Plan
from tornproof.harness.explorers.server.content import (
    FORMS,
    Rows,
    after,
    difference,
    first_rows,
    insert_sql,
    made_rows,
)
from tornproof.harness.explorers.server.explorer import Result, explore_server
from tornproof.harness.explorers.server.judge import findings_of, forks_of, judged_of, replay_server
from tornproof.harness.explorers.server.record import Lane, TableRecord
from tornproof.harness.explorers.server.run import Round, Seen
from tornproof.harness.explorers.server.target import version_of
from tornproof.impl.errors import UsageError

SMALL = Plan(seed=3, writers=2, commits=6, readers=2, reads=6, conversions=4, kills=1)
TABLES = 3
FOUND = {
    Defect.LOSES_COMMIT: {"acknowledged_version_lost"},
    Defect.KEEPS_HALF: {"torn_content"},
    Defect.SHOWS_HALF: {"torn_content"},
    Defect.GOES_BACK: {"went_back", "stale_read", "seen_version_missed"},
    Defect.DOUBLES_ROW: {"torn_content"},
    Defect.KEEPS_REPLACED: {"torn_content"},
    Defect.DISORDER: {"torn_content"},
    Defect.REJECTS_READ: {"refused_read"},
    Defect.REJECTS_INSERT: {"an insert into a sound table is accepted"},
    Defect.REJECTS_CONVERSION: {"a partition can be converted"},
    Defect.SUSPENDS: {"a table stays usable", "refused_read"},
    Defect.DIES: {"a server stays alive"},
    Defect.DOES_NOT_START: {"a dead server can be started again"},
    Defect.UNREADABLE_AFTER_KILL: {"a table can be read after a restart"},
}
"""The properties of which each defect breaks at least one."""
ALWAYS = {
    Defect.LOSES_COMMIT,
    Defect.KEEPS_HALF,
    Defect.SHOWS_HALF,
    Defect.GOES_BACK,
    Defect.DOUBLES_ROW,
    Defect.DIES,
}


def explored(server: FakeServer, plan: Plan = SMALL, rounds: int = 1) -> Result:
    with server:
        return explore_server(server, plan, rounds=rounds)


def test_of_tables_with_a_log_one_waits_in_the_reader_and_one_in_the_writer() -> None:
    assert sorted(form.reader_waits for form in FORMS if form.has_log) == [False, True]


def test_a_server_that_is_right_is_accepted_with_all_that_was_done() -> None:
    server, rounds = FakeServer(), 2
    result = explored(server, rounds=rounds)
    phase = result.phase
    assert (phase.verdict, phase.findings, phase.controls) == (Verdict.VALID, (), "passed"), phase
    assert phase.counts == {
        "tables": 2 * TABLES,
        "commits": 2 * TABLES * SMALL.writers * SMALL.commits,
        "reads": 2 * TABLES * (SMALL.readers * SMALL.reads + 1),
        "conversions": 2 * TABLES * SMALL.conversions,
        "kills": 2,
        "deaths": 0,
    }
    assert phase.explored == phase.counts["commits"] + phase.counts["reads"]
    assert phase.varying["acknowledged"] <= phase.counts["commits"]
    assert server.tables == {} and phase.note.endswith("; 6 tables of its own made and dropped")


def test_a_server_that_was_not_started_here_is_never_killed_and_statements_follow_from_the_seed() -> None:
    server = FakeServer(is_ours=False)
    phase = explored(server).phase
    assert (phase.verdict, phase.counts["kills"]) == (Verdict.VALID, 0), phase
    assert phase.varying["acknowledged"] == phase.counts["commits"]
    assert "no restarts" in phase.note
    made = {statement for statement in server.statements if statement.startswith("INSERT")}
    assert made >= {
        insert_sql(
            f"tornproof_check_3_0_{form.name}", made_rows((3, 0, index), writer=writer, version=n + 1, statement=n)
        )
        for index, form in enumerate(FORMS)
        for writer in range(SMALL.writers)
        for n in range(SMALL.commits)
    }


@pytest.mark.parametrize("defect", always_if(ALWAYS.__contains__, FOUND))
def test_a_planted_defect_is_found(defect: Defect) -> None:
    result = explored(FakeServer(defect))
    phase = result.phase
    assert phase.verdict is Verdict.INVALID, phase
    assert {finding.property for finding in phase.findings} & FOUND[defect], phase.findings
    for finding in phase.findings:
        has_evidence = bool({"recorded", "versions"} & finding.evidence.keys())
        assert replay_server(finding) is (Verdict.INVALID if has_evidence else Verdict.UNKNOWN)


def test_a_finding_names_the_rows_and_has_the_statements_of_its_table() -> None:
    phase = explored(FakeServer(Defect.KEEPS_REPLACED)).phase
    finding = next(each for each in phase.findings if each.property == "torn_content")
    assert "there although replaced" in finding.sentence
    assert finding.evidence["table"] in finding.sentence
    statements = finding.evidence["statements"]
    assert any(statement.startswith("writer 0: INSERT INTO") for statement in statements)
    assert any(statement.startswith("converter: ALTER TABLE") for statement in statements)


def test_each_row_that_is_missing_or_too_many_is_counted_as_often_as_it_is() -> None:
    one, two, other = ((place, 0, version, place, None, None, None) for place, version in ((1, 1), (2, 1), (3, 2)))
    assert difference([one, two, two], [one], {one, two}) == "2 rows of version 1 missing"
    assert difference([one, two], [one, two, one, one], {one, two}) == "2 rows of version 1 there once more"
    assert difference([one], [one, two, two, other], {one, two, other}) == (
        "2 rows of version 1 there although replaced; 1 row of version 2 there although replaced"
    )
    assert difference([], [other] * 3, {one}) == "3 rows of version 2 that nobody wrote"
    assert difference([one, two], [two, one], {one, two}) == ""


def test_the_file_of_histories_is_judged_as_the_run_was() -> None:
    result = explored(FakeServer(Defect.DOUBLES_ROW))
    history, verdicts = result.history, {}
    assert history.column_names == [*SCHEMA.names, "table", "writer"]
    for key in set(zip(history["table"].to_pylist(), history["writer"].to_pylist(), strict=True)):
        is_its = pc.and_(pc.equal(history["table"], key[0]), pc.equal(history["writer"], key[1]))
        verdicts[key] = judge(history.filter(is_its).select(SCHEMA.names)).verdict
    named = {(finding.evidence["table"], finding.evidence["writer"]) for finding in result.phase.findings}
    assert {key for key, verdict in verdicts.items() if verdict is Verdict.INVALID} == named


def test_a_server_that_stops_answering_gives_no_verdict_and_its_tables_are_named() -> None:
    server = FakeServer(Defect.STOPS_ANSWERING, is_ours=False)
    result = explored(server)
    assert result.phase.verdict is Verdict.UNKNOWN
    assert "no answer to" in result.phase.note
    assert "left on the server: tornproof_check_3_0_wal, " in result.phase.note


def test_a_round_goes_on_to_its_end_with_a_server_that_died_by_itself_and_was_started_again() -> None:
    phase = explored(FakeServer(Defect.DIES), replace(SMALL, kills=0)).phase
    assert phase.counts["deaths"] == 1 and phase.bound.startswith("1 of 1 round")
    assert phase.counts["commits"] == TABLES * SMALL.writers * SMALL.commits


def test_a_history_that_cannot_be_judged_gives_no_verdict_although_another_one_is_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin_commit = TableRecord.begin_commit

    def forgotten(record: TableRecord, lane: Lane, rows: Rows) -> None:
        with record.changed:
            begin_commit(record, lane, rows)
            if lane.writer:
                lane.events.pop()

    monkeypatch.setattr(TableRecord, "begin_commit", forgotten)
    plan = replace(SMALL, commits=2, reads=2, conversions=1)
    phase = explored(FakeServer(is_ours=False), plan).phase
    assert phase.verdict is Verdict.UNKNOWN, phase
    assert "(commit_acknowledged of writer 1) has no start" in phase.note


def test_a_run_that_is_cut_in_its_first_round_gives_no_verdict_and_leaves_no_table() -> None:
    with FakeServer(is_ours=False) as server:
        # Not after a number of calls: how often it is asked depends on how fast the round is.
        phase = explore_server(server, SMALL, rounds=3, has_time=lambda: not server.tables).phase
        assert server.tables == {}
    assert phase.verdict is Verdict.UNKNOWN
    assert "no round was ended" in phase.note and phase.bound.startswith("0 of 3 rounds")


def test_a_run_that_is_cut_later_has_a_smaller_bound() -> None:
    with FakeServer(is_ours=False) as server:
        phase = explore_server(server, SMALL, rounds=3, has_time=lambda: len(server.dropped) < len(FORMS)).phase
    assert phase.verdict is Verdict.VALID
    assert phase.bound.startswith("1 of 3 rounds")


def test_a_table_that_is_there_already_is_not_touched() -> None:
    with FakeServer(is_ours=False) as server:
        server.answer("CREATE TABLE tornproof_check_3_0_dedup (ts TIMESTAMP) PARTITION BY HOUR WAL")
        with pytest.raises(UsageError, match="table already exists; a check makes tables of its own, and touches none"):
            explore_server(server, SMALL, rounds=1)
        assert list(server.tables) == ["tornproof_check_3_0_dedup"]
    assert not any(statement.startswith("DROP TABLE tornproof_check_3_0_dedup") for statement in server.statements)


@pytest.mark.parametrize("version", ["9.3.4", "9.4.3-SNAPSHOT", "[DEVELOPMENT]"])
def test_what_answers_is_asked_for_its_version(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_server, "BUILD", f"Build Information: QuestDB {version}, JDK 17.0.15, Commit Hash 9ea3321")
    with FakeServer() as server:
        assert version_of(server.address) == f"QuestDB {version}"


def test_rows_of_a_writer_that_there_is_not_are_a_finding_though_those_of_the_others_are_right() -> None:
    record = TableRecord("t", FORMS[0], writers=1)
    (lane,) = record.lanes
    for others in ((), first_rows(7)):
        record.begin_read("one")
        record.end_read("one", sorted([*lane.rows[0], *others], key=lambda row: row[0]))
    findings = [*findings_of(judged_of([record]))]
    assert [(each.property, each.evidence["count"]) for each in findings] == [("torn_content", 1)]
    (finding,) = findings
    assert "there are rows of writers [7]" in finding.sentence
    assert replay_server(finding) is Verdict.INVALID


def test_of_rows_that_should_not_be_there_the_finding_says_which_were_replaced_and_which_nobody_wrote() -> None:
    record = TableRecord("t", FORMS[0], writers=1)
    (lane,) = record.lanes
    first, *_ = first_rows(0)
    replaced = tuple((time_us, writer, 1, *rest) for time_us, writer, _, *rest in lane.rows[0])
    record.begin_commit(lane, replaced)
    record.commit_is_there(lane)
    for foreign in (first, (*first[:-1], 7)):
        record.begin_read("one")
        record.end_read("one", sorted([*replaced, foreign], key=lambda row: row[0]))
    wrong = [each.details for each in lane.events if each.details]
    assert wrong == ["1 row of version 0 there although replaced", "1 row of version 0 that nobody wrote"]


def test_two_reads_that_each_lack_a_commit_of_the_other_are_a_finding() -> None:
    record = TableRecord("t", FORMS[0], writers=2)
    for lane in record.lanes:
        rows = made_rows((0,), writer=lane.writer, version=1, statement=0)
        record.begin_commit(lane, after(lane.rows[0], rows, record.form))
    before, later = ([lane.rows[version] for lane in record.lanes] for version in (0, 1))
    reads = {"one": [*before[0], *later[1]], "other": [*later[0], *before[1]]}
    for client in reads:
        record.begin_read(client)
    for client, seen in reads.items():
        record.end_read(client, sorted(seen, key=lambda row: row[0]))
    assert {each.judgement.verdict for each in judged_of([record])} == {Verdict.VALID}
    (finding,) = forks_of([record])
    assert "one saw versions [0, 1] of its writers, and other saw versions [1, 0]" in finding.sentence
    assert replay_server(finding) is Verdict.INVALID


@pytest.mark.parametrize(("file", "bytes_kept", "count"), [("_txn", None, 0), ("_txn", 20, 1), ("_meta", 5, 1)])
def test_a_table_that_a_server_left_and_nobody_can_open_is_a_finding(
    copy_of: CopyOf, file: str, bytes_kept: int | None, count: int
) -> None:
    table = copy_of(CHAIN)
    content = (table / file).read_bytes()
    (table / file).write_bytes(content[:bytes_kept])
    one, seen = Round.__new__(Round), Seen()
    one._target = SimpleNamespace(data=table.parent)
    one._seen = seen
    one._verify(SimpleNamespace(directory=table.name, name="chain"))  # type: ignore[arg-type]  # nor of this
    assert (len(seen.troubles.findings), seen.counts["verified tables"]) == (count, 1)
