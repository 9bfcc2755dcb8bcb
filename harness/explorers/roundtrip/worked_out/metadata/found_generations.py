"""Generations of a `_pm`: which are found by a Thrift footer, what is kept of one, and what the next one refers to."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import PATH, storage_of, two_days, with_entry
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.chain import Metadata, decode_chain, decode_metadata, find_token
from tornproof.impl.pm.encode import FooterFacts, ReusedRowGroup, append_generation, append_point, lay_out_generation
from tornproof.impl.pm.footer import FooterSections, locate_footer
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.plan import committed_file, whole_generations
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table

FILE, FIRST = "_pm", "2024-01-01.0/_pm"
GENERATIONS = 4
SEQ_TXN, SCRATCHPAD = 1, 2
"""Flags of a footer."""

BEHIND_PUBLISHED = {
    "nothing is": b"",
    "a byte is": b"\0",
    "zeros are": bytes(200),
    "set bits are": b"\xff" * 200,
    "a footer's length alone is": (60).to_bytes(4, "little"),
    "the length of a footer that begins before the file is": bytes(60) + (1 << 20).to_bytes(4, "little"),
}
"""Which writers that were killed, or a file system, leave there."""


def found_generations() -> Iterator[Question]:
    """Yield files of a few generations, and what is found in them, kept of one, and named by the next."""
    for count in range(1, 4):
        for kinds in itertools.product("so", repeat=count):
            for flipped in (None, *range(count + 1)):
                words = f"the generations with the same Thrift footer (s) in {'s' + ''.join(kinds)}"
                words += "" if flipped is None else f", of which number {flipped} has a flipped bit"
                same = [number for number, kind in enumerate(("s", *kinds)) if kind == "s"]
                expected = [number for number in reversed(same) if flipped is None or number < flipped]
                yield _asked(words, functools.partial(_found, kinds, flipped), expected)
    for broken, asked in itertools.product(range(1, GENERATIONS), range(GENERATIONS)):
        words = f"generation {asked} of {GENERATIONS}, of which number {broken} leads to nowhere"
        right = (asked, GENERATIONS - 1 - asked) if asked >= broken else "CorruptError"
        yield _asked(words, functools.partial(_found_token, broken, asked), right)
    for seq_txn, notes in itertools.product((None, 0, 1 << 40), (None, ((7, b"note"), (8, b"")))):
        sections = FooterSections(seq_txn=seq_txn, scratchpad=notes)
        for is_skipped in (False, True):
            words = f"a generation with {sections}{', behind one that nobody refers to' if is_skipped else ''}"
            found = functools.partial(_kept, sections, is_skipped=is_skipped)
            yield _asked(f"what a recovery keeps of {words}", found, [is_skipped, True, True])
    for words, behind in BEHIND_PUBLISHED.items():
        asked_words = f"what is wrong where no generation has the token, and {words} behind the published size"
        yield _asked(asked_words, functools.partial(_problems_behind, behind), [(TXN_FILE, "token", False)])
        yield _asked(f"{asked_words}, to a reader", functools.partial(_problem_of_reader, behind), (TXN_FILE, "token"))
    words = "what is wrong where only a generation behind the published size has the token"
    yield _asked(words, functools.partial(_problems_behind, None), [(TXN_FILE, "token", True)])
    for count in range(1, 5):
        words = f"the ends that a chain leads to after {count} more generations at once"
        yield _asked(words, functools.partial(_led_to, count), True)


def _found_token(broken: int, asked: int) -> Any:
    """Return how many generations are newer than one in a chain of four, of which one leads to nowhere."""
    content, metadata = _start()
    ends, facts = [len(content)], FooterFacts.of(metadata.generation)
    for number in range(1, GENERATIONS):
        other = structs.replace(facts, parquet_footer_offset=facts.parquet_footer_offset + 8 * number)
        content = _restated(content, metadata, ends[-1], other)
        ends.append(len(content))
    tokens = [locate_footer(content, end, file=FILE).token for end in ends]
    place = content.rindex(ends[broken - 1].to_bytes(8, "little"), 0, ends[broken])
    damaged = content[:place] + b"\xff" * 7 + content[place + 7 :]

    def found() -> tuple[int, int]:
        position, newer_count = find_token(damaged, tokens[asked], file=FILE)
        return ends.index(position.end_bytes), newer_count

    return outcome_of(found)


def _asked(words: str, found: Callable[[], Any], expected: Any) -> Question:
    return Question("found generations", words, found, expected)


def _start() -> tuple[bytes, Metadata]:
    content = two_days()[FIRST]
    return content, decode_metadata(content, locate_footer(content, len(content), file=FILE), file=FILE)


def _same_groups(metadata: Metadata) -> list[ReusedRowGroup]:
    generation = metadata.generation
    return list(itertools.starmap(ReusedRowGroup, zip(generation.block_offsets, generation.blooms, strict=True)))


def _restated(content: bytes, metadata: Metadata, anchor: int, facts: FooterFacts) -> bytes:
    """Return a file with one more generation, whose predecessor ends at `anchor`."""
    point = append_point(content, locate_footer(content, anchor, file=FILE), base_bytes=len(content))
    return content + append_generation(metadata.header, point, _same_groups(metadata), facts)


def _found(kinds: tuple[str, ...], flipped: int | None) -> list[int]:
    content, metadata = _start()
    facts, ends = FooterFacts.of(metadata.generation), [len(content)]
    other = structs.replace(facts, parquet_footer_offset=facts.parquet_footer_offset + 8)
    for kind in kinds:
        content = _restated(content, metadata, ends[-1], facts if kind == "s" else other)
        ends.append(len(content))
    if flipped is not None:
        # The byte before a generation's checksum is the last one that only this checksum and later ones cover.
        place = locate_footer(content, ends[flipped], file=FILE).checksum_offset - 1
        content = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    found = whole_generations(content, facts.parquet_footer_offset, facts.parquet_footer_length)
    return [ends.index(each.end_bytes) for each in found]


def _kept(sections: FooterSections, *, is_skipped: bool) -> list[bool]:
    """Return whether it is encoded anew, states the same, and has the same chunks."""
    content, metadata = _start()
    flags = SEQ_TXN * (sections.seq_txn is not None) | SCRATCHPAD * (sections.scratchpad is not None)
    facts = structs.replace(FooterFacts.of(metadata.generation), footer_feature_flags=flags, sections=sections)
    anchor = len(content)
    if is_skipped:
        content = _restated(content, metadata, anchor, FooterFacts.of(metadata.generation))
    content = _restated(content, metadata, anchor, facts)
    found = committed_file(content, locate_footer(content, len(content), file=FILE), file=FILE)
    kept = decode_metadata(found.content, locate_footer(found.content, len(found.content), file=FILE), file=FILE)
    same_chunks = [(each.num_rows, each.chunks) for each in kept.blocks]
    expected_chunks = [(each.num_rows, each.chunks) for each in metadata.blocks]
    return [found.is_rewritten, FooterFacts.of(kept.generation) == facts, same_chunks == expected_chunks]


def _problems_behind(behind: bytes | None) -> list[tuple[str, str, bool]]:
    """Return the problems of a table, and whether each says where the token is, with bytes behind what is published.

    Without any, a generation with the token is there.
    """
    table, end_bytes = _without_token(behind)
    end = f"a generation with this token ends at byte {end_bytes} of"
    return [(each.file, each.field, end in each.actual) for each in verify_table(table).all_problems]


def _problem_of_reader(behind: bytes) -> tuple[str, str] | None:
    """Return what a reader of such a table says is wrong."""
    try:
        list(open_snapshot(_without_token(behind)[0]).batches())
    except CorruptError as error:
        return error.problem.file, error.problem.field
    return None


def _without_token(behind: bytes | None) -> tuple[Table, int]:
    """Return such a table, and where a generation with its token ends, if it has one."""
    content, metadata = _start()
    facts = FooterFacts.of(metadata.generation)
    other = structs.replace(facts, parquet_footer_offset=facts.parquet_footer_offset + 8)
    longer = _restated(content, metadata, len(content), other)
    token = locate_footer(longer, len(longer), file=FILE).token
    files = {**with_entry(two_days(), PARQUET | GENERATED, token=token)}
    files[FIRST] = longer if behind is None else content + behind
    return open_table(storage_of(files), PATH), len(longer)


def _led_to(count: int) -> bool:
    content, metadata = _start()
    ends = [len(content)]
    point = append_point(content, metadata.generation.position, base_bytes=len(content))
    for _ in range(count):
        appended = lay_out_generation(
            metadata.header, point, _same_groups(metadata), FooterFacts.of(metadata.generation)
        )
        content, point = content + appended.content, appended.next_point
        ends.append(len(content))
    chain = decode_chain(content, file=FILE, end_bytes=len(content))
    return [each.generation.position.end_bytes for each in chain] == ends[::-1]
