"""Measure the search: data sets with known answers, metrics and significance; vectors and grades of single texts."""

from kbhub.workspace.extensions import Extension, commands_in

_COMMANDS = """\
eval | evaluate | [OPTIONS] [DATASET…]
    Measure search on data sets with known answers.
dev embed | embed | [OPTIONS] TEXT…
    Print the vector of each text, one JSON list per line.
dev rerank | rerank | [OPTIONS] QUERY FILE…
    Order text files by how well they answer a query, using an Ollama model.
"""

EXTENSION = Extension(
    commands=commands_in("kbhub.extensions.lab.commands:", _COMMANDS),
    health=("kbhub.extensions.lab.text:health_section",),
)
