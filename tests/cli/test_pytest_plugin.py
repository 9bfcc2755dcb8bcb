"""The pytest plugin as its users meet it: pytest in a process of its own, on tests written to a folder of their own."""

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from xml.etree import ElementTree

import numpy
import pytest
from command_line import TIMEOUT_SECONDS, warm_runner
from depth import nightly
from toy_rejections import Refuses

from tornproof import pytest_plugin
from tornproof.cli.commands.replay import replay
from tornproof.cli.replay_file import replayed_verdict
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import Toy
from tornproof.impl.errors import EMPTY_PATH
from tornproof.pipeline.files import location_of
from tornproof.pytest_plugin import MAY_ACKNOWLEDGE, REPLAY, Explorers
from tornproof.testing import Storage, TargetError, target

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "your-own-tests.md").read_text(encoding="utf-8")
TIMED = ("crashes", "power", "schedules", "product", "damage")
EXAMPLE, IN_PLACE = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
PASSED, FAILED = re.findall(r"```text\n(.*?)```", DOCS, re.DOTALL)
CALL = 'tornproof.crashes(LETTERS, [b"one", b"t", b"three"])'
POWER = 'tornproof.power(LETTERS, [b"one", b"t", b"three"])'
COMMIT = re.compile(r"def commit.*?(?=LETTERS)", re.DOTALL)
BROKEN_EXAMPLE = COMMIT.sub(lambda _: f"{IN_PLACE}\n", EXAMPLE)

TOYS = """
import pytest
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, RecoversInPlace, Toy
from tornproof.testing import OpenMode, target

class OverwritesInPlace(Toy):
    name = "overwrites"
    def commit(self, storage, path, operation):
        content = self.read(storage, path) + operation
        with storage.open_for_writing(f"{path}/state") as file:
            file.truncate(0)
            file.pwrite(content, 0)

toy = Toy()

def commit(storage, path, operation):
    storage.open_for_writing(f"{path}/new", OpenMode.NEW).close()
    toy.commit(storage, path, operation)

FORGETS = target(name="forgets", create=toy.create, read=toy.read, commit=commit)
EACH = pytest.mark.parametrize(
    "broken",
    [AcknowledgesFirst(), OverwritesInPlace(), FORGETS, HeaderFirst(), RecoversInPlace(), Toy()],
    ids=["acknowledges", "overwrites", "forgets", "header", "recovers", "sound"],
)

@EACH
def test_crashes(tornproof, broken):
    tornproof.crashes(broken, [b"one", b"t", b"three"])

@EACH
def test_machine(tornproof, broken):
    tornproof.machine(broken, [b"one", b"t", b"three"], examples=100, seed=2)
"""
EXPECTED = {
    "acknowledges": {Property.FAULT_FREE, Property.LOST, Property.STALE},
    "overwrites": {Property.WRONG_SNAPSHOT, Property.LOST, Property.STALE},
    "forgets": {Property.COMMIT},
    "header": {Property.REJECTED},
    "recovers": {Property.LOST, Property.STALE},
}


PLUGIN = ("-p", "tornproof.pytest_plugin")
# Test modules are written anew within the time that tells compiled ones apart.
VARIABLES = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "150", "PYTHONDONTWRITEBYTECODE": "1"}


