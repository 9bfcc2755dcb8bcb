"""One Spark session for all tests of a process: starting one takes longer than most of them."""

import os
from collections.abc import Iterator

import pytest
import quick_java
from hadoop_cluster import HadoopCluster, hadoop_cluster
from object_store import CREDENTIALS, NO_CREDENTIALS
from pyspark.sql import SparkSession

from tornproof.pipeline.spark.java import PipelineUnavailableError
from tornproof.pipeline.spark.session import demand_spark, spark_session


@pytest.fixture(scope="session")
def needs_spark() -> None:
    """Skip aloud where Spark cannot run, but not in CI."""
    try:
        demand_spark()
    except PipelineUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(needs_spark: None) -> Iterator[SparkSession]:
    """Two task slots and three attempts at each task; plain `local[2]` never tries again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(quick_java.VARIABLE, quick_java.OPTIONS)
        # Its workers have what a store of a test asks for; where that is, jobs tell them.
        for name, value in {**NO_CREDENTIALS, **CREDENTIALS}.items():
            patch.setenv(name, value)
        with spark_session(
            "local[2,3]", settings={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
        ) as session:
            yield session


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    """HDFS and YARN, for tests that are nightly."""
    with hadoop_cluster(tmp_path_factory.mktemp("hadoop")) as cluster:
        yield cluster
