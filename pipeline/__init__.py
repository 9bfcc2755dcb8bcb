"""The data pipeline: campaigns, checks of histories, migration, ingest and a table source, as jobs on Spark."""
