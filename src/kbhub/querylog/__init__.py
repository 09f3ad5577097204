"""The queries of a project: noted on this machine only, so that what is asked again and again becomes known.

A recurring question that is answered becomes a memory that refers to the answer; one that nothing answers, a gap.

recording    noting queries and readings, off the request path
log          the log of a project: showing and clearing it
clusters     which queries ask the same: pure arithmetic
answers      what answers a question now, and the place that it leads to
topics       recurring questions that are known already
gaps         questions that nothing answers
promotion    questions whose answer is remembered
maintenance  all of that, now and then
summary      what `status` tells
models       what is given back
"""
