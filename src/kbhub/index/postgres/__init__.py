"""The engine of a team's bases: one PostgreSQL database for many bases, each role seeing its own. Needs `psycopg`."""
