"""A server that speaks S3, on a port of this machine: moto's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from listening import HOST, await_port, free_port

NO_CREDENTIALS = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
"""Where a machine of a cloud would ask for a role, and a user have a profile."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A running server."""

    url: str

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which its clients find it, and are let in."""
        return {
            **NO_CREDENTIALS,
            **CREDENTIALS,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> None:
        """Make a bucket; nobody else may."""
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT")).close()


@contextmanager
def object_store(**variables: str) -> Iterator[ObjectStore]:
    """Run a server while the block lasts, with variables of its own."""
    port = free_port()
    store = ObjectStore(url=f"http://{HOST}:{port}")
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=silent, stderr=silent, env={**os.environ, **variables}) as server:
        try:
            await_port(port, server)
            yield store
        finally:
            server.kill()
