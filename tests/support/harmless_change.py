"""A change of the implementation that changes nothing, planted as a fault is."""

from msgspec.structs import replace

from tornproof.harness.mutation.fault_file import FaultFile, file_named


def harmless(scenario: str) -> FaultFile:
    """Return a change of how a commit syncs that leaves it as it is."""
    before = "        self._file(DATA_FILE).fdatasync()\n"
    after = "        file = self._file(DATA_FILE)\n        file.fdatasync()\n"
    return replace(file_named("failed sync ignored"), name="harmless", before=before, after=after, scenario=scenario)
