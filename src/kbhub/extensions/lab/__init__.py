"""Measure the search: data sets with known answers, metrics and significance; vectors and grades of single texts."""

from kbhub.workspace.extensions import Extension

_COMMANDS = "kbhub.extensions.lab.commands"

EXTENSION = Extension(
    commands={
        "eval": (f"{_COMMANDS}:evaluate", "[OPTIONS] [DATASET…]", "Measure search on data sets with known answers."),
        "dev embed": (
            f"{_COMMANDS}:embed",
            "[OPTIONS] TEXT…",
            "Print the vector of each text, one JSON list per line.",
        ),
        "dev rerank": (
            f"{_COMMANDS}:rerank",
            "[OPTIONS] QUERY FILE…",
            "Order text files by how well they answer a query, using an Ollama model.",
        ),
    },
    health=("kbhub.extensions.lab.text:health_section",),
)
