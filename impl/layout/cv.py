"""The byte layout of `_cv`, the file that holds the name suffixes of a table's column files."""

from tornproof.impl.layout.record import I64, Record, layout_of, meaning

SOURCE = "QuestDB's public sources, checked on a table of 9.4.2 with added and renamed columns"


@layout_of(title="`_cv` header", size_bytes=40, source=SOURCE)
class ColumnVersionsHeader(Record):
    """The fixed part at the start: the version, and the position of both areas. A new file is all zeros."""

    version: I64 = meaning("number of the newest version; even selects area A, odd area B")
    a_offset: I64 = meaning("area A: offset of its entries")
    a_size: I64 = meaning("area A: bytes of its entries")
    b_offset: I64 = meaning("area B: offset of its entries")
    b_size: I64 = meaning("area B: bytes of its entries")


@layout_of(title="`_cv` entry", size_bytes=32, source=SOURCE)
class ColumnVersion(Record):
    """One column in one partition, or in all partitions without an entry."""

    partition_timestamp: I64 = meaning(
        "start of the partition; the smallest number = partitions without an entry; that + 1 = the dictionary of a "
        "SYMBOL column, if it was made anew"
    )
    column_index: I64 = meaning("writer index of the column")
    name_txn: I64 = meaning("suffix of the names of the column's files; -1 = none")
    column_top: I64 = meaning("rows of the partition before the column was added; else the first partition with it")
