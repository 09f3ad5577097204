"""A server that is gone, slow, refuses or is not who it should be: one sentence each, and the other bases answer."""

import asyncio
import json
import os
import signal
import socket
import ssl
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest
import trustme
from anyio.from_thread import start_blocking_portal
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from corpus import sentences
from kbhub.errors import EngineUnavailable
from kbhub.extensions.team.bases import shared_bases
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.server import Server, connection_info
from kbhub.reading.lists import status
from kbhub.reading.read import read
from kbhub.search.search import search
from kbhub.setup.doctor import examine
from kbhub.sync.freshness import sync
from kbhub.workspace.config import database_name, engine_fault, split_engine_url

QUICK = 0.3
"""Seconds of a deadline that is missed on purpose."""


@pytest.fixture
def published(twin):
    """A shared base, and a local one beside it."""
    for path, text in sentences(10).items():
        twin.write(path, f"# {path}\n\n{text} xylophone\n")
    twin.publish()
    twin.environment.write("../own/a.md", "# Own\n\nA xylophone of my own.\n")
    return twin


def both(twin, url: str, **entry):
    """Open a hub with the shared base and the local one."""
    own = str(twin.environment.project.parent / "own")
    hub = twin.hub({"notes": {"engine": url, **entry}, "own": own})
    sync(hub)
    return hub


def skipped(hub) -> str:
    """Search, and return why the shared base was left out; the local one answers."""
    result = search(hub, "xylophone")
    assert [hit.ref for hit in result.hits] == ["own@a.md"]
    (one,) = result.skipped
    assert one.base == "notes"
    return one.reason


def test_a_server_that_is_not_there_is_skipped_with_the_reason(published):
    hub = both(published, "postgresql://127.0.0.1:1/team")
    reason = skipped(hub)
    assert "nothing listens there" in reason
    assert "nothing listens there" in status(hub).bases[0].problems[0].message
    (unread,) = read(hub, ["notes@a.md"]).unread
    assert "nothing listens there" in unread.message
    levels = {(one.check, one.level) for one in examine(hub).findings if one.subject == "notes"}
    assert levels == {("engine", "error")}


def test_a_server_that_is_gone_is_not_waited_for_each_time():
    server = Server("postgresql://127.0.0.1:1/team", 1, {})
    errors = []
    for _ in range(2):
        with pytest.raises(EngineUnavailable) as refused:
            shared_bases(server)
        errors.append(refused.value)
    assert errors[0] is errors[1]


