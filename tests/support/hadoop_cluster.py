"""Hadoop on this machine: a file system with one data node, and YARN with two nodes.

It is Hadoop's own small cluster for tests, in a Java of its own that ends with this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tornproof.harness.systems.server.maven import MavenError, class_path_of
from tornproof.harness.systems.server.release import candidate_javas, java_version

ARTIFACTS = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    # What it needs, and does not say.
    "ch.qos.reload4j:reload4j:1.2.25",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "org.junit.jupiter:junit-jupiter-api:5.11.4",
)
JAVA_VERSION_MIN = 17
NODE_COUNT = 2
SETTINGS = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    # A disk that is nearly full is none for it.
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
}
ADDRESSES = ("", "scheduler.", "resource-tracker.", "webapp.", "admin.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopCluster:
    """A running cluster: the address of its file system, and the folder of its settings for clients."""

    url: str
    configuration: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """The variable by which clients find it."""
        return {"HADOOP_CONF_DIR": str(self.configuration)}


def java_home() -> Path:
    """Return the Java that Hadoop and its clients run on."""
    java = next(java for java in candidate_javas(os.environ) if (java_version(java) or 0) >= JAVA_VERSION_MIN)
    return Path(java).resolve().parent.parent


@contextmanager
def hadoop_cluster(folder: Path) -> Iterator[HadoopCluster]:
    """Run a cluster in a folder while the block lasts; skips aloud where there is no Maven to fetch it."""
    try:
        class_path = class_path_of(ARTIFACTS)
    except MavenError as error:
        pytest.skip(f"Hadoop's cluster for tests: {error}")
    port = launch_gateway(
        classpath=class_path,
        java_path=str(java_home() / "bin" / "java"),
        javaopts=["-Xmx1g"],
        cwd=str(folder),
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield _started(gateway.jvm.org.apache.hadoop, folder)
    finally:
        gateway.shutdown()


def _started(hadoop: Any, folder: Path) -> HadoopCluster:
    settings = hadoop.conf.Configuration()
    settings.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
    for name, value in SETTINGS.items():
        settings.set(name, value)
    files = hadoop.hdfs.MiniDFSCluster.Builder(settings).build()
    files.waitActive()
    url = f"hdfs://localhost:{files.getNameNodePort()}"
    yarn = hadoop.yarn.server.MiniYARNCluster("tornproof", NODE_COUNT, 1, 1)
    yarn.init(settings)
    yarn.start()
    names = (f"yarn.resourcemanager.{address}address" for address in ADDRESSES)
    said = {"fs.defaultFS": url, **{name: yarn.getConfig().get(name) for name in names}}
    configuration = folder / "configuration"
    configuration.mkdir()
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in said.items()
    )
    for name in ("core", "yarn"):
        (configuration / f"{name}-site.xml").write_text(f"<configuration>{properties}</configuration>\n")
    return HadoopCluster(url=url, configuration=configuration)