class Run(Protocol):
    def __call__(
        self, folder: Path, *arguments: str, source: str | None = None, plugin: Sequence[str] = PLUGIN
    ) -> tuple[int, str]:
        """Run pytest with our plugin and no other, in `folder`; returns its exit code and what it printed."""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Pytest in children of a process that has imported it."""
    with warm_runner("pytest", variables=VARIABLES) as runner:

        def run(
            folder: Path, *arguments: str, source: str | None = None, plugin: Sequence[str] = PLUGIN
        ) -> tuple[int, str]:
            write_module(folder, source)
            done = runner("-p", "no:cacheprovider", *plugin, *arguments, folder=folder)
            return done.code, done.out + done.err

        yield run


def run_cold(
    folder: Path, *arguments: str, source: str | None = None, plugin: Sequence[str] = PLUGIN
) -> tuple[int, str]:
    """Run the same as a shell would."""
    write_module(folder, source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **VARIABLES},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


def write_module(folder: Path, source: str | None) -> None:
    if source is not None:
        (folder / "test_letters.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")


def under_one_model(source: str) -> str:
    """Return a module in which the power is cut under one model, because the controls of all take longest."""
    assert POWER in source
    return source.replace(POWER, f'{POWER[:-1]}, models=["C-4096"])')


def replay_lines(output: str) -> list[list[str]]:
    return [line.split()[1:] for line in re.findall(r"see it again: (.*)", output)]


def assert_shown(expected: str, output: str) -> None:
    """Every line of the documentation was printed; `…` stands for what may differ, and `...` for the rest of a line."""
    printed = [line.strip() for line in output.splitlines()]
    for line in map(str.strip, expected.splitlines()):
        pattern = re.escape(re.sub(r"\.{3}$", "…", line)).replace("…", ".*")
        assert any(re.fullmatch(pattern, each) for each in printed), line


# The documentation


# By day the broken example is run, and mended.
@pytest.mark.nightly
def test_the_documented_example_is_short_passes_and_says_what_that_is_worth(tmp_path: Path) -> None:
    assert len(EXAMPLE.splitlines()) <= 40
    code, output = run_cold(tmp_path, source=EXAMPLE)
    assert code == 0 and "3 passed" in output
    assert_shown(PASSED, output)
    assert not (tmp_path / ".tornproof").exists()


def test_the_broken_example_fails_as_documented_and_its_replay_lines_work_until_it_is_mended(
    run: Run, tmp_path: Path
) -> None:
    code, output = run(tmp_path, source=under_one_model(BROKEN_EXAMPLE))
    assert code == 1 and "3 failed" in output and "Traceback" not in output
    assert_shown(FAILED, output)
    lines = replay_lines(output)
    assert len(lines) >= 2 and {line[2].rpartition("::")[2] for line in lines} == {
        "test_no_kill_and_no_failing_call_tears_a_commit",
        "test_no_power_cut_and_no_reader_beside_it_sees_half_a_commit",
        "test_no_execution_tears_a_commit",
    }
    assert (tmp_path / ".tornproof" / ".gitignore").read_text() == "*\n"
    for line in (lines[0], lines[-1]):
        code, again = run(tmp_path, *line)
        assert code == 1 and "1 failed" in again and "3 failed" not in again
        assert f"{line[1]}: it happens again.\ntornproof broke 'letters':" in again
    # Without the test's name pytest collects all, and all others are left out.
    code, again = run(tmp_path, *lines[0][:2])
    assert code == 1 and "1 failed, 2 deselected" in again
    code, mended = run(tmp_path, *lines[-1], source=under_one_model(EXAMPLE))
    assert code == 0 and "1 passed" in mended and "it does not happen any more" in mended


def test_the_page_for_ones_own_format_leads_to_its_finding_and_to_its_cure(run: Run, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "your-own-format.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 60
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (_, shown) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    write = "        file.pwrite(record, 8 + len(log))\n"
    assert write in example
    (tmp_path / "test_log.py").write_text(example)
    (tmp_path / "test_mended.py").write_text(example.replace(write, f"{write}        file.fsync()\n"))
    code, output = run(tmp_path)
    assert code == 1 and "1 failed, 1 passed" in output
    assert_shown(shown.partition("\n")[2], output)


@pytest.mark.nightly
def test_the_command_replays_the_finding_of_a_test_from_anywhere(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "-k", "power_cut", source=BROKEN_EXAMPLE)
    files = (tmp_path / ".tornproof").glob("power-*.json")
    # Of a finding with a cut at a later call, the mended functions have other calls.
    file = min(files, key=lambda each: json.loads(each.read_text())["evidence"].get("step", math.inf))
    document = tmp_path / "replayed.json"
    assert replay(location_of(file), str(document)) == 1
    assert "INVALID: it happens again" in capsys.readouterr().out
    replayed = json.loads(document.read_text())
    assert (replayed["verdict"], replayed["test"].partition("::")[0]) == ("INVALID", "test_letters.py")
    write_module(tmp_path, EXAMPLE)
    assert replay(location_of(file), None) == 0
    assert "VALID: it does not happen any more" in capsys.readouterr().out
    (tmp_path / "test_letters.py").unlink()
    assert replay(location_of(file), None) == 3
    assert "UNKNOWN: this release cannot replay it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ('power(LETTERS, [b"one"], models=["B", "Z"])', "tornproof.power: models: expected some of A, B, "),
        ('schedules(LETTERS, [b"one"], effort="huge")', "tornproof.schedules: effort: expected small, medium, large"),
        ('schedules(LETTERS, [b"one", b"t"], writers=3)', "tornproof.schedules: writers: expected 1 to 2, the operati"),
        ('schedules(LETTERS, [b"one", b"t"], writers=2)', "tornproof broke 'letters': writers "),
        ("damage(LETTERS, [])", "tornproof.damage needs a list of at least one operation"),
        ('damage(LETTERS, [b"a"], cases=0)', "tornproof.damage: cases: expected 1 or more, found 0"),
        ('schedules(LETTERS, [b"a"], readers=0)', "tornproof.schedules: readers: expected 1 or more, found 0"),
        ('product(LETTERS, [b"a"], reads=-1)', "tornproof.product: reads: expected 1 or more, found -1"),
        ('machine(LETTERS, [b"a"], steps=1.5)', "tornproof.machine: steps: expected 1 or more, found 1.5"),
        ('product(LETTERS, [b"one"], seconds=0)', "tornproof has no verdict on 'letters' (product): "),
    ],
)
def test_a_wrong_question_and_a_time_limit_are_reported_in_words(
    run: Run, tmp_path: Path, call: str, sentence: str
) -> None:
    source = f"{EXAMPLE}\ndef test_other(tornproof):\n    tornproof.{call}\n"
    code, output = run(tmp_path, "-k", "test_other", source=source)
    assert code == 1 and "Traceback" not in output
    assert sentence in output, output


def test_a_finding_of_several_writers_is_told_turn_by_turn_with_its_cause_also_when_it_is_replayed(
    run: Run, tmp_path: Path
) -> None:
    """A sentence and empty lines were all that was said."""
    call = 'tornproof.schedules(LETTERS, [b"one", b"t"], writers=2)'
    code, output = run(tmp_path, "-k", "other", source=f"{EXAMPLE}\ndef test_other(tornproof):\n    {call}\n")
    story = re.search(r"^E?broken: .*\n\n((?:  .*\n)+)", output, re.MULTILINE)
    assert code == 1 and story is not None, output
    lines = [line.strip() for line in story[1].splitlines()]
    assert lines[:2] == ["writer 1 commits b'one'", "writer 2 commits b't'"]
    assert any(re.match(r"writer \d: .*append bytes 0 to ", line) for line in lines)
    assert re.match(r"Writer \d does this without a lock while writer \d is at work: ", lines[-2])
    assert re.match(r"It does not happen when writer \d waits for the end of writer \d before: ", lines[-1])
    assert story[1] in run(tmp_path, *replay_lines(output)[0])[1]


@pytest.fixture
def explorers() -> Explorers:
    """The explorers of a test that pytest does not run."""
    request: Any = SimpleNamespace(
        node=SimpleNamespace(user_properties=[]), config=SimpleNamespace(stash={REPLAY: None})
    )
    return Explorers(request)


@pytest.mark.parametrize(
    ("explorer", "what", "found", "expected"),
    [
        *((explorer, "seconds", found, "a number") for explorer in TIMED for found in ("3", math.nan)),
        *((explorer, "models", None, "some of A, B, ") for explorer in ("power", "product")),
        ("power", "models", "BC", "some of A, B, "),
        ("power", "models", ["B", 3], "some of A, B, "),
        *(("crashes", "cuts", found, "0 or more") for found in ("x", 2.0, -1)),
        *((explorer, "seed", 1.5, "0 or more") for explorer in ("power", "schedules", "machine")),
        ("power", "seed", -1, "0 or more"),
        *(("schedules", "writers", found, "1 to 2, the operations") for found in (2.0, "x", 3)),
        ("power", "effort", None, "small, medium, large or 1 to "),
    ],
)
def test_an_argument_of_another_kind_is_reported_in_words(
    explorers: Explorers, explorer: str, what: str, found: Any, expected: str
) -> None:
    """It ended in a traceback of ours."""
    wrong = found[1] if isinstance(found, list) else found
    with pytest.raises(pytest.fail.Exception) as raised:
        getattr(explorers, explorer)(Toy(), [b"one", b"t"], **{what: found})
    said = str(raised.value)
    assert said.startswith(f"tornproof.{explorer}: {what}: expected {expected}") and said.endswith(f"found {wrong!r}")


def test_numbers_of_numpy_are_whole_numbers(explorers: Explorers) -> None:
    """They were rejected as if they were none."""
    two: Any = numpy.int64(2)
    asked, same = (explorers.schedules(Toy(), [b"one", b"t"], readers=n, reads=n, seed=n, effort=n) for n in (two, 2))
    assert asked == same


@pytest.mark.parametrize("name", ["power", "product"])
@pytest.mark.parametrize("given", [list, iter, "".join])
def test_a_generator_of_models_is_taken_as_what_it_yields_and_one_name_as_that(
    explorers: Explorers, name: str, given: Callable[[list[str]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All models were asked, because what checked them had used the generator up."""
    asked: list[Sequence[str]] = []

    def explore(*_: object, models: Sequence[str], **__: object) -> Phase:
        asked.append(models)
        return Phase(name=name, explored=1, complete=True, bound="", verdict=Verdict.VALID)

    monkeypatch.setattr("tornproof.harness.explorers.own_system.simulated.explore_simulated", explore)
    getattr(explorers, name)(Toy(), [b"one"], models=given(["B"]))
    assert asked == [("B",)]


