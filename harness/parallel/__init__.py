"""Explorations as tasks, and the worker processes that run them.

It imports `common` and the simulator. Begin with `tasks.py`: results do not depend on the number of workers.
"""
