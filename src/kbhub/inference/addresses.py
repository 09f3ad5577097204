"""Addresses of servers: what may be shown of them, and whether they are this machine."""

from __future__ import annotations

from urllib.parse import urlsplit


def shown_address(address: str) -> str:
    """Give an address as it may stand in a message: with its scheme, without a password and what follows a `?`."""
    scheme, _, rest = with_scheme(address).partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def is_local(address: str) -> bool:
    """Say whether an address is this machine, so that no proxy must be asked for it."""
    try:
        host = urlsplit(with_scheme(address)).hostname or "localhost"
    except ValueError:
        return True
    return host in ("localhost", "::1", "::") or host.startswith("127.")


def with_scheme(address: str) -> str:
    """Give an address with a scheme, `http` if it has none."""
    return address if "://" in address else f"http://{address}"
