"""What a metadata file and a `_txn` say, worked out a second time, and each rule of them broken.

It imports `impl` and what explorers have in common. Begin with `metadata_draft.py`, which lays out a file byte by byte.
"""
