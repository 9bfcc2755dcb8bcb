"""A mapped reader of `_txn` beside the stores of a writer, under memory models. Begin with `explorer.py`."""
