"""A base that one may not read: no statement of a role tells what it holds, that it is there, or how large it is."""

import psycopg
import pytest

from kbhub.extensions.team import bases as team
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.schema import TABLES
from kbhub.search.search import search

pytestmark = pytest.mark.parametrize(
    "running", [pytest.param(16, marks=pytest.mark.slow), 18], indirect=True, ids="postgres{}".format
)

HIDDEN, WORD, PATH = "whisper", "xylophone", "plans/merger.md"

ROLES = ("stranger", "reader", "author")

OF_THE_SERVER = {
    *("pg_locks", "pg_stat_activity", "pg_stat_database", "pg_stat_io", "pg_stat_wal", "pg_stat_bgwriter"),
    *("pg_stat_checkpointer", "pg_stat_slru", "pg_stat_ssl", "pg_stat_gssapi", "pg_stat_archiver", "pg_database"),
    *("pg_shmem_allocations", "pg_backend_memory_contexts"),
}
"""What PostgreSQL shows everybody of all that a server does together; `docs/explanation/trust.md` says so."""

TRIED = (
    "SELECT * FROM {}",
    "SELECT count(*) FROM {}",
    "SELECT 1 FROM {} FOR UPDATE",
    "SELECT pg_relation_size('{}'), pg_total_relation_size('{}'), pg_table_size('{}'), pg_indexes_size('{}')",
    "EXPLAIN SELECT 1 FROM {}",
    "EXPLAIN (ANALYZE, BUFFERS, VERBOSE, TIMING off, SUMMARY off) SELECT 1 FROM {}",
    "EXPLAIN (GENERIC_PLAN, FORMAT json) SELECT 1 FROM {}",
    "COPY {} TO STDOUT",
    "INSERT INTO {} DEFAULT VALUES",
    "DELETE FROM {}",
    "TRUNCATE {}",
    "LOCK TABLE {} IN ACCESS SHARE MODE",
    "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE",
    "CREATE TEMP TABLE mine(LIKE {} INCLUDING ALL)",
    "CREATE STATISTICS mine ON (1), (2) FROM {}",
    "CREATE INDEX ON {} ((1))",
    "ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
)

TRIED_WHERE = (
    "EXPLAIN (ANALYZE, TIMING off, SUMMARY off) SELECT 1 FROM kbhub.document WHERE base_id = {} AND path >= 'n'",
    "EXPLAIN SELECT 1 FROM kbhub.document WHERE base_id = {} AND path = 'plans/merger.md'",
    "EXPLAIN UPDATE kbhub.term SET chunks = 1 WHERE base_id = {} AND term = 'xylophon'",
    "PREPARE one AS SELECT 1 FROM kbhub.posting WHERE base_id = {} AND term = 'xylophon'",
    "INSERT INTO kbhub.base VALUES ({}, 'whisper')",
    "SELECT * FROM pg_stats WHERE schemaname = 'kbhub'",
    "SELECT pg_database_size(current_database())",
    "LISTEN kbhub",
)

CALLED = {
    "integer": "{}", "bigint": "{}", "boolean": "true", "text": "'xylophon'", "name": "current_user",
    "text[]": "'{{xylophon,whisper,plans/merger.md,tag}}'",
}  # fmt: skip
"""Type → what a function is called with; arrays of others are of one NULL."""


@pytest.fixture
def cast(twin):
    """A base that all but strangers read, another that is hidden, and a connection of each role."""
    twin.write("a.md", "---\ntags: [all]\n---\n# A\n\nThe orchestra deploys a service.\n")
    twin.publish()
    team.grant(twin.database.server(), "postgres", "admin")
    made = {}
    for role in ROLES:
        twin.database.role(role)
        if role != "stranger":
            team.grant(twin.database.server(), twin.database.role_name(role), role, "notes")
        made[role] = psycopg.connect(twin.database.url(twin.database.role_name(role)), autocommit=True)
    yield made
    for connection in made.values():
        connection.close()


