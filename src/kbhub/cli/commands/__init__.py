"""The commands, one function each: its signature and docstring are its options and help, its body does the work.

`cli.app` names them; a module of this folder is loaded when one of its commands is parsed.
"""
