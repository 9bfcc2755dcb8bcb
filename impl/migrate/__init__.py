"""`_pm` made from Parquet files of older releases, as QuestDB's converter makes it (docs/migration.md).

It may import every other package of `impl`. Begin with `table_migration.py`.
"""
