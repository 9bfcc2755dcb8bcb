"""Who searches for a planted fault that is told where to look."""

from __future__ import annotations

import enum


class Explorer(enum.StrEnum):
    """Who searches for a fault, roughly from the cheapest to the dearest; the bounds are in `detectors`."""

    SEQUENTIAL = "sequential"
    METRIC = "metric"
    SOFT_LINKS = "soft links"
    SMALL_LIMITS = "small limits"
    PROTECTED = "protected tables"
    TRACE_RULE = "trace rule"
    SCHEDULES = "schedules"
    CRASH = "crash"
    TORN_CRASH = "crash inside writes"
    POWER_B = "power B"
    POWER_C_4096 = "power C-4096"
    POWER_C_512 = "power C-512"
    POWER_CDIR = "power Cdir"
    FAILED_SYNC = "failed sync"
    PRODUCT_A = "product A"
    MEMORY_SEQUENTIAL = "memory, sequential consistency"
    MEMORY_TOTAL_STORE_ORDER = "memory, total store order"
    MEMORY_WEAK = "memory, weak"
    DAMAGE = "damage"
    STATEFUL = "stateful"
