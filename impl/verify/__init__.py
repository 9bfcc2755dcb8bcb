"""Whether a table on disk is sound, and if not, which field of which file at which byte.

It imports `read` and the rooms before it. Begin with `verify.py`.
"""
