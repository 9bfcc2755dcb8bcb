"""The power is cut again from every disk on which a process would have read something else."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from depth import nightly

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.power_cuts.alike import Alike, needs_of
from tornproof.harness.explorers.power_cuts.controls import toy_case, violated
from tornproof.harness.explorers.power_cuts.exploration import ModelExploration, Settings
from tornproof.harness.explorers.power_cuts.explorer import Power, covers
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.points import CUT_TWICE
from tornproof.harness.explorers.power_cuts.replay import replay_power
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_names import tree_of
from tornproof.harness.simulator.persistence.models import C_512, MODELS, N_512, D
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import ToyWriter
from tornproof.harness.systems.toy_losses import SECTOR_BYTES, AdoptsUnsynced, KeepsRedo, LeavesRecord, RecoversUnsynced
from tornproof.impl.storage.interface import OpenMode, Storage

NIGHT = range(64)


def test_disks_that_differ_in_what_was_read_under_the_second_name_of_a_file_are_not_alike() -> None:
    # Only one path of each file was known, so what was read by another one did not count.
    kernel = Kernel.of(DiskImage.of_files({"t/first": b"x"}))
    apply(kernel, 0, Call(CallKind.LINK, "t/first", target_path="t/second"))
    tree, _ = tree_of(kernel.directories)
    one, other = Disk(tree, (b"x",)), Disk(tree, (b"y",))
    assert one.files() == {"t/first": b"x", "t/second": b"x"}
    for path in one.files():
        alike = Alike(SECTOR_BYTES)
        alike.add(one, needs_of(one, [], [], [(path, 0, 1)]))
        assert alike.has(one) and not alike.has(other)


class Knobs(NamedTuple):
    """How a variant of the toy commits and recovers."""

    number_comes_first: bool
    syncs_between: bool
    clears_other: bool
    syncs_cleared: bool
    counts_openings: bool
    replaces_other: bool


class Variant(LeavesRecord):
    def __init__(self, knobs: Knobs) -> None:
        self.name = str(knobs)
        self._knobs = knobs

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if self._knobs.counts_openings:
            with storage.open_for_writing(f"{path}/openings", OpenMode.EXISTING_OR_NEW) as file:
                file.pwrite(b"!", 0)
        if self._knobs.clears_other:
            with storage.open_for_writing(f"{path}/state") as file:
                other = self.offset_of(self.current(file)[0] + 1)
                if any(file.pread(SECTOR_BYTES, other)):
                    file.pwrite(bytes(SECTOR_BYTES), other)
                    if self._knobs.syncs_cleared:
                        self.sync(file)
        yield ToyWriter(self, storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        with storage.open_for_writing(f"{path}/state") as file:
            number, letters = self.current(file)
            new = number + 1, letters + operation
            if self._knobs.replaces_other:
                # The rest of a sector stays what it was, and nobody has read it.
                file.pwrite(b"?", self.offset_of(number + 1) + SECTOR_BYTES)
            if self._knobs.number_comes_first:
                self.store_number(file, number + 1)
                if self._knobs.syncs_between:
                    self.sync(file)
                self.store_record(file, *new)
            else:
                self.store_record(file, *new)
                if self._knobs.syncs_between:
                    self.sync(file)
                self.store_number(file, number + 1)
            self.sync(file)


def variant(number: int) -> Variant:
    return Variant(Knobs(*(bool(number >> bit & 1) for bit in range(len(Knobs._fields)))))


def explored(toy: LeavesRecord | RecoversUnsynced | KeepsRedo) -> ModelExploration:
    case = toy_case(toy)
    judge = PowerJudge(case)
    try:
        return explore_model(judge, Traces(case), N_512, Settings())
    finally:
        judge.close()


def test_a_second_power_cut_shows_what_an_unread_record_of_the_first_one_leaves() -> None:
    """Of disks on which a recovery read the same, the power was cut again on one, though the next commit reads more."""
    found = {model.name: violated(model, LeavesRecord()) for model in MODELS if model is not D}

    assert found.pop(N_512.name) == {Property.WRONG_SNAPSHOT}
    assert set(found.values()) == {frozenset()}


@pytest.mark.parametrize("number", [*range(0, 64, 13), *map(nightly, NIGHT)])
def test_disks_that_are_alike_show_what_all_disks_show(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = explored(variant(number))
    monkeypatch.setattr(Alike, "has", lambda alike, disk: False)
    every = explored(variant(number))

    assert {found.verdict.violated for found in some.found.values()} == {
        found.verdict.violated for found in every.found.values()
    }
    assert some.tally.reached[CUT_TWICE] <= every.tally.reached[CUT_TWICE]


def test_where_names_are_moved_only_equal_disks_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    some = explored(RecoversUnsynced())
    monkeypatch.setattr(Alike, "has", lambda alike, disk: False)
    every = explored(RecoversUnsynced())

    assert some.tally.distinct == every.tally.distinct and some.found.keys() == every.found.keys()


def test_where_only_some_disks_are_cut_again_the_bound_says_so_and_models_of_one_cut_are_covered_all_the_same() -> None:
    """One disk of each kind that a recovery can tell was cut again, and the model was complete."""
    results = []
    for second_cuts_max in (None, 0):
        power = Power(toy_case(variant(24)))
        results.append(power.explore(N_512, Settings(second_cuts_max=second_cuts_max)))
        power.close()
    every, some = results

    assert every.is_complete and every.bound.startswith("N-512 complete: ")
    assert not some.is_complete and "N-512 complete for one cut: " in some.bound
    assert " that differ for it" in some.bound and some.distinct_count < every.distinct_count
    assert some.has_every_disk and covers(some, C_512) is (not some.findings)


def test_what_a_first_cut_left_and_nobody_was_told_of_may_be_lost_by_the_second_in_a_replay_too() -> None:
    case = toy_case(AdoptsUnsynced())
    power = Power(case)
    lost = power.explore(dataclasses.replace(C_512, everything_dies=False), Settings()).findings
    assert not power.explore(C_512, Settings()).findings
    power.close()
    twice = [finding for finding in lost if len(finding.evidence["cuts"]) > 1]
    assert twice and {replay_power(case, finding) for finding in twice} == {Verdict.VALID}
