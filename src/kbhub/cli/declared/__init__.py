"""The commands with their options and help, one module per group; importing it adds them all to the application.

Nothing here does anything: what a command does is in the module of the same name in `commands`, loaded when it runs.
"""

from kbhub.cli.declared import (
    asking,
    auditing,
    bases,
    basics,
    daemon,
    editing,
    evaluating,
    graph,
    memories,
    models,
    querylog,
    setup,
    shell,
    sources,
)

__all__ = [
    "asking",
    "auditing",
    "bases",
    "basics",
    "daemon",
    "editing",
    "evaluating",
    "graph",
    "memories",
    "models",
    "querylog",
    "setup",
    "shell",
    "sources",
]
