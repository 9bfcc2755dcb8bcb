"""Run a released server and this implementation on the same tables: `python tests/interop/interop_run.py`.

Options: `--programs N`, `--seed N`, `--out FILE`. Without a server that can run it says so in one sentence and exits
with 0, unless one was asked for by name; differences end with 1. `QUESTDB_VERSION` and `QUESTDB_CLASSPATH` name another
server.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from interop_cases import Outcome, run_cases
from interop_machine import STEPS_IN_PROGRAM, run_programs
from interop_page import page
from interop_tally import Tally

from tornproof.harness.systems.server.process import IDLE_MILLISECONDS, Server
from tornproof.harness.systems.server.release import UnavailableError, find_release

PROGRAMS = 200
PAGE = Path(__file__).parents[2] / "docs" / "interop.md"
EXIT_DIFFERENCE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="how many random programs")
    parser.add_argument("--seed", type=int, default=0, help="what they are generated from")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    try:
        release = find_release()
    except UnavailableError as error:
        print(f"interop: skipped: {error}")
        return EXIT_USAGE if error.was_asked_for else 0
    # As Ctrl-C does, it also ends the server and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"interop: QuestDB {release.version} on Java {release.java_version}, {options.programs} random programs")
    tally, difference = Tally(), None
    with tempfile.TemporaryDirectory(prefix="interop-") as folder, Server(release, Path(folder)) as server:
        results = []
        for result in run_cases(server):
            results.append(result)
            print(f"interop: {result.case}: {result.outcome}: {result.saw}", flush=True)
        try:
            run_programs(server, tally, count=options.programs, seed_number=options.seed)
        except Exception as error:
            difference = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            print(f"interop: a difference in random programs: {difference}", flush=True)
    options.out.write_text(
        page(
            release,
            tally,
            results,
            seed=options.seed,
            steps=STEPS_IN_PROGRAM,
            idle_milliseconds=IDLE_MILLISECONDS,
            difference=difference,
        )
    )
    counts = tally.counts
    differing = [result.case for result in results if result.outcome is Outcome.DIFFERS]
    print(
        f"interop: {counts['programs without a difference']} of {counts['programs begun']} random programs and "
        f"{len(results) - len(differing)} of {len(results)} cases without a difference; {options.out}"
    )
    return EXIT_DIFFERENCE if differing or difference is not None else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interop: stopped; nothing was written")
        sys.exit(EXIT_INTERRUPTED)
