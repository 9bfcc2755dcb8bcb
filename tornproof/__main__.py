"""`python -m tornproof`."""

from __future__ import annotations

from tornproof.cli import main

main()
