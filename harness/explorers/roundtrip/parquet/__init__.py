"""What a Parquet file says, worked out a second time: structs of Thrift, footers, pages, values, statistics.

It imports `impl` and what explorers have in common. Begin with `thrift_forms.py`, whose structs the others are made of.
"""
