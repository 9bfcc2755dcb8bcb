"""A short run over every decoder, the same every time: mutations of real files end in a value or a TornproofError."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import fuzz_repair
import fuzz_watch
import pytest
from depth import nightly
from fuzz_child import subject
from fuzz_corpus import SEEDS, seeds_of
from fuzz_inputs import Edit, chunk_input, chunk_of, edits_of, joined, parts_of
from fuzz_mutation import Mutator
from fuzz_planted import PLANTED
from fuzz_run import SHARES
from fuzz_tables import TABLES, damaged, files_of, table
from fuzz_targets import TARGETS

from tornproof.impl.errors import CorruptError, TornproofError
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.pm.chain import check_checksum, walk

SIZE_MAX_BYTES = 20 << 10


@pytest.fixture(autouse=True)
def slow_inputs_are_errors() -> Iterator[None]:
    before = signal.getsignal(signal.SIGPROF)
    fuzz_watch.raise_when_slow()
    yield
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("input_count", [4, nightly(40)])
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_real_files_are_decoded_or_rejected(name: str, input_count: int) -> None:
    bugs: list[fuzz_watch.Bug] = []
    watch = fuzz_watch.Watch(TARGETS[name], bugs.append)
    mutator = Mutator(seeds_of(name), seed=1, size_max_bytes=SIZE_MAX_BYTES)
    _, _, repair = subject(name)
    for number in range(input_count):
        content = mutator.mutated()
        watch(repair(content) if number % 2 else content)
    assert watch.input_count == input_count
    assert [(bug.name, bug.report, bug.content.hex()) for bug in bugs] == []


@pytest.mark.parametrize("name", TARGETS)
def test_fuzzing_starts_from_inputs_that_are_taken(name: str) -> None:
    for seed in seeds_of(name):
        with suppress(TornproofError):
            return TARGETS[name](seed)
    pytest.fail("every seed is rejected")


def test_every_target_has_seeds_and_only_targets_have_them() -> None:
    assert SEEDS.keys() == TARGETS.keys() == SHARES.keys()
    assert fuzz_repair.REPAIRS.keys() <= TARGETS.keys()


@pytest.mark.parametrize(
    ("name", "content", "kind"), [("planted_index_error", b"I", "IndexError"), ("planted_hang", b"H", "hang")]
)
def test_planted_bug_is_reported_with_its_location(name: str, content: bytes, kind: str) -> None:
    bugs: list[fuzz_watch.Bug] = []
    watch = fuzz_watch.Watch(PLANTED[name], bugs.append)
    watch(b"harmless")
    assert bugs == []
    watch(content)
    assert [(bug.kind, bug.location.partition("_1")[0], bug.content) for bug in bugs] == [
        (kind, "fuzz_planted", content)
    ]


def test_rejection_is_no_bug() -> None:
    def reject(content: bytes) -> None:
        raise CorruptError(file="f", field="x", offset_bytes=0, expected="a", actual="b")

    bugs: list[fuzz_watch.Bug] = []
    fuzz_watch.Watch(reject, bugs.append)(b"")
    assert bugs == []


def test_equal_seeds_make_equal_inputs_and_others_other_ones() -> None:
    def made(seed: int) -> list[bytes]:
        mutator = Mutator([bytes(100), b"abc"], seed=seed, size_max_bytes=50)
        return [mutator.mutated() for _ in range(100)]

    assert made(1) == made(1) != made(2)
    assert len(set(made(1))) > 50
    assert max(map(len, made(1))) == 50


def test_parts_come_back_and_any_bytes_have_parts() -> None:
    assert parts_of(joined(b"a", b"", b"bc"), 3) == [b"a", b"", b"bc"]
    assert parts_of(b"\xff\xff\xff\xffabc", 3) == [b"abc", b"", b""]
    assert parts_of(b"", 2) == [b"", b""]


def test_chunks_come_back_from_their_inputs() -> None:
    for seed in seeds_of("chunk"):
        assert chunk_input(*chunk_of(seed)) == seed


def test_repaired_pm_has_the_checksums_that_a_mutation_broke() -> None:
    sound = max(seeds_of("pm"), key=lambda seed: len(list(walk(seed, file="_pm"))))
    broken = bytearray(sound)
    broken[12] ^= 1
    positions = list(walk(sound, file="_pm"))
    assert len(positions) > 1
    for position in positions:
        with pytest.raises(CorruptError):
            check_checksum(broken, position, file="_pm")
    repaired = fuzz_repair.pm(bytes(broken))
    for position in walk(repaired, file="_pm"):
        check_checksum(repaired, position, file="_pm")
    assert fuzz_repair.pm(sound) == sound


def test_repaired_pages_have_the_checksums_that_a_mutation_broke() -> None:
    chunks = [chunk_of(seed) for seed in seeds_of("chunk")]
    # Only pages that state a CRC are changed by a repair.
    _, chunk, content = next(each for each in chunks if fuzz_repair.pages(_ended(each[2])) != _ended(each[2]))

    def walked(pages: bytes) -> int:
        codec = Codec(chunk.codec)
        return len(walk_pages(pages, file="data", offset_bytes=4, codec=codec, value_count=chunk.num_values))

    with pytest.raises(CorruptError, match="crc"):
        walked(_ended(content))
    assert walked(fuzz_repair.pages(_ended(content))) == walked(content)
    assert fuzz_repair.pages(content) == content


def _ended(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("number", range(len(TABLES)), ids=TABLES)
def test_every_table_is_there_with_files_that_can_be_damaged(number: int) -> None:
    assert {"_txn", "_meta", "_cv"} <= files_of(number).keys()
    assert any(name.endswith("data.parquet") for name in files_of(number))


def test_table_without_edits_is_the_real_one_and_edits_change_it() -> None:
    assert edits_of(Edit(1, 3, 70_000, b"abc").pack() + b"rest") == [Edit(1, 3, 70_000, b"abc")]
    whole = damaged(b"\0")
    assert {f"t/{name}" for name in files_of(0)} <= whole.files.keys()
    table(b"\0")
    name = sorted(files_of(0)).index("_txn")
    flipped = damaged(b"\0" + Edit(name, 3, 8, b"\1").pack())
    assert [path for path, content in whole.files.items() if flipped.files[path] != content] == ["t/_txn"]
    with pytest.raises(TornproofError):
        table(b"\0" + Edit(name, 4, 8, b"").pack())
