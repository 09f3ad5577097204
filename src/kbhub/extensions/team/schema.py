"""The tables of shared bases, and the functions that are the only way to them.

No role but the owner has a privilege on a table: a plan, an estimate or a lock tells as much as a row. Functions run as
the owner, check the caller's rights once, and only then read or write rows of that base. Every key begins with the base
and every join stays within one, so the tables can be partitioned or sharded by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kbhub.index.engine import KINDS
from kbhub.values import Value

LARGEST_ID = 2**31 - 1
"""Largest id of a chunk, which `blocks.CHUNK_SHIFT` leaves room for, and of a document."""

MOST_LINES = 10_000_000
"""Lines of a document: reading its text takes memory for each, even if all are blank."""

MOST_DIMENSIONS = 16_384
"""Numbers of a vector, a byte each; the largest models make 4,096."""

LATEST = 253_402_300_799
"""Last second of the year 9999, since the epoch."""

_DOCID = re.compile("[0-9a-f]{16}")
_LINK_KINDS = frozenset(("markdown", "wikilink", "embed", "reference"))


def _between(least: int, most: int, values: Sequence[int]) -> bool:
    return least <= min(values) and max(values) <= most


_is_id, _is_line = partial(_between, 0, LARGEST_ID), partial(_between, 0, MOST_LINES)

_CHECKS: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    **dict.fromkeys(("id", "document_id", "chunk_id", "min", "first", "last", "doc"), _is_id),
    **dict.fromkeys(("line", "end_line", "prose"), _is_line),
    "start_line": partial(_between, 1, MOST_LINES),
    "path": all,  # one that leads out of the base is refused where it is opened or written
    "docid": lambda values: all(map(_DOCID.fullmatch, values)),
    "kind": KINDS.issuperset,
    "embedding": lambda values: len(set(map(len, values))) == 1 and 0 < len(values[0]) <= MOST_DIMENSIONS,
}
"""Column → whether all its values are possible. The tables have types, so only what these allow is left."""

_META: Mapping[str, type] = {"generation": int, "pack": int, "embedder": str, "synced": str}
"""What readers use of `meta`, and its types."""


def checked(columns: Sequence[str], rows: list[Any]) -> list[Any]:
    """Return fetched rows, raising ValueError if a value is impossible for its column."""
    for number, column in enumerate(columns if rows else ()):
        # A statement about links returns no kinds of documents.
        check = _LINK_KINDS.issuperset if column == "kind" and "target" in columns else _CHECKS.get(column)
        if check and not check([row[number] for row in rows]):
            raise ValueError(f"a value of `{column}` is impossible")
    return rows


def checked_meta(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `meta`; raises like `checked`."""
    for key, kind in _META.items():
        if (value := values.get(key)) is not None and type(value) is not kind:
            raise ValueError(f"its {key} is of another type")
    if (synced := values.get("synced")) and datetime.fromisoformat(synced).tzinfo is None:
        raise ValueError("it was synced at an unknown time")
    return values


Rights = Literal["reader", "author", "admin"]

RIGHTS: Mapping[Rights, int] = {"reader": 1, "author": 2, "admin": 3}
"""Rights of a role on a base, each with those below it: read; publish, remember; grant, remove, forget others'."""


class SharedBase(Value):
    """A shared base that the role may read."""

    name: str
    """Its name in the database."""
    description: str | None = None
    """What the base is about."""
    memories: bool = False
    """Whether agents may remember in it."""
    rights: Rights
    """What you may do with it."""
    documents: int
    """Number of documents."""
    published: str | None = None
    """When it was last synced (ISO 8601, UTC)."""
    publisher: str | None = None
    """Who synced it, and from where."""


class Member(Value):
    """A role with rights on a base."""

    role: str
    """Role of the database."""
    rights: Rights
    """What it may do."""


EVERY_BASE = 0
"""In place of a base: bases that do not exist yet. Who is an admin of these may create bases."""

TABLES = (
    *("base", "meta", "document", "file", "chunk", "extent", "signature", "vector", "property", "link", "problem"),
    *("term", "posting", "gone", "packed"),
)
"""Tables with rows of bases; `member`, `number` and `version` have none."""

