"""Programs of others: TOML files in `scenarios/programs`, recorded and given to their checkers.

In the commands `{python}` is an interpreter with the packages that `make programs` installs, `{tornproof}` the one
that has tornproof, and `{here}` the folder of the files. A program runs in the directory that is recorded; the
arguments of a setting follow its command, and the one that prepares its directory.
"""

import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from recorded_programs import recorded

from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import ALL_MODELS, RecordedQuestion, explore_recorded
from tornproof.harness.parallel.tasks import explore_here
from tornproof.harness.systems.scenario import ScenarioError, decode_toml
from tornproof.impl.errors import TornproofError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scenarios" / "programs"
PYTHON = ROOT / ".build" / "programs" / "bin" / "python"
JOURNALLED = ("A", "B", "C-4096", "C-512")
SIZE_LIMIT_BYTES = 64 << 10
CHECK_SECONDS = 60
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Setting(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How the program is set, what its documentation promises then, and what is found: parts of sentences of findings.

    What is found against a promise, or not found without one, is `told`.
    """

    arguments: tuple[str, ...]
    name: str = ""
    promise: Literal["safe", "weak"]
    says: Text
    models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = JOURNALLED
    states_max: Annotated[int, msgspec.Meta(ge=1)] = 400
    finds: tuple[Text, ...] = ()
    told: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what contradicts itself."""
        unknown = set(self.models) - {model.name for model in ALL_MODELS}
        if unknown:
            raise ValueError(f"models: there is no {min(unknown)!r}")
        if self.is_promised == bool(self.finds) and not self.told:
            raise ValueError(f"told: {self.label!r} is promised to be {self.promise}, and what is found needs words")

    @property
    def label(self) -> str:
        """The name, which is that of the arguments unless the file gives another."""
        return self.name or " ".join(self.arguments)

    @property
    def is_promised(self) -> bool:
        """Whether nothing may be lost."""
        return self.promise == "safe"


class Program(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One file. `needs` are modules of Python with their packages, `needs_commands` are looked for on PATH.

    A program of which `version` fails is not there.
    """

    format: Annotated[int, msgspec.Meta(ge=1, le=1)]
    program: Text
    title: Text
    source: Annotated[str, msgspec.Meta(pattern="^https://")]
    command: Text
    check: Text
    version: Text
    acknowledges: Text
    prepare: str = ""
    needs: dict[str, str] = {}
    needs_commands: tuple[str, ...] = ()
    settings: Annotated[tuple[Setting, ...], msgspec.Meta(min_length=1)]
    alice: str = ""


class Outcome(NamedTuple):
    """What was found, or why nothing was recorded, and how many seconds of CPU time it took."""

    phase: Phase | None
    refused: str
    cpu_seconds: float


def programs() -> dict[str, Program]:
    """Return all programs by the names of their files."""
    return {path.stem: parse_program(path.read_bytes(), path.name) for path in sorted(FOLDER.glob("*.toml"))}


def parse_program(content: bytes, file: str) -> Program:
    """Return the program of a file's content; raises ScenarioError with the field and what was expected."""
    return decode_toml(content, Program, f"scenarios/programs/{file}", SIZE_LIMIT_BYTES, ScenarioError)


def python() -> str:
    """Return the interpreter that has the programs' packages, if there is one."""
    return str(PYTHON) if PYTHON.exists() else sys.executable


def words(command: str) -> list[str]:
    """Return a command's words with the interpreter and the folder in them."""
    places = {"{python}": python(), "{tornproof}": sys.executable, "{here}": str(FOLDER)}
    found = shlex.split(command)
    for name, place in places.items():
        found = [word.replace(name, place) for word in found]
    return found


def missing(program: Program) -> str:
    """Return in words what a program needs that is not there, or ""."""
    lacking = [name for name in program.needs_commands if shutil.which(name) is None]
    code = f"import importlib.util as u; print(*[n for n in {list(program.needs)} if u.find_spec(n) is None])"
    found = subprocess.run([python(), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    lacking += [f"the package {program.needs[name]} (make programs)" for name in found]
    if lacking:
        return f"needs {' and '.join(lacking)}"
    run = _version_told(program)
    return "" if run.returncode == 0 else f"it does not tell its version: {run.stderr.strip()}"


def version_of(program: Program) -> str:
    """Return the version that a program tells."""
    return _version_told(program).stdout.strip()


def outcome_of(program: Program, setting: Setting, folder: Path) -> Outcome:
    """Record a program in an empty folder, and give what crashes leave of it to its checker."""
    began = _cpu_seconds()
    if program.prepare:
        subprocess.run([*words(program.prepare), *setting.arguments], cwd=folder, check=True)
    try:
        command = (*words(program.command), *setting.arguments)
        trace = recorded(folder, *command, acknowledges=program.acknowledges)
    except TornproofError as error:
        return Outcome(None, str(error), _cpu_seconds() - began)
    if trace.end.exit_code:
        raise AssertionError(f"{program.program} {setting.label} ended with exit code {trace.end.exit_code}")
    question = RecordedQuestion(
        trace=trace,
        checker=Checker(command=shlex.join(words(program.check)), seconds=CHECK_SECONDS),
        models=setting.models,
        states_max=setting.states_max,
    )
    phase = explore_here(explore_recorded(question), question)
    return Outcome(phase, "", _cpu_seconds() - began)


def surprise(setting: Setting, outcome: Outcome) -> str:
    """Return in words what differs from what the file says, or ""."""
    phase = outcome.phase
    if phase is None:
        return f"it cannot be recorded: {outcome.refused}"
    if phase.controls != "passed" or phase.note:
        return f"controls: {phase.controls}; {phase.note}"
    states_count = min(setting.states_max, phase.counts["different states"])
    if phase.explored != states_count:
        return f"only {phase.explored} of {states_count} states were checked"
    said = [finding.sentence for finding in phase.findings]
    if not setting.finds:
        return "" if phase.verdict is Verdict.VALID else f"{phase.verdict.name}: {said}"
    lacking = [part for part in setting.finds if not any(part in sentence for sentence in said)]
    return f"{phase.verdict.name}, and {lacking} is not in {said}" if lacking else ""


def _version_told(program: Program) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(program.version), capture_output=True, text=True, check=False)


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
