"""The `_txn` file: decoding, reading beside a writer, planning the next version, and pins of readers.

It imports the packages before it. Begin with `transaction.py`.
"""
