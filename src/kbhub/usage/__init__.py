"""The queries of a project, logged on this machine only, to learn what is asked repeatedly.

A recurring question with an answer becomes a memory that refers to that answer; one without becomes a gap.
"""
