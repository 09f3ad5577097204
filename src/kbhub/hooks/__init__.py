"""Hooks: what reaches an agent without being asked for, and what waits for a person's word.

In: an event of a coding agent (a session starts, a prompt, a tool works on a file, a session ends). Out: a few lines of
memories and passages, quoted as data, or nothing. Never in the way: whatever fails is silence.

events        the clients' contracts: what they send, what they read
consent       the projects whose documents may speak
quotes        text as data, which cannot close its quotes
deliveries    what a session has been told already, and what was read of it
subjects      memories and documents about a file or a symbol in it
delivery      what to say about an event
proposals     what a session's log suggests to remember
inbox         proposals that wait to be accepted
replay        what would have been said during a past session
"""
