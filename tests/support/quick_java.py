"""Options that let a Java of short life answer sooner: it compiles once and simply, and collects in one thread."""

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
VARIABLE = "SPARK_SUBMIT_OPTS"
"""The environment variable that Spark's launcher takes them from."""
