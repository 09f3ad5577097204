"""The examples are right: they load, and their queries find what a reader expects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kbhub.config import load_config
from kbhub.hub import Hub
from kbhub.options import HubOptions
from kbhub.pointer import read_pointer
from kbhub.types import Query

EXAMPLES = Path(__file__).parent.parent / "examples"
TEAM = EXAMPLES / "team"

QUERIES = [
    ("how do we roll back a release", "runbooks/rollback.md"),
    ("undo a deployment", "runbooks/rollback.md"),
    ("can I deploy on friday afternoon", "runbooks/deploy.md"),
    ("who gets paged for a SEV1", "runbooks/incident.md"),
    ("swap my on-call shift", "on-call.md"),
    ("branch name for a bug fix", "branch-naming.md"),
    ("pagination cursor", "api-conventions.md"),
    ("Idempotency-Key", "api-conventions.md"),
    ("port 4000 is already in use", "local-setup.md"),
    ("test credit card that is declined", "local-setup.md"),
    ("rename a column without downtime", "database-migrations.md"),
    ("why not mongodb", "decisions/0001-postgres-not-mongodb.md"),
    ("turn a feature off for customers", "decisions/0003-feature-flags.md"),
    ("what does windfall mean", "glossary.md"),
    ("ローカル環境の構築", "ja/local-setup.md"),
    ("文字化け", "ja/local-setup.md"),
]


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Hub:
    """A hub in the example project, for a user who never ran kbhub before."""
    folder = tmp_path_factory.mktemp("user")
    env = {"HOME": str(folder), "KBHUB_CACHE_DIR": str(folder / "cache"), "KBHUB_DATA_DIR": str(folder / "data")}
    hub = Hub(HubOptions(root=TEAM, home=folder, env=env))
    hub.sync()
    return hub


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_a_query_finds_its_document_first(team, query, expected):
    """As a person on that team would ask it, with the model that comes with kbhub."""
    assert team.search(Query(text=query)).hits[0].ref == expected


def test_the_team_is_one_base_without_problems(team):
    """Its pointer is found, and every document is indexed as it should be."""
    status = team.status()
    (base,) = status.bases

    assert (status.problems, base.problems) == ((), ())
    assert (base.base.origin, base.base.name) == ("pointer", "Orchard")
    assert base.documents == len(list((TEAM / "knowledge").rglob("*.md")))
    assert {name for name in base.base.contexts if not (TEAM / "knowledge" / name).is_dir()} == set()


def test_the_team_is_found_without_git(tmp_path):
    """As from an archive: the pointer makes it count."""
    shutil.copytree(TEAM, tmp_path / "team")
    env = {"HOME": str(tmp_path), "KBHUB_CACHE_DIR": str(tmp_path / "cache"), "KBHUB_DATA_DIR": str(tmp_path / "data")}
    hub = Hub(HubOptions(cwd=tmp_path / "team", home=tmp_path / "home", env=env))

    assert hub.discovery().workspace.git_root is None
    assert [base.path for base in hub.discovery().bases] == [tmp_path.resolve() / "team" / "knowledge"]


def test_links_between_the_documents_lead_somewhere():
    """Whoever finds one finds the next."""
    from kbhub.markdown import parse_document

    missing = []
    for file in (TEAM / "knowledge").rglob("*.md"):
        document = parse_document(file.name, file.read_bytes())
        missing += [link.target for link in document.links if not (file.parent / link.target).exists()]
        related = document.front_matter.get("related", [])
        missing += [path for path in related if not (TEAM / "knowledge" / path).exists()]

    assert missing == []


def test_the_configs_have_no_warnings(tmp_path):
    """Every field in them means something."""
    loaded = load_config(EXAMPLES / "global-config" / "kbhub.json", {}, tmp_path)
    _, warnings = read_pointer(TEAM / ".kbhub.json")

    assert (loaded.warnings, warnings) == ((), ())
    assert set(loaded.settings.repos) == {"*", "~/work/orchard", "~/work/payments", "~/study"}


@pytest.mark.parametrize("file", [TEAM / ".kbhub.json", EXAMPLES / "global-config" / "kbhub.json"])
def test_the_configs_name_a_schema_that_is_there(file):
    """Editors complete and check them."""
    from kbhub.jsonc import read_jsonc

    assert (file.parent / read_jsonc(file)["$schema"]).is_file()


@pytest.mark.parametrize("file", sorted((EXAMPLES / "clients").glob("*.json")), ids=lambda file: file.name)
def test_the_snippets_start_a_command_that_exists(file):
    """They are plain JSON, and `kbhub` takes their arguments."""
    from kbhub.cli.run import app

    (servers,) = json.loads(file.read_text("utf-8")).values()
    server = servers["kbhub"]
    command, bound, *_ = app.parse_args(server["args"])

    assert server["command"] == "kbhub"
    assert command.__name__ == "serve"
    assert not bound.args


def test_the_snippets_are_all_described():
    """Nobody has to guess which client a snippet is for."""
    readme = (EXAMPLES / "clients" / "README.md").read_text("utf-8")

    assert {file.name for file in (EXAMPLES / "clients").glob("*.json") if f"({file.name})" not in readme} == set()
