"""The addresses `tornproof:///TABLE`: a file system of Spark's Java with each committed data.parquet as a file.

Its class is shipped as source. Spark brings a compiler for the code that it generates itself, so a session compiles the
class when it first needs it: no build needs a Java, and the layouts are those of `tornproof.impl.layout`.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from tornproof.impl.layout import meta, txn
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.metadata_file import CODE_UNIT_BYTES, META_FILE, PartitionBy
from tornproof.impl.txn.transaction import RECORD_LIMIT_BYTES, TXN_FILE
from tornproof.impl.types.questdb import NANOSECOND
from tornproof.pipeline.spark.java import PipelineUnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "tornproof"
SOURCE = files(__package__) / "CommittedFileSystem.java"
CLASS = "tornproof.spark.CommittedFileSystem"
SETTING = f"fs.{SCHEME}.impl"
_VIEW_NUMBERS = itertools.count()


class CommittedFile(NamedTuple):
    """The data.parquet in a partition's directory, and how many of its bytes are committed."""

    directory: str
    size_bytes: int


def layout_source() -> str:
    """Return the class `Layout` in Java: names, offsets and masks that Python declares."""
    base, record, entry = txn.BaseHeader.layout, txn.TransactionRecord.layout, txn.PartitionEntry.layout
    texts = {
        "SCHEME": SCHEME,
        "TXN_FILE": TXN_FILE,
        "META_FILE": META_FILE,
        "DATA_FILE": DATA_FILE,
    }
    numbers = {
        **{
            name.upper(): base.offset_of(name)
            for name in (field.name for field in base.fields)
            if "padding" not in name
        },
        **{name.upper(): entry.offset_of(name) for name in ("timestamp", "row_count_and_flags", "name_txn", "token")},
        **{by.name: int(by) for by in PartitionBy},
        "TXN": record.offset_of("txn"),
        "HEADER_BYTES": base.size_bytes,
        "RECORD_BYTES": record.size_bytes,
        "SIZE_BYTES": txn.PartitionTableSize.layout.size_bytes,
        "ENTRY_BYTES": entry.size_bytes,
        "RECORD_LIMIT_BYTES": RECORD_LIMIT_BYTES,
        "META_BYTES": meta.MetaHeader.layout.size_bytes,
        **{
            name.upper(): meta.MetaHeader.layout.offset_of(name)
            for name in ("column_count", "partition_by", "timestamp_index", "metadata_version")
        },
        "COLUMN_BYTES": meta.MetaColumn.layout.size_bytes,
        "TYPE": meta.MetaColumn.layout.offset_of("type"),
        "NAME_LENGTH_BYTES": meta.NameLength.layout.size_bytes,
        "CODE_UNIT_BYTES": CODE_UNIT_BYTES,
        "NANOSECOND_MASK": NANOSECOND.mask,
    }
    fields = [f'static final String {name} = "{text}";' for name, text in texts.items()]
    fields += [f"static final int {name} = {number};" for name, number in numbers.items()]
    fields.append(f"static final long PARQUET_FORMAT_MASK = {txn.PARQUET_FORMAT.mask}L;")
    return "\nfinal class Layout {\n  " + "\n  ".join(fields) + "\n}\n"


def add_addresses(spark: SparkSession) -> None:
    """Make the addresses `tornproof:///TABLE` known to all sessions of this Spark, in SQL too; done once.

    Raises PipelineUnavailableError for Spark Connect, which has no file systems of its own.
    """
    _file_system(spark)


def address_of(path: str, name: str = "") -> str:
    """Return the address of a table, or of something in it, escaped as Spark's patterns demand."""
    return f"{SCHEME}://{quote(path)}{name and '/'}{name}"


@contextmanager
def views(spark: SparkSession, path: str, folders: Sequence[Sequence[CommittedFile]]) -> Iterator[list[str]]:
    """Yield the addresses of folders of a table's files; queries on them are planned within the `with` block only."""
    system = _file_system(spark)
    with ExitStack() as opened:
        addresses = []
        for inside in folders:
            name = f"@{next(_VIEW_NUMBERS)}"
            system.openView(name, [f"{quote(file.directory)}@{file.size_bytes}.parquet" for file in inside])
            opened.callback(system.closeView, name)
            addresses.append(address_of(path, name))
        yield addresses


def _file_system(spark: SparkSession) -> Any:
    """Return the driver's file system, after it is compiled and given to the executors where there is none yet."""
    if not hasattr(spark, "_jvm"):
        raise PipelineUnavailableError(
            "Spark Connect cannot be given a file system: use format('tornproof'), or a session that is not remote"
        )
    java: Any = spark._jvm
    context = spark.sparkContext._jsc
    settings = context.hadoopConfiguration()
    if settings.get(SETTING) != CLASS:
        jar = java.java.io.File.createTempFile("tornproof-", ".jar")
        jar.deleteOnExit()
        _compile(java, Path(jar.getPath()))
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        loader.addURL(jar.toURI().toURL())
        settings.setClassLoader(loader)
        context.addJar(jar.getPath())
        settings.set(SETTING, CLASS)
    return java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI.create(f"{SCHEME}:///"), settings)


def _compile(java: Any, jar: Path) -> None:
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE.read_text() + layout_source())
    with zipfile.ZipFile(jar, "w") as archive:
        for name, content in compiler.getBytecodes().items():
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(content))
