"""Programs of others: what is documented as weak is found, what is documented as safe is not, the rest is told."""

from pathlib import Path

import msgspec
import pytest
from depth import nightly
from real_programs import FOLDER, Program, missing, outcome_of, parse_program, programs, surprise
from recorded_programs import NEEDS_STRACE

from tornproof.harness.systems.scenario import ScenarioError

PROGRAMS = programs()
STATES_BY_DAY = 100
MINIMAL = """
format = 1
program = "it"
title = "nothing"
source = "https://example.org"
command = "sh {here}/it.sh"
check = "true {dir}"
version = "true"
acknowledges = "^saved"
[[settings]]
arguments = ["fast"]
promise = "weak"
says = "may lose all"
finds = ["lost"]
"""


def cases() -> list[object]:
    """Return each setting of each program by name and index."""
    found = []
    for name, program in PROGRAMS.items():
        for index, setting in enumerate(program.settings):
            text = f"{name}: {setting.label}, {' '.join(setting.models)}"
            found.append(nightly(name, index, id=text))
    return found


@NEEDS_STRACE
@pytest.mark.parametrize(("name", "index"), cases())
def test_a_program_is_as_safe_as_its_file_says(tmp_path: Path, name: str, index: int) -> None:
    program = PROGRAMS[name]
    if lacking := missing(program):
        pytest.skip(lacking)
    setting = program.settings[index]
    assert surprise(setting, outcome_of(program, setting, tmp_path)) == ""


@pytest.mark.nightly
@NEEDS_STRACE
def test_sqlite_is_as_safe_as_its_file_says_in_few_states(tmp_path: Path) -> None:
    found = next(each for each in PROGRAMS["sqlite"].settings if each.label == "delete full")
    setting = msgspec.structs.replace(found, states_max=STATES_BY_DAY)
    outcome = outcome_of(PROGRAMS["sqlite"], setting, tmp_path)
    assert surprise(setting, outcome) == ""
    assert f"only {STATES_BY_DAY} of {STATES_BY_DAY + 1}" in surprise(
        msgspec.structs.replace(setting, states_max=STATES_BY_DAY + 1), outcome
    )
    safe = msgspec.structs.replace(setting, finds=(), told="nothing")
    assert "INVALID" in surprise(safe, outcome)
    other = msgspec.structs.replace(setting, finds=("of base-wal is not on disk",))
    assert "['of base-wal is not on disk'] is not in" in surprise(other, outcome)


def test_each_program_has_a_setting_that_is_promised_and_one_that_is_not() -> None:
    for name, program in PROGRAMS.items():
        assert {setting.promise for setting in program.settings} == {"safe", "weak"}, name
        assert all(FOLDER.joinpath(word.partition("/")[2]).is_file() for word in program_words(program)), name


def program_words(program: Program) -> list[str]:
    """Return the words of commands that name a file beside the program's."""
    commands = (program.command, program.check, program.prepare, program.version)
    return [word for command in commands for word in command.split() if word.startswith("{here}")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('promise = "weak"', 'promise = "some"', "Invalid enum value 'some' - at `$.settings[0].promise`"),
        ('says = "may lose all"', "", "missing required field `says`"),
        ('finds = ["lost"]', "", "'fast' is promised to be weak, and what is found needs words"),
        ('promise = "weak"', 'promise = "safe"', "'fast' is promised to be safe, and what is found needs words"),
        ('finds = ["lost"]', 'finds = ["lost"]\nmodels = ["Z"]', "models: there is no 'Z'"),
        ("[[settings]]", "[settings]", "Expected `array`, got `object` - at `$.settings`"),
        ('title = "nothing"', 'titel = "nothing"', "unknown field `titel`"),
        ("https://example.org", "a book", "matching regex '^https://' - at `$.source`"),
        ("format = 1", "format = 2", "Expected `int` <= 1 - at `$.format`"),
        ("format = 1", "format", "scenarios/programs/it.toml: "),
    ],
)
def test_a_file_that_is_wrong_is_rejected_with_its_field(old: str, new: str, said: str) -> None:
    assert parse_program(MINIMAL.encode(), "it.toml").settings[0].label == "fast"
    with pytest.raises(ScenarioError) as raised:
        parse_program(MINIMAL.replace(old, new).encode(), "it.toml")
    assert said in str(raised.value) and str(raised.value).startswith("scenarios/programs/it.toml: ")


def test_what_a_program_needs_is_named_by_its_package() -> None:
    needy = MINIMAL.replace(
        "[[settings]]", 'needs_commands = ["no_such_command"]\nneeds = { no_module = "no-package" }\n[[settings]]'
    )
    said = missing(parse_program(needy.encode(), "it.toml"))
    assert said == "needs no_such_command and the package no-package (make programs)"
    assert missing(parse_program(MINIMAL.encode(), "it.toml")) == ""