class Takes(Toy):
    """A sound target whose operations are empty when they are committed."""

    name = "takes"

    def commit(self, storage: Storage, path: str, operation: Any) -> None:
        """Take the letters out of their list."""
        super().commit(storage, path, operation.pop())


@pytest.mark.parametrize("name", ["crashes", "power", "schedules", "product"])
def test_a_commit_may_change_what_it_is_given(explorers: Explorers, name: str) -> None:
    """The next execution got what the first one had left of the operation, and that was a finding."""
    operations = [[b"one"], [b"t"]]
    assert getattr(explorers, name)(Takes(), operations).verdict is Verdict.VALID
    assert operations == [[b"one"], [b"t"]]


def test_a_writer_that_rejects_all_further_commits_takes_no_more_work_with_each(explorers: Explorers) -> None:
    """Which of the rejected commits are there was asked of all combinations."""
    operations = [bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz"]
    phase = explorers.power(Refuses(), operations, models=["D"])
    assert (phase.verdict, phase.explored < 1_000) == (Verdict.VALID, True)


def test_there_is_no_fixture_without_the_plugin(tmp_path: Path) -> None:
    """The documented test passes because of the plugin, and of nothing else."""
    code, output = run_cold(tmp_path, source=EXAMPLE, plugin=())
    assert code == 1 and "fixture 'tornproof' not found" in output


# Broken and sound targets


@pytest.mark.nightly
@pytest.mark.parametrize("example_count", [20, 300])
def test_broken_targets_fail_by_what_they_break_and_a_sound_one_passes(
    run: Run, tmp_path: Path, example_count: int
) -> None:
    code, output = run(tmp_path, source=TOYS.replace("examples=100", f"examples={example_count}"))
    assert code == 1 and "10 failed, 2 passed" in output
    for test in ("crashes", "machine"):
        for name, properties in EXPECTED.items():
            header = rf"_+ test_{test}\[{name}\] _+\n"
            message = re.split(r"\n_{3,} |\n={3,} ", re.split(header, output, maxsplit=1)[1])[0]
            assert re.match(r"tornproof broke '", message)
            assert set(re.findall(r"^broken: (.*)", message, re.MULTILINE)) <= properties, message
            assert "explored: " in message and "see it again: pytest --tornproof-replay " in message
    summary = output[output.index("= tornproof =") :]
    assert "test_letters.py::test_crashes[sound]\n  crash of 'toy': VALID, " in summary
    assert "test_letters.py::test_machine[sound]\n  machine of 'toy': VALID, " in summary
    for counted in ("failing calls", "cut writes", "distinct disks", "executions", "kills in recovery"):
        assert re.search(rf"VALID, .*[1-9][0-9,]* {counted}", summary), counted


def test_the_execution_of_a_kill_shows_the_steps_of_the_commit_up_to_it(run: Run, tmp_path: Path) -> None:
    source = TOYS.replace("[AcknowledgesFirst(), OverwritesInPlace(), FORGETS, HeaderFirst(), ", "[").replace(
        'ids=["acknowledges", "overwrites", "forgets", "header", ', "ids=["
    )
    _, output = run(tmp_path, "-k", "test_crashes and recovers", source=source)
    execution = re.search(r"broken: (.*)\n\n((?:  .*\n)+)", output)
    assert execution is not None and execution[1] == Property.LOST
    assert execution[2].splitlines() == [
        "  commit b'one': acknowledged",
        "  commit b't'",
        "    open for writing target/new",
        "  kill the process before: truncate target/new",
        "  open the writer, and kill it after 2 steps of its recovery",
    ]


SLEEP = "storage.sleep_seconds(0.01)"
HANGS = """
from tornproof.testing import EntryKind, OpenMode, target

def create(storage, path):
    storage.mkdir(path)
    storage.open_for_writing(f"{path}/letters", OpenMode.NEW).close()

def read(storage, path):
    with storage.open_for_reading(f"{path}/letters") as file:
        return file.pread(file.size_bytes(), 0)

def commit(storage, path, more):
    while storage.kind(f"{path}/lock") is EntryKind.FILE:
        WAIT
    storage.open_for_writing(f"{path}/lock", OpenMode.NEW).close()
    with storage.open_for_writing(f"{path}/new", OpenMode.EXISTING_OR_NEW) as file:
        file.pwrite(read(storage, path) + more, 0)
    storage.rename(f"{path}/new", f"{path}/letters")
    storage.unlink(f"{path}/lock")

LETTERS = target(name="letters", create=create, read=read, commit=commit)

def test_crashes(tornproof):
    tornproof.crashes(LETTERS, [b"o", b"t"])

def test_machine(tornproof):
    tornproof.machine(LETTERS, [b"o", b"t"], examples=20, steps=5)
"""


@pytest.mark.parametrize(
    ("wait", "replayed"), [(SLEEP, slice(-1, None)), nightly(SLEEP, slice(None)), nightly("pass", slice(None))]
)
def test_a_target_that_waits_for_ever_is_a_finding_and_does_not_hang(
    run: Run, tmp_path: Path, wait: str, replayed: slice
) -> None:
    code, output = run(tmp_path, source=HANGS.replace("WAIT", wait))
    assert code == 1 and "2 failed" in output
    assert output.count(f"broken: {Property.ENDS}") >= 2 and "livelock: it only repeats: " in output
    if wait == SLEEP:
        documented = re.search(r"> (going on after .*)\n> (.*)", DOCS)
        assert documented is not None and f"tornproof broke 'letters': {documented[1]} {documented[2]}" in output
    for line in replay_lines(output)[replayed]:
        code, again = run(tmp_path, *line)
        assert code == 1 and f"{line[1]}: it happens again.\ntornproof broke 'letters':" in again


def test_a_target_that_hangs_without_any_commit_is_reported_in_one_sentence(run: Run, tmp_path: Path) -> None:
    waits = "def read(storage, path):\n    while True:\n        storage.kind(path)\n"
    _, output = run(tmp_path, source=re.sub(r"def read.*?(?=\ndef commit)", lambda _: waits, HANGS, flags=re.DOTALL))
    assert "letters does not end without any commit: livelock: it only repeats: look at target" in output


# Without a verdict


EXPLORERS: dict[str, dict[str, Any]] = {
    "crashes": {},
    "power": {"models": ["B"]},
    "schedules": {},
    "product": {"models": ["A"]},
    "damage": {},
    "machine": {"steps": 5, "examples": 5},
}
NOT_DETERMINISTIC = "the target is not deterministic: after 1 commit a reader sees "


class Counts(Toy):
    """Sound, but in each record there is a number, another one every so many commits, which is kept between runs."""

    name = "counts"

    def __init__(self, every: int = 1) -> None:
        self._every, self._count = every, 0

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Append the letters and the number."""
        super().commit(storage, path, operation + b"%d" % (self._count // self._every))
        self._count += 1


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_sound_target_whose_records_differ_from_run_to_run_has_no_verdict(explorers: Explorers, name: str) -> None:
    """Each explorer said that it is broken."""
    with pytest.raises(pytest.fail.Exception) as raised:
        getattr(explorers, name)(Counts(), [b"one", b"t"], **EXPLORERS[name])
    said = str(raised.value)
    assert f"{NOT_DETERMINISTIC}b'one" in said and ", and then b'one" in said and "tornproof broke" not in said


def test_a_target_that_differs_only_later_has_no_verdict_either(explorers: Explorers) -> None:
    """One that writes the time does the same again within a second."""
    with pytest.raises(pytest.fail.Exception, match="no verdict on 'counts'") as raised:
        explorers.damage(Counts(every=8), [b"one", b"t"])
    assert f"{NOT_DETERMINISTIC}b'one0', and then b'one1'" in str(raised.value)


SWALLOWS = """
from tornproof.harness.systems.toy import SwallowsErrors
from tornproof.testing import target

def test_strict(tornproof):
    tornproof.crashes(target(SwallowsErrors()), [b"one"])

def test_judged_by_loss(tornproof):
    tornproof.crashes(target(SwallowsErrors(), acknowledges_after_failed_sync=True), [b"one"])
"""


def test_the_option_for_commits_whose_sync_failed_is_named_where_it_is_not_used(run: Run, tmp_path: Path) -> None:
    code, output = run(tmp_path, source=SWALLOWS)
    # The summary, which has the strict one once more, is longer where CI is set.
    failures = output.split("short test summary info", 1)[0]
    strict, by_loss = failures.split("_ test_judged_by_loss _", 1)
    assert code == 1 and "2 failed" in output
    assert f"\nbroken: {Property.SYNCED}\n{MAY_ACKNOWLEDGE}\n" in strict
    assert f"\nbroken: {Property.SYNCED}\n" in by_loss and MAY_ACKNOWLEDGE not in by_loss


class SyncsSometimes(Toy):
    """Syncs once more in every second run."""

    name = "syncs sometimes"
    run_count = 0

    def create(self, storage: Storage, path: str) -> None:
        """Begin another run."""
        super().create(storage, path)
        self.run_count += 1

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Append the letters."""
        super().commit(storage, path, operation)
        if self.run_count % 2:
            storage.sync_directory(path)


def test_a_target_that_takes_other_steps_each_time_cannot_be_explored(explorers: Explorers) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"not deterministic: step \d+ of its commits is .*, and then "):
        explorers.crashes(SyncsSometimes(), [b"one", b"t"])


