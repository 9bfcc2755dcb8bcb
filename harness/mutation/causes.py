"""Whether the inferred cause of a planted fault names the place where it is planted: the file, and the action.

Which words a place stands for follows from the module and the function alone, and is said in `PLACES`, never by fault.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, calls_at_most
from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.explorers.model_based.explorer import Part, Stateful, parts
from tornproof.harness.explorers.model_based.fixed_programs import FIXED_PROGRAMS
from tornproof.harness.explorers.model_based.start import StorageKind, scratch_directory
from tornproof.harness.explorers.schedules.writers import Group, explore_writers
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.explorer import Explorer as Detector
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Explorer, load_scenario
from tornproof.harness.systems.simulation import HARDENED, setting_of, two_writers_of_table
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.errors import TornproofError

TIME_CHECKS_MAX = 2_000
RANDOM_RULES = 1_800
SCHEDULES_MAX = 100
EXAMPLES = (
    "data not synced (F1)",
    "filter of the first row group",
    "data after the version",
    "pins not asked for",
    "prev is always 0",
    "up to a time is before it",
    "version before stored again",
    "the rest is written at the same place",
    "token without the tail",
    "token forgotten",
    "a slice of decimals is its beginning",
    "merge loses a row",
)
"""Faults of as many families, which docs/causes.md shows."""
SIMULATED: dict[Detector, tuple[Explorer, tuple[str, ...]]] = {
    Detector.SCHEDULES: (Explorer.SCHEDULES, ()),
    Detector.CRASH: (Explorer.POWER, ("A",)),
    Detector.POWER_B: (Explorer.POWER, ("B",)),
    Detector.POWER_C_4096: (Explorer.POWER, ("C-4096",)),
    Detector.POWER_C_512: (Explorer.POWER, ("C-512",)),
    Detector.POWER_CDIR: (Explorer.POWER, ("Cdir",)),
    Detector.FAILED_SYNC: (Explorer.POWER, ("D",)),
    Detector.PRODUCT_A: (Explorer.PRODUCT, ("A",)),
}
"""The phase of `check` that explores as a detector does, and under which model."""


class Place(NamedTuple):
    """What a place of the implementation has to do with: files of the table, and actions; one word of each is enough.

    `at` is the beginning of "module:function".
    """

    at: str
    files: tuple[str, ...]
    actions: tuple[str, ...]


DATA, PM, TXN = ("data.parquet",), ("_pm",), ("_txn",)
ANY_FILE = (*DATA, *PM, *TXN, "directory")
COMMIT, READ, SYNC = ("commit", "append", "store", "write"), ("read", "refused", "reader"), ("sync",)
RECOVERY = ("recovery", "recover", "next session", "killed one")
CONDITION = ("condition", "range of times")
PLACES = (
    Place("query.", CONDITION, READ),
    Place("read.row_selection:", CONDITION, READ),
    Place("read.reader:Snapshot.predicate_of", CONDITION, READ),
    Place("read.", (*PM, *DATA, "all rows"), READ),
    Place("txn.reader:", (*TXN, "stays open"), ("reload", *READ)),
    Place("txn.pins:take_writer_lock", ("lock",), ("writer",)),
    Place("txn.pins:", ("pin",), ("pin", "purge")),
    Place("txn.transaction:", TXN, READ),
    Place("txn.write:", TXN, COMMIT),
    Place("pm.encode:FooterFacts", PM, RECOVERY),
    Place("pm.encode:", PM, COMMIT),
    Place("pm.footer:encode", PM, COMMIT),
    Place("pm.block:encode", PM, COMMIT),
    Place("pm.statistics:", (*CONDITION, *PM), READ),
    Place("pm.", (*PM, "token"), READ),
    Place("verify.", (*PM, *DATA, ".k", ".v", "symbol"), READ),
    Place("table.partition:_check_data", DATA, READ),
    Place("table.partition_names:", ("directory", *TXN), ("commit", "read", "lies in")),
    Place("table.", (*PM, "token"), READ),
    Place("parquet.bloom:", (*CONDITION, "bloom"), READ),
    Place("parquet.", DATA, READ),
    Place("extension.", DATA, (*READ, *COMMIT)),
    Place("types.", DATA, (*READ, *COMMIT)),
    Place("errors:", ANY_FILE, READ),
    Place("chunk.row_group_encoder:", DATA, COMMIT),
    Place("chunk.", DATA, READ),
    Place("write.recovery:_store_version_again", TXN, RECOVERY),
    Place("write.recovery:_remove_uncommitted", ("directory", "directories"), RECOVERY),
    Place("write.recovery:_republish", PM, (*RECOVERY, "cut ", "write ", "publish ")),
    Place("write.recovery:_restate", PM, RECOVERY),
    Place("write.recovery:remove_directory", ("directory", "directories"), ("purge", "remove")),
    Place("write.recovery:", ANY_FILE, RECOVERY),
    Place("write.purge:", ("directory", "directories", "pin"), ("purge",)),
    Place("write.table_writer:open_writer", (*PM, "lock"), (*RECOVERY, "opens", "writer")),
    Place("write.table_writer:", TXN, COMMIT),
    Place("write.adoption:", ANY_FILE, ("preparation",)),
    Place("write.new_symbols:", (".k", ".v", ".c", ".o", "symbol"), COMMIT),
    Place("write.partition_change:", (*DATA, *PM), COMMIT),
    Place("write.partition_writer:", (*DATA, *PM), COMMIT),
    Place("write.commit:encoded_end", TXN, COMMIT),
    Place("write.commit:publish", PM, COMMIT),
    Place("write.commit:_PartitionRun", DATA, (*COMMIT, *SYNC)),
    Place("write.commit:_PARTITION_ACTIONS", (*DATA, *PM), SYNC),
    Place("write.commit:_Publication", TXN, SYNC),
    Place("write.commit:_DictionaryRun", (".k", ".v", ".c", ".o", "symbol"), SYNC),
    Place("write.commit:execute", (*PM, *DATA, "directory"), COMMIT),
    Place("write.", DATA, COMMIT),
    Place("migrate.", (*PM, *TXN, *DATA), ("migration",)),
    Place("repair.", (*PM, *DATA), ("recovery of the whole table",)),
    Place("storage.operating_system_file:OpenFile.fdatasync", ANY_FILE, SYNC),
    Place("storage.operating_system:OperatingSystemStorage.sync_directory", ("directory",), SYNC),
    Place("storage.operating_system_file:_MappedFile.msync", TXN, SYNC),
    Place("storage.operating_system_file:OpenFile._set_lock", ("lock",), ("lock",)),
    Place("storage.operating_system_file:OpenFile.pread", ANY_FILE, READ),
    Place("storage.", ANY_FILE, COMMIT),
)
"""The first one that fits counts."""
STEPS = {
    "SYNC_DATA": Place("", DATA, SYNC),
    "SYNC_PM": Place("", PM, SYNC),
    "SYNC_HEADER": Place("", PM, SYNC),
    "SYNC_DIRECTORY": Place("", ("directory",), SYNC),
    "SYNC_TABLE_DIRECTORY": Place("", ("directory",), SYNC),
    "SYNC_RECORD": Place("", TXN, SYNC),
    "SYNC_VERSION": Place("", TXN, SYNC),
    "PATCH_HEADER": Place("", PM, ("publish", "store")),
    "APPEND_PM": Place("", PM, ("append", "write")),
    "APPEND_DATA": Place("", DATA, ("append", "write")),
    "STORE_VERSION": Place("", TXN, ("store",)),
    "STORE_RECORD": Place("", TXN, ("store",)),
}
"""For a fault in the order of a commit: what the first step does that is left out or comes elsewhere."""
_STEP = re.compile(r"Action\.(\w+)")


def place_of(fault: FaultFile) -> Place | None:
    """Return what the place of a fault has to do with, None for one that is in no table."""
    location = fault.patch.location.removeprefix("tornproof.impl.")
    if location.endswith(":HARDENED"):
        before, after = _STEP.findall(fault.before), _STEP.findall(fault.after)
        moved = next(step for step, other in zip(before, [*after, ""], strict=False) if step != other)
        return STEPS.get(moved)
    return next((place for place in PLACES if location.startswith(place.at)), None)


def names_place(finding: Finding, place: Place) -> bool:
    """Say whether the causes that the first screen shows name a file and an action of a place."""
    text = " ".join(causes_of(finding.evidence)).lower()
    return all(any(word in text for word in words) for words in (place.files, place.actions))


def find(fault: FaultFile) -> Finding | None:
    """Plant a fault and return the first finding with a cause, of its scenario or of the programs of the state machine.

    Schedules come before the fixed programs, power cuts, which take longer, after them, and random programs last.
    """
    phases = [SIMULATED[each] for each in (fault.explorer, *fault.also) if each in SIMULATED]
    first = [each for each in phases if each[0] is Explorer.SCHEDULES]
    searches: list[Callable[[], Finding | None]] = [
        *(partial(_simulated, fault.scenario, *each) for each in first),
        *([found_by_writers] if Explorer.SCHEDULES in fault.phases else []),
        partial(found_by_programs, [None, *FIXED_PROGRAMS]),
        *(partial(_simulated, fault.scenario, *each) for each in phases if each not in first),
        partial(found_by_programs, [], random=parts(RANDOM_RULES, seed=0)),
    ]
    with Mutant(fault).planted(), bounded_computation():
        found = (search() for search in searches)
        return next((each for each in found if each is not None and causes_of(each.evidence)), None)


def found_by_writers() -> Finding | None:
    """Return the first finding with a cause of two writers on a small table."""
    for setting in two_writers_of_table(made_image(), MADE_PATH, PRESETS[HARDENED]):
        group = Group(case=setting.case, writer_count=setting.writers)
        for finding in explore_writers(group, schedules_max=SCHEDULES_MAX, ends=True, controls=()).findings:
            if causes_of(finding.evidence):
                return finding
    return None


def found_by_programs(
    tables: Iterable[str | None], kind: StorageKind = StorageKind.FILES, random: Sequence[Part] = ()
) -> Finding | None:
    """Return the finding of the first program that fails: of the fixed ones for some tables, and of random ones."""
    stateful = Stateful(None, "/table", kind)
    with scratch_directory(kind, None) as scratch, remembered_decoding():
        fixed = (stateful.run_fixed(table, scratch, stops_at_first=True) for table in tables)
        results = itertools.chain(fixed, (stateful.explore(part, scratch) for part in random))
        failed = next((each.failed for each in results if each.failed is not None), None)
        return None if failed is None else stateful.finding(failed, scratch)


def _simulated(scenario: str, explorer: Explorer, models: tuple[str, ...]) -> Finding | None:
    try:
        setting = setting_of(load_scenario(scenario), PRESETS[HARDENED])
        case = baseline_of(scenario).case(TableTarget(), setting.case.rules)
        setting = replace(setting, case=case, explorers=frozenset({explorer}), models=models)
        phase = simulate(explorer, [setting], has_time=calls_at_most(TIME_CHECKS_MAX))
    except (NotExplorableError, TornproofError):
        # The fault shows without any schedule, or while the start is made: so do programs.
        return None
    # A step against a rule is no wrong answer.
    answers = (each for each in phase.findings if each.property not in (Property.BARRIERS, Property.IMMUTABLE))
    return next((each for each in answers if causes_of(each.evidence)), None)
