"""`tornproof check --server` as its users meet it, against a server that answers from memory."""

import base64
import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import WarmRunner, run_here, sentence_of
from fake_server import Defect, FakeServer
from interrupting import ended, start, wait_until

from tornproof.cli import server_check
from tornproof.harness.explorers.server.clients import Plan
from tornproof.harness.explorers.server.target import version_of
from tornproof.harness.systems.server.client import address_of

SMALL = ("--effort", "small")
ATTEMPTS = 3


def url(server: FakeServer, login: str = "") -> str:
    return f"http://{login}{server.address.host}:{server.address.port}"


@contextlib.contextmanager
def running(defect: Defect = Defect.NONE, login: str | None = None) -> Iterator[FakeServer]:
    with FakeServer(defect, is_ours=False, login=login) as server:
        yield server


@pytest.fixture
def few_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_check, "Plan", partial(Plan, writers=2, commits=6, readers=1, reads=8, conversions=4))


@pytest.mark.usefixtures("few_statements")
def test_a_server_that_is_right_is_valid_and_keeps_its_own_tables(tmp_path: Path) -> None:
    with running() as server:
        server.answer("CREATE TABLE mine (ts TIMESTAMP) PARTITION BY HOUR WAL")
        run = run_here("check", "--server", url(server), *SMALL, "--seed", "5", "--json", tmp_path / "out.json")
        assert (run.code, run.err) == (0, ""), run
        assert list(server.tables) == ["mine"]
        assert not any("mine" in statement for statement in server.statements[1:])
    document = json.loads((tmp_path / "out.json").read_text())
    (phase,) = document["phases"]
    assert (document["verdict"], document["preset"], document["findings"]) == ("VALID", "live server", [])
    assert document["target"] == f"QuestDB 9.3.4 at {url(server)}"
    assert (phase["name"], phase["counts"]["kills"], phase["complete"]) == ("server", 0, False)
    assert phase["counts"]["commits"] == document["varying"]["server"]["acknowledged"]
    assert run.out.startswith(f"sound: 0 findings in {phase['explored']} cases\n")
    said = " ".join(run.out.split())
    assert "no restarts; 3 tables of its own made and dropped" in said
    assert f"next: tornproof check --server {url(server)} --seed 5 --effort medium" in said


@pytest.mark.usefixtures("few_statements")
def test_a_defect_is_a_finding_on_a_page_that_can_be_judged_again(tmp_path: Path) -> None:
    report, result = tmp_path / "report", tmp_path / "out.json"
    with running(Defect.DOUBLES_ROW) as server:
        run = run_here("check", "--server", url(server), *SMALL, "--report", report, "--json", result)
    assert (run.code, server.tables) == (1, {})
    found = json.loads(result.read_text())["findings"]
    assert {each["property"] for each in found} == {"torn_content"}
    assert "1 row of version" in found[0]["sentence"]
    assert "torn_content" in (report / "report.html").read_text()
    file = found[0]["file"]
    assert run_here("replay", file).code == 1
    finding = json.loads(Path(file).read_text())
    (history,) = (report / "findings").glob("server-history-*.parquet")
    assert finding["evidence"]["history"] == history.name
    assert {"table", "writer"} <= {*pq.read_schema(history).names}
    finding["evidence"]["recorded"] = [row for row in finding["evidence"]["recorded"] if row[3] != "read_end"]
    Path(file).write_text(json.dumps(finding))
    assert run_here("replay", file).code == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["table"], "TABLE and --server: a server is checked with tables that the check makes"),
        (["--preset", "questdb-9.4.2"], "--preset and --server: a server is checked with tables that the check makes"),
        (["--workers", "2"], "--workers and --server: a server is checked with tables that the check makes"),
        (["--only", "damage"], "--only damage: the phases that apply here are server"),
    ],
)
def test_options_that_have_no_meaning_are_rejected(tornproof: WarmRunner, given: list[str], words: str) -> None:
    run = tornproof("check", "--server", "http://localhost:9000", *given)
    assert (run.code, sentence_of(run)) == (2, words)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            "localhost:9000",
            "--server localhost:9000: neither the URL of a server (http://HOST:PORT), nor maven[:VERSION]",
        ),
        ("ftp://localhost", "--server: the URL of a server has the form http://HOST:PORT, or https://"),
        ("http://ada:se/cret@host", "--server: the URL of a server has the form http://HOST:PORT, or https://"),
        (__file__, "io.questdb.ServerMain is not in the class path"),
    ],
)
def test_what_names_no_server_is_rejected_in_words(tornproof: WarmRunner, server: str, words: str) -> None:
    run = tornproof("check", "--server", server)
    assert run.code == 2
    assert sentence_of(run).startswith(words)


def test_no_server_there_is_said(tornproof: WarmRunner) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    run = tornproof("check", "--server", f"http://127.0.0.1:{port}")
    assert (run.code, sentence_of(run)) == (2, f"no server answers at http://127.0.0.1:{port}: Connection refused")


class NoQuestDB(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404, "nothing here")

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_another_program_behind_the_port_is_said(tornproof: WarmRunner) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NoQuestDB) as other:
        threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
        run = tornproof("check", "--server", f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert run.code == 2
    assert "is no QuestDB: HTTP status 404, and no answer in JSON" in sentence_of(run)


def test_a_login_is_asked_for_and_its_password_is_not_printed(tornproof: WarmRunner) -> None:
    login = "Basic " + base64.b64encode(b"ada:secret").decode()
    with running(login=login) as server:
        run = tornproof("check", "--server", url(server), *SMALL)
        assert run.code == 2
        assert "wants a login (HTTP status 401, Unauthorized)" in sentence_of(run)
        address = address_of(url(server, "ada:secret@"), {})
        assert str(address) == url(server) and "secret" not in repr(address)
        for known in (address, address_of(url(server), {"QUESTDB_USER": "ada", "QUESTDB_PASSWORD": "secret"})):
            assert version_of(known) == "QuestDB 9.3.4"
        token = address_of(url(server), {"QUESTDB_TOKEN": "abc"})
        assert token.headers == {"Authorization": "Bearer abc"}


def test_a_table_that_is_there_already_is_an_error_of_use(tornproof: WarmRunner) -> None:
    with running() as server:
        server.answer("CREATE TABLE tornproof_check_0_0_wal (ts TIMESTAMP) PARTITION BY HOUR WAL")
        run = tornproof("check", "--server", url(server), *SMALL)
        assert run.code == 2 and "table already exists; a check makes tables of its own" in sentence_of(run)
        assert list(server.tables) == ["tornproof_check_0_0_wal"]


@pytest.mark.nightly
def test_an_interrupted_run_drops_its_tables(tmp_path: Path) -> None:
    """Or names them, where the machine is so busy that the time for an orderly end is over before they are dropped."""
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with running() as server:
            process = start(["check", "--server", url(server), "--effort", "large"], folder)
            wait_until(lambda: sum(statement.startswith("INSERT") for statement in server.statements) > 20)
            process.send_signal(signal.SIGINT)
            run = ended(process, folder)
            assert (run.code, run.processes, run.files) == (130, (), ())
            if run.err == "tornproof: interrupted: its tables were dropped\n":
                assert server.tables == {}
                return
            assert run.err.endswith(f" may be left at {url(server)}\n")
            assert all(name in run.err for name in server.tables)
    pytest.fail(f"of {ATTEMPTS} runs that were interrupted none has dropped its tables")
