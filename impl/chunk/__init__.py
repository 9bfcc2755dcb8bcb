"""One column chunk of a row group as `_pm` and the Parquet footer describe it: codec, statistics, filters.

It imports `pm`, `parquet` and the rooms before them. Begin with `chunk.py`.
"""
