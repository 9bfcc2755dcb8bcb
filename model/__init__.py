"""The reference model of a table, as pure functions: no bytes, no files, nothing shared with the implementation.

`rows.py` says which rows a commit leaves, `table.py` what a writer and its recovery leave in files when processes die,
`protocol.py` what the steps of a commit leave on disk when the power fails, `trace.py` what anybody may then report.
Begin with `rows.py`.
"""

if __name__ != "tornproof.model":
    raise ImportError(f"this is tornproof.model, and was imported as {__name__}", name=__name__)