@contextmanager
def deaf():
    """A port at which somebody takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_server_that_never_answers_and_a_statement_that_takes_too_long_are_given_up_on(published):
    with deaf() as port:
        reason = skipped(both(published, f"postgresql://127.0.0.1:{port}/team", timeout=QUICK))
    assert f"no connection within {QUICK} s" in reason
    hub = both(published, published.database.url(), timeout=QUICK)
    with psycopg.connect(published.database.url()) as other:
        other.execute("LOCK TABLE kbhub.posting IN ACCESS EXCLUSIVE MODE")
        assert f"did not answer within {QUICK} s" in skipped(hub)
    assert len(search(hub, "xylophone").hits) == 5


def test_a_server_that_falls_silent_is_given_up_on(published):
    """As over a network that swallows everything: what is sent arrives, and nothing comes back."""
    hub = both(published, published.database.url(), timeout=QUICK)
    assert len(search(hub, "xylophone").hits) == 5
    pids = published.database.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'kbhub'")
    began = time.monotonic()
    try:
        for (pid,) in pids:
            os.kill(pid, signal.SIGSTOP)
        reason = skipped(hub)
    finally:
        for (pid,) in pids:
            os.kill(pid, signal.SIGCONT)

    assert "within" in reason or "cut" in reason
    assert time.monotonic() - began < 20


def test_connections_that_are_cut_are_made_anew(published):
    hub = both(published, published.database.url(), timeout=10)
    for _ in range(20):
        published.database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kbhub'"
        )
        assert len(search(hub, "xylophone").hits) == 5


def reasons(database, role: str) -> str:
    """Return why a role cannot list the bases."""
    with pytest.raises(EngineUnavailable) as refused:
        shared_bases(database.server(role))
    return str(refused.value)


def test_who_may_not_log_in_is_told_what_to_do(database):
    """Without a login, with a database that is not there, and with a role that is not."""
    database.run(f"CREATE ROLE nologin_{database.name}")
    assert "not permitted to log in" in reasons(database, f"nologin_{database.name}")
    assert 'role "nobody" does not exist' in reasons(database, "nobody")
    url = database.url().replace(database.name, "no_such_database")
    with pytest.raises(EngineUnavailable, match=r'database "no_such_database" does not exist.* Create it, or fix'):
        shared_bases(Server(url, 5, {}))


def test_a_database_without_the_schema_says_what_makes_it(bare):
    with pytest.raises(EngineUnavailable, match=r"not created for kbhub\. `kbhub team init .*` by an administrator"):
        shared_bases(bare.server())


def test_a_full_disk_undoes_the_run(published):
    published.database.run(
        "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device'; END $$;"
        "CREATE TRIGGER fill BEFORE INSERT ON kbhub.chunk FOR EACH ROW EXECUTE FUNCTION public.full()"
    )
    published.write("new.md", "# New\n\nzebra\n")
    with pytest.raises(EngineUnavailable, match="its disk or memory is full"):
        published.publish()
    assert search(published.shared(), "zebra").total == 0
    published.database.run("DROP TRIGGER fill ON kbhub.chunk")
    assert published.publish().added == 1


def test_tls_is_verified_off_this_machine():
    """Unless the user says otherwise; between processes of one machine there is no network."""
    far = connection_info("postgresql://kb.example/team", {})
    assert "sslmode=verify-full" in far
    assert "sslrootcert=system" in far
    assert "sslmode=require" in connection_info("postgresql://kb.example/team?sslmode=require", {})
    assert "sslrootcert=/ca.pem" in connection_info("postgresql://kb.example/team?sslrootcert=/ca.pem", {})
    for url in (
        "postgresql:///team", "postgresql://localhost/team", "postgresql://[::1]/team", "postgresql:///t?host=/tmp",
    ):  # fmt: skip
        assert "sslmode" not in connection_info(url, {})
    assert "sslmode" not in connection_info("postgresql://kb.example/team", {"PGSSLMODE": "require"})
    assert "verify-full" in connection_info("postgresql:///team", {"PGHOST": "kb.example"})


def test_a_password_never_stands_in_the_config(environment, kbhub):
    config = environment.home / ".kbhub.json"
    config.write_text(json.dumps({"bases": {"t": {"engine": "postgresql://me:s3cret@kb.example/t"}}}))
    result = kbhub("status")
    assert "~/.pgpass" in result.err
    assert "s3cret" not in result.err + result.out


ODD = st.text(st.sampled_from("ab1:%0fz?&=.[] ;'\\\0\n\t\xa0é\u202e\ud800"), max_size=6)
LOCAL = st.sampled_from(["", ":", ":x", "127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2", "[::1]:1", "[::1", "h" * 70, ".a"])
OPTION = st.sampled_from(["sslmode", "port", "password", "passw%6Frd", "sslpassword", "options", "service", "%00", "x"])


@given(st.sampled_from(["postgresql", "postgres", "POSTGRES"]), ODD, LOCAL, ODD, OPTION, ODD, ODD)
@example("postgres", "%00", "", "team", "x", "", "")
def test_whatever_url_is_given_is_used_or_refused_in_a_sentence(scheme, user, host, path, option, value, name):
    url = f"{scheme}://{user}{'@' if user else ''}{host}/{path}?{option}={value}#{name}"
    if engine_fault(url) is not None:
        return
    database, _ = split_engine_url(url)
    database_name(url)
    with pytest.raises(EngineUnavailable):
        Server(database, QUICK, {}).connect()


@given(st.lists(st.sampled_from([*"ab1:@/?#&=%,", "password=", "sslpassword=", "%70assword="]), max_size=14))
@example("a:1?b@a")
def test_no_password_passes_however_a_url_is_written(parts):
    url = f"postgresql://{''.join(parts)}"
    if engine_fault(url) is None:
        with suppress(psycopg.ProgrammingError):
            said = conninfo_to_dict(split_engine_url(url)[0])
            assert not said.get("password")
            assert not said.get("sslpassword")


@pytest.mark.parametrize("url", ["postgresql://postgres:@/db?host=/run", "postgresql://a:@h/db?password="])
def test_an_empty_password_is_none(url):
    assert engine_fault(url) is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"knowledge": "~/a", "engine": "postgresql://h/d"}, "cannot be used with `knowledge`"),
        ({"engine": "mysql://h/d"}, "must be a URL such as postgresql://"),
        ({"engine": "postgresql://h:x/d"}, "is not a valid URL"),
        ({"engine": "postgres://%00@/team"}, "is not a valid URL"),
        ({"knowledge": "~/a", "memories": True}, "is only for shared bases"),
    ],
)
def test_a_wrong_entry_is_told(environment, kbhub, entry, said):
    environment.configure(bases={"t": entry})
    result = kbhub("status")
    assert result.code == 2
    assert said in result.err
    assert "bases.t" in result.err


def test_a_pointer_of_a_repository_names_no_database(environment, kbhub):
    """Only the user's own config does: a clone cannot make anybody connect anywhere."""
    environment.write(".kbhub.json", json.dumps({"knowledge": "knowledge", "engine": "postgresql://127.0.0.1:1/x"}))
    environment.write("knowledge/a.md", "# A\n\nxylophone\n")
    result = kbhub("search", "xylophone", code=0)
    assert "knowledge" not in result.err or "engine" in result.err
    assert "a.md" in result.out


