"""The command line: `declared` has the commands and their help, `commands` does them, `console` prints.

`quick` answers what needs no parser: help, out of `pages`, and a plain search.
"""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as shells have it."""
