-- Functions that others call as the owner of the tables, and nobody else may.

CREATE FUNCTION kbhub.bases_of(who name, level integer) RETURNS integer[] LANGUAGE plpgsql STABLE AS $$
DECLARE found integer[];
BEGIN
  IF NOT pg_has_role(session_user, who, 'MEMBER') THEN
    RETURN '{}';
  END IF;
  SELECT coalesce(array_agg(DISTINCT m.base_id), '{}') INTO found
  FROM pg_roles r JOIN kbhub.member m ON m.role = r.rolname
  WHERE pg_has_role(who, r.oid, 'USAGE') AND m.rights >= level;
  RETURN found;
END
$$;

CREATE FUNCTION kbhub.require(of_base integer, level integer, who name) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_has_role(session_user, who, 'MEMBER') AND EXISTS (
    SELECT FROM pg_roles r JOIN kbhub.member m ON m.base_id = of_base AND m.role = r.rolname
    WHERE pg_has_role(who, r.oid, 'USAGE') AND m.rights >= level
  ) THEN
    RETURN;
  END IF;
  RAISE insufficient_privilege USING MESSAGE =
    CASE level WHEN 3 THEN format('role %I is no admin of this base', who) ELSE 'permission denied for this base' END;
END
$$;

-- Whose documents may be changed, NULL for everybody's: where agents remember, an author changes what is their own.
CREATE FUNCTION kbhub.whose(of_base integer, who name) RETURNS name LANGUAGE plpgsql STABLE AS $$
BEGIN
  PERFORM kbhub.require(of_base, 2, who);
  IF of_base = ANY (kbhub.bases_of(who, 3)) OR NOT (SELECT b.memories FROM kbhub.base b WHERE b.base_id = of_base) THEN
    RETURN NULL;
  END IF;
  RETURN who;
END
$$;

CREATE FUNCTION kbhub.require_own(of_base integer, documents integer[], who name) RETURNS void
  LANGUAGE plpgsql STABLE AS $$
DECLARE own name := kbhub.whose(of_base, who);
BEGIN
  IF EXISTS (SELECT FROM kbhub.document d WHERE d.base_id = of_base AND d.id = ANY (documents) AND d.author <> own) THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for a document of another author';
  END IF;
END
$$;

-- Bases and their members.

CREATE FUNCTION kbhub.version() RETURNS integer LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  RETURN (SELECT v.version FROM kbhub.version v);
END
$$;

CREATE FUNCTION kbhub.bases(who name DEFAULT current_user)
  RETURNS TABLE(name text, description text, memories boolean, rights integer, documents bigint, meta jsonb)
  LANGUAGE plpgsql STABLE AS_OWNER AS $$
DECLARE
  written integer[] := kbhub.bases_of(who, 2);
  ruled integer[] := kbhub.bases_of(who, 3);
BEGIN
  RETURN QUERY SELECT b.name, b.description, b.memories,
    1 + (b.base_id = ANY (written))::integer + (b.base_id = ANY (ruled))::integer,
    (SELECT count(*) FROM kbhub.document d WHERE d.base_id = b.base_id),
    (SELECT jsonb_object_agg(m.key, m.value) FROM kbhub.meta m WHERE m.base_id = b.base_id)
  FROM kbhub.base b WHERE b.base_id = ANY (kbhub.bases_of(who, 1));
END
$$;

-- Through the numbers of the caller's bases: whether a lookup by name met a hidden one would show in counters.
CREATE FUNCTION kbhub.open(called text, who name DEFAULT current_user)
  RETURNS TABLE(base_id integer, memories boolean, meta jsonb) LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  RETURN QUERY SELECT b.base_id, b.memories, (
    SELECT jsonb_object_agg(m.key, CASE WHEN octet_length(m.value::text) <= 100000 THEN m.value ELSE '[]' END)
    FROM kbhub.meta m WHERE m.base_id = b.base_id)
  FROM kbhub.base b
  WHERE b.base_id = ANY (kbhub.bases_of(who, 1)) AND b.name || '' = called;
END
$$;

-- A number is never used twice, and says nothing about how many there are.
CREATE FUNCTION kbhub.create_base(called text, who name DEFAULT current_user) RETURNS integer
  LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
DECLARE made integer;
BEGIN
  IF NOT 0 = ANY (kbhub.bases_of(who, 3)) THEN
    RAISE insufficient_privilege USING MESSAGE = format('role %I may not create bases', who);
  END IF;
  LOOP
    made := 1 + floor(random() * 2147483646)::integer;
    INSERT INTO kbhub.number VALUES (made) ON CONFLICT DO NOTHING;
    EXIT WHEN FOUND;
  END LOOP;
  INSERT INTO kbhub.base(base_id, name) VALUES (made, called);
  INSERT INTO kbhub.member VALUES (made, who, 3);
  RETURN made;
