"""Measure the search: data sets with known answers, metrics and significance; vectors of single texts."""

from kbhub.workspace.extensions import Extension, commands_in

_COMMANDS = """\
dev eval | evaluate | [OPTIONS] [DATASET…]
    Measure search on data sets with known answers.
dev embed | embed | [OPTIONS] TEXT…
    Print the vector of each text, one JSON list per line.
"""

EXTENSION = Extension(commands=commands_in("kbhub.extensions.lab.commands:", _COMMANDS))
