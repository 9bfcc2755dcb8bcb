"""Everything can be read, and there are whole batches: as many as were acknowledged, or more."""

import sys
import tempfile
from pathlib import Path

from key_values import check
from rocksdict import Options, Rdict

with tempfile.TemporaryDirectory() as log:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_db_log_dir(log)
    try:
        base = Rdict(sys.argv[1], options)
        rows = dict(base.items())
        base.close()
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}".replace(sys.argv[1], "."))
check(rows, Path(sys.argv[2]))
