"""Pins that the data source keeps in this process, as Spark's helper processes do for a minute."""

from tornproof.pipeline.datasource import pins as source_pins


def let_go() -> None:
    """Release them."""
    for hold in source_pins._HOLDS:
        hold.pin.release()
    source_pins._HOLDS.clear()
