"""`tornproof extend FILE`: the footer or the chunks of a Parquet file in another form."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
import typer
from rich.text import Text

from tornproof.cli import interruption
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.output import ExitCode, JsonOption, check_are_different, check_outputs, visible, write_json
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import UsageError
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import FormChange, change_footer_form
from tornproof.impl.storage.operating_system import OperatingSystemStorage

Form = TypeVar("Form", bound=StrEnum)


class Footer(StrEnum):
    """The forms with a FlatBuffers footer."""

    PRIVATE = "private"
    MIGRATION = "migration"
    FINAL = "final"


class Encoding(StrEnum):
    """The forms with chunks in a new encoding."""

    ALP = "alp"
    ALP_ALONE = "alp-alone"


def extend(
    file: Annotated[str, typer.Argument(help="A Parquet file, which is replaced unless --out names another one.")],
    footer: Annotated[
        Footer | None,
        typer.Option(
            "--footer",
            help="FlatBuffers beside Thrift, as an extension of ours or as the proposed standard; or alone "
            "(experimental: only tornproof reads it).",
        ),
    ] = None,
    encoding: Annotated[
        Encoding | None,
        typer.Option(
            "--encoding",
            help="Doubles and floats in ALP, integers and times in PFOR, beside the old chunks; or alone "
            "(experimental, and there is no way back).",
        ),
    ] = None,
    strip: Annotated[
        bool, typer.Option("--strip", help="Thrift and the old chunks alone, byte for byte as before.")
    ] = False,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the result there.")] = None,
    json_target: JsonOption = None,
) -> ExitCode:
    """Write a Parquet file's footer in FlatBuffers, its numbers in ALP, beside the old or alone; or undo it."""
    if strip is bool(footer or encoding):
        raise UsageError("give either --strip, or --footer, --encoding or both")
    check_are_different(out or file, json_target)
    check_outputs(out, json_target)
    interruption.say_if_interrupted("the file is as it was, or changed as a whole")
    form, chunks = (
        (FooterForm.THRIFT, ChunkForm.OLD) if strip else (_or_none(FooterForm, footer), _or_none(ChunkForm, encoding))
    )
    done = change_footer_form(OperatingSystemStorage(), file, form, chunks=chunks, out=out)
    write_json(report_document(done), json_target)
    if json_target != "-":
        _print(done, json_target)
    return ExitCode.VALID


def _or_none(kind: type[Form], name: str | None) -> Form | None:
    return None if name is None else kind(name)


def report_document(done: FormChange) -> dict[str, object]:
    """Return the JSON document."""
    return {"format": 1, **msgspec.to_builtins(done)}


def _print(done: FormChange, json_target: str | None) -> None:
    grid = result_grid("", ">before", ">after")
    grid.add_row(Text("footer"), Text(done.before), Text(done.after))
    grid.add_row(Text("chunks of numbers"), Text(done.chunks_before), Text(done.chunks_after))
    grid.add_row(Text("bytes of the footer"), Text(f"{done.footer_before:,}"), Text(f"{done.footer_after:,}"))
    grid.add_row(Text("bytes of the file"), Text(f"{done.size_before:,}"), Text(f"{done.size_after:,}"))
    console = result_console(json_target)
    console.print(grid)
    console.print(f"{visible(done.written_to)}: written")
