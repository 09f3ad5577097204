"""One process for many clients: the shared daemon, and what speaks to it.

Light, for the process that every editor window starts (standard library alone):

folder       where the daemon's files lie, and what it says of itself there
locks        a lock of the system that dies with its process
identity     whether a process id is still the process that wrote it down
link         the wire between a client's process and the daemon: framing, greeting, dialling
quick        the command line of `serve --connect`, read without the command line's libraries
starting     finding the daemon, or starting it, one for all who ask at once
replay       what a new daemon must be told and asked again when one dies in the middle
connecting   from the command line to a proxy that runs
proxy        passes messages between a client's standard streams and the daemon
stopping     ends the daemon

The daemon itself:

asked        what it is told at its start
process      the process: its lock, log, endpoints, idle times, end
connections  one client on the wire, with a hub of its own
workspaces   the servers behind HTTP, one for each workspace
http         the HTTP endpoint and what guards it
"""
