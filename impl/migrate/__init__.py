"""`_pm` made from a Parquet file, and `_pm` made from `_pm`: what QuestDB's converter does (docs/migration.md)."""
