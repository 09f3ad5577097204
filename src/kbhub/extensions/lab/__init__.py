"""Measure the search: data sets with known answers, metrics and significance."""

from kbhub.workspace.extensions import Extension, commands_in

_COMMANDS = """\
dev eval | evaluate | [OPTIONS] [DATASET…]
    Measure search on data sets with known answers.
"""

EXTENSION = Extension(
    commands=commands_in("kbhub.extensions.lab.commands:", _COMMANDS),
)
