"""Ctrl-C and SIGTERM at any moment of any command: it ends as interrupted, says so in a line, and leaves nothing.

What happens before tornproof's first line, while Python itself starts, is Python's; a moment counts from there.
"""

import gzip
import random
import shlex
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from depth import nightly
from history_cases import correct_history
from interrupting import ended, interrupt, run_whole, start
from legacy_trees import write_legacy_tree
from random_runs import HEADER_BEFORE_BODY, found, table_case

from tornproof.cli.findings import save_findings
from tornproof.harness.common.history import to_arrow
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.recording.steps import End, Start, Step, StepKind, Trace
from tornproof.harness.recording.trace_file import write_trace
from tornproof.harness.systems.workload import made_image

MOMENTS = 20
TRACE = Trace(
    start=Start(format=1, tornproof="0", command=(), directories=(), files={"a": b"old"}, links={}),
    steps=(
        Step(kind=StepKind.OPEN, call=1, name="openat", path="a", handle=1),
        *(
            Step(kind=StepKind.WRITE, call=call, name="write", path="a", handle=1, content=bytes([call]) * 9000)
            for call in range(2, 40)
        ),
    ),
    end=End(exit_code=0, calls=39, steps=39),
)
"""Of a program that syncs nothing, so that a crash can leave thousands of disks."""
TABLE = "tables/9.4.2/chain/table"
SPEC = """format = 1
name = "small"
[[groups]]
name = "g"
scenarios = ["append-and-power-cut"]
seeds = { count = 400 }
seeds_a_task = 50
"""


@dataclass(frozen=True)
class Case:
    """A command, what it needs in its folder if anything, and at how many moments it is always interrupted."""

    line: str
    needs: str = ""
    always: int = 0
    length: int = 1
    """How many times as long it takes as `verify`, about: where only a few moments are tried, it is not measured."""
    always_before: int = MOMENTS
    """Before which of its moments the ones that are always tried lie: later ones take long."""


CASES = {
    "verify": Case("verify table --report report", "table", always=1),
    "read": Case("read table --out rows.csv --json told.json", "table"),
    "inspect": Case("inspect table/2024-01-01.1/_pm", "table"),
    "recover": Case("recover table", "table"),
    "extend": Case("extend table/2024-01-01.1/data.parquet --footer private --out extended.parquet", "table"),
    "migrate": Case("migrate tree --report done", "tree", always=1),
    "report": Case("report report", "report"),
    "replay": Case("replay finding.json", "finding.json"),
    "barriers": Case("barriers", length=8, always_before=2),
    "check": Case("check table --effort small --workers 2", "table", length=7, always=1, always_before=3),
    "migrate on Spark": Case("migrate tree --master local[2]", "tree", length=5, always_before=5),
    "record": Case("record --dir table --out trace --ack . -- sh -c 'sleep 1; ls table'", "table"),
    "power": Case("power trace --check 'cat {dir}/a' --workers 2", "trace", length=4),
    "archive": Case("archive lines --to new", "lines", length=6, always=1, always_before=12),
    "history": Case("history events.parquet", "events.parquet", length=6, always_before=5),
    "campaign": Case("campaign --spec spec.toml --out out", "spec.toml", length=7, always=1, always_before=3),
}


def moments() -> list[Any]:
    """Each command at 20 moments, drawn one from each twentieth of its run but the first, which is its first line."""
    cases = []
    for name, case in CASES.items():
        draw = random.Random(name)
        fractions = [0.0, *((part + draw.random()) / MOMENTS for part in range(1, MOMENTS))]
        always = draw.sample(range(case.always_before), case.always)
        for number, fraction in enumerate(fractions):
            sent = draw.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
            id = f"{name} at {fraction:.0%} by {sent.name}"
            cases.append((pytest.param if number in always else nightly)(name, fraction, sent, id=id))
    return cases


@pytest.fixture(scope="module")
def made(questdb_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that a command is given."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(questdb_data / TABLE, folder / "table")
    write_legacy_tree(questdb_data, folder / "tree", copies=1, days=20)
    (folder / "spec.toml").write_text(SPEC)
    (folder / "lines").mkdir()
    for number in range(4):
        lines = (f'{{"ts": "2024-01-0{number + 1}T00:00:{row % 60:02}Z", "v": {row}}}\n' for row in range(5000))
        (folder / "lines" / f"{number}.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    pq.write_table(to_arrow(correct_history(1)), folder / "events.parquet")
    finding = found(table_case(protocol=HEADER_BEFORE_BODY))
    phase = Phase(name="schedules", explored=1, complete=True, bound="", verdict=Verdict.INVALID, findings=(finding,))
    (entry,) = save_findings([phase], "made", "made", made_image(), folder)
    Path(entry["file"]).rename(folder / "finding.json")
    write_trace(TRACE, folder / "trace")
    return folder


@pytest.fixture(scope="module")
def seconds_of(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], float]:
    """Function that says how long a command takes on this machine, from how long `verify` does."""
    folder = given(CASES["verify"], made, tmp_path_factory.mktemp("whole"))
    code, seconds = run_whole(CASES["verify"].line.split(), folder)
    assert code == 0
    shutil.copytree(folder / "report", made / "report")
    return lambda name: seconds * CASES[name].length


def given(case: Case, made: Path, folder: Path) -> Path:
    """Copy what a command needs into a folder, and return it."""
    source = made / case.needs
    if source.is_file():
        shutil.copyfile(source, folder / case.needs)
    elif case.needs:
        shutil.copytree(source, folder / case.needs)
    return folder


@pytest.mark.parametrize(("name", "fraction", "sent"), moments())
def test_an_interrupted_command_ends_and_leaves_nothing(
    seconds_of: Callable[[str], float], made: Path, tmp_path: Path, name: str, fraction: float, sent: signal.Signals
) -> None:
    case = CASES[name]
    folder = given(case, made, tmp_path)
    process = start(shlex.split(case.line), folder)
    interrupt(process, fraction * seconds_of(name), sent)
    run = ended(process, folder)
    assert (run.processes, run.files) == ((), ())
    assert "Traceback" not in run.out + run.err and "defect" not in run.err, run
    if fraction == 0 or run.code not in (0, 1):
        assert run.code == 128 + sent, run
    if run.code == 128 + sent:
        assert run.err.count("tornproof: interrupted") == 1, run
        assert run.err.splitlines()[-1].startswith("tornproof: interrupted"), run