WRITTEN = {
    "document": "id int4, path text, docid text, size int8, mtime_ns int8, hash bytea, title text, kind text, "
    "tags text, aliases text, front_matter text, dated int8?, committed int8?, problem text?",
    "file": "document_id int4, content bytea",
    "chunk": "id int8, document_id int4, headings text, start_line int4, end_line int4, prose int4, text text",
    "extent": "chunk_id int8, document_id int4, tokens int4",
    "vector": "chunk_id int8, key int8, embedding bytea?",
    "signature": "chunk_id int8, signature bytea",
    "property": "document_id int4, place int4, key text, value text, number float8?",
    "link": "document_id int4, place int4, target text, fragment text, text text, line int4, kind text",
    "problem": "path text, message text",
    "meta": "key text, value jsonb?",
    "term": "term text, chunks int4",
    "posting": "term text, first int8, last int8, size int4, chunks bytea, counts bytea, places bytea",
    "packed": "name text, data bytea",
}
"""Table → the columns, with their types, that `kbhub.put_TABLE` takes as arrays; `?` if they may be NULL."""

_KEYS_OF_TWO = ("property", "link", "problem", "posting")
"""Tables whose key is the base and the first two columns; that of the others is the base and the first."""


def columns(table: str) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a table of `WRITTEN`."""
    return _pairs(WRITTEN[table].replace("?", ""))


def _pairs(listed: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (column.split() for column in listed.split(", "))]


def _table(name: str) -> str:
    kinds = {"text": 'text COLLATE "C"'}
    pairs = [(column, kind.rstrip("?"), kind[-1] != "?") for column, kind in _pairs(WRITTEN[name])]
    typed = [f"{column} {kinds.get(kind, kind)}{' NOT NULL' * needed}" for column, kind, needed in pairs]
    key = ", ".join(column for column, *_ in pairs[: 2 if name in _KEYS_OF_TWO else 1])
    rows = ",\n  ".join(("base_id int4 NOT NULL", *typed, f"PRIMARY KEY (base_id, {key})"))
    return f"CREATE TABLE kbhub.{name}(\n  {rows}\n);"


_OTHER_TABLES = """
CREATE TABLE kbhub.version(version integer NOT NULL);
CREATE TABLE kbhub.member(
  base_id integer NOT NULL,
  role name NOT NULL,
  rights smallint NOT NULL CHECK (rights BETWEEN 1 AND 3),
  PRIMARY KEY (base_id, role)
);
CREATE TABLE kbhub.number(base_id integer PRIMARY KEY);
CREATE TABLE kbhub.base(
  base_id integer PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  description text,
  memories boolean NOT NULL DEFAULT false
);
CREATE TABLE kbhub.gone(base_id integer NOT NULL, chunk_id bigint NOT NULL, PRIMARY KEY (base_id, chunk_id));
ALTER TABLE kbhub.document ADD author name NOT NULL DEFAULT current_user, ADD UNIQUE (base_id, path);
CREATE INDEX member_role ON kbhub.member(role);
CREATE INDEX document_docid ON kbhub.document(base_id, docid);
CREATE INDEX chunk_document ON kbhub.chunk(base_id, document_id);
CREATE INDEX vector_key ON kbhub.vector(base_id, key);
CREATE INDEX property_value ON kbhub.property(base_id, key, value);
"""

_SETTINGS = (
    "SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error "
    "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_indexscan = on "
    "SET enable_bitmapscan = on SET enable_hashjoin = off SET enable_mergejoin = off"
)
"""What a function runs with, whatever its caller has set.

