"""`_txn` files as tests of transactions change and read them."""

from collections.abc import Iterable

from tornproof.impl.txn.transaction import TXN_FILE, Transaction, decode_transaction
from tornproof.impl.txn.write import WordStore


def decoded(content: bytes) -> Transaction:
    """Return the committed version of a file."""
    return decode_transaction(content, file=TXN_FILE)


def applied(content: bytes, stores: Iterable[WordStore]) -> bytes:
    """Return the file after these stores, each of an aligned word inside of it."""
    changed = bytearray(content)
    for store in stores:
        assert store.size_bytes in (4, 8) and store.offset_bytes % store.size_bytes == 0
        end_bytes = store.offset_bytes + store.size_bytes
        assert end_bytes <= len(changed)
        changed[store.offset_bytes : end_bytes] = store.value.to_bytes(store.size_bytes, "little")
    return bytes(changed)
