BEGIN;
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kbhub_owner') THEN
    CREATE ROLE kbhub_owner NOLOGIN;
  END IF;
END $$;
GRANT kbhub_owner TO CURRENT_USER;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO kbhub_owner', current_database()); END $$;
SET LOCAL ROLE kbhub_owner;
CREATE SCHEMA kbhub;CREATE TABLE kbhub.version(version integer NOT NULL);

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
CREATE POLICY owned ON kbhub.member TO kbhub_owner USING (true) WITH CHECK (true);
CREATE POLICY created ON kbhub.base TO kbhub_owner USING (true) WITH CHECK (true);
CREATE POLICY readable ON kbhub.base FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY ruled ON kbhub.base FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]));
CREATE POLICY everybody ON kbhub.version FOR SELECT USING (true);
CREATE POLICY owned ON kbhub.version TO kbhub_owner USING (true) WITH CHECK (true);
CREATE POLICY readable ON kbhub.meta FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.meta FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.meta FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.meta FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.document FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.document FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = document.base_id) OR author = current_user))));
CREATE POLICY changed ON kbhub.document FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = document.base_id) OR author = current_user)))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = document.base_id) OR author = current_user))));
CREATE POLICY removed ON kbhub.document FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = document.base_id) OR author = current_user))));
CREATE POLICY readable ON kbhub.file FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.file FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = file.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = file.base_id AND d.id = file.document_id AND d.author = current_user)))));
CREATE POLICY changed ON kbhub.file FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = file.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = file.base_id AND d.id = file.document_id AND d.author = current_user))))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = file.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = file.base_id AND d.id = file.document_id AND d.author = current_user)))));
CREATE POLICY removed ON kbhub.file FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = file.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = file.base_id AND d.id = file.document_id AND d.author = current_user)))));
CREATE POLICY readable ON kbhub.chunk FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.chunk FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = chunk.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = chunk.base_id AND d.id = chunk.document_id AND d.author = current_user)))));
CREATE POLICY changed ON kbhub.chunk FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = chunk.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = chunk.base_id AND d.id = chunk.document_id AND d.author = current_user))))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = chunk.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = chunk.base_id AND d.id = chunk.document_id AND d.author = current_user)))));
CREATE POLICY removed ON kbhub.chunk FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = chunk.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = chunk.base_id AND d.id = chunk.document_id AND d.author = current_user)))));
CREATE POLICY readable ON kbhub.extent FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.extent FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = extent.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = extent.base_id AND d.id = extent.document_id AND d.author = current_user)))));
CREATE POLICY changed ON kbhub.extent FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = extent.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = extent.base_id AND d.id = extent.document_id AND d.author = current_user))))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = extent.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = extent.base_id AND d.id = extent.document_id AND d.author = current_user)))));
CREATE POLICY removed ON kbhub.extent FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = extent.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = extent.base_id AND d.id = extent.document_id AND d.author = current_user)))));
CREATE POLICY readable ON kbhub.signature FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.signature FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.signature FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.signature FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.vector FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.vector FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.vector FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.vector FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.property FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.property FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = property.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = property.base_id AND d.id = property.document_id AND d.author = current_user)))));
CREATE POLICY changed ON kbhub.property FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = property.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = property.base_id AND d.id = property.document_id AND d.author = current_user))))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = property.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = property.base_id AND d.id = property.document_id AND d.author = current_user)))));
CREATE POLICY removed ON kbhub.property FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = property.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = property.base_id AND d.id = property.document_id AND d.author = current_user)))));
CREATE POLICY readable ON kbhub.link FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.link FOR INSERT WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = link.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = link.base_id AND d.id = link.document_id AND d.author = current_user)))));
CREATE POLICY changed ON kbhub.link FOR UPDATE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = link.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = link.base_id AND d.id = link.document_id AND d.author = current_user))))) WITH CHECK ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = link.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = link.base_id AND d.id = link.document_id AND d.author = current_user)))));
CREATE POLICY removed ON kbhub.link FOR DELETE USING ((base_id = ANY ((SELECT kbhub.bases_of(current_user, 3))::integer[]) OR (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]) AND (NOT (SELECT memories FROM kbhub.base b WHERE b.base_id = link.base_id) OR EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = link.base_id AND d.id = link.document_id AND d.author = current_user)))));
CREATE POLICY readable ON kbhub.problem FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.problem FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.problem FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.problem FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.term FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.term FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.term FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.term FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.posting FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.posting FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.posting FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.posting FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.gone FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.gone FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.gone FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.gone FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY readable ON kbhub.packed FOR SELECT USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 1))::integer[]));
CREATE POLICY added ON kbhub.packed FOR INSERT WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY changed ON kbhub.packed FOR UPDATE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[])) WITH CHECK (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
CREATE POLICY removed ON kbhub.packed FOR DELETE USING (base_id = ANY ((SELECT kbhub.bases_of(current_user, 2))::integer[]));
ALTER TABLE kbhub.version ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.version FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.member ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.member FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.base ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.base FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.meta ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.meta FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.document ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.document FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.file ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.file FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.chunk ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.chunk FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.extent ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.extent FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.signature ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.signature FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.vector ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.vector FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.property ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.property FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.link ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.link FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.problem ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.problem FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.term ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.term FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.posting ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.posting FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.gone ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.gone FORCE ROW LEVEL SECURITY;
ALTER TABLE kbhub.packed ENABLE ROW LEVEL SECURITY;
ALTER TABLE kbhub.packed FORCE ROW LEVEL SECURITY;
REVOKE ALL ON SCHEMA kbhub FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA kbhub FROM PUBLIC;
GRANT USAGE ON SCHEMA kbhub TO PUBLIC;
GRANT SELECT ON kbhub.version TO PUBLIC;
GRANT SELECT, UPDATE ON kbhub.base TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON kbhub.meta, kbhub.document, kbhub.file, kbhub.chunk, kbhub.extent, kbhub.signature, kbhub.vector, kbhub.property, kbhub.link, kbhub.problem, kbhub.term, kbhub.posting, kbhub.gone, kbhub.packed TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kbhub TO PUBLIC;
INSERT INTO kbhub.version VALUES (1);
INSERT INTO kbhub.member VALUES (0, session_user, 3);RESET ROLE;
REVOKE kbhub_owner FROM CURRENT_USER;
COMMIT;
