"""What is left when a process is killed between or inside its calls, or a call fails. Begin with `explorer.py`."""
