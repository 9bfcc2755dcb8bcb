"""Every flipped bit and every cut of files with extensions, in each form, counted by what reading them gives.

`python benchmarks/extension_damage.py` writes benchmarks/results/extension_damage.md; it takes some minutes. Of the
footers all bits and lengths are tried, of chunks in a new encoding all bits of them and of what leads to them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from chunk_forms import all_values, bits_of, duplicate_bits, in_chunk_form, numbers_file, outcome_of
from footer_forms import EXTENDED, damages, in_form, outcome, sample_file
from parquet_files import footer_bytes

from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.layout.parquet import FooterForm

RESULTS = Path(__file__).parent / "results" / "extension_damage.md"
KINDS = ("rejected", "fallback", "right", "silent")
CHUNK_FORMS = [
    (form, chunks)
    for chunks in (ChunkForm.ALP, ChunkForm.ALP_ALONE)
    for form in (FooterForm.THRIFT, FooterForm.MIGRATION)
]
HEAD = "| file | damage | cases | rejected | right, by the old form | right, by the new form | wrong |"


def footer_lines() -> Iterator[tuple[str, str, Counter[str]]]:
    thrift, offset = footer_bytes(sample_file())
    for form in EXTENDED:
        found: Counter[str] = Counter()
        for _, damaged in damages(in_form(sample_file(), form), offset):
            found[outcome(damaged, thrift)] += 1
        yield f"`{form}` footer", "each bit and length from the footer on", found


def chunk_lines() -> Iterator[tuple[str, str, Counter[str]]]:
    right = {key: bits_of(values) for key, values in all_values(numbers_file()).items()}
    for form, chunks in CHUNK_FORMS:
        content = in_chunk_form(chunks, form)
        found = Counter(outcome_of(flipped(content, bit), right) for bit in duplicate_bits(content))
        yield f"`{form}` footer, `{chunks}` chunks", "each bit of new chunks and their columns' metadata", found


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def main() -> None:
    lines = [HEAD, "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for lines_of in (footer_lines, chunk_lines):
        for file, damage, found in lines_of():
            cells = " | ".join(f"{found[kind]:,}" for kind in KINDS)
            lines.append(f"| {file} | {damage} | {found.total():,} | {cells} |")
            print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
