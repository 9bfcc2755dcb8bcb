"""Options that let a Java of short life answer sooner.

It compiles once and simply, collects in one thread, and does not verify Spark's classes, a fifth of its start.
"""

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
VARIABLE = "SPARK_SUBMIT_OPTS"
"""The environment variable that Spark's launcher takes them from."""
