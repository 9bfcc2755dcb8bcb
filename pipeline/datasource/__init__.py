"""Tables as a data source of Spark: batch, stream and write. Begin with `source.py`."""
