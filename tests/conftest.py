"""What several test modules share: a project of a user with an empty home."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
from cyclopts.argument import _collection as arguments
from docstring_parser.attrdoc import AttributeDocstrings
from jsonschema import Draft202012Validator

import faults
from kbhub.__main__ import main
from kbhub.api import Hub
from kbhub.documents import source
from kbhub.hub import HubOptions
from kbhub.models import embedding
from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.setup import doctor

pytest_plugins = ["browsers", "daemons", "ollama_server", "setup_machine", "speaking_shop", "terminals", "wheels"]
if find_spec("kbhub.extensions"):  # not where the core is tested alone
    pytest_plugins += ["shared_bases"]

HOUR_NS = 3_600_000_000_000

START = 1_800_000_000.0
"""What a clock that is set by hand says at first, seconds since the epoch."""

DAY = 86_400.0
"""Seconds."""

NOON = 1_763_812_800.0  # 2025-11-22T12:00:00Z


# A busy machine makes an example late, never wrong. More examples: `pytest --hypothesis-profile thorough`.
LATE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("patient", max_examples=25, **LATE)
hypothesis.settings.register_profile("thorough", max_examples=300, **LATE)
hypothesis.settings.load_profile("patient")


@dataclass(frozen=True)
class Environment:
    """An empty home, and a project in it that is a git repository without commits."""

    home: Path
    project: Path
    env: dict[str, str]

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file, below the project unless the path is absolute; it is an hour old, so its time is trusted."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        hour_ago = file.stat().st_mtime_ns - HOUR_NS
        os.utime(file, ns=(hour_ago, hour_ago))
        return file

    def configure(self, **settings) -> Path:
        """Write the user's own settings."""
        return self.write(self.home / ".kbhub.json", json.dumps(settings))

    def memories(self) -> list[Path]:
        """Return the files of all memories."""
        return sorted((self.home.parent / "data/memories").rglob("*.md"))

    def hub(self, **changes) -> Hub:
        options = {"cwd": self.project, "home": self.home, "env": self.env, **changes}
        return Hub(HubOptions(**options))


@pytest.fixture
def environment(tmp_path) -> Environment:
    """A user with an empty home and an empty project."""
    return make_environment(tmp_path)


@pytest.fixture
def hub(environment, clock) -> Hub:
    """What the user has in the project, at a moment that is set by hand."""
    return environment.hub(clock=clock)


@pytest.fixture
def there(environment, tmp_path) -> Hub:
    """What the user has in another project."""
    (tmp_path / "there").mkdir()
    return environment.hub(cwd=tmp_path / "there")


def make_environment(folder: Path) -> Environment:
    """Make a user with an empty home and an empty project in a folder."""
    real = folder.resolve()
    home, project = real / "home", real / "work" / "shop"
    home.mkdir()
    project.mkdir(parents=True)
    make_repository(project)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "KBHUB_CACHE_DIR": str(real / "cache"),
        "KBHUB_DATA_DIR": str(real / "data"),
    }
    return Environment(home, project, env)


