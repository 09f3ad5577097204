"""The queries of a project, logged on this machine only, to learn what is asked repeatedly.

A recurring question with an answer becomes a memory that refers to that answer; one without becomes a gap.

recorder     logging queries and reads, off the request path
log          showing and clearing the log; result types
clusters     grouping queries that ask the same
answers      the current answer to a question, and a ref to it
topics       recurring questions that are already known
gaps         questions without an answer; the part of `status` about queries
promotion    questions whose answer is remembered
maintenance  all of these, run at intervals
"""
