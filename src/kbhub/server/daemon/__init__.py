"""The shared daemon, one process for many clients, and the light code that talks to it."""
