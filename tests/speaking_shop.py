"""A project that may speak, with a few notes."""

import pytest

from kbhub.hooks.sessions import let_speak

REFUNDS = """\
# Refunds

## How refunds are booked

Refunds are booked in the ledger of the day on which the bank confirms them, never on the day of the order.
The nightly reconciliation compares both ledgers and reports a difference of a cent.
"""
WEBHOOKS = """\
---
title: Webhook retries
refs: [src/hooks.py::retry, src/pay.py]
---
# Webhook retries

A webhook is retried seven times with exponential backoff, and then parked in the dead letter table.
"""
CACHE = "# Cache keys\n\nCache keys carry the tenant, because two tenants once shared a basket.\n"


@pytest.fixture
def shop(environment, clock):
    """A hub of a project with notes and code, whose documents may speak."""
    environment.write("knowledge/refunds.md", REFUNDS)
    environment.write("knowledge/webhooks.md", WEBHOOKS)
    environment.write("knowledge/cache.md", CACHE)
    for n in range(8):
        environment.write(f"knowledge/other/{n}.md", f"# Subject {n}\n\nNothing of note about number {n}.\n")
    environment.write("src/pay.py", "def charge(order):\n    return order\n\n\ndef refund(order):\n    return order\n")
    environment.write("src/hooks.py", "def retry(call):\n    return call\n")
    hub = environment.hub(clock=clock)
    hub.sync()
    let_speak(hub)
    return hub
