"""Damage of files that no checksum covers: other rows or a report, but never an error that nobody expects."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from depth import sampled

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.beside import DAMAGES_MAX, FILES_MAX, beside_damages, beside_files
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.judge import CONTENT, FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Kind, damage_of, evidence_of
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.storage.operating_system import OperatingSystemStorage

INDEXED = "indexed/2026-07/indexed_wal/table"
TABLES = (INDEXED, *(f"tables/9.4.2/{name}/table" for name in ("chain", "oddcols")), "crashes/9.4.3/sync-4-15/table")


def judge_of(path: Path) -> Judge:
    return Judge(capture_table(OperatingSystemStorage(), str(path)), str(path))


def damages_of(judge: Judge) -> list[Any]:
    return [each for file in judge.files(Kind.BESIDE) for each in listed(judge, Kind.BESIDE, file)]


@pytest.mark.parametrize("name", sampled(1, TABLES, seed=1))
def test_damage_of_other_files_of_a_real_table_is_no_finding(name: str, questdb_data: Path) -> None:
    judge = judge_of(questdb_data / name)
    damages = damages_of(judge)
    found = Counter(judge.judge(damage)[0] for damage in damages)
    assert not set(FOUND) & set(found), judge.reason
    assert found[Outcome.REJECTED] > 20 and found.total() <= DAMAGES_MAX
    assert {judge.field_of(damage) for damage in damages} == {CONTENT}


def test_files_of_each_kind_are_damaged() -> None:
    names = [
        "_meta",
        "_cv",
        "_txn",
        "p0/_pm",
        "p0/data.parquet",
        "s.k",
        "s.k.12",
        *(f"p{n}/s.{kind}" for n in range(30) for kind in "kv"),
    ]
    image = DiskImage.of_files({f"t/{name}": b"x" for name in names} | {"t/empty": b""})
    chosen = beside_files(image, "t")
    assert len(chosen) == FILES_MAX and chosen.keys() >= {"_meta", "_cv", "s.k", "p0/s.k", "p0/s.v"}
    assert not chosen.keys() & {"_txn", "empty", "p0/_pm", "p0/data.parquet"}


def test_each_damage_of_a_file_changes_it() -> None:
    content = bytes(range(9)) + bytes(100)
    damages = list(beside_damages("f", content, 1))
    assert all(damage.apply(content) != content for damage in damages) and len(set(map(str, damages))) == len(damages)
    assert {type(each.damage).__name__ for each in damages} == {"Overwrite", "Flip", "Cut"}


def counted_short(count: Any) -> Any:
    """Return NumPy whose arrays of zeros are too short."""

    class Short:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @staticmethod
        def zeros(size: int, *arguments: Any) -> Any:
            return np.zeros(size - count, *arguments)

    return Short()


def test_an_index_that_is_counted_short_is_found_and_replays(questdb_data: Path) -> None:
    path = questdb_data / INDEXED
    judge = judge_of(path)
    damages = [each for each in damages_of(judge) if each.file.endswith("/s.k") and "one less" in str(each)]
    location = "tornproof.impl.verify.indexes:np"
    assert not any(judge.judge(damage)[0] in FOUND for damage in damages)
    with replaced(location, counted_short(1)):
        damage = next(each for each in damages if judge.judge(each)[0] in FOUND)
        assert judge.reason.startswith("ValueError: ")
    evidence = json.loads(json.dumps(evidence_of(damage, CONTENT)))
    assert damage_of(evidence) == damage
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, judge.image, str(path)) is Verdict.VALID
