"""What system calls make durable: names lead to what was synced, and a stored word does not make a file longer."""

from pathlib import Path

import pytest

from tornproof.harness.explorers.model_based.system_calls import intercepted
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage

SIZE_BYTES = 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "old").write_bytes(b"old")
    return tmp_path


@pytest.mark.parametrize(("syncs", "target", "early"), [(True, "old", []), (False, "old", ["old"]), (False, "new", [])])
def test_what_takes_the_place_of_another_file_must_be_synced(
    syncs: bool, target: str, early: list[str], root: Path
) -> None:
    storage = OperatingSystemStorage()
    with intercepted(root) as durable:
        with storage.open_for_writing(f"{root}/made", OpenMode.NEW) as file:
            file.pwrite(b"made", 0)
            if syncs:
                file.fdatasync()
        storage.rename(f"{root}/made", f"{root}/{target}")
    assert durable.named_early == early and (root / target).read_bytes() == b"made"


@pytest.mark.parametrize("syncs_size", [True, False])
def test_stores_into_a_longer_file_need_its_size(syncs_size: bool, root: Path) -> None:
    storage = OperatingSystemStorage()
    with intercepted(root) as durable:
        with storage.open_for_writing(f"{root}/old") as file:
            file.truncate(SIZE_BYTES)
            if syncs_size:
                file.fsync()
            with file.map(SIZE_BYTES) as mapping:
                mapping.store_u64(8, 42)
                mapping.msync()
        missing = durable.missing(root / "old", SIZE_BYTES)
        assert missing == (None if syncs_size else "byte 3 of old")
        assert durable.missing(root / "old", 3) is None
