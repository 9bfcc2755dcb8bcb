"""The page about programs of others: a row for each setting, and what is not as its file says is marked."""

import pytest
from programs_run import PAGE, row, section
from real_programs import Outcome, Program, Setting, programs

from tornproof.harness.common.verdict import Finding, Phase, Verdict

SENTENCES = [
    "The power is cut.",
    "A write is not on disk.",
    "On disk is, though it was called later: b.",
    "It is lost.",
]
COUNTS = {"crash points": 3, "tried states": 4_000, "different states": 20, "rejected states": 1}
WEAK = Setting(arguments=("fast",), promise="weak", says="may lose all", finds=("is not on disk",))


def outcome(*, is_found: bool) -> Outcome:
    finding = Finding(property="", phase="power", sentence=" ".join(SENTENCES), evidence={"sentences": SENTENCES})
    phase = Phase(
        name="power",
        explored=15,
        complete=False,
        bound="",
        verdict=Verdict.INVALID if is_found else Verdict.VALID,
        counts=COUNTS,
        findings=(finding,) if is_found else (),
    )
    return Outcome(phase, "", 1.6)


def test_a_row_has_what_was_counted_and_says_whether_it_is_as_documented() -> None:
    numbers = "| `fast` | A B C-4096 C-512 | 3 | 4,000 | 20 | 15 | 1 | 2 | weak: may lose all |"
    assert row(WEAK, outcome(is_found=True), "") == f"{numbers} as documented |"
    assert row(WEAK, outcome(is_found=False), "VALID") == f"{numbers} **unexpected** |"


def test_a_program_that_cannot_be_recorded_says_why() -> None:
    program = next(iter(programs().values()))
    words = section(program, "1.2", [(WEAK, Outcome(None, "it uses io_uring", 0.1), "it cannot be recorded")])
    assert "| refused by the recorder |" in words and "C-512: it uses io_uring" in words


def test_a_section_leaves_out_of_a_finding_what_was_called_later() -> None:
    words = section(next(iter(programs().values())), "1.2", [(WEAK, outcome(is_found=True), "")])
    assert "C-512: The power is cut. A write is not on disk. It is lost.\n" in words


@pytest.mark.parametrize("program", programs().values(), ids=programs())
def test_the_page_has_a_row_for_each_setting_of_each_program(program: Program) -> None:
    page = PAGE.read_text()
    begin = page.index(f"\n## {program.program} ")
    rows = [line for line in page[begin : page.index("\n## ", begin + 1)].splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(program.settings)
    for line, setting in zip(rows, program.settings, strict=True):
        cells = line.strip("| ").split(" | ")
        label = setting.label if setting.name else f"`{setting.label}`"
        found = "told below" if setting.told else "as documented"
        assert [*cells[:2], *cells[-2:]] == [
            label,
            " ".join(setting.models),
            f"{setting.promise}: {setting.says}",
            found,
        ]
        assert int(cells[6].replace(",", "")) > 0 if setting.finds else cells[6] == "0"
