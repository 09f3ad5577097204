"""Hooks: what reaches an agent without being asked for, and what waits for a person's word.

In: an event of a coding agent (a session starts, a prompt, a tool works on a file, a session ends). Out: a few lines of
memories and passages, quoted as data, or nothing. Never in the way: whatever fails is silence.
"""
