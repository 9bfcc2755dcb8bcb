"""Parquet's extension point, and a FlatBuffers footer in it: private, side by side with Thrift, or alone.

It imports `parquet` and the packages before it. Begin with `footer.py`, the reader; `point.py` is the extension point.
"""
