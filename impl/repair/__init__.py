"""The committed version made the plain state of the files, and the old bytes kept until they are no longer needed.

It imports `verify`, `write` and the rooms before them. Begin with `repair.py`.
"""
