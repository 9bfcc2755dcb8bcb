"""Questions on commits: which rows stay, in which files, and how writers end.

It imports what the room above it does. Begin with `writers.py`.
"""
