"""Everything can be read, and there are whole batches: as many as were acknowledged, or more."""

import sys
import tempfile
from pathlib import Path

from rocksdict import Options, Rdict

acknowledged = len(Path(sys.argv[2]).read_text().splitlines())
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
count = len(rows) // 2
if rows.keys() != {b"%s%d" % (part, number) for part in (b"a", b"b") for number in range(count)}:
    sys.exit("a part of a batch, or a batch after one that is lost")
if any(value != b"x" * 600 for value in rows.values()):
    sys.exit("a value that was never written")
if count < acknowledged:
    sys.exit("a batch is lost")
