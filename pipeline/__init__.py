"""The data pipeline: campaigns, checks of histories, migration, ingest and a data source, as jobs on Spark."""

if __name__ != "tornproof.pipeline":
    raise ImportError(f"this is tornproof.pipeline, and was imported as {__name__}", name=__name__)
