"""A directory and the user's configuration → the active bases and the settings in force.

Comes in: a working directory, the environment, `~/.kbhub.json`, pointers. Goes out: `Discovery`, `Settings`, trust.
Must not know: what is in a document.
"""
