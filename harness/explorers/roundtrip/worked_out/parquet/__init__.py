"""Questions on data.parquet: chunks, pages, filters, footers, types of columns and dictionaries.

It imports what the room above it does. Begin with `page_indexes.py`.
"""
