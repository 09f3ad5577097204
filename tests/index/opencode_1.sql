CREATE TABLE session (id text PRIMARY KEY, directory text NOT NULL, title text NOT NULL, time_updated integer NOT NULL,
    parent_id text);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, time_updated integer,
    data text);
