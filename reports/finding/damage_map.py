"""Byte maps of the files that a finding of the damage phase has changed."""

from __future__ import annotations

import base64
import binascii
import zlib

from markupsafe import Markup

from tornproof.reports.kit.byte_map import FINDING_STATES, UNKNOWN_STATE, ByteRange, StateLook, byte_map, legend
from tornproof.reports.kit.json_fields import Fields

FILES_MAX = 8
PACKED_CHARACTERS_MAX = 1 << 20
SIZE_BYTES_MAX = 16 << 20
BITS_IN_BYTE = 8
STATES = {
    UNKNOWN_STATE: StateLook("as it was", "not changed", "durable", "solid"),
    "damaged": FINDING_STATES["damaged"],
    "cut off": StateLook("cut off", "the file ends before it", "lost", "diagonal"),
}


def damage_maps(document: Fields, evidence: Fields) -> Markup:
    """Return a map of each damaged file whose size is cheap to get, or empty; raises ResultError."""
    field = evidence.text("field", "")
    maps = []
    changed = _changed(evidence)
    for file, ranges in list(changed.items())[:FILES_MAX]:
        size_bytes = _size_bytes(document, file)
        if size_bytes is None:
            continue
        found = [
            ByteRange(start=start, end=size_bytes if end is None else end, state=state, label=field)
            for start, end, state in ranges
        ]
        maps.append(byte_map(file, size_bytes, found, states=STATES))
    if not maps:
        return Markup()
    used = {UNKNOWN_STATE, *(state for ranges in changed.values() for _, _, state in ranges)}
    return legend(STATES, used) + Markup().join(maps)


def _changed(evidence: Fields) -> dict[str, list[tuple[int, int | None, str]]]:
    """Return the changed ranges by file; None as an end is the end of the file."""
    changed: dict[str, list[tuple[int, int | None, str]]] = {}
    file = evidence.text("file", "")
    for edit in evidence.inners("edits"):
        start = edit.number("offset_bytes")
        end = start + len(edit.text("content")) // 2
        changed.setdefault(edit.text("file", file), []).append((start, end, "damaged"))
    for flip in [evidence] if "bit" in evidence else evidence.inners("bits"):
        start = flip.number("bit") // BITS_IN_BYTE
        changed.setdefault(flip.text("file", file), []).append((start, start + 1, "damaged"))
    if evidence.text("kind", "") == "cut":
        changed.setdefault(file, []).append((evidence.number("size_bytes"), None, "cut off"))
    return changed


def _size_bytes(document: Fields, file: str) -> int | None:
    """Return the size of a file at the start of the run, None if it is missing or too large to unpack."""
    packed = document.inner("start_files").text(file, "") if "start_files" in document else ""
    if not packed or len(packed) > PACKED_CHARACTERS_MAX:
        return None
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(base64.b64decode(packed), SIZE_BYTES_MAX)
    except (binascii.Error, ValueError, zlib.error):
        return None
    return None if inflater.unconsumed_tail else len(content)
