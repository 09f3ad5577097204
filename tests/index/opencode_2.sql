CREATE TABLE session_v2 (id text PRIMARY KEY, directory text NOT NULL, title text, time_updated integer NOT NULL,
    parent_id text);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text, type text, seq integer, time_created integer,
    time_updated integer, data text);
