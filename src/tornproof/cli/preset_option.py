"""The option that names a preset."""

from __future__ import annotations

from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.errors import UsageError


def preset_named(name: str) -> Preset:
    """Return the preset of that name; raises UsageError with all names if there is none."""
    if name not in PRESETS:
        raise UsageError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
