"""Which files of a folder are looked at, by their names; imports nothing, for every start looks at some."""

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
"""Lower-case ends of the names of Markdown files."""

SKIPPED_FOLDERS = ("node_modules",)
"""Folders of other people's documents, left out as hidden ones are."""

IGNORE_NAMES = (".gitignore", ".kbhubignore")
"""Ignore files of a folder; the later one has the last word."""
