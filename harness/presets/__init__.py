"""Protocols of other releases as values, and the functions that only they use (design, section 5)."""

from __future__ import annotations

from harness.presets.preset import CommitMode, Preset
from harness.presets.releases import HARDENED_PRESET, PRESETS

__all__ = ["HARDENED_PRESET", "PRESETS", "CommitMode", "Preset"]