class Salted(Toy):
    """Sound; before the letters there is a random byte, which no reader returns."""

    name = "salted"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters."""
        return super().read(storage, path)[1:]

    def write_anew(self, storage: Storage, path: str, content: bytes) -> None:
        """Write another byte each time."""
        super().write_anew(storage, path, os.urandom(1) + content)


@pytest.mark.parametrize(
    ("name", "asked"), [("power", {"models": ["D"]}), ("product", {"models": ["D"]}), ("schedules", {"writers": 2})]
)
def test_bytes_that_differ_leave_no_verdict_where_a_run_is_gone_back_to(
    explorers: Explorers, name: str, asked: dict[str, Any]
) -> None:
    """It ended with a traceback of ours."""
    said = rf"no verdict on 'salted' \({name}\): the target is not deterministic: after the same \d+ answers"
    with pytest.raises(pytest.fail.Exception, match=said):
        getattr(explorers, name)(Salted(), [b"one", b"t"], **asked)


def test_bytes_that_differ_are_explored_where_nothing_depends_on_them(explorers: Explorers) -> None:
    assert explorers.crashes(Salted(), [b"one", b"t"]).verdict is Verdict.VALID


def test_the_command_says_that_a_target_is_not_deterministic(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding happened again in a sound target whose records are random."""
    run(tmp_path, "-k", "execution or failing_call", source=BROKEN_EXAMPLE)
    write_module(tmp_path, "import os\n" + EXAMPLE.replace("+ more", "+ more + os.urandom(2)"))
    for phase in ("crash", "machine"):
        file = min((tmp_path / ".tornproof").glob(f"{phase}-*.json"))
        assert replay(location_of(file), None) == 3
        assert "the target is not deterministic: after 1 commit a reader sees " in capsys.readouterr().out


