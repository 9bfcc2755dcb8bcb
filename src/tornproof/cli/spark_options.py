"""Options of every command that runs on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tornproof.impl.errors import UsageError

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Spark master: local[*] (the default), spark://HOST:PORT, yarn, k8s://URL; unused in an active session.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, such as spark.driver.memory=8g; repeatable."),
]


def settings_of(given: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of repeated options; raises UsageError for one that is none."""
    settings = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(f"--conf {text}: a setting is spark.KEY=VALUE")
        settings[key] = value
    return settings
