"""A target whose commits wait."""

from tornproof.harness.systems.toy import Toy
from tornproof.impl.storage.interface import Storage


class WaitsInVain(Toy):
    """Sound, as what it is mixed with: a commit waits for what never comes, for a time."""

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        for _ in range(3):
            storage.kind(f"{path}/nothing")
            storage.sleep_seconds(1)
        super().commit(storage, path, operation)
