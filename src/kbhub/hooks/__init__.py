"""Hooks: what reaches an agent without being asked for, and what waits for a person's word.

In: an event of a coding agent (a session starts, a prompt, a tool works on a file, a session ends). Out: a few lines of
memories and passages, quoted as data, or nothing. Never in the way: whatever fails is silence.

events        the clients' contracts: what they send, what they read; text as data, which cannot close its quotes
sessions      the projects whose documents may speak; what a session has been told already, and what was read of it
delivery      what to say about an event
inbox         what a session's log leaves: proposals of memories, which wait to be accepted, and what it is told again
              after its client has compacted it
"""
