"""Questions on tables: their columns and partitions, new ones, changed ones, and what readers ask of them.

It imports what the room above it does. Begin with `new_tables.py`.
"""
