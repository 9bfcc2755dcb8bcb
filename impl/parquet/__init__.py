"""Parquet's own structures: the Thrift footer as a lossless tree and as checked values, pages, bloom filters."""
