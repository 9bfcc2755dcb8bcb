"""`_pm` made from Parquet files of older releases, as QuestDB's converter makes it (docs/migration.md)."""
