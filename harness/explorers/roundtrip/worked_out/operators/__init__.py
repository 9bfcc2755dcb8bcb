"""Questions on what operators run: verifications, migrations, and what these report.

It imports what the room above it does. Begin with `verifications.py`.
"""
