"""Damages the files of a table, and reads, verifies and classifies each result. Begin with `explorer.py`."""