Messages could show plans to the caller. With indexes always used, a function reads no page but those with rows of the
caller's bases, and is as fast before the server has statistics as after.
"""

_WHOLE = ("meta", "document", "chunk", "vector", "property", "link", "problem", "term", "gone", "packed")
"""Tables that `kbhub.TABLE_rows` returns."""

LONGEST_TEXT = 100_000
"""Most characters of a text that are read: of front matter, which is the longest of a chunk, 65,536 are indexed."""

LONGEST_JSON = 1_000_000
"""The same of stored JSON, in which a character can take twelve."""

_CUT = {
    "document": {
        "mtime_ns": "greatest(mtime_ns, 1 - 9223372036854775807)",
        "hash": "substr(hash, 1, 64)",
        **{name: f"left({name}, {LONGEST_TEXT})" for name in ("title", "problem")},
        **{name: f"left({name}, {LONGEST_JSON})" for name in ("tags", "aliases", "front_matter")},
        **{name: f"CASE WHEN {name} BETWEEN -{LATEST} AND {LATEST} THEN {name} END" for name in ("dated", "committed")},
    },
    "chunk": {
        "headings": f"left(headings, {LONGEST_JSON})",
        "prose": "greatest(prose, 0)",
        "text": f"left(text, {LONGEST_TEXT})",
    },
    "vector": {"embedding": f"substr(embedding, 1, {MOST_DIMENSIONS} + 1)"},
    "link": {name: f"left({name}, {LONGEST_TEXT})" for name in ("target", "fragment", "text")},
    "problem": {"message": f"left(message, {LONGEST_TEXT})"},
    "meta": {"value": f"CASE WHEN octet_length(value::text) <= {LONGEST_TEXT} THEN value ELSE '[]' END"},
}
"""Table → what its functions return of columns that would take a reader's memory.

Columns with a database index are as they are: it limits them.
"""

_BY = {
    "document": "id int8, path text",
    "chunk": "id int8, document_id int8",
    "vector": "chunk_id int8, key int8",
    "property": "document_id int8, key text",
    "term": "term text",
    "posting": "term text",
}
"""Table → the columns, with their types, by a list of whose values `kbhub.TABLE_by_COLUMN` returns rows."""

_CLEARED = ("vector", "signature", "packed", "gone", "problem")
"""Tables that `kbhub.clear_TABLE` empties."""

_PARTS = ("file", "chunk", "extent", "property", "link")
"""Tables with parts of documents, each of which belongs to the document's author."""

_UPSERTS = {
    "meta": "ON CONFLICT (base_id, key) DO UPDATE SET value = excluded.value",
    "vector": "ON CONFLICT (base_id, chunk_id) DO UPDATE SET key = excluded.key, embedding = excluded.embedding",
    "problem": "ON CONFLICT DO NOTHING",
    "term": "ON CONFLICT (base_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks; "
    "DELETE FROM kbhub.term t WHERE t.base_id = of_base AND t.term = ANY (term_of) AND t.chunks = 0",
}
"""Table → what `kbhub.put_TABLE` does with rows that there are already."""


def _function(name: str, takes: str, returns: str, check: str, body: str) -> str:
    return (
        f"CREATE FUNCTION kbhub.{name}(of_base integer{takes}, who name DEFAULT current_user) RETURNS {returns}\n"
        f"  LANGUAGE plpgsql {'VOLATILE' if returns == 'void' else 'STABLE'} AS_OWNER AS $$\n"
        f"BEGIN\n  PERFORM kbhub.{check};\n  {body};\nEND\n$$;"
    )


def _reading(table: str, name: str, takes: str = "", condition: str = "") -> str:
    shown = "t.*"
    if cut := _CUT.get(table):
        names = ["base_id", *dict(columns(table)), *(["author"] if table == "document" else [])]
        shown = ", ".join(cut.get(name, name) for name in names)
    query = f"RETURN QUERY SELECT {shown} FROM kbhub.{table} t WHERE t.base_id = of_base{condition}"
    return _function(f"{table}_{name}", takes, f"SETOF kbhub.{table}", "require(of_base, 1, who)", query)


def _writing(table: str) -> str:
    names, values = (", ".join(f"{name}{end}" for name, _ in columns(table)) for end in ("", "_of"))
    author, who = (", author", ", who") if table == "document" else ("", "")
    return _function(
        f"put_{table}",
        "".join(f", {name}_of {kind}[]" for name, kind in columns(table)),
        "void",
        "require_own(of_base, document_id_of, who)" if table in _PARTS else "require(of_base, 2, who)",
        f"INSERT INTO kbhub.{table} AS t (base_id, {names}{author}) SELECT of_base, n.*{who} FROM unnest({values}) n "
        + _UPSERTS.get(table, ""),
    )


