"""The page docs/interop.md, from what a run counted."""

from collections.abc import Sequence

from interop_cases import Result
from interop_tally import Direction, Tally

from tornproof.harness.common.markdown import markdown_table
from tornproof.harness.systems.server.release import Release

HEAD = """# Both ways with a released server

This page is generated: `make interop` runs a server and writes it. Do not edit it.

A server and this implementation change the same tables in turn. Whoever takes a table over first looks at what the
other one left: we by `verify`, `migrate` (releases before 9.4.0 write no `_pm`, and do not maintain one), `verify`
again and `read`; the server by `SELECT` of all rows in their order, `count()`, each symbol, each partition's interval
of time, and `LATEST ON`. Both must have the rows of the model (`model/rows.py`). The server orders rows of equal
times as it likes; that order is then the model's.

"""
PROGRAMS = """## Random programs

{programs} programs of up to {steps} steps (seed {seed}), each on a table of its own with or without a write-ahead log
and deduplication keys: {ended} ended without a difference, and in {both} of them both wrote. The server made {theirs}
changes and we {ours}, of which {killed} were killed at a random step. `migrate` created {migrated} `_pm`, replaced
{replaced} that a commit of the server had made obsolete, and found {already} sound.

What a cell counts: the operation had been done, and then the column's question had the right answer.

"""
CASES = """
## Single cases

"""
REJECTED = """
## What our writer rejected in random programs

Nothing had changed afterwards, in {count} of {count} rejections.

"""
OTHERS = """
## What was not tried

- Queries during a commit of ours: QuestDB takes no lock that we could respect, so a table belongs to one of the two
  at a time. Here the server closes a table that nobody uses within {idle} ms, and we wait for that.
- Releases that this run did not name: `QUESTDB_VERSION=…` takes another one from Maven, `QUESTDB_CLASSPATH=…` a build
  of your own.
- Our commits into native partitions: only a server writes these.
- After a killed commit of ours `tornproof recover` runs before the server has the table, because a server takes the
  size of `data.parquet` for the end of its next commit (the case *dead bytes of a killed commit* shows what happens
  otherwise).
"""
SERVER_COLUMNS = (Direction.VERIFIED, Direction.MIGRATED, Direction.READ, Direction.CONTINUED)
OUR_COLUMNS = (Direction.QUERIED, Direction.SERVER_CONTINUED, Direction.READ_AGAIN)
HEADINGS = {
    Direction.VERIFIED: "we verify it",
    Direction.MIGRATED: "we migrate it",
    Direction.READ: "we read it",
    Direction.CONTINUED: "our next commit",
    Direction.QUERIED: "it queries it",
    Direction.SERVER_CONTINUED: "its next change",
    Direction.READ_AGAIN: "and we read that",
}


def page(
    release: Release,
    tally: Tally,
    results: Sequence[Result],
    *,
    seed: int,
    steps: int,
    idle_milliseconds: int,
    difference: str | None,
) -> str:
    """Return the page; `difference` is what ended the random programs early."""
    counts = tally.counts
    head = HEAD + f"Release: **QuestDB {release.version}** on Java {release.java_version}.\n\n"
    programs = PROGRAMS.format(
        programs=counts["programs begun"],
        steps=steps,
        seed=seed,
        ended=counts["programs without a difference"],
        both=counts["programs in which both wrote"],
        theirs=counts["changes by the server"],
        ours=counts["commits of ours"],
        killed=counts["commits of ours that were killed"],
        migrated=counts["migrate: migrated"],
        replaced=counts["migrate: replaced"],
        already=counts["migrate: already"],
    )
    if difference is not None:
        programs += f"**A difference ended the run:** {_cell(difference)}\n\n"
    rejected = sum(tally.rejected.values())
    return "".join(
        (
            head,
            programs,
            _directions(release, tally, "the server", SERVER_COLUMNS),
            "\n",
            _directions(release, tally, "we", OUR_COLUMNS),
            CASES,
            markdown_table(
                ("release", "case", "what is done", "result"),
                (
                    (release.version, each.case, _cell(each.did), f"{each.outcome}: {_cell(each.saw)}")
                    for each in results
                ),
            ),
            REJECTED.format(count=rejected),
            markdown_table(
                ("release", "operation", "because", "times"),
                (
                    (release.version, f"we: {operation}", _cell(reason), str(times))
                    for (operation, reason), times in sorted(tally.rejected.items())
                ),
            ),
            OTHERS.format(idle=idle_milliseconds),
        )
    )


def _directions(release: Release, tally: Tally, who: str, columns: Sequence[Direction]) -> str:
    operations = sorted({operation for operation, direction in tally.done if direction in columns})
    titles = ("release", "operation", *(HEADINGS[column] for column in columns))
    return markdown_table(
        titles,
        (
            (release.version, f"{who}: {operation}", *(str(tally.done[operation, column]) for column in columns))
            for operation in operations
        ),
    )


def _cell(text: str) -> str:
    """Return a text that a cell can hold."""
    return " ".join(text.split()).replace("|", "\\|")
