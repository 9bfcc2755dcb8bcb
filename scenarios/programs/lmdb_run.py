"""Four transactions; arguments with a value are those of the environment."""

import sys

import lmdb
from key_values import batch

options = {name: value == "True" for name, _, value in (each.partition("=") for each in sys.argv[1:] if "=" in each)}
environment = lmdb.open(".", map_size=1 << 18, lock=False, **options)
for number in range(4):
    with environment.begin(write=True) as transaction:
        for key, value in batch(number).items():
            transaction.put(key, value)
    print("saved", flush=True)
environment.close()
