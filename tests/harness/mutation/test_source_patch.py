"""Changes of one place: where they apply, what is planted in this process and in a copy, and that nothing stays."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tornproof.harness.mutation.planted_copy import planted_copy
from tornproof.harness.mutation.source_patch import PACKAGE, PatchError, SourcePatch
from tornproof.impl.pm import chain
from tornproof.impl.table import partition_names
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.write.commit import HARDENED, PartitionWrite

NAMES = "impl/table/partition_names.py"
FUNCTION = SourcePatch(NAMES, "if name_txn == -1", "if name_txn == -2")
CONSTANT = SourcePatch(NAMES, 'UNPARTITIONED_DIRECTORY = "default"', 'UNPARTITIONED_DIRECTORY = "other"')
METHOD = SourcePatch(
    "impl/write/commit.py",
    "if write.is_written:\n            return WRITTEN",
    "if write.is_written:\n            return ()",
)
REMEMBERED = SourcePatch("impl/types/questdb.py", "if tag == TAG.get(column_type)", "if tag != tag")
PROPERTY = SourcePatch("impl/pm/chain.py", "return sum(block.num_rows for block in self.blocks)", "return 0")
SIGNATURE = SourcePatch(
    NAMES, "name_txn: int, partition_by: PartitionBy, *,", "name_txn: int, partition_by: PartitionBy, *, more: int = 0,"
)


def named(name_txn: int = -1) -> tuple[str, ...]:
    return partition_names.directory_names(0, name_txn, PartitionBy.NONE, nanoseconds=False)


def uses(patch: SourcePatch) -> int:
    """Return how often the changed place is used by one call while it is planted."""
    reached: list[None] = []
    with patch.planted(lambda: reached.append(None)):
        named()
    return len(reached)


def test_a_changed_function_is_run_by_those_who_have_imported_it_and_is_as_before_afterwards() -> None:
    imported_before = partition_names.directory_names
    with FUNCTION.planted(lambda: None):
        assert imported_before(0, -1, PartitionBy.NONE, nanoseconds=False) == ("default.-1",)
    assert named() == ("default",)
    assert uses(FUNCTION) == 1 and FUNCTION.location == "tornproof.impl.table.partition_names:directory_names"


def test_a_changed_constant_is_the_changed_one_in_each_module_that_has_it() -> None:
    with CONSTANT.planted(lambda: None):
        assert named() == ("other",)
    assert named() == ("default",) and uses(CONSTANT) == 1


def test_the_names_of_a_module_are_in_their_order_afterwards() -> None:
    other = SourcePatch(NAMES, "EPOCH = datetime.datetime(1970, 1, 1)", "EPOCH = datetime.datetime(1970, 1, 2)")
    before = list(vars(partition_names))
    for patch in (CONSTANT, other):
        with patch.planted(lambda: None):
            pass
        assert list(vars(partition_names)) == before


def test_a_method_is_changed_in_its_class() -> None:
    assert METHOD.location == "tornproof.impl.write.commit:Protocol.actions"
    write = PartitionWrite(
        directory_path="",
        is_new=True,
        data_offset_bytes=0,
        data=b"",
        pm_offset_bytes=0,
        pm=b"",
        published_bytes=0,
        is_written=True,
    )
    with METHOD.planted(lambda: None):
        assert HARDENED.actions(write) == ()
    assert HARDENED.actions(write) != ()


def test_a_changed_signature_needs_a_copy() -> None:
    with pytest.raises(PatchError, match="more than functions and constants"), SIGNATURE.planted(lambda: None):
        pass
    with planted_copy(SIGNATURE) as copy:
        for _ in range(2):
            assert run(copy.environment, copy.python, "more=1") == "('default',)" and copy.mark.exists()


def test_a_removed_method_needs_a_copy() -> None:
    method = '''
    @property
    def row_count(self) -> int:
        """Rows of all row groups."""
        return sum(block.num_rows for block in self.blocks)
'''
    with (
        pytest.raises(PatchError, match="more than"),
        SourcePatch("impl/pm/chain.py", method, "").planted(lambda: None),
    ):
        pass


@pytest.mark.parametrize("before", ["not in the file", "timestamp"])
def test_a_text_that_does_not_occur_once_does_not_apply(before: str) -> None:
    patch = SourcePatch(NAMES, before, "anything")
    for use in (patch.text, patch.change, lambda: patch.marked_text("pass")):
        with pytest.raises(PatchError, match="must occur once"):
            use()
    with pytest.raises(PatchError), planted_copy(patch):
        pass


def test_a_change_of_nothing_does_not_apply() -> None:
    with pytest.raises(PatchError):
        SourcePatch(NAMES, FUNCTION.before, FUNCTION.before).text()


def test_an_exception_in_the_block_removes_the_change() -> None:
    with pytest.raises(RuntimeError), FUNCTION.planted(lambda: None):
        raise RuntimeError
    assert named() == ("default",)


def test_what_a_function_remembers_is_forgotten_when_it_is_changed_and_again_afterwards() -> None:
    assert tag_of(TypeTag.LONG) is TypeTag.LONG
    with REMEMBERED.planted(lambda: None):
        assert tag_of(TypeTag.LONG) is None
    assert tag_of(TypeTag.LONG) is TypeTag.LONG


def test_a_property_is_changed_below_its_decorator() -> None:
    assert PROPERTY.location.endswith(":Metadata.row_count")
    row_count: Any = vars(chain.Metadata)["row_count"].fget
    with PROPERTY.planted(lambda: None):
        assert row_count(None) == 0
    with pytest.raises(AttributeError):
        row_count(None)


def run(environment: dict[str, str], python: list[str], more: str = "") -> str:
    program = (
        "from tornproof.impl.table.partition_names import directory_names;"
        "from tornproof.impl.table.metadata_file import PartitionBy;"
        f"print(directory_names(0, -1, PartitionBy.NONE, nanoseconds=False, {more}))"
    )
    done = subprocess.run([*python, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_in_a_copy_has_the_change_and_its_mark_and_ours_has_not() -> None:
    with planted_copy(FUNCTION) as copy:
        assert not copy.mark.exists()
        assert run(copy.environment, copy.python) == "('default.-1',)"
        assert copy.mark.exists() and named() == ("default",)
        files = {each.name for each in (copy.folder / "tornproof" / "impl").iterdir()}
        assert files >= {each.name for each in PACKAGE.joinpath("impl").iterdir() if each.name != "__pycache__"}
    assert not copy.folder.exists()


def test_a_copy_has_the_namesakes_of_the_changed_file_too() -> None:
    patch = SourcePatch("harness/mutation/replay.py", 'FAULT = "fault"', 'FAULT = "other"')
    with planted_copy(patch) as copy:
        harness = copy.folder / PACKAGE.name / "harness"
        assert (harness / "replay.py").samefile(str(PACKAGE / "harness" / "replay.py"))
        assert not (harness / "mutation" / "replay.py").is_symlink()


def test_a_copy_without_a_change_is_the_package_itself() -> None:
    with planted_copy(None) as copy:
        assert run(copy.environment, copy.python) == "('default',)" and not copy.mark.exists()


def test_a_mark_is_only_made_when_the_changed_function_is_executed() -> None:
    with planted_copy(METHOD) as copy:
        assert run(copy.environment, copy.python) == "('default',)"
        assert not copy.mark.exists()


def test_the_mark_is_made_once_however_often_the_changed_function_is_called() -> None:
    marks: list[int] = []
    names: dict[str, Any] = {"__name__": "marked", "marks": marks}
    exec(compile(FUNCTION.marked_text("marks.append(1)"), NAMES, "exec", dont_inherit=True), names)
    for _ in range(3):
        assert names["directory_names"](0, -1, PartitionBy.NONE, nanoseconds=False) == ("default.-1",)
    assert marks == [1]


def test_fault_files_are_data_that_a_copy_has_too(tmp_path: Path) -> None:
    names = "[each.name for each in fault_files()]"
    program = f"import json; from tornproof.harness.mutation.fault_file import *; print(json.dumps({names}))"
    with planted_copy(FUNCTION) as copy:
        done = subprocess.run(
            [*copy.python, "-c", program],
            env=copy.environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
    assert "merge loses a row" in json.loads(done.stdout)
