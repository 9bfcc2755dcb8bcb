"""File access: the interface that the implementation uses, the operating system behind it, and checksums.

It imports `errors` and `layout`. Begin with `interface.py`, which the simulator implements too.
"""
