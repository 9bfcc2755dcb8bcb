"""The format and everything that reads, writes, verifies, repairs and migrates tables in it.

Each imports only those before it: limits, errors, arguments, layout, storage, types, parquet, extension, pm, chunk,
txn, table, query, read, write, verify, repair, migrate; none imports the model or the harness. A read begins in
`read/reader.py`, a commit in `write/table_writer.py`.
"""

if __name__ != "tornproof.impl":
    raise ImportError(f"this is tornproof.impl, and was imported as {__name__}", name=__name__)
