"""What Spark gives the data source at `CREATE TABLE`, and keeps of it for queries and streams."""

from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from tornproof.pipeline.datasource.source import TornproofSource


def properties_of(path: Path, **options: str) -> dict[str, str]:
    """Return the properties of a table, which have its options twice."""
    own = {"path": f"file:{path}", "location": f"file:{path}", "owner": "ada", "provider": "tornproof", "x": "y"}
    return {**own, **options, **{f"option.{name}": text for name, text in options.items()}}


def schema_in_catalog(path: Path, **options: str) -> StructType:
    """Return the schema of a table, which is all that Spark gives to its queries."""
    given: Any = properties_of(path, **options)
    return TornproofSource(given).schema()
