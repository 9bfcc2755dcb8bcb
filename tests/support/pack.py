"""Pack a folder of golden files into the bundled archive: `python tests/support/pack.py SOURCE`.

The same files give the same bytes, whoever packs them and when: names sorted, no times, no owners, no modes.
"""

import lzma
import sys
import tarfile
from pathlib import Path

from golden_archive import ARCHIVE


def pack(source: Path, archive_path: Path) -> int:
    """Pack every file below `source`, named relative to it, and return how many there were."""
    paths = {path.relative_to(source).as_posix(): path for path in source.rglob("*") if not path.is_dir()}
    # USTAR has no room for access times or host names, and refuses a name that it cannot hold.
    with (
        lzma.open(archive_path, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, path in sorted(paths.items()):
            if path.is_symlink() or not path.is_file():
                raise ValueError(f"{name}: only plain files can be packed")
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            member.mode = 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)
    return len(paths)


def main() -> None:
    """Pack the folder named on the command line over the bundled archive."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python tests/support/pack.py SOURCE_FOLDER")
    file_count = pack(Path(sys.argv[1]), ARCHIVE)
    print(f"{ARCHIVE.name}: {file_count} files, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
