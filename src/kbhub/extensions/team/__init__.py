"""Bases and memories of a team in PostgreSQL. Needs `psycopg`, the extra `postgres`."""

from kbhub.workspace.extensions import Extension, commands_in

_ENGINE = "kbhub.extensions.team.engine:PostgresEngine"

_COMMANDS = """\
team publish | publish | [OPTIONS] BASE --to URL
    Publish a base to a team's PostgreSQL database, or sync it there.
team pull | pull | [OPTIONS] URL BASE DIR
    Write the files of a shared base to a folder, byte for byte. Existing files are never changed.
team init | team_init | [OPTIONS] [URL]
    Create kbhub's schema in a database.
team grant | team_grant | [OPTIONS] URL ROLE RIGHTS
    Allow a role of the database to read, write or administer a base.
team revoke | team_revoke | [OPTIONS] URL ROLE
    Revoke a role's rights on a base, from its next query on.
team list | team_list | [OPTIONS] URL
    List the rights of all roles on a base. Only its admins can.
"""

EXTENSION = Extension(
    engines={"postgresql": _ENGINE, "postgres": _ENGINE},
    commands=commands_in("kbhub.extensions.team.commands:", _COMMANDS),
    groups={"team": ("COMMAND", "Share bases through PostgreSQL. Needs kbhub[postgres].")},
)
