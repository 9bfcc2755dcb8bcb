"""Explorations cut into tasks, and the processes that do them.

It imports `common` and the simulator. Begin with `tasks.py`: the same question gets the same answer, whoever does it.
"""
