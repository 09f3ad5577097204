"""The tables of shared bases, who may see which rows, and how a database is brought to this version.

Every key begins with the base and every join stays within one, so the tables can be partitioned or sharded by it. Row
level security is forced on every table: the database decides what a role sees, not kbhub.
"""

from __future__ import annotations

VERSION = 1
"""Number of the last of `MIGRATIONS`, as stored in the database."""

READER, AUTHOR, ADMIN = 1, 2, 3
"""Rights of a role on a base, each with those below it: read; publish, remember; grant, remove, forget others'."""

RIGHTS = {"reader": READER, "author": AUTHOR, "admin": ADMIN}
"""Name → right."""

EVERY_BASE = 0
"""In place of a base: bases that do not exist yet. Who is an admin of these may create bases."""

TABLES = (
    *("base", "meta", "document", "file", "chunk", "extent", "signature", "vector", "property", "link", "problem"),
    *("term", "posting", "gone", "packed"),
)
"""Tables with rows of bases; `member` and `version` have none."""

_TABLES = """
CREATE TABLE kbhub.version(version integer NOT NULL);

CREATE TABLE kbhub.member(
  base_id integer NOT NULL,
  role name NOT NULL,
  rights smallint NOT NULL CHECK (rights BETWEEN 1 AND 3),
  PRIMARY KEY (base_id, role)
);

CREATE TABLE kbhub.base(
  base_id integer PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  description text,
  memories boolean NOT NULL DEFAULT false
);

CREATE TABLE kbhub.meta(
  base_id integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  value jsonb,
  PRIMARY KEY (base_id, key)
);

CREATE TABLE kbhub.document(
  base_id integer NOT NULL,
  id integer NOT NULL,
  path text COLLATE "C" NOT NULL,
  docid text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  mtime_ns bigint NOT NULL,
  hash bytea NOT NULL,
  title text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  tags text COLLATE "C" NOT NULL,
  aliases text COLLATE "C" NOT NULL,
  front_matter text COLLATE "C" NOT NULL,
  dated bigint,
  committed bigint,
  problem text COLLATE "C",
  author name NOT NULL DEFAULT current_user,
  PRIMARY KEY (base_id, id),
  UNIQUE (base_id, path)
);
CREATE INDEX document_docid ON kbhub.document(base_id, docid);

CREATE TABLE kbhub.file(
  base_id integer NOT NULL,
  document_id integer NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (base_id, document_id)
);

CREATE TABLE kbhub.chunk(
  base_id integer NOT NULL,
  id bigint NOT NULL,
  document_id integer NOT NULL,
  headings text COLLATE "C" NOT NULL,
  start_line integer NOT NULL,
  end_line integer NOT NULL,
  prose integer NOT NULL,
  text text COLLATE "C" NOT NULL,
  PRIMARY KEY (base_id, id)
);
CREATE INDEX chunk_document ON kbhub.chunk(base_id, document_id);

CREATE TABLE kbhub.extent(
  base_id integer NOT NULL,
  chunk_id bigint NOT NULL,
  document_id integer NOT NULL,
  tokens integer NOT NULL,
  PRIMARY KEY (base_id, chunk_id)
);

CREATE TABLE kbhub.signature(
  base_id integer NOT NULL,
  chunk_id bigint NOT NULL,
  signature bytea NOT NULL,
  PRIMARY KEY (base_id, chunk_id)
);

CREATE TABLE kbhub.vector(
  base_id integer NOT NULL,
  chunk_id bigint NOT NULL,
  key bigint NOT NULL,
  embedding bytea,
  PRIMARY KEY (base_id, chunk_id)
);
CREATE INDEX vector_key ON kbhub.vector(base_id, key);

CREATE TABLE kbhub.property(
  base_id integer NOT NULL,
  document_id integer NOT NULL,
  place integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  number double precision,
  PRIMARY KEY (base_id, document_id, place)
);
CREATE INDEX property_value ON kbhub.property(base_id, key, value);

CREATE TABLE kbhub.link(
  base_id integer NOT NULL,
  document_id integer NOT NULL,
  place integer NOT NULL,
  target text COLLATE "C" NOT NULL,
  fragment text COLLATE "C" NOT NULL,
  text text COLLATE "C" NOT NULL,
  line integer NOT NULL,
  kind text COLLATE "C" NOT NULL,
  PRIMARY KEY (base_id, document_id, place)
);

CREATE TABLE kbhub.problem(
  base_id integer NOT NULL,
  path text COLLATE "C" NOT NULL,
  message text COLLATE "C" NOT NULL,
  PRIMARY KEY (base_id, path)
);

CREATE TABLE kbhub.term(
  base_id integer NOT NULL,
  term text COLLATE "C" NOT NULL,
  chunks integer NOT NULL,
  PRIMARY KEY (base_id, term)
);

CREATE TABLE kbhub.posting(
  base_id integer NOT NULL,
  term text COLLATE "C" NOT NULL,
  first bigint NOT NULL,
  last bigint NOT NULL,
  size integer NOT NULL,
  chunks bytea NOT NULL,
  counts bytea NOT NULL,
  places bytea NOT NULL,
  PRIMARY KEY (base_id, term, first)
);

CREATE TABLE kbhub.gone(
  base_id integer NOT NULL,
  chunk_id bigint NOT NULL,
  PRIMARY KEY (base_id, chunk_id)
);

CREATE TABLE kbhub.packed(
  base_id integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (base_id, name)
);
"""

