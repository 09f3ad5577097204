"""A small base for questions: runbooks that link to decisions, a copy, and things that nobody asks about."""

from __future__ import annotations

QUESTION = "how do we roll back a release"

DOCUMENTS = {
    "runbooks/rollback.md": (
        "# Rolling back a release\n\nRoll back first and ask why later. A rollback takes ninety seconds.\n\n"
        "```sh\nship rollback production --to v1\n```\n\n"
        "## When a rollback is not possible\n\nSwitch the [feature flag](../decisions/flags.md) off instead.\n"
    ),
    "runbooks/copy.md": (
        "# Rolling back a release\n\nRoll back first and ask why later. A rollback takes ninety seconds.\n\n"
        "```sh\nship rollback production --to v1\n```\n\n"
        "## When a rollback is not possible\n\nSwitch the [feature flag](../decisions/flags.md) off instead.\n"
    ),
    "runbooks/deploy.md": "# Deploying\n\nA release goes out every Tuesday, in three waves.\n\nWatch the dashboard.\n",
    "decisions/flags.md": "# Feature switches\n\nWe decided on switches for unfinished work, kept for a month.\n",
    "kitchen.md": "# Kitchen\n\nThe coffee machine is descaled on Fridays. Milk is in the left fridge.\n",
}


def write_documents(environment):
    """Write them into the project's knowledge, and give the environment."""
    for path, text in DOCUMENTS.items():
        environment.write(f"knowledge/{path}", text)
    return environment
