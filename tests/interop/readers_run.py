"""Who reads files with extensions, into docs/extension-readers.md: `make readers`.

`--other PYTHON` is that of an environment with the readers which do not fit beside the others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import readers_child
from quick_java import OPTIONS, VARIABLE
from readers_files import FILTER_COLUMN, FILTER_FROM, HEADERS, ROW_COUNT, FormFile, form_files

from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.layout.parquet import FooterForm

CHILD = Path(readers_child.__file__)
PAGE = Path(__file__).parents[2] / "docs" / "extension-readers.md"
HERE, ELSEWHERE = ("pyarrow", "DuckDB", "Polars", "Spark"), ("fastparquet", "parquet-rs")
READS, WRONG, CRASHES, REFUSES = "reads", "**wrong**", "**crashes**", "refuses"
INTRODUCTION = """\
# Who reads files with extensions

This page is generated: `make readers` writes it. Do not edit it.

A file of {rows:,} rows in three row groups, in every form of [extensions.md](extensions.md), read by libraries that
know nothing of them. *{reads}*: all rows, to the bit, and the right count behind a filter. *{refuses}*: an error and
no rows. *{wrong}*: rows that are not those of the file. *{crashes}*: the process ends by a signal. The header is how
the id of the footer's extension is encoded, and its bytes are those of the extension.

{versions}. parquet-rs is the one in the wheel of datafusion.

"""


EXPLAINED = {
    (FooterForm.FINAL, ChunkForm.OLD),
    (FooterForm.THRIFT, ChunkForm.ALP),
    (FooterForm.THRIFT, ChunkForm.ALP_ALONE),
}
"""One form for each reason."""


class Outcome(NamedTuple):
    """What a reader did with a file, and what it said if it refused."""

    verdict: str
    message: str = ""


def outcomes(python: str, reader: str, paths: Sequence[str], expected: list[Any]) -> list[Outcome]:
    """Return what a reader does with each file; after a crash another process goes on with the next one."""
    found: list[Outcome] = []
    while len(found) < len(paths):
        command = [python, str(CHILD), reader, FILTER_COLUMN, str(FILTER_FROM), *paths[len(found) :]]
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, VARIABLE: OPTIONS}
        )
        found += [outcome(json.loads(line), expected) for line in run.stdout.splitlines() if line.startswith("{")]
        if run.returncode < 0 and len(found) < len(paths):
            found.append(Outcome(CRASHES, f"signal {-run.returncode}"))
        elif len(found) < len(paths):
            raise SystemExit(f"readers: {reader}: {run.stderr[-500:]}")
    return found


def outcome(answer: dict[str, Any], expected: list[Any]) -> Outcome:
    """Return what an answer means."""
    if "error" in answer:
        return Outcome(REFUSES, answer["error"])
    is_right = answer["rows"] == expected and answer["filtered"] == ROW_COUNT - FILTER_FROM
    return Outcome(READS if is_right else WRONG, f"{len(answer['rows'])} rows, {answer['filtered']} filtered")


def version_of(python: str, reader: str) -> str:
    """Return a reader's name and version."""
    module = readers_child.MODULES[reader]
    code = f"import importlib.metadata; print(importlib.metadata.version({module!r}))"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return f"{module} {run.stdout.strip()}"


def row(file: FormFile, cells: Sequence[Outcome]) -> str:
    """Return a row of the table."""
    header = HEADERS[file.header] if file.extension_bytes else ""
    size = f"{file.extension_bytes:,}" if file.extension_bytes else ""
    parts = (f"`{file.footer}`", f"`{file.chunks}`", header, size, *(each.verdict for each in cells))
    return f"| {' | '.join(parts)} |"


def page(files: Sequence[FormFile], table: dict[str, list[Outcome]], versions: Sequence[str]) -> str:
    """Return the page."""
    introduction = INTRODUCTION.format(
        rows=ROW_COUNT, reads=READS, refuses=REFUSES, wrong="wrong", crashes="crashes", versions=", ".join(versions)
    )
    lines = [
        f"| footer | chunks | header | bytes of it | {' | '.join(table)} |",
        f"| --- | --- | --- | ---: |{' --- |' * len(table)}",
    ]
    lines += [row(file, [found[index] for found in table.values()]) for index, file in enumerate(files)]
    said = {
        f"| {reader} | `{file.footer}` | `{file.chunks}` | {each.message.replace('|', ' ')} |"
        for reader, found in table.items()
        for file, each in zip(files, found, strict=True)
        if each.verdict != READS and (file.footer, file.chunks) in EXPLAINED
    }
    lines += ["", "What they said where they did not read:", "", "| reader | footer | chunks | said |"]
    lines += ["| --- | --- | --- | --- |", *sorted(said)]
    return introduction + "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", metavar="PYTHON", help="of an environment with fastparquet and datafusion")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    pythons = dict.fromkeys(HERE, sys.executable)
    if options.other:
        pythons |= dict.fromkeys(ELSEWHERE, options.other)
    files = list(form_files())
    with tempfile.TemporaryDirectory(prefix="readers-") as folder:
        names = [f"{number}.parquet" for number in range(len(files))]
        for name, file in zip(names, files, strict=True):
            Path(folder, name).write_bytes(file.content)
        paths = [str(Path(folder, name)) for name in names]
        rows, _ = readers_child.read_with_pyarrow(paths[0], FILTER_COLUMN, FILTER_FROM)
        table: dict[str, list[Outcome]] = {}
        for reader, python in pythons.items():
            found = table[reader] = outcomes(python, reader, paths, rows)
            count = [each.verdict for each in found].count(READS)
            print(f"readers: {reader}: {count} of {len(found)} files", flush=True)
    versions = [version_of(python, reader) for reader, python in pythons.items()]
    options.out.write_text(page(files, table, versions))


if __name__ == "__main__":
    main()
