"""Questions on what is below: processors, systems, processes, threads and memory.

It imports what the room above it does. Begin with `machines.py`.
"""
