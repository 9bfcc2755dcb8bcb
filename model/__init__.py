"""The reference model of a table, as pure functions: no bytes, no files, nothing shared with the implementation.

Begin with `step.py`.
"""

if __name__ != "tornproof.model":
    raise ImportError(f"this is tornproof.model, and was imported as {__name__}", name=__name__)
