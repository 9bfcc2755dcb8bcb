"""Files of planted faults: each is one change of one place that applies, and can be planted in this process."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from depth import drawn, nightly, sampled
from msgspec.structs import replace

from tornproof.harness.common.patch import original_of
from tornproof.harness.mutation.catalogue import ALL, fault_named
from tornproof.harness.mutation.fault_file import FaultFile, fault_files, file_named
from tornproof.harness.mutation.source_patch import PACKAGE, PatchError, SourcePatch
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.trial import PHASES
from tornproof.impl.write import commit

FAULTS_MIN, FAMILIES_MIN, REFERENCES_MIN = 150, 15, 20
PLANTED_BY_DAY, COMPILED_BY_DAY = 20, 60


def test_there_are_many_faults_in_many_families_each_with_a_name_of_its_own() -> None:
    assert len(ALL) >= FAULTS_MIN and len({fault.family for fault in ALL}) >= FAMILIES_MIN
    assert Counter(fault.name for fault in fault_files()).most_common(1)[0][1] == 1
    assert sum(bool(fault.reference) for fault in ALL) >= REFERENCES_MIN


def test_each_file_changes_one_place_of_the_implementation() -> None:
    for fault in ALL:
        assert fault.file.startswith("impl/") and fault.patch.text(), fault.name


@pytest.mark.parametrize("faults", [drawn(COMPILED_BY_DAY, ALL), nightly(ALL)], ids=["some", "all"])
def test_each_file_changes_it_into_something_that_compiles(faults: Sequence[FaultFile]) -> None:
    for fault in faults:
        change = fault.patch.change()
        compile(ast.unparse(change.tree), fault.file, "exec")
        assert change.is_of_more or len(change.functions) + len(change.constants) >= 1, fault.name


def test_each_file_says_who_finds_the_fault_in_words_that_mean_something() -> None:
    for fault in ALL:
        assert set(fault.phases) <= set(PHASES) and bool(fault.explorer) == bool(fault.scenario), fault.name
        assert fault.reference.startswith("https://") or not fault.reference, fault.name


@pytest.mark.parametrize("fault", sampled(PLANTED_BY_DAY, ALL), ids=lambda fault: fault.name)
def test_a_fault_is_planted_as_long_as_its_block_runs_or_needs_a_copy(fault: FaultFile) -> None:
    change, module = fault.patch.change(), fault.patch.module_name
    if change.is_of_more:
        with pytest.raises(PatchError, match="more than functions and constants"), fault.patch.planted(lambda: None):
            pass
        return

    def planted() -> list[object]:
        codes = [code(module, name) for name, _ in change.functions]
        return codes + [original_of(f"{module}:{name}") for name, _ in change.constants]

    before = planted()
    with fault.patch.planted(lambda: None):
        assert planted() != before
    assert planted() == before


def code(module: str, name: str) -> object:
    first, *rest = name.split(".")
    found = original_of(f"{module}:{first}")
    for each in rest:
        found = vars(found)[each]
    # What makes a context manager of a function has a code of its own.
    while inner := [getattr(found, each) for each in ("__wrapped__", "__func__", "fget") if hasattr(found, each)]:
        found = inner[0]
    return found.__code__


def test_another_order_is_that_of_all_who_take_it_by_default_and_may_be_planted_twice() -> None:
    patch = fault_named("data not synced (F1)").patch
    reached: list[int] = []
    with patch.planted(lambda: reached.append(1)):
        assert TableTarget().protocol == commit.HARDENED and commit.Action.SYNC_DATA not in commit.HARDENED.update
        with patch.planted(lambda: None), fault_named("failed sync ignored").patch.planted(lambda: reached.append(2)):
            assert commit.Action.SYNC_DATA not in TableTarget().protocol.update
        assert commit.Action.SYNC_DATA not in TableTarget().protocol.update
    assert commit.Action.SYNC_DATA in TableTarget().protocol.update and reached == [1]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("U32_BYTES = 4", "U32_BYTES = 8", "planted"),
        ("U32_BYTES = 4", "U32_BYTES = 4", "occurs 1 times"),
        ("is not there", "", "occurs 0 times"),
        ("import enum\n", "import enum\nimport os\n", "more than functions and constants"),
        ("def fence(self)", "def fence(self, _=1)", "more than functions and constants"),
    ],
)
def test_what_cannot_be_planted_in_this_process_is_rejected(before: str, after: str, expected: str) -> None:
    def outcome(plant: Callable[[], None]) -> str:
        try:
            plant()
        except PatchError as error:
            return str(error)
        return "planted"

    def plant() -> None:
        with SourcePatch("impl/write/commit.py", before, after).planted(lambda: None):
            pass

    assert expected in outcome(plant)
    assert commit.U32_BYTES == 4 and (PACKAGE / "impl/write/commit.py").is_file()


def test_a_changed_function_that_its_module_calls_at_import_leaves_its_mark() -> None:
    """It was NameError: what leaves the mark came last."""
    patch = SourcePatch(
        "impl/layout/record.py", 'struct.calcsize("<" + struct_code)', 'struct.calcsize("=" + struct_code)'
    )
    marks: list[int] = []
    exec(patch.marked_text("marks.append(1)"), {"__name__": "tornproof.impl.layout.changed", "marks": marks})
    assert marks == [1]


def test_a_file_whose_text_is_gone_does_not_pass_for_a_fault() -> None:
    gone = replace(file_named("merge loses a row"), before="nobody wrote this")
    with pytest.raises(PatchError, match="must occur once"):
        gone.patch.change()


def test_no_two_faults_are_the_same_change_for_the_same_explorer() -> None:
    changes = Counter((fault.file, fault.patch, fault.explorer) for fault in ALL)
    assert [key for key, count in changes.items() if count > 1] == []
