"""Planted faults: patches of one place each, to show that an explorer would notice."""