def make_repository(folder: Path) -> None:
    """Make a git repository without commits, as `git init` does, without a process."""
    for name in ("objects", "refs/heads"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")


class Outcome(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def kbhub(environment, monkeypatch, capsys):
    """Runs a command in this process, in the project, as a user with an empty home.

    It reads `stdin`, where that is given, and ends with `code`, where one is expected.
    """
    for name in [name for name in os.environ if name.startswith("KBHUB_") or name in ("NO_COLOR", "FORCE_COLOR")]:
        monkeypatch.delenv(name)
    for name, value in {**environment.env, "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(environment.project)

    def run(*arguments: str, stdin: bytes | None = None, code: int | None = None) -> Outcome:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        outcome = Outcome(main(list(arguments)), *capsys.readouterr())
        assert code in (None, outcome.code)
        return outcome

    return run


def ran(*line: object, timeout: float = faults.CHILD_SECONDS, **options) -> Outcome:
    """Run a program to its end, with patience for a busy machine."""
    line, said = [*map(str, line)], {"capture_output": True, "text": True, "encoding": "utf-8"}
    done = subprocess.run(line, **said, timeout=timeout, check=False, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def bound(environment, children):
    """Runs a command in a process of its own, in the project, as a user whom modes bind."""
    if os.name != "posix" or (os.geteuid() == 0 and sys.platform != "linux"):
        pytest.skip("modes do not bind this user")
    return lambda *line: Outcome(*children.call("command", environment.env, environment.project, *line))


@pytest.fixture
def closed():
    """Takes rights from files and folders, which get them back at the end."""
    before: list[tuple[Path, int]] = []

    def close(path: Path, mode: int) -> None:
        before.append((path, path.stat().st_mode))
        path.chmod(mode)

    yield close
    for path, mode in reversed(before):
        path.chmod(mode)


@pytest.fixture
def anyio_backend():
    """The only event loop that kbhub runs on."""
    return "asyncio"


@pytest.fixture(params=["auto", pytest.param("legacy", marks=pytest.mark.slow)])
def mode(request):
    """`auto` lands on 2026-07-28, `legacy` on the handshake of 2025-11-25: the whole matrix is `slow`."""
    return request.param


def once(call, place=0):
    """Return a function that calls another once for each value of its argument at a place."""
    known = {}

    def recalled(*arguments, **options):
        if (key := arguments[place]) not in known:
            known[key] = call(*arguments, **options)
        return known[key]

    return recalled


@pytest.fixture(autouse=True, scope="session")
def what_takes_long_once():
    """The packaged model, a schema and the options of a command are read once."""
    packaged, embedder = embedding.packaged_embedder(), embedding.StaticEmbedder
    load, queries, resolved = embedder._load, embedder.queries, arguments._resolve_groups_from_callable

    def shared(one):
        return packaged if one.fingerprint == packaged.fingerprint else one

    checked, check, digest = set(), Draft202012Validator.check_schema, cache(embedding.sha256)

    def check_once(schema, **options):
        text = json.dumps(schema, sort_keys=True)
        if text not in checked:
            check(schema, **options)
            checked.add(text)

    def digest_of(path):
        return (digest if PACKAGED_MODEL in path.parents else embedding.sha256)(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", staticmethod(check_once))
        patch.setattr("kbhub.workspace.files.RACY_SECONDS", 0.05)  # clocks of file systems here tick within 0.01
        patch.setattr(doctor, "sha256", digest_of)
        patch.setattr(embedder, "_load", lambda one: load(shared(one)))
        patch.setattr(embedder, "queries", lambda one: queries(shared(one)))
        patch.setattr(arguments, resolved.__name__, once(resolved))
        patch.setattr(AttributeDocstrings, "get_attr_docs", once(AttributeDocstrings.get_attr_docs, 1))
        yield


@pytest.fixture(autouse=True)
def nothing_to_note():
    """What a test asked and could not be noted is not tried again beside the next one."""
    yield
    if recording := sys.modules.get("kbhub.usage.log"):
        recording._waiting.clear()


@pytest.fixture
def patient(monkeypatch):
    """A busy machine makes answers late here, never poorer."""
    monkeypatch.setattr("kbhub.server.calls.FIRST_ANSWER_SECONDS", 60)
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 60)
    monkeypatch.setattr("kbhub.server.calls.FRESHEN_SECONDS", 60)


@pytest.fixture
def no_pause(monkeypatch):
    """Every call looks again, so that tests need not wait."""
    monkeypatch.setattr("kbhub.hub.REDISCOVER_SECONDS", 0.0)


@pytest.fixture
def always_fresh(no_pause, monkeypatch):
    """And waits for what it finds."""
    monkeypatch.setattr("kbhub.sync.freshness.QUICK_SECONDS", 60.0)
    monkeypatch.setattr("kbhub.sync.freshness.WATCHED_SECONDS", 0.0)


@pytest.fixture
def parsed_here(monkeypatch):
    """Files that must be converted are so in this process, where it is not the point that they are in another."""

    def parse(_, path: str, kind: str, data: bytes):
        return source.unpacked(path, kind, json.loads(source._encoded(source.parsed(path, data))))

    monkeypatch.setattr(source.IsolatedParser, "_tried", parse)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY


@pytest.fixture
def clock() -> Clock:
    """A clock that is set by hand."""
    return Clock()


def write_two_bases(environment: Environment) -> None:
    """Give the user a base `notes` that may be written to, and a base `fixed` that may not."""
    bases = {"notes": {"knowledge": "~/notes", "writable": True}, "fixed": "~/fixed"}
    environment.configure(bases=bases, repos={"*": list(bases)})


def synced(environment: Environment, **changes) -> Hub:
    hub = environment.hub(**changes)
    hub.sync()
    return hub


@pytest.fixture(scope="session")
def children():
    """What starts processes that are to suffer faults."""
    made = faults.Children()
    yield made
    made.stop()


@pytest.fixture
def mounted(children):
    """Calls a function of `faults` where something is mounted over a folder, in a process of its own."""

    def call(kind, folder, name, *arguments):
        if (answer := children.call("mounted", kind, folder, name, *arguments)) is None:
            pytest.skip("may not mount here")
        return answer

    return call
