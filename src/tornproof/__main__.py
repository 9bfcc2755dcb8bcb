"""`python -m tornproof`, and the file that `spark-submit` is given."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.path and Path(sys.path[0]).resolve() == Path(__file__).parent.resolve():
    # A file that is run by its path has its folder there, and in it names that are not for everybody, as `testing`.
    del sys.path[0]

from tornproof.cli.entry import main

main()
