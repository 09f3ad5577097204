"""The Open Knowledge Format (OKF) 0.2: bundles are recognised, checked, kept and exported."""

from kbhub.workspace.extensions import Extension, commands_in

_HERE = "kbhub.extensions.okf"

_COMMANDS = """\
base export | export | [OPTIONS] BASE DIR
    Copy the documents of a base, and the files that they name, to a new folder, byte for byte.
doc ingest | ingest | [OPTIONS] SOURCE…
    Copy sources into a base, with their hash, and write a first page on each.
"""

EXTENSION = Extension(
    commands=commands_in(f"{_HERE}.commands:", _COMMANDS),
    signals=(f"{_HERE}.bundles:SIGNAL",),
    pages=(f"{_HERE}.pages:RULES",),
    keeps={
        "changed": ("pages whose `refs` or `sources` changed since they were verified", f"{_HERE}.keeper:CHANGED"),
        "contradicted": (
            "memories that a newer one may replace, and what a newer page says with another number or day",
            f"{_HERE}.keeper:CONTRADICTED",
        ),
        "gaps": ("recurring questions that nothing answers, and where they belong", f"{_HERE}.keeper:GAPS"),
    },
    audits={
        "okf": ("pages that do not follow the Open Knowledge Format", f"{_HERE}.pages:CHECK"),
        "sources": ("text on pages made of sources that cites none", f"{_HERE}.pages:SOURCES_CHECK"),
    },
)
