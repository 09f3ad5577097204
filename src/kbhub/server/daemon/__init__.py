"""The shared daemon, one process for many clients, and the code that talks to it.

Light modules, loaded by the process that every editor window starts (standard library only):

folder       the daemon's files: its record of itself, its locks, its token
announcing   what a daemon writes into them
link         the wire between a client's process and the daemon: framing, greeting, dialling
starting     finds the daemon or starts it, once for all concurrent callers, and ends it
connecting   from the command line of `serve --connect` to a running proxy
proxy        relays messages between a client's standard streams and the daemon
hooking      `kbhub hook`: has an event of a client answered

The daemon itself:

asked        the start parameters
process      the process: its lock, log, endpoints, idle times, end
connections  one client on the wire, with its own hub
workspaces   the servers behind HTTP, one per workspace
page         has the page of `kbhub ui` served by the daemon
http         the HTTP endpoint and its access control
"""
