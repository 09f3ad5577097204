"""The shared daemon, one process for many clients, and the code that talks to it.

Light modules, loaded by the process that every editor window starts (standard library only):

folder       the daemon's files: its record of itself, its locks, its token
protocol     the wire between a client's process and the daemon: framing, greeting, dialling
launch       finds the daemon or starts it, once for all concurrent callers, and ends it
proxy        `serve --connect`: relays messages between a client's standard streams and the daemon
hook_client  `kbhub hook`: has an event of a client answered

The daemon itself:

command      the start parameters, and the command's side of `kbhub ui`
process      the process: its lock, log, endpoints, idle times, end
connections  one client on the wire, with its own hub
http         the HTTP endpoint: access control, one server per workspace
"""