# The functions run as the owner of the tables, who alone sees all members. They tell a role of itself only, and of
# roles that the session may take on anyway.
_FUNCTIONS = """
CREATE FUNCTION kbhub.bases_of(who name, level integer) RETURNS integer[]
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(array_agg(DISTINCT base_id), '{}') FROM kbhub.member JOIN pg_catalog.pg_roles r ON r.rolname = role
  WHERE rights >= level AND pg_has_role(session_user, who, 'MEMBER') AND pg_has_role(who, r.oid, 'USAGE')
$$;

CREATE FUNCTION kbhub.create_base(called text, who name) RETURNS integer
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE made integer;
BEGIN
  IF NOT 0 = ANY (kbhub.bases_of(who, 3)) THEN
    RAISE insufficient_privilege USING MESSAGE = format('role %I may not create bases', who);
  END IF;
  PERFORM pg_advisory_xact_lock(1801613413, 0);
  SELECT coalesce(max(base_id), 0) + 1 INTO made FROM kbhub.base;
  INSERT INTO kbhub.base(base_id, name) VALUES (made, called);
  INSERT INTO kbhub.member VALUES (made, who, 3);
  RETURN made;
END
$$;

CREATE FUNCTION kbhub.remove_base(of_base integer, who name) RETURNS boolean
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT of_base = ANY (kbhub.bases_of(who, 3)) THEN
    RETURN false;
  END IF;
  DELETE FROM kbhub.member WHERE base_id = of_base;
  DELETE FROM kbhub.base WHERE base_id = of_base;
  RETURN true;
END
$$;

CREATE FUNCTION kbhub.members(of_base integer, who name) RETURNS TABLE(role name, rights smallint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT m.role, m.rights FROM kbhub.member m
  WHERE m.base_id = of_base AND of_base = ANY (kbhub.bases_of(who, 3)) ORDER BY m.role
$$;

CREATE FUNCTION kbhub.analyze() RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  ANALYZE kbhub.document, kbhub.file, kbhub.chunk, kbhub.extent, kbhub.signature, kbhub.vector, kbhub.property,
    kbhub.link, kbhub.term, kbhub.posting;
END
$$;

CREATE FUNCTION kbhub.grant_rights(of_base integer, whom name, level smallint, who name) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT of_base = ANY (kbhub.bases_of(who, 3)) THEN
    RAISE insufficient_privilege USING MESSAGE = format('role %I is no admin of this base', who);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = whom) THEN
    RAISE undefined_object USING MESSAGE = format('there is no role %I', whom);
  END IF;
  INSERT INTO kbhub.member VALUES (of_base, whom, level)
  ON CONFLICT (base_id, role) DO UPDATE SET rights = excluded.rights;
END
$$;

CREATE FUNCTION kbhub.revoke_rights(of_base integer, whom name, who name) RETURNS boolean
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT of_base = ANY (kbhub.bases_of(who, 3)) THEN
    RAISE insufficient_privilege USING MESSAGE = format('role %I is no admin of this base', who);
  END IF;
  IF NOT EXISTS (SELECT FROM kbhub.member WHERE base_id = of_base AND role <> whom AND rights = 3) THEN
    RAISE insufficient_privilege USING MESSAGE = 'nobody else is an admin of it; grant that to somebody first';
  END IF;
  DELETE FROM kbhub.member WHERE base_id = of_base AND role = whom;
  RETURN FOUND;
END
$$;
"""

