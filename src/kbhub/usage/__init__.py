"""The queries of a project, logged on this machine only, to learn what is asked repeatedly.

A recurring question without an answer becomes a gap.
"""
