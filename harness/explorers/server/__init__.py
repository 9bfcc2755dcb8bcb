"""A live server as the system under test: concurrent clients over HTTP, kills, recovery. Begin with `explorer.py`."""
