"""Verification of a table on disk; every problem names file, field and byte offset.

It imports `read` and the packages before it. Begin with `verify.py`.
"""
