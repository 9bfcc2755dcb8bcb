"""A writer beside which tables are read: `live_writer.py commit|mischief TABLE OLDER NEWER`, until standard input ends.

With `step` as a last argument it stops after each store until a line arrives, and says "stopped" there.

`commit` turns a table from one real commit to the next in QuestDB's order of stores, and back as a rollback would:
every instant is one of the two versions. `mischief` cuts, moves and replaces files as no writer of a table does.
"""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

PAUSE_SECONDS = 0.002
VERSION_BYTES = SIZE_BYTES = 8


def by_steps() -> bool:
    """Whether the reader says when to go on."""
    return sys.argv[-1] == "step"


def is_over(pause_seconds: float = PAUSE_SECONDS) -> bool:
    """Pause, or wait for a line where the writer goes by steps; say whether standard input has ended meanwhile."""
    if by_steps():
        print("stopped", flush=True)
        return not sys.stdin.readline()
    return bool(select.select([sys.stdin], [], [], pause_seconds)[0])


def write_at(path: Path, content: bytes, offset_bytes: int) -> None:
    """Overwrite a part of a file in place."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(file, content, offset_bytes)
    finally:
        os.close(file)


def commit(table: Path, older: Path, newer: Path) -> None:
    """Go from the older version to the newer one and back."""
    directory = next(path.name for path in newer.iterdir() if path.is_dir())
    data, pm = Path(directory) / "data.parquet", Path(directory) / "_pm"
    old_data, old_pm = ((older / name).stat().st_size for name in (data, pm))
    new_data, new_pm, new_txn = ((newer / name).read_bytes() for name in (data, pm, "_txn"))
    write_at(table / data, new_data[old_data:], old_data)
    is_over()
    write_at(table / pm, new_pm[old_pm:], old_pm)
    write_at(table / pm, new_pm[:SIZE_BYTES], 0)
    is_over()
    write_at(table / "_txn", new_txn[VERSION_BYTES:], VERSION_BYTES)
    write_at(table / "_txn", new_txn[:VERSION_BYTES], 0)
    is_over()
    write_at(table / "_txn", (older / "_txn").read_bytes()[:VERSION_BYTES], 0)


def mischief(table: Path, older: Path, newer: Path) -> None:
    """Do each harm once and undo it, with a pause after each."""
    directory = table / next(path.name for path in newer.iterdir() if path.is_dir())
    for path in (directory / "data.parquet", directory / "_pm", table / "_txn"):
        content = path.read_bytes()
        for size_bytes in (0, 7, len(content) // 2, len(content) - 1, len(content) + 100):
            os.truncate(path, size_bytes)
            is_over()
            path.write_bytes(content)
            is_over()
        for other in (b"", b"\xff" * len(content), content[::-1]):
            replace(path, other)
            is_over()
            replace(path, content)
            is_over()
    for path in (directory / "data.parquet", directory / "_pm", table / "_txn", directory, table):
        away = path.with_name(f"{path.name}.away")
        path.rename(away)
        is_over()
        away.rename(path)
        is_over()


def replace(path: Path, content: bytes) -> None:
    """Put a new file in the place of an old one in one step."""
    partial = path.with_name("partial")
    partial.write_bytes(content)
    partial.rename(path)


def main() -> None:
    """Write until standard input ends; a round that was begun is ended."""
    rounds: dict[str, Callable[[Path, Path, Path], None]] = {"commit": commit, "mischief": mischief}
    kind, table, older, newer = sys.argv[1:5]
    print("ready", flush=True)
    while not is_over():
        rounds[kind](Path(table), Path(older), Path(newer))


if __name__ == "__main__":
    main()
