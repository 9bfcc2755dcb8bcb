"""FlatBuffers tables of one type for many rows at once, laid out by NumPy.

The functions that the FlatBuffers compiler generates fill one table by calls of a builder. `ColumnarTables` takes the
same calls with an array in place of each value, so a million tables cost as many calls as one. Tables with the same
fields present share a vtable. The result is a part of an ordinary buffer, which any FlatBuffers reader can read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flatbuffers
import numpy as np
import numpy.typing as npt

ALIGNMENT_BYTES = 8
SOFFSET_SIZE_BYTES = UOFFSET_SIZE_BYTES = 4
UNWANTED = -1
Array = npt.NDArray[Any]


class Sparse(NamedTuple):
    """A value for each row, and whether the row has it."""

    values: Array
    is_present: Array


class ColumnarTables:
    """Plays the builder for tables of `row_count` rows, which become part of `builder`'s buffer.

    What `EndObject` returns stands for the positions of all its tables, and is given to the field that refers to them.
    """

    def __init__(self, builder: flatbuffers.Builder, row_count: int) -> None:
        """Build into the buffer of `builder`, which must not be inside of a table or a vector."""
        self._builder = builder
        self._row_count = row_count
        self._positions: list[Array] = []
        self._slots: dict[int, tuple[Array, Array, bool]] = {}
        self._slot_count = 0
        self._is_wanted: Array | None = None

    def only(self, is_wanted: Array) -> None:
        """Make the next tables for these rows alone."""
        self._is_wanted = is_wanted

    def positions(self, handle: int) -> Array:
        """Return the positions of tables, from the end of the buffer, 0 for none."""
        return self._positions[handle - 1]

    def handle(self, positions: Array) -> int:
        """Return what stands for these positions, which may come from elsewhere, 0 for none."""
        self._positions.append(positions)
        return len(self._positions)

    def vector(self, positions: Array) -> int:
        """Add a vector that refers to tables; return its position."""
        count = len(positions)
        self._builder.StartVector(UOFFSET_SIZE_BYTES, count, UOFFSET_SIZE_BYTES)
        start = self._builder.Offset() + UOFFSET_SIZE_BYTES * count
        relative = start - UOFFSET_SIZE_BYTES * np.arange(count) - positions
        self._place(relative.astype("<u4").tobytes())
        end: int = self._builder.EndVector()
        return end

    def StartObject(self, slot_count: int) -> None:  # noqa: N802 (the name that generated code calls; so are the next)
        """Begin the tables."""
        self._slots.clear()
        self._slot_count = slot_count

    def EndObject(self) -> int:  # noqa: N802
        """Lay out the tables; return what stands for them."""
        present = np.zeros(self._row_count, np.int64)
        for slot, (_, is_present, _) in self._slots.items():
            present |= is_present.astype(np.int64) << slot
        if self._is_wanted is not None:
            present[~self._is_wanted] = UNWANTED
            self._is_wanted = None
        groups = []
        end = 0
        for mask in np.unique(present[present != UNWANTED]):
            slots = [slot for slot in sorted(self._slots) if int(mask) >> slot & 1]
            rows = np.flatnonzero(present == mask)
            vtable, dtype = self._layout(slots)
            groups.append((rows, slots, vtable, dtype, end + len(vtable)))
            end += len(vtable) + dtype.itemsize * len(rows)
        self._builder.Prep(ALIGNMENT_BYTES, end)
        start = self._builder.Offset() + end
        positions = np.zeros(self._row_count, np.int64)
        parts = []
        for rows, slots, vtable, dtype, offset in groups:
            own = start - offset - dtype.itemsize * np.arange(len(rows))
            tables = np.zeros(len(rows), dtype)
            tables["soffset"] = len(vtable) + dtype.itemsize * np.arange(len(rows))
            for slot in slots:
                values, _, is_offset = self._slots[slot]
                field, field_offset = f"{slot}", dtype.fields[f"{slot}"][1]  # type: ignore[index]
                tables[field] = own - field_offset - values[rows] if is_offset else values[rows]
            positions[rows] = own
            parts += [vtable, tables.tobytes()]
        self._place(b"".join(parts))
        return self.handle(positions)

    def _layout(self, slots: list[int]) -> tuple[bytes, np.dtype[np.void]]:
        """Return the vtable of tables with these fields, padded, and their dtype: fields placed without gaps if any."""
        left = sorted(slots, key=lambda slot: -self._slots[slot][0].itemsize)
        offsets: dict[int, int] = {}
        end = SOFFSET_SIZE_BYTES
        while left:
            fitting = next((slot for slot in left if end % self._slots[slot][0].itemsize == 0), None)
            if fitting is None:
                end += 1
                continue
            left.remove(fitting)
            offsets[fitting] = end
            end += self._slots[fitting][0].itemsize
        size = _padded(end)
        dtype = np.dtype(
            {
                "names": ["soffset", *(f"{slot}" for slot in offsets)],
                "formats": ["<i4", *(self._slots[slot][0].dtype for slot in offsets)],
                "offsets": [0, *offsets.values()],
                "itemsize": size,
            }
        )
        entries = [2 * (2 + self._slot_count), end, *(offsets.get(slot, 0) for slot in range(self._slot_count))]
        vtable = np.array(entries, "<u2").tobytes()
        return vtable.ljust(_padded(len(vtable)), b"\0"), dtype

    def _place(self, content: bytes) -> None:
        self._builder.head -= len(content)
        self._builder.Bytes[self._builder.head : self._builder.head + len(content)] = content

    def _put(self, slot: int, values: Array | Sparse, dtype: str) -> None:
        if isinstance(values, Sparse):
            self._slots[slot] = values.values.astype(dtype), values.is_present, False
        else:
            self._slots[slot] = values.astype(dtype), np.ones(self._row_count, bool), False

    def PrependBoolSlot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field; `default` is not used, because a field is left out where it is not present."""
        self._put(slot, values, "u1")

    def PrependInt8Slot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field."""
        self._put(slot, values, "i1")

    def PrependInt32Slot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field."""
        self._put(slot, values, "<i4")

    def PrependUint32Slot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field."""
        self._put(slot, values, "<u4")

    def PrependInt64Slot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field."""
        self._put(slot, values, "<i8")

    def PrependUint64Slot(self, slot: int, values: Array | Sparse, default: object) -> None:  # noqa: N802
        """Add a field."""
        self._put(slot, values, "<u8")

    def PrependUOffsetTRelativeSlot(self, slot: int, handle: int, default: object) -> None:  # noqa: N802
        """Add a field that refers to the tables, or to what else is at the positions, that `handle` stands for."""
        positions = self.positions(handle)
        self._slots[slot] = positions.astype("<u4"), positions > 0, True


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
