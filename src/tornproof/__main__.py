"""`python -m tornproof`."""

from __future__ import annotations

from tornproof.cli.entry import main

main()
