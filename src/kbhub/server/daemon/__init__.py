"""The shared daemon, one process for many clients, and the code that talks to it.

Light modules, loaded by the process that every editor window starts (standard library only):

protocol     the daemon's files, and the wire between a client's process and the daemon
launch       finds the daemon or starts it, ends it, has it answer a hook or serve the page of `kbhub ui`
proxy        `serve --connect`: relays messages between a client's standard streams and the daemon

The daemon itself:

process      the process: its log, endpoints, idle times, end, and its clients on the wire, each with its own hub
http         the HTTP endpoint: access control, one server per workspace
"""
