"""Memories of a team: written by agents into a shared base, each its author's."""

import json

import psycopg
import pytest

from kbhub.errors import EngineUnavailable, MemoryNotFound, UsageError, WriteRefused
from kbhub.extensions.team import bases as team
from kbhub.memory.catalog import all_known
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.search.search import search

FRIDAY = "Never deploy on Fridays: the on-call is alone."


@pytest.fixture
def people(twin):
    """A base for memories, and the hubs of two authors, an admin and a reader."""
    admin = twin.database.server()
    team.describe(admin, "lore", memories=True, description="What we learned")
    hubs = {"postgres": admin}
    for role, rights in (("ada", "author"), ("ben", "author"), ("kim", "admin"), ("eve", "reader")):
        twin.database.role(role)
        team.grant(admin, twin.database.role_name(role), rights, "lore")
        url = twin.database.url(twin.database.role_name(role))
        hubs[role] = twin.hub({"lore": {"engine": f"{url}#lore", "memories": True, "timeout": 20}})
    return hubs


def test_what_one_remembers_the_others_find(people, twin):
    done = remember(people["ada"], FRIDAY, scope="team", tags=["deploy"], client="claude")

    assert done.did == "stored"
    for reader in ("ben", "eve"):
        (hit,) = search(people[reader], "deploy on friday").hits
        assert hit.ref == done.memory.ref
    (listed,) = memories(people["ben"], scope="team").memories
    assert listed.author == twin.database.role_name("ada")
    assert (listed.by, listed.source, listed.tags) == ("claude", "agent", ("deploy",))
    assert twin.database.run("SELECT author FROM kbhub.document") == [(twin.database.role_name("ada"),)]
    ((text,),) = twin.database.run("SELECT convert_from(content, 'UTF8') FROM kbhub.file")
    assert str(twin.environment.project) not in text  # nothing of a machine goes along


def test_a_member_who_adds_the_base_remembers_in_it(people, twin, kbhub):
    """`bases add` takes that over from the database; also for a base that was added while it did not answer."""
    url = twin.database.url(twin.database.role_name("ada"), "lore")
    config, gone = twin.environment.home / ".kbhub.json", "postgresql://127.0.0.1:1/team#lore"

    offline = kbhub("base", "add", gone, code=0)
    assert "Could not find out whether agents may remember in it." in offline.out
    assert "memories" not in json.loads(config.read_text())["bases"]["lore"]
    config.write_text(config.read_text().replace(gone, url))
    added = kbhub("base", "add", url, code=0)
    again = kbhub("base", "add", url, code=0)
    unknown = kbhub("base", "add", twin.database.url(base="other"), code=0)

    assert "Agents may remember in it, with the scope `team`." in added.out
    assert json.loads(config.read_text())["bases"]["lore"] == {"engine": url, "memories": True}
    assert "nothing changed" in again.out
    assert "You may not read it yet, or it does not exist" in unknown.out
    assert "lore@" in kbhub("remember", FRIDAY, "--scope", "team", code=0).out


def test_the_same_said_again_strengthens_for_oneself_alone(people):
    name = remember(people["ada"], FRIDAY, scope="team").memory.id

    again = remember(people["ben"], "never deploy on fridays: the on-call is alone.", scope="team")

    assert (again.did, again.memory.id) == ("strengthened", name)
    assert memories(people["ben"], scope="team").memories[0].uses == 1


def test_only_the_author_or_an_admin_changes_or_forgets(people):
    name = remember(people["ada"], FRIDAY, scope="team").memory.id

    for attempt in (
        lambda: forget(people["ben"], [name]),
        lambda: remember(people["ben"], "Deploy whenever you like.", id=name),
        lambda: forget(people["eve"], [name]),
        lambda: remember(people["eve"], "I may only read.", scope="team"),
    ):
        with pytest.raises((WriteRefused, EngineUnavailable)):
            attempt()
    assert [known.facts.id for known in all_known(people["eve"], "team")] == [name]

    changed = remember(people["ada"], "Never deploy on Fridays or Mondays.", id=name)
    assert "Mondays" in changed.memory.text
    assert search(people["ben"], "mondays").total == 1
    forgotten = forget(people["kim"], [name])
    (file,) = forgotten.trash.iterdir()
    assert "Mondays" in file.read_text()
    assert [memory.id for memory in forgotten.memories] == [name]
    with pytest.raises(MemoryNotFound):
        forget(people["kim"], [name])
    assert all_known(people["ada"], "team") == []
    assert search(people["ada"], "fridays").total == 0


def test_no_statement_changes_what_somebody_else_remembered(people, twin):
    """The rows of a memory are its author's, whatever speaks to the database."""
    remember(people["ada"], FRIDAY, scope="team")
    number, row = twin.database.run("SELECT base_id, id FROM kbhub.document")[0]
    with psycopg.connect(twin.database.url(twin.database.role_name("ben")), autocommit=True) as connection:
        assert connection.execute("SELECT kbhub.remove_documents(%s, ARRAY[%s])", (number, row)).fetchone() == (0,)
        connection.execute("SELECT kbhub.touch(%s, path, 0, 0) FROM kbhub.document_rows(%s)", (number, number))
        for statement in (
            "SELECT kbhub.put_file(%s, ARRAY[%s], ARRAY['x'::bytea])",
            "SELECT kbhub.put_extent(%s, ARRAY[1], ARRAY[%s], ARRAY[1])",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement, (number, row))
    assert search(people["ada"], "fridays").total == 1
    assert twin.database.run("SELECT count(*) FROM kbhub.document WHERE size = 0") == [(0,)]


def test_a_base_must_be_made_for_memories_and_named_so(twin):
    twin.write("a.md", "# A\n")
    twin.publish()
    with pytest.raises(UsageError, match="No shared base here accepts memories"):
        remember(twin.shared(), FRIDAY, scope="team")
    with pytest.raises(WriteRefused, match="admin has not allowed"):
        remember(twin.shared(memories=True), FRIDAY, scope="team")
    with pytest.raises(EngineUnavailable, match="contains documents of a folder"):
        team.describe(twin.database.server(), "notes", memories=True)


def test_a_folder_is_never_published_over_memories(twin):
    team.describe(twin.database.server(), "notes", memories=True)
    remember(twin.shared(memories=True), FRIDAY, scope="team")
    twin.write("a.md", "# A\n")

    with pytest.raises(EngineUnavailable, match="agents remember in 'notes'"):
        twin.publish()

    assert search(twin.shared(), "fridays").total == 1


def test_documents_of_shared_bases_are_read_only(twin, kbhub):
    twin.write("a.md", "# A\n")
    twin.publish()
    entry = {"engine": twin.database.url(), "writable": True, "timeout": 20}
    twin.environment.configure(bases={"notes": entry}, repos={"*": "notes"})

    result = kbhub("doc", "write", "notes@b.md", "--text", "# B", code=1)

    assert "is shared; change the files that its publisher publishes" in result.err
