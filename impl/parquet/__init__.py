"""Parquet's own structures: the Thrift footer as a lossless tree and as checked values, pages, bloom filters.

It imports `types` and the packages before it. Begin with `footer.py`.
"""
