"""The command line: `app` names the commands, `commands` has them with their help, `console` prints."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as shells have it."""

UNWRITTEN = "Cannot write the results: {}."
"""Message about standard output, with the reason that the system gives."""
