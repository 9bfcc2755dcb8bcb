"""Questions on `_pm` and `_txn`: fields, checksums, generations and versions.

It imports what the room above it does. Begin with `bit_fields.py`.
"""
