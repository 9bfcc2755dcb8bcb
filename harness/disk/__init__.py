"""Disks that live in memory and can be copied, damaged and cut off at any moment."""
