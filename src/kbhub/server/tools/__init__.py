"""The tools of the MCP server, in groups.

names        names of the tools, and what they are called elsewhere
choosing     which tools are offered, by settings and bases
calls        what every call needs: the hub off the event loop, the client's roots, fresh indexes, results
given        lenient parsing of what callers give: lists that are strings
searching, reading, graph, memories, writing, auditing, status     the tools themselves
registering  all of them, with their titles and hints
"""
