"""What a command imports: each takes time, and a small table is verified sooner than some of them are imported."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import TIMEOUT_SECONDS, environment

TABLE = "tables/9.4.2/dedup/table"
"""Its doubles and native partitions are what pyarrow would import pandas for."""
FOR_EXPLORERS = {"hypothesis", "greenlet", "tornproof.harness.explorers"}
FOR_PAGES = {"jinja2", "junitparser", "matplotlib", "tornproof.reports"}
FOR_SPARK = {"pyspark", "py4j", "pandas.core", "tornproof.pipeline"}
"""Not "pandas": Python counts the attempt that fails."""
FOR_FEW = {"pydantic", "rich.live", "rich.progress", "sqlglot"}
"""Numbers of the command line, progress on a terminal, conditions."""
FOR_WRITING = {"tornproof.impl.write", "tornproof.impl.parquet.arrow_writer"}
FOR_TABLES = {"numpy", "pyarrow"}
UNNEEDED = FOR_EXPLORERS | FOR_PAGES | FOR_SPARK | FOR_FEW


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], UNNEEDED | FOR_WRITING | FOR_TABLES),
        (["verify", TABLE], UNNEEDED | FOR_WRITING | {"pyarrow.compute"}),
        (["read", TABLE], UNNEEDED | FOR_WRITING | {"rich", "pyarrow.compute"}),
        (["inspect", f"{TABLE}/_txn"], UNNEEDED | FOR_WRITING | {"pyarrow"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_imports_nothing_that_it_has_no_use_for(
    questdb_data: Path, arguments: Sequence[str], unneeded: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tornproof", *arguments],
        cwd=questdb_data,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "tornproof.cli.app" in loaded
    assert loaded & unneeded == set()
