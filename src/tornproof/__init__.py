"""The front door: the command line and the names that users import."""

__version__ = "0.1.0"