END
$$;

CREATE FUNCTION kbhub.remove_base(of_base integer, who name DEFAULT current_user) RETURNS bigint
  LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
DECLARE documents bigint;
BEGIN
  PERFORM kbhub.require(of_base, 3, who);
  SELECT count(*) INTO documents FROM kbhub.document d WHERE d.base_id = of_base;
  REMOVE_ROWS
  RETURN documents;
END
$$;

CREATE FUNCTION kbhub.describe(of_base integer, said text, remembering boolean, who name DEFAULT current_user)
  RETURNS void LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 3, who);
  UPDATE kbhub.base b SET description = coalesce(said, b.description), memories = coalesce(remembering, b.memories)
  WHERE b.base_id = of_base;
END
$$;

CREATE FUNCTION kbhub.members(of_base integer, who name DEFAULT current_user)
  RETURNS TABLE(role name, rights smallint) LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 3, who);
  RETURN QUERY SELECT m.role, m.rights FROM kbhub.member m WHERE m.base_id = of_base ORDER BY m.role;
END
$$;

CREATE FUNCTION kbhub.grant_rights(of_base integer, whom name, level integer, who name DEFAULT current_user)
  RETURNS void LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 3, who);
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = whom) THEN
    RAISE undefined_object USING MESSAGE = format('there is no role %I', whom);
  END IF;
  IF starts_with(whom::text, 'pg_') THEN
    RAISE invalid_grant_operation USING MESSAGE = format('%I is a role of PostgreSQL itself, not of people', whom);
  END IF;
  INSERT INTO kbhub.member VALUES (of_base, whom, level)
  ON CONFLICT (base_id, role) DO UPDATE SET rights = excluded.rights;
END
$$;

CREATE FUNCTION kbhub.revoke_rights(of_base integer, whom name, who name DEFAULT current_user) RETURNS boolean
  LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 3, who);
  IF NOT EXISTS (SELECT FROM kbhub.member m WHERE m.base_id = of_base AND m.role <> whom AND m.rights = 3) THEN
    RAISE insufficient_privilege USING MESSAGE = 'nobody else is an admin of it; grant that to somebody first';
  END IF;
  DELETE FROM kbhub.member m WHERE m.base_id = of_base AND m.role = whom;
  RETURN FOUND;
END
$$;

-- What is read of one base, beside whole tables and rows by a value.

CREATE FUNCTION kbhub.docid_counts(of_base integer, wanted text[], who name DEFAULT current_user)
  RETURNS TABLE(prefix text, documents bigint) LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 1, who);
  RETURN QUERY SELECT w, (SELECT count(*) FROM kbhub.document d WHERE d.base_id = of_base AND d.docid >= w
    AND d.docid < w || 'g') FROM unnest(wanted) w;
END
$$;

CREATE FUNCTION kbhub.counts(of_base integer, who name DEFAULT current_user)
  RETURNS TABLE(documents bigint, chunks bigint, vectors bigint, embedded bigint, gone bigint)
  LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 1, who);
  RETURN QUERY SELECT
    (SELECT count(*) FROM kbhub.document d WHERE d.base_id = of_base),
    (SELECT count(*) FROM kbhub.extent e WHERE e.base_id = of_base),
    (SELECT count(*) FROM kbhub.vector v WHERE v.base_id = of_base),
    (SELECT count(v.embedding) FROM kbhub.vector v WHERE v.base_id = of_base),
    (SELECT count(*) FROM kbhub.gone g WHERE g.base_id = of_base);
END
$$;

CREATE FUNCTION kbhub.file(of_base integer, wanted text, who name DEFAULT current_user)
  RETURNS bytea LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 1, who);
  RETURN (
    SELECT f.content FROM kbhub.document d JOIN kbhub.file f ON f.base_id = d.base_id AND f.document_id = d.id
    WHERE d.base_id = of_base AND d.path = wanted
  );
END
$$;

CREATE FUNCTION kbhub.chunks_without_vector(of_base integer, most integer, who name DEFAULT current_user)
  RETURNS SETOF kbhub.chunk LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 1, who);
  RETURN QUERY SELECT c.* FROM kbhub.chunk c WHERE c.base_id = of_base AND NOT EXISTS (
    SELECT FROM kbhub.vector v WHERE v.base_id = of_base AND v.chunk_id = c.id) ORDER BY c.id LIMIT most;
END
$$;

CREATE FUNCTION kbhub.vectors_without_signature(of_base integer, most integer, who name DEFAULT current_user)
  RETURNS SETOF kbhub.vector LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 1, who);
  RETURN QUERY SELECT v.* FROM kbhub.vector v WHERE v.base_id = of_base AND v.embedding IS NOT NULL AND NOT EXISTS (
    SELECT FROM kbhub.signature s WHERE s.base_id = of_base AND s.chunk_id = v.chunk_id)
  ORDER BY v.chunk_id LIMIT most;
