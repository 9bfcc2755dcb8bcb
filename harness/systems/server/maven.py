"""Class paths of released programs in Java, as the local Maven resolves them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tornproof.impl.errors import UsageError

SECONDS_MAX = 600
COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""What Maven writes even where it should not."""
PROJECT = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tornproof</groupId><artifactId>needs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class MavenError(UsageError):
    """There is no Maven, or it does not find what is needed; the message is a reason within a sentence."""


def class_path_of(artifacts: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the class path of artifacts, each as GROUP:ARTIFACT:VERSION, with all that they need.

    Raises MavenError.
    """
    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        raise MavenError("there is no Maven (mvn) on PATH")
    with tempfile.TemporaryDirectory(prefix="tornproof-maven-") as folder:
        project, answer = Path(folder, "pom.xml"), Path(folder, "classpath")
        dependencies = "".join(DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
        project.write_text(PROJECT.format(dependencies=dependencies))
        command = [maven, "-B", "-q", "-f", str(project), "dependency:build-classpath"]
        command += ["-DincludeScope=runtime", f"-Dmdep.outputFile={answer}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="backslashreplace", timeout=SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MavenError(f"Maven did not answer within {SECONDS_MAX} s") from error
        if done.returncode == 0 and answer.is_file():
            return answer.read_text().strip()
    raise MavenError(f"Maven cannot resolve {', '.join(artifacts)}: {_first_error(done.stdout + done.stderr)}")


def _first_error(output: str) -> str:
    lines = COLOURS.sub("", output).splitlines()
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(filter(None, errors), "it gives no reason")
