"""What a role may not read changes nothing that it sees, and memories of a team are their authors': by the database."""

import json
import random
import re

import psycopg
import pytest

from corpus import sentences
from kbhub.errors import EngineUnavailable, MemoryNotFound, UsageError, WriteRefused
from kbhub.extensions.team import bases as team
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.schema import VERSION
from kbhub.memory.catalog import all_known
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import tags
from kbhub.search.search import search
from kbhub.server.resources import complete_path
from kbhub.sync.freshness import sync
from kbhub.types import Query

BASES, ROLES, STEPS = 6, 4, 12
"""As many as a test has time for; `benchmarks/team.py --rights` takes 40, 50 and 2,000."""

QUERIES = ("deploy rollback", "databse", "#topic1", '"payment refund"', "zebra0 order")


@pytest.fixture
def filled(twin):
    """Bases of a few notes each, published, and the folders they are of."""
    texts = list(sentences(BASES * 4).values())
    folders = {}
    for number in range(BASES):
        name = f"b{number}"
        folders[name] = twin.environment.project.parent / name
        for part in range(4):
            text = f"---\ntags: [topic{number}, all]\n---\n# Note {part}\n\nzebra{number} {texts[number * 4 + part]}\n"
            twin.environment.write(f"{folders[name]}/n{part}.md", text)
    hub = twin.hub({name: str(folder) for name, folder in folders.items()})
    for base in hub.select(list(folders)):
        publish(base, twin.database.server(), base.id, hub.embedder(), hub.limits())
    return folders


def seen(hub) -> list:
    """What a member sees of all bases, but for docids."""
    results = [search(hub, Query(text=query, limit=20)) for query in QUERIES]
    results += [list_documents(hub), tags(hub)]
    plain = [
        re.sub(r'"docid":"[^"]*"', '"docid":""', re.sub(r"#[0-9a-f]{6,16}\b", "#", one.model_dump_json()))
        for one in results
    ]
    return [*map(json.loads, plain), complete_path(hub, "n")]


def test_after_any_grant_a_role_sees_exactly_its_bases(twin, filled):
    """Hits, scores, totals, corrections, tags, lists and completions are those of a local index of just these."""
    choose = random.Random(7)
    database, admin = twin.database, twin.database.server()
    roles = [f"r{number}" for number in range(ROLES)]
    for role in roles:
        database.role(role)
    granted: dict[str, set[str]] = {role: set() for role in roles}
    local = {}
    for _ in range(STEPS):
        role, name = choose.choice(roles), choose.choice(list(filled))
        if name in granted[role]:
            team.revoke(admin, database.role_name(role), name)
            granted[role].discard(name)
        else:
            team.grant(admin, database.role_name(role), choose.choice(["reader", "author"]), name)
            granted[role].add(name)
        asked = choose.choice(roles)
        mine = tuple(sorted(granted[asked]))
        if mine not in local:
            hub = twin.hub({name: str(filled[name]) for name in mine})
            sync(hub)
            local[mine] = seen(hub)
        url = database.url(database.role_name(asked))
        shared = twin.hub({name: {"engine": url, "timeout": 20} for name in mine})

        if mine:
            for found, expected in zip(seen(shared), local[mine], strict=True):
                assert found == expected
        assert [base.name for base in team.shared_bases(database.server(database.role_name(asked)))] == list(mine)


def test_no_function_gives_more_than_the_rights_of_its_caller(twin, filled):
    """Not by the number of another base, not in another's name, and not by writing to a base that one reads."""
    database = twin.database
    outsider = database.role("outsider")
    team.grant(database.server(), database.role_name("outsider"), "reader", "b0")
    ((mine,), (hidden,)) = database.run("SELECT base_id FROM kbhub.base WHERE name IN ('b0', 'b1') ORDER BY name")
    with psycopg.connect(outsider.url, autocommit=True) as connection:
        assert connection.execute("SELECT documents FROM kbhub.counts(%s)", (mine,)).fetchone() == (4,)
        assert connection.execute("SELECT name FROM kbhub.bases()").fetchall() == [("b0",)]
        assert connection.execute("SELECT name FROM kbhub.bases('postgres')").fetchall() == []
        for statement in (
            "SELECT * FROM kbhub.counts({hidden})", "SELECT * FROM kbhub.counts({mine}, 'postgres')",
            "SELECT kbhub.bases_of(current_user, 1)", "SELECT kbhub.put_problem({mine}, '{{x}}', '{{y}}')",
            "SELECT kbhub.clear_vector({mine})", "SELECT kbhub.remove_documents({mine}, '{{1}}')",
            "SELECT kbhub.remove_base({hidden})", "SELECT * FROM kbhub.members({mine})",
            "SELECT kbhub.grant_rights({mine}, current_user, 3)",
            "SELECT kbhub.grant_rights({hidden}, current_user, 3, 'postgres')",
            "SELECT kbhub.create_base('mine', 'postgres')", "SET ROLE kbhub_owner", "CREATE TABLE kbhub.other(x int)",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(mine=mine, hidden=hidden))


