"""The `_txn` file: both areas, a version that is read beside a writer, its publication, and pins of readers.

It imports the rooms before it. Begin with `transaction.py`.
"""