def hide(twin, name: str, texts: dict[str, str]) -> None:
    """Publish a base that only the superuser may read."""
    folder = twin.environment.project.parent / name
    for path, text in texts.items():
        twin.environment.write(f"{folder}/{path}", text)
    hub = twin.hub({name: str(folder)})
    (base,) = hub.select([name])
    publish(base, twin.database.server(), name, hub.embedder(), hub.limits())
    tidy(twin)


def tidy(twin) -> None:
    """Bring all that the server counts up to date."""
    twin.database.run(f"VACUUM ANALYZE {', '.join(f'kbhub.{table}' for table in TABLES)}")


def number_of(twin, name: str) -> int:
    """The number of a base, which a role that may not read it cannot know."""
    return twin.database.run("SELECT base_id FROM kbhub.base WHERE name = %s", name)[0][0]


def statements(twin) -> list[str]:
    """Everything that may be tried on the objects of the schema: each table, each function, each form of a plan."""
    hidden = number_of(twin, HIDDEN)
    tables = [
        table for (table,) in twin.database.run(
            "SELECT 'kbhub.' || relname FROM pg_class WHERE relnamespace = 'kbhub'::regnamespace AND relkind <> 'i'"
        )
    ]  # fmt: skip
    calls = []
    for name, types in twin.database.run(
        "SELECT proname, (SELECT coalesce(array_agg(format_type(t, NULL) ORDER BY n), '{}') FROM unnest(proargtypes) "
        "WITH ORDINALITY a(t, n)) FROM pg_proc WHERE pronamespace = 'kbhub'::regnamespace"
    ):
        values = [CALLED.get(kind, "'{{NULL}}'" if kind.endswith("[]") else "NULL").format(hidden) for kind in types]
        calls += [f"kbhub.{name}({', '.join(values[: len(values) - spared])})" for spared in (0, 1)]
        calls += [f"kbhub.{name}({', '.join([*values[:-1], who])})" for who in ("'postgres'", "'kbhub_owner'")]
    calls += ["kbhub.bases()", *(f"kbhub.open('{name}')" for name in (HIDDEN, "notes", "nothing"))]
    explain = "EXPLAIN (ANALYZE, VERBOSE, BUFFERS, TIMING off, SUMMARY off)"
    return [
        *(statement.format(*[table] * 4) for table in tables for statement in TRIED),
        *(statement.format(hidden) for statement in TRIED_WHERE),
        *(f"{explained} SELECT * FROM {call}" for call in calls for explained in ("", explain)),
    ]


def outcome(connection, statement: str) -> list:
    """What a role sees of a statement: rows or an error, and all that the server says beside."""
    said = []
    listen = lambda diagnostic: said.append(diagnostic.message_primary)  # noqa: E731
    connection.add_notice_handler(listen)
    try:
        with connection.transaction(force_rollback=True):
            cursor = connection.execute(statement)
            rows = sorted(map(str, cursor.fetchall())) if cursor.description else [cursor.statusmessage]
    except psycopg.Error as error:
        rows = [error.sqlstate, error.diag.message_primary]
    finally:
        connection.remove_notice_handler(listen)
    return [rows, said]


def catalog(twin, connection, role: str, step: int) -> dict[str, list]:
    """All that a role may read of PostgreSQL's own tables and views, or one in `step` of them."""
    readable = twin.database.run(
        "SELECT c.oid::regclass::text, string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped "
        "WHERE relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) "
        "AND relkind IN ('r', 'v') "
        "AND has_column_privilege(%s, c.oid, attnum, 'SELECT') GROUP BY c.oid ORDER BY 1",
        role,
    )
    return {
        name: outcome(connection, f"SELECT {columns} FROM {name}")
        for name, columns in readable[::step]
        if name not in OF_THE_SERVER
    }


