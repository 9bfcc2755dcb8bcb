"""What power cuts do to programs of others, into docs/programs.md: `make programs`.

Programs whose packages are not there are left out, and said to be; `--only NAME` tries some, and writes no page.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from real_programs import Outcome, Program, Setting, missing, outcome_of, programs, surprise, version_of

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"
SENTENCES_SHOWN, FINDINGS_SHOWN = 4, 2
EXIT_SURPRISE, EXIT_INTERRUPTED = 1, 130
INTRODUCTION = """\
# Programs of others

This page is generated: `make programs` writes it. Do not edit it.

Each program runs once under `tornproof record`, unchanged, and what a crash at any of its steps may leave is given to
a checker: it opens the data, reads all of it, and counts whole transactions, of which none that was acknowledged may
be lost. Programs, checkers and settings are in [scenarios/programs](../scenarios/programs),
[any-program.md](any-program.md) says what a verdict means, [guarantees.md](guarantees.md) which file systems a model
stands for.

- *Crash states* were enumerated under the models, *images* are those of them that differ in files or acknowledgements,
  and *checked* are the first of these, those that lack least first. Nothing is said of the others.
- *Documented* is what the documentation says of the setting: `safe`, nothing acknowledged is lost and the data can be
  opened; `weak`, it may be. Where a promise was not kept under a model, or a weakness not found, words are below.
- A model permits at least what its file systems do, often more: in C-4096 a file may have its new size, and not yet
  what was appended to it. So a finding says that a program relies on more than the model grants, not that a disk was
  seen so.
- Workloads are a few transactions. That nothing was found is no proof for others.
- {python} on Linux {kernel}; seconds are of CPU time, of recording and checking.

"""
COLUMNS = (
    "setting",
    "models",
    "crash points",
    "crash states",
    "images",
    "checked",
    "rejected",
    "s",
    "documented",
    "found",
)
NUMBERS = range(2, 8)
"""The columns that are set to the right."""
ALICE = """\
## What ALICE found in 2014

Pillai et al., [All File Systems Are Not Created Equal](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai)
(OSDI 2014), counted *static vulnerabilities*, places in the source in the safest configuration (table 3a), of other
versions, with other workloads and checkers. Counts are therefore not comparable with those above; kinds are.

| program | theirs | here |
| --- | --- | --- |
"""


def row(setting: Setting, outcome: Outcome, unexpected: str) -> str:
    """Return a row of a program's table."""
    cells = [f"`{setting.label}`" if not setting.name else setting.name, " ".join(setting.models)]
    if outcome.phase is None:
        cells += ["", "", "", "", "refused by the recorder"]
    else:
        phase, counts = outcome.phase, outcome.phase.counts
        numbers = (
            counts["crash points"],
            counts["tried states"],
            counts["different states"],
            phase.explored,
            counts["rejected states"],
        )
        cells += [f"{number:,}" for number in numbers]
    kept = "**unexpected**" if unexpected else "told below" if setting.told else "as documented"
    cells += [f"{outcome.cpu_seconds:.0f}", f"{setting.promise}: {setting.says}", kept]
    return f"| {' | '.join(cells)} |"


def said_of(outcome: Outcome) -> list[str]:
    """Return what the first findings say, in short: what is not on disk, and what the checker says of it."""
    if outcome.phase is None:
        return [outcome.refused]
    found = []
    for finding in outcome.phase.findings[:FINDINGS_SHOWN]:
        sentences = [each for each in finding.evidence["sentences"] if not each.startswith("On disk is, though")]
        found.append(" ".join(sentences[:SENTENCES_SHOWN]))
    return found


def section(program: Program, version: str, results: Sequence[tuple[Setting, Outcome, str]]) -> str:
    """Return what is said of a program."""
    lines = [
        f"## {program.program} {version}",
        "",
        f"{program.title[:1].upper()}{program.title[1:]}. Promises are [its documentation's]({program.source}).",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"| {' | '.join('---:' if index in NUMBERS else '---' for index in range(len(COLUMNS)))} |",
        *(row(*result) for result in results),
        "",
    ]
    for setting, _, unexpected in results:
        told = filter(None, (setting.told, unexpected))
        lines += [f"- {setting.label}, {' '.join(setting.models)}: {words}" for words in told]
    lines += ["", "The first findings of each setting:", ""]
    for setting, outcome, _ in results:
        lines += [f"- {setting.label}, {' '.join(setting.models)}: {words}" for words in said_of(outcome)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 1 if something is not as the files say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="a program by the name of its file")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    sections, alice, skipped, surprises = [], [], [], 0
    for name, program in programs().items():
        if options.only and name not in options.only:
            continue
        if lacking := missing(program):
            print(f"programs: {program.program}: skipped: {lacking}", flush=True)
            skipped.append(f"{program.program} is left out: {lacking}.")
            continue
        results = []
        for setting in program.settings:
            with tempfile.TemporaryDirectory(prefix="programs-") as folder:
                outcome = outcome_of(program, setting, Path(folder))
            unexpected = surprise(setting, outcome)
            surprises += bool(unexpected)
            results.append((setting, outcome, unexpected))
            verdict = "refused" if outcome.phase is None else outcome.phase.verdict.name
            print(f"programs: {program.program} {setting.label}: {verdict} {unexpected}".rstrip(), flush=True)
        sections.append(section(program, version_of(program), results))
        if program.alice:
            alice.append(f"| {program.program} | {program.alice} |\n")
    introduction = INTRODUCTION.format(
        python=f"Python {platform.python_version()}", kernel=os.uname().release.partition("-")[0]
    )
    if not options.only:
        options.out.write_text("\n".join([introduction + "\n".join(skipped), *sections, ALICE + "".join(alice)]))
    return EXIT_SURPRISE if surprises else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("programs: stopped; nothing was written")
        sys.exit(EXIT_INTERRUPTED)