def test_a_budget_that_ends_is_no_pass_and_says_so_in_other_words(run: Run, tmp_path: Path) -> None:
    short = EXAMPLE.replace(CALL, f"{CALL[:-1]}, seconds=0)").replace("steps=20, examples=50", "steps=1, examples=1")
    code, output = run(tmp_path, "-k", "not power_cut", source=short)
    assert code == 1 and "2 failed" in output and "tornproof broke" not in output
    assert re.search(r"tornproof has no verdict on 'letters' \(crash\): .*whole steps were not tried", output)
    assert re.search(r"tornproof has no verdict on 'letters' \(machine\): never reached: ", output)
    assert "To go on, give it more seconds or fewer cuts, or pass allow_unfinished=True." in output
    assert "see it again" not in output
    allowed = short.replace("seconds=0", "seconds=0, allow_unfinished=True").replace(
        "seed=1", "seed=1, allow_unfinished=True"
    )
    code, output = run(tmp_path, "-k", "not power_cut", source=allowed)
    assert code == 0 and output.count("  unfinished: ") == 2


@pytest.mark.parametrize(
    ("name", "controls"),
    [
        ("crashes", "kills.explorer.controls_of_run"),
        ("schedules", "schedules.controls.failed_controls"),
        ("product", "schedules.crash.controls_of_run"),
    ],
)
def test_positive_controls_take_nothing_of_the_time_of_an_exploration(
    explorers: Explorers, name: str, controls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit was over before anything was explored, and the reasons that were given were others."""
    now = [0.0]

    def an_hour(*_: object) -> tuple[str, ...]:
        now[0] += 3_600
        return ()

    monkeypatch.setattr(pytest_plugin, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(f"tornproof.harness.explorers.{controls}", an_hour)
    phase = getattr(explorers, name)(Toy(), [b"one"], seconds=1)
    assert (phase.verdict, phase.note, now) == (Verdict.VALID, "", [3_600])


def test_that_the_time_is_over_is_said_before_what_was_never_reached_for_want_of_it(explorers: Explorers) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"\(schedules\): its time was over: .*never reached: "):
        explorers.schedules(Toy(), [b"one"], seconds=0)


def test_a_finding_fails_although_the_budget_may_end(run: Run, tmp_path: Path) -> None:
    source = BROKEN_EXAMPLE.replace(CALL, f"{CALL[:-1]}, allow_unfinished=True)")
    code, output = run(tmp_path, "-k", "failing_call", source=source)
    assert code == 1 and "tornproof broke 'letters'" in output


# Mistakes of the user


OPENS = "lambda *_: __import__('contextlib').nullcontext"
WRONG = [
    ("read=read, ", "", "letters has no read(storage, path): a target needs it"),
    (", commit=commit", "", "letters has no commit(storage, path, operation) and no open_writer(storage, path)"),
    ("commit=commit", "commit=read", "letters: commit cannot be called as commit(storage, path, operation)"),
    ("commit=commit", "commit=3", "letters: commit is an int and cannot be called"),
    (
        "return file.pread(file.size_bytes(), 0)",
        "return []",
        "letters: read returned a list, which cannot be hashed",
    ),
    ("return file.pread(file.size_bytes(), 0)", "return object()", "letters: read returned two unequal values"),
    ("commit=commit", "commit=lambda *_: None", "letters committed without a call to the storage"),
    ("commit=commit", "open_writer=read", "letters: open_writer returned a bytes, which no `with` can open"),
    ("commit=commit", "commit=commit, reader=read", "letters: reader returned a bytes, which no `with` can open"),
    ("commit=commit", f"commit=commit, reader={OPENS}(3)", "letters: reader gave an int, which cannot be called"),
    ("commit=commit", f"commit=commit, reader={OPENS}(list)", "letters: a reader's read returned a list, which cannot"),
    ('[b"one", b"t", b"three"]', "[]", "tornproof.crashes needs a list of at least one operation"),
    ("st.binary(min_size=1, max_size=9)", "()", "tornproof.machine needs a strategy or a list of at least one"),
]


@pytest.fixture(scope="module")
def reported_of_wrong_targets(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Sequence[list[str]]:
    """What the tests of each wrong module fail with; one pytest runs all modules, because to start it takes longest."""
    folder = tmp_path_factory.mktemp("wrong")
    for number, (old, new, _) in enumerate(WRONG):
        assert old in EXAMPLE
        (folder / f"test_wrong_{number}.py").write_text(EXAMPLE.replace(old, new))
    asked = ("-k", "not power_cut", "--continue-on-collection-errors", "--junitxml", "report.xml")
    code, output = run(folder, *asked)
    assert code == 1 and "tornproof broke" not in output
    reported: list[list[str]] = [[] for _ in WRONG]
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        # A module that cannot be imported is a case without a class.
        module = case.get("classname") or case.get("name") or ""
        reported[int(module.removeprefix("test_wrong_"))] += [each.text or "" for each in case]
    return reported


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrongly_built_target_is_reported_in_one_sentence(
    reported_of_wrong_targets: Sequence[list[str]], number: int
) -> None:
    assert any(WRONG[number][2] in reported for reported in reported_of_wrong_targets[number])


def test_a_mistake_in_a_function_ends_as_the_exception_that_it_is(run: Run, tmp_path: Path) -> None:
    code, output = run(tmp_path, "-k", "failing_call", source=EXAMPLE.replace("+ more", "+ mor"))
    assert code == 1 and "NameError: name 'mor' is not defined" in output
    assert "content = read(storage, path) + mor" in output


def test_an_object_declares_the_exceptions_that_are_its_rejections() -> None:
    class Declaring(Toy):
        rejections = (KeyError,)

    assert KeyError in target(Declaring()).rejections
    assert KeyError not in target(Toy()).rejections
    generated: Any = iter([KeyError])
    assert KeyError in target(Toy(), rejections=generated).rejections


@pytest.mark.parametrize("rejections", [KeyError, None, 3, "KeyError", [KeyError("one")], (int,), (KeyboardInterrupt,)])
def test_rejections_that_are_no_exceptions_are_reported_in_one_sentence(rejections: Any) -> None:
    """They ended in a traceback of ours, some of them not before a target raised an exception."""

    class Declaring(Toy): ...

    Declaring.rejections = rejections
    expected = re.escape(f"rejections: expected a tuple of exception classes, found {rejections!r}")
    with pytest.raises(TargetError, match=f"Declaring: {expected}"):
        target(Declaring(), name="Declaring")
    with pytest.raises(TargetError, match=f"toy: {expected}"):
        target(Toy(), rejections=rejections)


# Replaying


@pytest.mark.nightly
def test_an_object_with_methods_is_a_target_and_operations_that_no_file_can_hold_are_named(
    run: Run, tmp_path: Path
) -> None:
    source = """
from hypothesis import strategies as st
from tornproof.harness.systems.toy import HeaderFirst

class Letters(bytes): pass

def test_it(tornproof):
    tornproof.machine(HeaderFirst(), st.builds(Letters, st.just(b"x")))
"""
    code, output = run(tmp_path, source=source)
    assert code == 1
    line = "see it again: pytest test_letters.py::test_it (no file can hold it: Letters is no plain data)"
    assert line in output


def test_a_finding_of_a_second_exploration_is_replayed_there(run: Run, tmp_path: Path) -> None:
    source = """
from tornproof.harness.systems.toy import HeaderFirst, Toy

def test_it(tornproof):
    tornproof.crashes(Toy(), [b"one"])
    tornproof.crashes(HeaderFirst(), [b"one"])
"""
    _, output = run(tmp_path, source=source)
    line = replay_lines(output)[0]
    code, output = run(tmp_path, *line)
    assert code == 1 and "it happens again" in output and "is of another exploration" in output
    code, output = run(tmp_path, *line, source=source.replace("HeaderFirst()", "Toy()"))
    assert code == 1 and "cannot be replayed: the target or its operations" in output
    code, output = run(
        tmp_path, *line, source=source.replace("    tornproof.crashes(HeaderFirst(), [b", "    print([b")
    )
    assert code == 1 and "cannot be replayed: the test has fewer explorations now" in output


HEADER_FIRST = """
import pytest
from tornproof.harness.systems.toy import HEADER_BYTES, HeaderFirst, Toy

class Mended(HeaderFirst):
    def commit(self, storage, path, operation):
        count = len(self.read(storage, path))
        with storage.open_for_writing(f"{path}/state") as file, file.map(HEADER_BYTES) as mapping:
            file.pwrite(operation, HEADER_BYTES + count)
            mapping.store_u64(0, count + len(operation))

class Rewritten(Toy):
    name = HeaderFirst.name

@pytest.mark.skipif(False, reason="no")
def test_it(tornproof):
    tornproof.crashes(HeaderFirst(), [b"one"])
"""


@pytest.mark.parametrize(
    ("old", "new", "options", "verdict"),
    [
        ("skipif(False, reason", "xfail(reason", (), Verdict.INVALID),
        ("skipif(False", "skipif(True", (), Verdict.UNKNOWN),
        ("", "", ("--tb=no", "-q", "-q", "-q", "--no-summary"), Verdict.INVALID),
        ("HeaderFirst()", "Mended()", (), Verdict.VALID),
        ("HeaderFirst()", "Rewritten()", (), Verdict.UNKNOWN),
        ('HeaderFirst(), [b"one"])', 'Mended(), [b"one"]); assert False', (), Verdict.UNKNOWN),
    ],
    ids=["expected to fail", "skipped", "nothing printed", "mended", "without such a call", "failed otherwise"],
)
def test_a_replay_has_its_own_verdict_whatever_pytest_makes_of_the_test(
    run: Run, tmp_path: Path, old: str, new: str, options: tuple[str, ...], verdict: Verdict
) -> None:
    """A finding that still happened was VALID in a test marked xfail or skipif, and UNKNOWN if nothing was printed."""
    _, output = run(tmp_path, source=HEADER_FIRST)
    verdicts = tmp_path / "verdicts"
    verdicts.touch()
    asked = (*replay_lines(output)[0], "--tornproof-verdicts", str(verdicts), *options)
    code, _ = run(tmp_path, *asked, source=HEADER_FIRST.replace(old, new))
    assert replayed_verdict(verdicts, code) is verdict


def test_the_command_says_that_it_happens_in_a_test_that_is_expected_to_fail(run: Run, tmp_path: Path) -> None:
    run(tmp_path, source=HEADER_FIRST)
    write_module(tmp_path, HEADER_FIRST.replace("skipif(False, reason", "xfail(reason"))
    (file, *_) = (tmp_path / ".tornproof").glob("crash-*.json")
    assert replay(location_of(file), None) == 1


def test_a_finding_is_replayed_in_a_folder_without_a_configuration_of_pytest(run: Run, tmp_path: Path) -> None:
    """It was UNKNOWN, because pytest took the folder above all files that it was given for its root directory."""
    run(tmp_path, "--tornproof-findings", str(tmp_path / "found" / "here"), source=HEADER_FIRST)
    (tmp_path / "pytest.ini").unlink()
    (file, *_) = (tmp_path / "found" / "here").glob("crash-*.json")
    assert replay(location_of(file), None) == 1


def test_a_finding_is_replayed_in_a_test_that_prints_bytes_that_are_no_text(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ended with a defect of ours."""
    source = HEADER_FIRST.replace("    tornproof.", "    print('caf\u00e9')\n    tornproof.")
    run(tmp_path, source=source)
    (file, *_) = (tmp_path / ".tornproof").glob("crash-*.json")
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert replay(location_of(file), None) == 1
    assert "caf\\xe9" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [".", "results"])