END
$$;

-- What is written, beside new rows.

-- Who holds the row of a base writes the base: nobody else can take that lock, or learn from it what is written.
CREATE FUNCTION kbhub.hold(of_base integer, who name DEFAULT current_user) RETURNS void
  LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 2, who);
  PERFORM FROM kbhub.base b WHERE b.base_id = of_base FOR UPDATE;
END
$$;

CREATE FUNCTION kbhub.holder(of_base integer, who name DEFAULT current_user)
  RETURNS TABLE(role name, application text) LANGUAGE plpgsql STABLE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 2, who);
  RETURN QUERY SELECT a.usename, a.application_name FROM kbhub.base b
  JOIN pg_locks l ON l.transactionid = b.xmax AND l.granted JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE b.base_id = of_base;
END
$$;

CREATE FUNCTION kbhub.remove_documents(of_base integer, wanted integer[], who name DEFAULT current_user)
  RETURNS integer LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
DECLARE
  own name := kbhub.whose(of_base, who);
  removed integer[];
  lost bigint[];
BEGIN
  SELECT coalesce(array_agg(d.id), '{}') INTO removed FROM kbhub.document d
  WHERE d.base_id = of_base AND d.id = ANY (wanted) AND (own IS NULL OR d.author = own);
  SELECT coalesce(array_agg(c.id), '{}') INTO lost FROM kbhub.chunk c
  WHERE c.base_id = of_base AND c.document_id = ANY (removed);
  DELETE FROM kbhub.extent t WHERE t.base_id = of_base AND t.chunk_id = ANY (lost);
  DELETE FROM kbhub.vector t WHERE t.base_id = of_base AND t.chunk_id = ANY (lost);
  DELETE FROM kbhub.signature t WHERE t.base_id = of_base AND t.chunk_id = ANY (lost);
  DELETE FROM kbhub.chunk t WHERE t.base_id = of_base AND t.id = ANY (lost);
  DELETE FROM kbhub.file t WHERE t.base_id = of_base AND t.document_id = ANY (removed);
  DELETE FROM kbhub.property t WHERE t.base_id = of_base AND t.document_id = ANY (removed);
  DELETE FROM kbhub.link t WHERE t.base_id = of_base AND t.document_id = ANY (removed);
  DELETE FROM kbhub.document t WHERE t.base_id = of_base AND t.id = ANY (removed);
  INSERT INTO kbhub.gone SELECT of_base, unnest(lost);
  RETURN cardinality(removed);
END
$$;

-- The blocks of terms that lose chunks or have room for more, to be written anew.
CREATE FUNCTION kbhub.take_postings(
  of_base integer, wanted text[], room integer, losing text[], lowest bigint, highest bigint,
  who name DEFAULT current_user
) RETURNS TABLE(term text, first bigint, last bigint, chunks bytea, counts bytea, places bytea, is_last boolean)
  LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
BEGIN
  PERFORM kbhub.require(of_base, 2, who);
  RETURN QUERY DELETE FROM kbhub.posting p WHERE p.base_id = of_base AND p.term = ANY (wanted) AND (
    (p.size < room AND NOT EXISTS (SELECT FROM kbhub.posting q
      WHERE q.base_id = of_base AND q.term = p.term AND q.first > p.first))
    OR (p.term = ANY (losing) AND p.last >= lowest AND p.first <= highest))
  RETURNING p.term, p.first, p.last, p.chunks, p.counts, p.places, NOT EXISTS (SELECT FROM kbhub.posting q
    WHERE q.base_id = of_base AND q.term = p.term AND q.first > p.first);
END
$$;

CREATE FUNCTION kbhub.touch(
  of_base integer, place text, bytes bigint, modified bigint, who name DEFAULT current_user
) RETURNS void LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
DECLARE own name := kbhub.whose(of_base, who);
BEGIN
  UPDATE kbhub.document d SET size = bytes, mtime_ns = modified
  WHERE d.base_id = of_base AND d.path = place AND (own IS NULL OR d.author = own);
END
$$;

CREATE FUNCTION kbhub.set_commits(of_base integer, paths text[], seconds bigint[], who name DEFAULT current_user)
  RETURNS void LANGUAGE plpgsql VOLATILE AS_OWNER AS $$
DECLARE own name := kbhub.whose(of_base, who);
BEGIN
  UPDATE kbhub.document d SET committed = w.second FROM unnest(paths, seconds) AS w(path, second)
  WHERE d.base_id = of_base AND d.path = w.path AND (own IS NULL OR d.author = own);
END
$$;