def functions() -> str:
    """Return the SQL of all functions."""
    after = ", low int8, most integer", " AND t.chunk_id > low ORDER BY t.chunk_id LIMIT most"
    made = [
        *(_reading(table, "rows") for table in _WHOLE),
        *(
            _reading(table, f"by_{name}", f", wanted {kind}[]", f" AND t.{name} = ANY (wanted)")
            for table, listed in _BY.items()
            for name, kind in _pairs(listed)
        ),
        *(_reading(table, "after", *after) for table in ("extent", "signature")),
        *(
            _reading(table, "between", ", low text, high text", f" AND t.{column} >= low AND t.{column} < high")
            for table, column in (("document", "docid"), ("term", "term"))
        ),
        *map(_writing, WRITTEN),
        *(
            _function(
                f"clear_{table}", "", "void", "require(of_base, 2, who)",
                f"DELETE FROM kbhub.{table} t WHERE t.base_id = of_base",
            )
            for table in _CLEARED
        ),
    ]  # fmt: skip
    rows = "\n  ".join(f"DELETE FROM kbhub.{table} t WHERE t.base_id = of_base;" for table in ("member", *TABLES))
    written = (Path(__file__).parent / "functions.sql").read_text("utf-8").replace("REMOVE_ROWS", rows)
    return "\n\n".join([written, *made]).replace("AS_OWNER", _SETTINGS)


VERSION = 2
"""Version of the schema, as stored in the database; a database of another version is left alone."""

_BEFORE = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kbhub_owner') THEN
    CREATE ROLE kbhub_owner NOLOGIN;
  END IF;
END $$;
GRANT kbhub_owner TO CURRENT_USER;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO kbhub_owner', current_database()); END $$;
SET LOCAL ROLE kbhub_owner;
"""

_FUNCTIONS = f"""
{functions()}
REVOKE ALL ON SCHEMA kbhub FROM PUBLIC;
GRANT USAGE ON SCHEMA kbhub TO PUBLIC;
REVOKE EXECUTE ON FUNCTION kbhub.bases_of, kbhub.require, kbhub.whose, kbhub.require_own FROM PUBLIC;
"""

_AFTER = "RESET ROLE;\nREVOKE kbhub_owner FROM CURRENT_USER;"

CLOSING = """
DO $$ DECLARE one regprocedure; columns text; BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('kbhub', 'information_schema') AND n.nspname !~ '^pg_'
  ) THEN
    RETURN;
  END IF;
  FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND pronargs > 0 AND (
    proargtypes[0] = 'oid'::regtype AND proname ~ '^pg_stat_get_(?!db_|backend_)'
    OR proname IN ('pg_relation_size', 'pg_table_size', 'pg_indexes_size', 'pg_total_relation_size', 'pg_database_size')
  ) LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO pg_read_all_stats', one);
  END LOOP;
  SELECT string_agg(attname, ', ') INTO columns FROM pg_attribute WHERE attrelid = 'pg_class'::regclass
  AND attname NOT IN ('reltuples', 'relpages', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid');
  REVOKE SELECT ON pg_class FROM PUBLIC;
  EXECUTE format('GRANT SELECT (%s) ON pg_class TO PUBLIC', columns);
  GRANT SELECT ON pg_class TO pg_read_all_stats;
END $$;
"""
"""Hides what PostgreSQL shows everybody, rows and sizes of all bases together; at once, or again after its upgrade.

Only for a superuser, and only in a database with nothing else in it, which might need what is hidden.
"""

CLOSED = "SELECT NOT has_function_privilege('public', 'pg_stat_get_live_tuples(oid)', 'EXECUTE')"


def creation_sql(admin: str | None = None) -> str:
    """Return the SQL that creates the schema; `admin` may create bases from then on, None is the role that runs it."""
    who = "session_user" if admin is None else "'" + admin.replace("'", "''") + "'"
    # Without a policy, a role that may read all tables of a server reads none of these.
    tables = "version", "member", "number", *TABLES
    secured = [f"ALTER TABLE kbhub.{table} ENABLE ROW LEVEL SECURITY;" for table in tables]
    rows = [
        f"INSERT INTO kbhub.version VALUES ({VERSION});",
        f"INSERT INTO kbhub.member VALUES ({EVERY_BASE}, {who}, {RIGHTS['admin']});",
    ]
    made = ["CREATE SCHEMA kbhub;", *map(_table, WRITTEN), _OTHER_TABLES, *secured, *rows]
    parts = [_BEFORE, *made, _FUNCTIONS, _AFTER, CLOSING]
    return "\n".join([*map(str.strip, parts), ""])
