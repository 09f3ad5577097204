"""The shared daemon, one process for many clients, and the code that talks to it.

Light modules, loaded by the process that every editor window starts (standard library only):

folder       the daemon's files: its record of itself, its locks, its token
record       what a daemon writes into them
protocol     the wire between a client's process and the daemon: framing, greeting, dialling
launch       finds the daemon or starts it, once for all concurrent callers, and ends it
connect      from the command line of `serve --connect` to a running proxy
proxy        relays messages between a client's standard streams and the daemon
hook_client  `kbhub hook`: has an event of a client answered

The daemon itself:

start_options  the start parameters
process      the process: its lock, log, endpoints, idle times, end
connections  one client on the wire, with its own hub
workspaces   the servers behind HTTP, one per workspace
page         has the page of `kbhub ui` served by the daemon
http         the HTTP endpoint and its access control
"""
