"""kbhub: the Markdown you already have, answerable by any coding agent."""

__version__ = "0.1.0"