def test_in_a_folder_that_was_there_git_ignores_what_its_owner_wants(run: Run, tmp_path: Path, folder: str) -> None:
    """The `.gitignore` of a project was replaced by one that ignores all files of it."""
    (tmp_path / "results").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n")
    code, _ = run(tmp_path, "--tornproof-findings", folder, source=HEADER_FIRST)
    assert code == 1 and [*(tmp_path / folder).glob("crash-*.json")]
    assert [*tmp_path.rglob(".gitignore")] == [tmp_path / ".gitignore"]
    assert (tmp_path / ".gitignore").read_text() == "build/\n"


@pytest.mark.parametrize("option", ["--tornproof-findings", "--tornproof-replay"])
def test_an_empty_path_is_rejected_before_any_test(run: Run, tmp_path: Path, option: str) -> None:
    """Findings went among the sources, and instead of one finding all tests were tried."""
    code, said = run(tmp_path, option, "", source=HEADER_FIRST)
    assert code == pytest.ExitCode.USAGE_ERROR and f"{option}: {EMPTY_PATH}" in said
    assert {each.name for each in tmp_path.iterdir()} == {"pytest.ini", "test_letters.py"}


@pytest.mark.parametrize(
    ("place", "reason"), [("afile", "File exists"), nightly("/dev/null/x", "Not a directory")], ids=["file", "device"]
)
def test_a_finding_whose_file_cannot_be_written_is_shown_all_the_same(
    run: Run, tmp_path: Path, place: str, reason: str
) -> None:
    """All that the test said was that its file could not be written."""
    (tmp_path / "afile").touch()
    code, output = run(tmp_path, "--tornproof-findings", place, source=HEADER_FIRST)
    assert code == 1 and "Traceback" not in output and "UsageError" not in output
    for part in ("tornproof broke 'header first':", "broken: a reader gets an answer", "kill the process before: "):
        assert part in output, output
    said = rf"see it again: pytest \S+::test_it \(its file cannot be written: \S*{place}: cannot write: {reason}\)"
    assert re.search(said, output), output


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read"),
        nightly("{", "not a finding"),
        ("{}", "not a finding"),
        ("", "not one of a test"),
    ],
)
def test_a_file_that_is_no_finding_of_a_test_is_rejected_in_words(
    run: Run, tmp_path: Path, text: str | None, sentence: str
) -> None:
    whole = {
        "format": 1, "property": "p", "phase": "crash", "sentence": "s", "evidence": {}, "start_files": {},
    }  # fmt: skip
    if text is not None:
        (tmp_path / "finding.json").write_text(text or json.dumps(whole))
    code, output = run(tmp_path, "--tornproof-replay", "finding.json", source=EXAMPLE)
    assert code == 4 and sentence in output and "Traceback" not in output


