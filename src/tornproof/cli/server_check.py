"""`tornproof check --server`: a live server is found or started, checked, and left without a table of ours."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.cli import interruption
from tornproof.cli.check_progress import progress_bars
from tornproof.cli.check_report import LIVE_SERVER, Asked
from tornproof.cli.output import make_folder, replacing
from tornproof.harness.check import PhaseName
from tornproof.harness.common.effort import Bounds
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.explorers.server.clients import Plan
from tornproof.harness.explorers.server.explorer import Result, explore_server
from tornproof.harness.explorers.server.target import RunningServer, Target, version_of
from tornproof.harness.parallel.tasks import Outcome, Progress, interrupts_kept
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.server.client import ServerError, address_of
from tornproof.harness.systems.server.process import Server
from tornproof.harness.systems.server.release import NEWEST, release_at, release_of
from tornproof.impl.errors import EMPTY_PATH, UsageError

MAVEN = "maven"
JAR = "questdb.jar"
"""The server in the folder of a release without a Java of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was asked and found; findings start from the table at `path` of an image, or have a `history`."""

    asked: Asked
    bounds: Bounds
    outcome: Outcome
    path: str
    image: DiskImage
    history: pa.Table | None = None


def reject_with_server(others: Sequence[str], only: Sequence[PhaseName] | None) -> None:
    """Raise UsageError for what has no meaning where a server is checked."""
    if others:
        raise UsageError(f"{others[0]} and --server: a server is checked with tables that the check makes")
    if only and {*only} != {PhaseName.SERVER}:
        raise UsageError(f"--only {only[0]}: the phases that apply here are {PhaseName.SERVER}")


def check_server(text: str, effort: int, seed: int, seconds: float | None) -> Checked:
    """Check the server that `text` names; raises UsageError if there is none."""
    outcome, bounds = Outcome(), Bounds.of(effort)
    with _target(text) as (target, name, argument):
        result = _explored(target, Plan(seed=seed), bounds.rounds, seconds, outcome)
    outcome.phases = [result.phase]
    arguments = ("--server", shell_word(argument))
    asked = Asked(target=name, arguments=arguments, preset=LIVE_SERVER, seed=seed, effort=effort)
    return Checked(
        asked=asked, bounds=bounds, outcome=outcome, path="", image=DiskImage.of_files({}), history=result.history
    )


def save_history(checked: Checked, directory: Path) -> None:
    """Write the histories of a server beside its findings, for `tornproof history`, and name the file in them."""
    phases = checked.outcome.phases
    if checked.history is None or not any(phase.findings for phase in phases):
        return
    buffer = pa.BufferOutputStream()
    pq.write_table(checked.history, buffer)
    content = buffer.getvalue()
    file = directory / f"{PhaseName.SERVER}-history-{zlib.crc32(content):08x}.parquet"
    make_folder(directory)
    with replacing(file) as partial:
        partial.write_bytes(content)
    checked.outcome.phases = [
        replace(
            phase,
            findings=tuple(
                replace(finding, evidence=finding.evidence | {"history": file.name}) for finding in phase.findings
            ),
        )
        for phase in phases
    ]


def _explored(target: Target, plan: Plan, rounds: int, seconds: float | None, outcome: Outcome) -> Result:
    """Explore until all rounds are done, the time is over, or a signal comes; tables are dropped in any case."""
    end = None if seconds is None else time.monotonic() + seconds

    def has_time() -> bool:
        if end is not None and time.monotonic() > end:
            outcome.is_out_of_time = True
        return not (outcome.is_out_of_time or outcome.interrupted_by)

    def say_tables(names: Sequence[str]) -> None:
        if not target.is_ours:
            left = f"{', '.join(names)} may be left at {target.address}" if names else "its tables were dropped"
            interruption.say_if_interrupted(left)

    with interrupts_kept(outcome), progress_bars([PhaseName.SERVER]) as show:
        return explore_server(
            target,
            plan,
            rounds=rounds,
            has_time=has_time,
            on_progress=lambda done, total: show(
                Progress(name=PhaseName.SERVER, done_part=done / total if total else 0.0, cases=done)
            ),
            on_tables=say_tables,
        )


@contextmanager
def _target(text: str) -> Iterator[tuple[Target, str, str]]:
    """Yield a server, its name, and the argument that names it without a password; raises UsageError."""
    if "://" in text:
        address = address_of(text)
        yield RunningServer(address=address), f"{version_of(address)} at {address}", str(address)
        return
    kind, _, version = text.partition(":")
    release = release_of(version or NEWEST) if kind == MAVEN else release_at(_classpath(text))
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="tornproof-server-", ignore_cleanup_errors=True))
        try:
            server = stack.enter_context(Server(release, Path(folder)))
        except ServerError as error:
            raise UsageError(f"QuestDB {release.version}: {error}") from error
        yield server, f"QuestDB {release.version} on Java {release.java_version}", text


def _classpath(text: str) -> str:
    if not text:
        raise UsageError(f"--server: {EMPTY_PATH}")
    jar = Path(text, JAR)
    if jar.is_file():
        return str(jar)
    if not Path(text.partition(":")[0]).exists():
        raise UsageError(
            f"--server {text}: neither the URL of a server (http://HOST:PORT), nor {MAVEN}[:VERSION], nor a class "
            f"path: there is no {text.partition(':')[0]}"
        )
    return text