def test_a_role_cannot_stand_in_for_the_catalog(twin, filled):
    """Temporary tables come before others of their name, unless a function says otherwise."""
    outsider = twin.database.role("outsider")
    with psycopg.connect(outsider.url, autocommit=True) as connection:
        connection.execute(
            "CREATE TEMP TABLE pg_roles AS SELECT 'postgres'::name AS rolname, oid FROM pg_catalog.pg_roles "
            "WHERE rolname = current_user"
        )
        connection.execute("GRANT SELECT ON pg_roles TO PUBLIC")
        connection.execute("CREATE TEMP TABLE member AS SELECT 1 AS base_id, current_user AS role, 3 AS rights")
        assert connection.execute("SELECT * FROM kbhub.bases()").fetchall() == []


def test_a_hidden_base_and_none_are_told_in_the_same_words(twin, filled):
    database = twin.database
    outsider = database.role("outsider")
    reasons = []
    for name in ("b1", "b9"):
        hub = twin.hub({"x": {"engine": f"{outsider.url}#{name}", "timeout": 20}})
        (skipped,) = search(hub, "deploy").skipped
        reasons.append(skipped.reason.replace(name, "NAME"))
        with pytest.raises(EngineUnavailable) as refused:
            team.grant(outsider, "postgres", "reader", name)
        reasons.append(str(refused.value).replace(name, "NAME"))
    assert reasons[:2] == reasons[2:]
    assert "there is no base 'NAME' that you may read" in reasons[0]


CREATES = r'there is no role "every body".*`CREATE ROLE "every body";`.*`CREATE ROLE "every body" LOGIN;`'


def test_an_admin_grants_and_nobody_is_left_without_one_and_a_role_in_a_group_has_its_rights(twin, filled):
    """An admin of a base rules over that one; the last one cannot be taken away."""
    database = twin.database
    boss = database.role("boss")
    team.grant(database.server(), database.role_name("boss"), "admin", "b2")
    database.role("guest")

    team.grant(boss, database.role_name("guest"), "reader", "b2")

    assert {(one.role, one.rights) for one in team.members(boss, "b2")} == {
        ("postgres", "admin"), (database.role_name("boss"), "admin"), (database.role_name("guest"), "reader"),
    }  # fmt: skip
    assert team.revoke(boss, "postgres", "b2")
    with pytest.raises(EngineUnavailable, match="nobody else is an admin"):
        team.revoke(boss, database.role_name("boss"), "b2")
    guest = database.role_name("guest")
    for given, error, said in (
        (("every body", "reader", "b2"), EngineUnavailable, CREATES),
        (("pg_read_all_data", "reader", "b2"), EngineUnavailable, "a role of PostgreSQL itself"),
        ((guest, "reader", "b3"), EngineUnavailable, "no base 'b3'"),
        ((guest, "admin"), EngineUnavailable, "is no admin"),
        ((guest, "reader"), UsageError, "Name the base"),
    ):
        with pytest.raises(error, match=said):
            team.grant(boss, *given)

    # Rights are given to groups, too, and a role that is dropped has none.
    database.role("group")
    member = database.role("member")
    database.run(f"GRANT {database.role_name('group')} TO {database.role_name('member')}")
    team.grant(database.server(), database.role_name("group"), "reader", "b4")
    assert [base.name for base in team.shared_bases(member)] == ["b4"]


def test_the_schema_is_made_once_by_whoever_may(bare):
    """A role without the right is told so; two at once make one schema; the SQL can be run by hand."""
    plain = bare.role("plain")
    with pytest.raises(EngineUnavailable, match=r"may not do that|permission"):
        team.init(plain)
    bare.run(team.init_sql(admin=bare.role_name("plain")))
    assert team.init(bare.server()) == (VERSION, True)
    assert [member.role for member in team.members(bare.server())] == [bare.role_name("plain")]
    assert team.init_sql(bare.server()) == "-- Nothing to do.\n"


def test_a_newer_schema_is_refused_and_an_older_one_brought_up(database):
    database.run("UPDATE kbhub.version SET version = 99")
    for attempt in (team.init, team.shared_bases):
        with pytest.raises(EngineUnavailable, match=r"has schema 99, but this version of kbhub uses 2\. Upgrade kbhub"):
            attempt(database.server())
    database.run("UPDATE kbhub.version SET version = 0")
    with pytest.raises(EngineUnavailable, match="team init"):
        team.shared_bases(database.server())


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
