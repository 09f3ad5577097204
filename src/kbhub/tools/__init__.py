"""The tools of the MCP server, in groups.

names        what the tools are called, and what is called what elsewhere
choosing     which of them are offered, by the settings and the bases
calls        what every call needs: the hub off the event loop, the client's roots, fresh indexes, results
given        what callers give, taken as it is meant: lists that are strings
searching, reading, graph, memories, writing, auditing, status     the tools themselves
registering  all of them, with their titles and hints
"""
