"""Format and classify server addresses."""

from __future__ import annotations

from urllib.parse import urlsplit


def shown_address(address: str) -> str:
    """Return an address for messages: with its scheme, without credentials and query string."""
    scheme, _, rest = with_scheme(address).partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def is_local(address: str) -> bool:
    """Return whether an address is on this machine, so that proxies must not be used for it."""
    try:
        host = urlsplit(with_scheme(address)).hostname or "localhost"
    except ValueError:
        return True
    return host in ("localhost", "::1", "::") or host.startswith("127.")


def with_scheme(address: str) -> str:
    """Return an address with a scheme, `http` by default."""
    return address if "://" in address else f"http://{address}"
