"""QuestDB's column types, what they are in Parquet and in Arrow, and their values as plain bytes.

It imports the rooms before it. Begin with `questdb.py`.
"""