_MAY_READ = "base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[])"
_MAY_WRITE = "base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])"
_MAY_RULE = "base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[])"

_PARTS = ("file", "chunk", "extent", "property", "link")
"""Tables with parts of documents, each of which belongs to the document's author."""


def _may_change(table: str) -> str:
    """Return who may change a row: where agents remember, an author changes what is their own; elsewhere, anything."""
    if table not in ("document", *_PARTS):
        return _MAY_WRITE
    own = "author = current_user"
    if table in _PARTS:
        own = (
            f"EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = {table}.base_id AND d.id = {table}.document_id "
            "AND d.author = current_user)"
        )
    remembering = f"(SELECT memories FROM kbhub.base b WHERE b.base_id = {table}.base_id)"
    return f"({_MAY_RULE} OR ({_MAY_WRITE} AND (NOT {remembering} OR {own})))"


def _policies() -> str:
    statements = [
        "CREATE POLICY owned ON kbhub.member TO kbhub_owner USING (true) WITH CHECK (true);",
        "CREATE POLICY created ON kbhub.base TO kbhub_owner USING (true) WITH CHECK (true);",
        f"CREATE POLICY readable ON kbhub.base FOR SELECT USING ({_MAY_READ});",
        f"CREATE POLICY ruled ON kbhub.base FOR UPDATE USING ({_MAY_RULE}) WITH CHECK ({_MAY_RULE});",
        "CREATE POLICY everybody ON kbhub.version FOR SELECT USING (true);",
        "CREATE POLICY owned ON kbhub.version TO kbhub_owner USING (true) WITH CHECK (true);",
    ]
    for table in TABLES[1:]:
        changing = _may_change(table)
        statements += [
            f"CREATE POLICY readable ON kbhub.{table} FOR SELECT USING ({_MAY_READ});",
            f"CREATE POLICY added ON kbhub.{table} FOR INSERT WITH CHECK ({changing});",
            f"CREATE POLICY changed ON kbhub.{table} FOR UPDATE USING ({changing}) WITH CHECK ({changing});",
            f"CREATE POLICY removed ON kbhub.{table} FOR DELETE USING ({changing});",
        ]
    for table in ("version", "member", *TABLES):
        statements += [
            f"ALTER TABLE kbhub.{table} ENABLE ROW LEVEL SECURITY;",
            f"ALTER TABLE kbhub.{table} FORCE ROW LEVEL SECURITY;",
        ]
    return "\n".join(statements)


_RIGHTS = """
REVOKE ALL ON SCHEMA kbhub FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA kbhub FROM PUBLIC;
GRANT USAGE ON SCHEMA kbhub TO PUBLIC;
GRANT SELECT ON kbhub.version TO PUBLIC;
GRANT SELECT, UPDATE ON kbhub.base TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kbhub TO PUBLIC;
"""

OWNER = "kbhub_owner"
"""Role without login that owns the tables. Nothing is shown to it but who is a member of what."""

MIGRATIONS: tuple[str, ...] = (
    "\n".join(
        [
            _TABLES.strip(),
            _FUNCTIONS.strip(),
            _policies(),
            _RIGHTS.format(tables=", ".join(f"kbhub.{table}" for table in TABLES[1:])).strip(),
            "INSERT INTO kbhub.version VALUES (1);",
        ]
    ),
)
"""SQL from each version to the next, from none to 1 first; each runs in one transaction."""

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


_AFTER = """
RESET ROLE;
REVOKE kbhub_owner FROM CURRENT_USER;
"""


def upgrade_sql(version: int, admin: str | None = None) -> str:
    """Return the SQL that brings a database to this version, in one transaction.

    Args:
        version: version of the database; 0 if it has none.
        admin: role that may create bases from then on; None for the one that runs it.
    """
    who = "session_user" if admin is None else "'" + admin.replace("'", "''") + "'"
    schema = "" if version else "CREATE SCHEMA kbhub;"
    first = "" if version else f"INSERT INTO kbhub.member VALUES ({EVERY_BASE}, {who}, {ADMIN});"
    later = [
        f"{sql}\nUPDATE kbhub.version SET version = {number};" if number > 1 else sql
        for number, sql in enumerate(MIGRATIONS[version:], version + 1)
    ]
    return (
        f"{_BEFORE.strip()}\n{schema}{chr(10).join(later)}\n{first}RESET ROLE;\nREVOKE kbhub_owner FROM CURRENT_USER;\n"
    )
