"""Damaged bytes of every file of a table, each damage read, verified and classed. Begin with `explorer.py`."""
