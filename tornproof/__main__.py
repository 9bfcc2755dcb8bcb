"""`python -m tornproof`."""

from __future__ import annotations

from tornproof.entry import main

main()
