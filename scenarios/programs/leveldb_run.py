"""Two batches, and after the database was opened again two more; the argument says whether writes are synced."""

import sys

import plyvel
from key_values import batch

is_synced = sys.argv[1] == "sync=True"
for first in (0, 2):
    with plyvel.DB(".", create_if_missing=True) as base:
        for number in (first, first + 1):
            with base.write_batch(sync=is_synced) as written:
                for key, value in batch(number).items():
                    written.put(key, value)
            print("saved", flush=True)
