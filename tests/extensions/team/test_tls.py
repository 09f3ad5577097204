"""TLS off the loopback: the name and the root of a certificate are verified unless the URL says otherwise."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial

import pytest
import trustme
from anyio.from_thread import start_blocking_portal

from kbhub.errors import EngineUnavailable
from kbhub.extensions.team.bases import shared_bases
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.server import Server

NAME = "kb.example"
"""What the certificate says; no such host is looked up, as the URL has its address."""


async def _piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def authority():
    """A root that no system knows."""
    return trustme.CA()


@pytest.fixture
def port(authority, database):
    """TLS in front of the server's socket: the wheel's PostgreSQL is built without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(NAME).configure_cert(context)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await reader.readexactly(8)  # SSLRequest
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(context)
            inner = await asyncio.open_unix_connection(f"{database.socket}/.s.PGSQL.5432")
            await asyncio.gather(_piped(reader, inner[1]), _piped(inner[0], writer))

    with start_blocking_portal() as portal:
        server = portal.call(partial(asyncio.start_server, connected, "127.0.0.1", 0))
        yield server.sockets[0].getsockname()[1]
        portal.call(server.close)


def url(database, port: int, options: str = "", host: str = NAME) -> str:
    """Return the URL of a database as if it were far away."""
    return f"postgresql://postgres@{host}:{port}/{database.name}?hostaddr=127.0.0.1{options}"


def test_a_certificate_of_no_known_root_or_another_name_is_refused(database, port, authority, tmp_path):
    """Without a word of the URL about TLS: nothing is sent to whoever it is."""
    with pytest.raises(EngineUnavailable, match=r"certificate cannot be verified\. Set its root certificate"):
        shared_bases(Server(url(database, port), 20, {}))
    authority.cert_pem.write_to_path(tmp_path / "root.pem")
    other = url(database, port, f"&sslrootcert={tmp_path}/root.pem", host="other.example")
    with pytest.raises(EngineUnavailable, match="certificate"):
        shared_bases(Server(other, 20, {}))


def test_a_company_root_is_named_in_the_url(twin, port, authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "root.pem")
    twin.write("a.md", "# A\n\nxylophone\n")
    hub = twin.local()
    (base,) = hub.select([twin.name])
    server = Server(url(twin.database, port, f"&sslrootcert={tmp_path}/root.pem"), 20, {})

    publish(base, server, "notes", hub.embedder(), hub.limits())

    assert [one.name for one in shared_bases(server)] == ["notes"]
    server.close()
