"""Bases and memories of a team in PostgreSQL. Needs `psycopg`, the extra `postgres`."""

from kbhub.workspace.extensions import Extension

_ENGINE = "kbhub.extensions.team.engine:PostgresEngine"
_COMMANDS = "kbhub.extensions.team.commands"

EXTENSION = Extension(
    engines={"postgresql": _ENGINE, "postgres": _ENGINE},
    commands={
        "publish": (
            f"{_COMMANDS}:publish",
            "[OPTIONS] BASE --to URL",
            "Publish a base to a team's PostgreSQL database, or sync it there.",
        ),
        "pull": (
            f"{_COMMANDS}:pull",
            "[OPTIONS] URL BASE DIR",
            "Write the files of a shared base to a folder, byte for byte. Existing files are never changed.",
        ),
        "team init": (
            f"{_COMMANDS}:team_init",
            "[OPTIONS] [URL]",
            "Create kbhub's schema in a database, or upgrade it to this version.",
        ),
        "team grant": (
            f"{_COMMANDS}:team_grant",
            "[OPTIONS] URL ROLE RIGHTS",
            "Allow a role of the database to read, write or administer a base.",
        ),
        "team revoke": (
            f"{_COMMANDS}:team_revoke",
            "[OPTIONS] URL ROLE",
            "Revoke a role's rights on a base, from its next query on.",
        ),
        "team list": (
            f"{_COMMANDS}:team_list",
            "[OPTIONS] URL",
            "List the rights of all roles on a base. Only its admins can.",
        ),
    },
    groups={
        "team": (
            "COMMAND",
            "Set up a PostgreSQL database for shared bases, and manage who may use them. Needs kbhub[postgres].",
        ),
    },
)
