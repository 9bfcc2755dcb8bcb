"""QuestDB's column types, their Parquet and Arrow types, and raw arrays.

It imports the packages before it. Begin with `questdb.py`.
"""
