"""Ports of servers that a test starts."""

import socket
import subprocess
import time

HOST = "127.0.0.1"
PAUSE_SECONDS = 0.1


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server((HOST, 0)) as free:
        return int(free.getsockname()[1])


def await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens; one that ends before is an error."""
    while server.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
            return
        except OSError:
            time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"the server has ended: {server.args!r}")
