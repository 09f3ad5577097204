"""URLs of databases with shared bases: `postgresql://HOST/DATABASE#NAME`, where the base has NAME there."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

SCHEMES = ("postgresql", "postgres")

HAS_PASSWORD = "contains a password; move it to ~/.pgpass, a service file or PGPASSWORD"  # noqa: S105

# libpq takes everything up to the last `@` before a slash as user and password, `?` and `#` included.
_PASSWORD = re.compile(r"[^/]*//[^/]*?:[^/]+@|.*[?&](?:ssl)?password=[^&]")


def is_engine_url(text: str) -> bool:
    """Return whether a text is meant as a URL of a database, rather than as a folder."""
    return text.partition(":")[0].lower() in SCHEMES


def engine_fault(url: str) -> str | None:
    """Return why a text cannot be the URL of a database, or None if it can."""
    if not is_engine_url(url) or not url.partition(":")[2].startswith("//"):
        return "must be a URL such as postgresql://kb.example/handbook"
    if any(map(_PASSWORD.match, (url, unquote(url)))):
        return HAS_PASSWORD
    try:
        valid = unquote(url, errors="strict").isprintable()
        for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
            urlsplit(f"//{host}").port  # noqa: B018 - raises for what is no number
    except ValueError:
        valid = False
    return None if valid else "is not a valid URL; check its host, its port, and characters written as %XX"


def split_engine_url(url: str) -> tuple[str, str | None]:
    """Return the URL of the database, and the name of the base in it if one is given."""
    database, _, name = url.partition("#")
    return database, unquote(name) or None


def database_name(url: str) -> str:
    """Return the name of the database in a URL; empty if it has none."""
    return unquote(urlsplit(url).path.strip("/"))


def shown_url(url: str) -> str:
    """Return a URL for display, without password and options."""
    return url.partition("?")[0]