def seen(twin, cast, step: int) -> dict[tuple[str, str], list]:
    """All that each role sees, of one statement in `step`."""
    found = {}
    for role, connection in cast.items():
        connection.execute("SET client_min_messages = log; SET debug_print_plan = on; SET enable_indexscan = off")
        for statement in statements(twin)[::step]:
            outcome(connection, statement)  # so that nothing depends on what the session has looked up before
            found[role, statement] = outcome(connection, statement)
        connection.execute("RESET ALL")
        for name, rows in catalog(twin, connection, twin.database.role_name(role), step).items():
            found[role, name] = rows
    return found


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_that_a_role_can_ask_depends_on_a_hidden_base(twin, cast, step):
    """Not on its words, paths, size or number, whatever is asked of whatever there is; nor on forty more."""
    hide(twin, HIDDEN, {"b.md": "# B\n\nNothing of note.\n"})
    before = seen(twin, cast, step)
    words = " ".join(f"word{number}" for number in range(2_000))
    hide(twin, HIDDEN, {PATH: f"# Merger\n\nThe {WORD} is sold.\n", "c.md": f"# C\n\n{words}\n"})
    with team.changing(twin.database.server(), HIDDEN, "kbhub team publish"):
        pass
    for number in range(40):
        team.describe(twin.database.server(), f"{HIDDEN}{number}", description="d" * 300, memories=True)
    tidy(twin)

    after = seen(twin, cast, step)

    assert [key for key, rows in after.items() if rows != before[key]] == []
    number = number_of(twin, HIDDEN)
    call = f" SELECT * FROM kbhub.document_rows({number})"
    calls = {outcome(connection, call)[0][0] for connection in cast.values()}
    tables = {rows[0][0] for (_, said), rows in after.items() if said.startswith("SELECT * FROM kbhub.")}
    assert calls == tables == {"42501"}


def test_while_a_hidden_base_is_written_only_that_somebody_writes_is_seen(twin, cast):
    """Neither its name nor its number stands in a lock, a session or a notification."""
    hide(twin, HIDDEN, {"b.md": "# B\n"})
    number = number_of(twin, HIDDEN)
    for connection in cast.values():
        connection.execute("LISTEN kbhub")
    with team.changing(twin.database.server(), HIDDEN, "kbhub team publish from ada@laptop"):
        for connection in cast.values():
            locks = connection.execute("SELECT * FROM pg_locks").fetchall()
            sessions = connection.execute("SELECT * FROM pg_stat_activity").fetchall()
            assert not [lock for lock in locks if lock[0] == "advisory" or number in lock]
            assert HIDDEN not in str(sessions)
    assert [list(connection.notifies(timeout=0)) for connection in cast.values()] == [[], [], []]


def test_nobody_without_rights_keeps_others_from_reading_and_publishing(twin, cast):
    """No lock that kbhub waits for can be taken by a role that may not write the base."""
    number = number_of(twin, "notes")
    for role in ("stranger", "reader"):
        connection = cast[role]
        for lock in ("(1801613413, 0)", f"(1801613413, {number})"):
            connection.execute(f"SELECT pg_try_advisory_lock{lock}")
        assert outcome(connection, f"SELECT kbhub.hold({number})")[0][0] == "42501"
    twin.write("new.md", f"# New\n\n{WORD}\n")
    assert twin.publish().added == 1
    assert search(twin.shared(), WORD).total == 1
    assert team.shared_bases(twin.database.server())[0].name == "notes"


def test_a_database_with_other_tables_keeps_its_counts(bare):
    """What else is there may need them; `kbhub team init` says what that shows."""
    bare.run("CREATE TABLE public.orders(id integer)")
    assert team.init(bare.server()) == (0, False)
    stranger = psycopg.connect(bare.role("stranger").url, autocommit=True)
    assert outcome(stranger, "SELECT pg_relation_size('public.orders')") == [["(0,)"], []]
    bare.run("DROP TABLE public.orders")
    assert team.init(bare.server()) == (2, True)
    assert outcome(stranger, "SELECT pg_relation_size('pg_class')")[0][0] == "42501"
    stranger.close()
