"""URLs of databases with shared bases: `postgresql://HOST/DATABASE#NAME`, where the base has NAME there."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("postgresql", "postgres")

HAS_PASSWORD = "contains a password; move it to ~/.pgpass, a service file or PGPASSWORD"  # noqa: S105


def is_engine_url(text: str) -> bool:
    """Whether a text is meant as a URL of a database, rather than as a folder."""
    return text.partition(":")[0].lower() in SCHEMES


def engine_fault(url: str) -> str | None:
    """Return why a text cannot be the URL of a database, or None if it can."""
    try:
        parts = urlsplit(url)
        password = parts.password is not None or any(key == "password" for key, _ in parse_qsl(parts.query))
        parts.port  # noqa: B018 - raises for what is no number
    except ValueError as error:
        return f"is not a URL: {error}"
    if not is_engine_url(url) or not url.partition(":")[2].startswith("//"):
        return "must be a URL such as postgresql://kb.example/handbook"
    return HAS_PASSWORD if password else None


def split_engine_url(url: str) -> tuple[str, str | None]:
    """Return the URL of the database, and the name of the base in it if one is given."""
    database, _, name = url.partition("#")
    return database, unquote(name) or None


def database_name(url: str) -> str:
    """Return the name of the database in a URL; empty if it has none."""
    return unquote(urlsplit(url).path.strip("/"))


def shown_url(url: str) -> str:
    """Return a URL without a password as it is shown: without options, either."""
    return url.partition("?")[0]
