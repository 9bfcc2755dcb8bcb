"""Presets as the command line names them."""

from __future__ import annotations

from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.errors import UsageError


def preset_named(name: str) -> Preset:
    """Return the preset of that name; UsageError with all names where there is none."""
    if name not in PRESETS:
        raise UsageError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
