"""The release of RocksDB in the package, which it writes into each database."""

import re
import tempfile
from pathlib import Path

from rocksdict import Options, Rdict

with tempfile.TemporaryDirectory() as folder:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    Rdict(folder, options).close()
    written = "".join(path.read_text() for path in Path(folder).glob("OPTIONS-*"))
print(re.findall("rocksdb_version=(.*)", written)[0])
