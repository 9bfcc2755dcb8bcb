"""The controls of the damage explorer pass on sound tables, and fail when the check that they need is removed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.corruption.blocks import BLOCK_BYTES, WORD_BYTES, Contents, zeroed
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.controls import (
    KINDS,
    blind_to_contradictions,
    failed_controls,
    failed_controls_of_injectors,
    failed_controls_of_kinds,
)
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Cut, Kind, Overwrite
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types.questdb import TypeTag

TABLE = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, None]))})
SIZES = {name: len(content) for name, content in TABLE.files.items()}


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_of_a_kind_fails_when_no_reader_is_blind(kind: Kind, made: Judge) -> None:
    assert failed_controls_of_kinds(made) == []
    with replaced("tornproof.harness.explorers.corruption.controls:blind_to_contradictions", nullcontext):
        failures = failed_controls_of_kinds(made)
    assert [kind.value in failure for failure in failures].count(True) == 1


@pytest.mark.parametrize("left_out", [WORD_BYTES, *BLOCK_BYTES])
def test_a_size_of_which_no_block_is_zeroed_is_named_alone(left_out: int) -> None:
    assert failed_controls_of_injectors() == []

    def some_zeroed(contents: Contents, file: str, sizes: Sequence[int], blocks_max: int) -> Iterator[Overwrite]:
        return zeroed(contents, file, [size for size in sizes if size != left_out], blocks_max)

    with replaced("tornproof.harness.explorers.corruption.controls:zeroed", some_zeroed):
        assert failed_controls_of_injectors() == [f"not every block of {left_out} bytes is zeroed"]


def test_blindness_ends(made: Judge) -> None:
    (file, *_) = (file for file in made.regions if file.endswith("_pm"))
    damages = [each for each in listed(made, Kind.FIELD, file) if made.field_of(each) == "column ID"]
    with blind_to_contradictions():
        assert Outcome.SILENT in {made.judge(damage)[0] for damage in damages if "one more" in str(damage)}
    assert {made.judge(damage)[0] for damage in damages} == {Outcome.REJECTED}


def test_controls_pass_on_a_real_table(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/chain/table")
    assert failed_controls(Judge(capture_table(OperatingSystemStorage(), path), path)) == []


def nothing(*_: object, **__: object) -> None: ...


def no_problems(*_: object, **__: object) -> Iterator[Any]:
    return iter(())


@pytest.mark.parametrize(
    ("location", "substitute", "failure"),
    [
        ("tornproof.impl.pm.chain:check_checksum", nothing, "was not rejected, although it is the checksum"),
        (
            "tornproof.impl.table.partition:_check_data",
            no_problems,
            "was not rejected, although it is shorter than the token",
        ),
        (
            "tornproof.harness.explorers.corruption.controls:blind_to_metadata",
            nullcontext,
            "no damage of a column descriptor was silent",
        ),
        (
            "tornproof.harness.explorers.corruption.controls:_is_noticed",
            lambda judge, flip: False,
            "no flipped bit of any page made a difference",
        ),
    ],
    ids=["checksum", "size", "blindness", "pages"],
)
def test_a_control_fails_when_the_check_that_it_needs_is_removed(
    location: str, substitute: Callable[..., Any], failure: str
) -> None:
    judge = Judge(TABLE.image(), "/table")
    assert failed_controls(judge) == []
    with (
        replaced(location, substitute),
        replaced("tornproof.impl.verify.verify:check_thrift_footer", lambda resolved: (None, [])),
    ):
        failures = failed_controls(judge)
    assert [failure in each for each in failures].count(True) == 1


def test_the_control_of_size_cuts_one_byte_before_the_token() -> None:
    judge = Judge(TABLE.image(), "/table")
    token = SIZES[tb.DATA]
    assert judge.judge(Cut(tb.DATA, token - 1))[0] is Outcome.REJECTED
