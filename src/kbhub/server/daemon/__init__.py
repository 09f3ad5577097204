"""The shared daemon, one process for many clients, and the code that talks to it.

Light modules, loaded by the process that every editor window starts (standard library only):

folder       the daemon's files, and its record of itself
locks        a system lock that is released when its process ends
identity     whether a process id still belongs to the recorded process
link         the wire between a client's process and the daemon: framing, greeting, dialling
quick        parses the command line of `serve --connect` without the CLI's libraries
starting     finds the daemon or starts it, once for all concurrent callers
replay       what to tell and ask a new daemon after one died
connecting   from the command line to a running proxy
proxy        relays messages between a client's standard streams and the daemon
stopping     ends the daemon

The daemon itself:

asked        the start parameters
process      the process: its lock, log, endpoints, idle times, end
connections  one client on the wire, with its own hub
workspaces   the servers behind HTTP, one per workspace
page         has the page of `kbhub ui` served by the daemon
http         the HTTP endpoint and its access control
"""
