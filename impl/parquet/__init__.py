"""Parquet without a library: the Thrift footer as a lossless tree, a checked view of it, and the pages of a chunk."""
