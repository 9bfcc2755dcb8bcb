"""Every disk that a crash of a recorded program may leave, judged by a command. Begin with `explorer.py`."""
