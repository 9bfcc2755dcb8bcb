"""The page of a table: the results of `verify`, and of `inspect` for its most relevant partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tornproof.reports.kit.byte_map import legend
from tornproof.reports.kit.json_fields import counted
from tornproof.reports.kit.page import Page, fill
from tornproof.reports.table.fields import FORMAT, Partition, Problem, TableFields, Verified, read_verified, shown_text
from tornproof.reports.table.inspection import GenerationRow, Inspected, generation_rows, numbered_on, read_inspected
from tornproof.reports.table.plot import bars_of, partitions_plot
from tornproof.reports.table.states import STATES

GROUP = "Tables"
INSPECTED_MAX = 8
PARTITIONS_SHOWN = 500
PROBLEMS_SHOWN = 200
OTHERS_SHOWN = 20
NAMES_SHOWN = 100
RANGES_MAX, RANGES_MIN, RANGES_TOTAL = 60, 20, 320
"""A page with many maps has fewer ranges in each, so that it stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a problem is: the anchor of the partition's map, and what is there."""

    problem: Problem
    anchor: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An inspected partition, prepared for the template."""

    anchor: str
    inspected: Inspected
    rows: list[GenerationRow]
    others: list[Location]
    maps: list[Markup]


def table_page(document: Mapping[str, Any], *, key: str, file: str) -> Page:
    """Return the page of a table's result, or of what `verify --json` alone wrote; `file` is what errors name.

    Raises ResultError for a document that is neither.
    """
    verified, inspections, left_out = _read(document, file)
    named_count = len(verified.all_problems)
    inspections = numbered_on(inspections, named_count + 1)
    sections = _sections(inspections, key)
    orphan_bytes = {each.partition.name: each.orphan_bytes for each in inspections}
    bars = bars_of(verified.partitions, orphan_bytes)
    is_compatible = verified.compatibility is None or verified.compatibility.can_continue
    body = fill(
        "table.html.j2",
        key=key,
        verified=verified,
        verdict=_verdict(verified),
        facts=_facts(verified),
        locations=_locations(verified, sections),
        problem_count=named_count,
        partitions=_most_telling(verified.partitions),
        anchors={section.inspected.partition.name: section.anchor for section in sections},
        orphan_bytes=orphan_bytes,
        bars=bars,
        plot=partitions_plot(bars) if bars else "",
        names_shown=NAMES_SHOWN,
        sections=sections,
        left_out=left_out,
        legend=legend(STATES, (state for each in inspections for state in each.states())),
        has_orphans_unknown=any(each.orphans and each.name not in orphan_bytes for each in verified.partitions),
    )
    return Page(
        key=key,
        group=GROUP,
        title=f"Table {_short_name(verified.table)}",
        verdict="VALID" if not named_count and is_compatible else "INVALID",
        body=body,
    )


def _read(document: Mapping[str, Any], file: str) -> tuple[Verified, list[Inspected], int]:
    fields = TableFields(document, file=file)
    if "verify" not in fields:
        verified = read_verified(document, file=file)
        return verified, [], sum(not each.is_native for each in verified.partitions)
    fields.demand_format(FORMAT)
    verified = read_verified(fields.document["verify"], file=file, path="verify")
    partitions = {each.name: each for each in verified.partitions}
    documents = fields.inner("inspections").document if "inspections" in fields else {}
    shown = {shown_text(name): inspection for name, inspection in documents.items()}
    inspections = [
        read_inspected(inspection, partitions[name], verified.version, file=file, path=f"inspections.{name}")
        for name, inspection in shown.items()
        if name in partitions
    ]
    left_out = fields.number("left_out", 0) + max(0, len(documents) - INSPECTED_MAX)
    return verified, inspections[:INSPECTED_MAX], left_out


def _short_name(path: str) -> str:
    """Return the last two parts of a table's path."""
    return "/".join([part for part in path.split("/") if part][-2:]) or path


def _verdict(verified: Verified) -> str:
    version = "No version of this table can be read" if verified.version is None else f"Version {verified.version}"
    count = len(verified.all_problems)
    if not count:
        return f"{version} is {verified.verdict}."
    problems = counted(count, "problem")
    return f"{version}: {problems}." if verified.version is None else f"{version} is damaged: {problems}."


def _facts(verified: Verified) -> list[tuple[str, str]]:
    counts = verified.counts
    facts = [
        ("partitions", f"{counts['partitions']:,}"),
        ("generations", f"{counts['generations']:,}"),
        ("Thrift footers", f"{counts['thrift_footers']:,}"),
        ("row groups", f"{counts['row_groups']:,}"),
        ("rows", f"{counts['rows']:,}"),
    ]
    if counts["chunks"]:
        by_checksum = counts["chunks"] - counts["decoded_chunks"]
        facts += [
            ("column chunks", f"{counts['chunks']:,}"),
            ("of them decoded", f"{counts['decoded_chunks']:,}"),
            ("by their checksums", f"{by_checksum:,}"),
            ("bytes of pages", f"{counts['pages_bytes']:,}"),
        ]
    return facts


def _sections(inspections: Sequence[Inspected], key: str) -> list[Section]:
    map_count = sum(len(each.files) for each in inspections)
    range_count = max(RANGES_MIN, min(RANGES_MAX, RANGES_TOTAL // max(1, map_count)))
    return [
        Section(
            anchor=f"{key}-partition-{number}",
            inspected=each,
            rows=generation_rows(each.chain),
            others=[_location(problem, each, f"{key}-partition-{number}") for problem in each.others[:OTHERS_SHOWN]],
            maps=each.maps(range_count),
        )
        for number, each in enumerate(inspections, 1)
    ]


def _locations(verified: Verified, sections: Sequence[Section]) -> list[Location]:
    """Return the first problems that `verify` reports, with their location in the inspections."""
    by_number = {problem.number: each for each in sections for problem in each.inspected.partition.problems}
    locations = []
    for problem in verified.all_problems[:PROBLEMS_SHOWN]:
        section = by_number.get(problem.number)
        if section is None:
            locations.append(Location(problem=problem, anchor="", label=""))
        else:
            locations.append(_location(problem, section.inspected, section.anchor))
    return locations


def _location(problem: Problem, inspected: Inspected, anchor: str) -> Location:
    file = inspected.file_of(problem)
    if file is None:
        return Location(problem=problem, anchor=anchor, label=inspected.partition.name)
    label = "" if problem.offset_bytes is None else file.label_at(problem.offset_bytes)
    return Location(problem=problem, anchor=anchor, label=label or f"the bytes of {file.name}")


def _most_telling(partitions: Sequence[Partition]) -> list[Partition]:
    """Return at most PARTITIONS_SHOWN partitions: those with problems first, otherwise in time order."""
    return sorted(partitions, key=lambda each: not each.problems)[:PARTITIONS_SHOWN]