def test_doctor_says_who_one_is_there_and_without_the_driver_the_base_is_a_problem_and_not_more(published, monkeypatch):
    found = {one.check: one for one in examine(published.shared()).findings if one.subject == "notes"}
    assert found["engine"].level == found["index"].level == "ok"
    assert "role postgres" in found["engine"].message
    assert "10 documents" in found["index"].message
    import kbhub.extensions.team.engine

    found = kbhub.extensions.team.engine.find_spec
    monkeypatch.setattr("kbhub.extensions.team.engine.find_spec", lambda one: None if "psycopg" in one else found(one))
    result = search(both(published, published.database.url()), "xylophone")
    assert [hit.ref for hit in result.hits] == ["own@a.md"]
    assert any("kbhub[postgres]" in problem.message for problem in both(published, published.database.url()).missing())


def test_a_password_comes_from_where_libpq_looks(database, monkeypatch, tmp_path):
    role, secret = database.role_name("locked"), "correct-horse"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD '{secret}'")
    ((file,),) = database.run("SHOW hba_file")
    rules = Path(file)
    before = rules.read_text()
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    try:
        rules.write_text(f"local all {role} scram-sha-256\n{before}")
        database.run("SELECT pg_reload_conf()")
        assert "it asks for a password. Put the password in ~/.pgpass" in reasons(database, role)
        monkeypatch.setenv("PGPASSWORD", "wrong-donkey")
        said = reasons(database, role)
        assert "it rejected the password" in said
        assert "donkey" not in said
        monkeypatch.delenv("PGPASSWORD")
        (tmp_path / "pgpass").write_text(f"*:*:{database.name}:{role}:{secret}\n")
        (tmp_path / "pgpass").chmod(0o600)
        assert shared_bases(database.server(role)) == []
    finally:
        rules.write_text(before)
        database.run("SELECT pg_reload_conf()")


def test_a_publisher_of_a_replica_is_told_to_name_the_primary(published):
    database = published.database
    database.run(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    published.write("new.md", "# New\n\nzebra\n")
    with pytest.raises(EngineUnavailable, match=r"it is a read-only replica\. Name the primary server"):
        published.publish()


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