# How pytest meets it


def test_the_entry_point_brings_the_fixture_and_the_options(tmp_path: Path) -> None:
    """An installed tornproof is made by hand: the entry point of pyproject.toml in a folder on the path."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert entry_points == {"pytest11": {"tornproof": "tornproof.pytest_plugin"}}
    installed = tmp_path / "installed" / "tornproof_here-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tornproof-here\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entry_points["pytest11"].items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{installed.parent}"}
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "--fixtures", "--help"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert "--tornproof-replay=FILE" in done.stdout and "--tornproof-findings=DIR" in done.stdout


def test_a_start_of_pytest_imports_nothing_heavy() -> None:
    script = "import sys, tornproof.pytest_plugin; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    loaded = set(done.stdout.split())
    assert {"pytest", "tornproof"} <= loaded
    assert loaded & {"tornproof.harness", "tornproof.impl"} == set()
    assert loaded & {"hypothesis", "pyarrow", "numpy", "typer", "rich"} == set()


@pytest.mark.nightly
def test_the_summary_is_the_same_with_workers(run: Run, tmp_path: Path) -> None:
    plugin = ("-p", "tornproof.pytest_plugin", "-p", "xdist")
    code, output = run(tmp_path, "-n", "2", source=EXAMPLE, plugin=plugin)
    assert code == 0, output
    assert_shown(PASSED, output)
