"""Programs of any language, recorded while they run: their system calls as steps that a kernel in memory repeats.

It imports `common` and the simulator. Begin with `recorder.py`; the trace file is described in docs/trace.md.
"""
