"""Unpack a part of the bundled golden files: `python tests/support/unpack.py PATH_IN_ARCHIVE TARGET`."""

import sys
from pathlib import Path

from golden_archive import unpack


def main() -> None:
    """Write the folder named first on the command line as the folder named second."""
    if len(sys.argv) != 3:
        sys.exit("usage: python tests/support/unpack.py PATH_IN_ARCHIVE TARGET")
    try:
        unpack(Path(sys.argv[2]), inside=sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
