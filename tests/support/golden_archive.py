"""The archive of golden files: what it holds and how to unpack it."""

import functools
import tarfile
from pathlib import Path, PurePosixPath

ARCHIVE = Path(__file__).parents[1] / "golden" / "questdb.tar.xz"


@functools.cache
def member_names() -> tuple[str, ...]:
    """Names of all files in the archive, sorted."""
    with tarfile.open(ARCHIVE) as archive:
        return tuple(archive.getnames())


def unpack(target: Path, *, inside: str = ".") -> None:
    """Write the archive's folder `inside` as the folder `target`, every file writable by its owner.

    Raises ValueError for an archive that holds anything but plain files below its root, or nothing in `inside`.
    """
    # Not tarfile's own filter="data": Python 3.11 has it only from 3.11.4 on.
    file_count = 0
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or name.is_absolute() or ".." in name.parts:
                raise ValueError(f"{ARCHIVE.name}: {member.name!r} is not a plain file below the root")
            if not name.is_relative_to(inside):
                continue
            path = target / name.relative_to(inside)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
            file_count += 1
    if file_count == 0:
        raise ValueError(f"{ARCHIVE.name}: no files in {inside!r}")
