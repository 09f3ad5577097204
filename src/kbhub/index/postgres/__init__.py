"""The engine of a team's bases: one PostgreSQL database for many bases, each role seeing its own. Needs `psycopg`."""

from kbhub.index.postgres.reader import PostgresIndex
from kbhub.index.postgres.server import Server

__all__ = ["PostgresIndex", "Server"]
