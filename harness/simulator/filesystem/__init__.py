"""Files and directories in memory, the calls on them, and storages that record calls, fail or stop.

Begin with `kernel.py` for the simulator, with `memory.py` for a plain storage in memory.
"""
