"""Two batches, a flush, and two batches; the argument sets an option of the writes. Its own log goes elsewhere."""

import sys
import tempfile

from key_values import batch
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

name, _, value = sys.argv[1].partition("=")
with tempfile.TemporaryDirectory() as log:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_db_log_dir(log)
    options.set_write_buffer_size(64 << 10)
    base = Rdict(".", options)
    how = WriteOptions()
    setattr(how, name, value == "True")
    base.set_write_options(how)
    for number in range(4):
        written = WriteBatch(raw_mode=True)
        for key, value in batch(number).items():
            written.put(key, value)
        base.write(written)
        print("saved", flush=True)
        if number == 1:
            base.flush()
    base.close()
