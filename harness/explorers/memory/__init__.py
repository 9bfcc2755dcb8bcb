"""A reader of `_txn` concurrent with a writer, under memory models. Begin with `explorer.py`."""
