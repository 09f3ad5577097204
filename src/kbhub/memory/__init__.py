"""Memories: what agents and users wrote down to keep, per project or per user.

A memory is a Markdown file with front matter, in a folder that is searched like any other base. Its state is always
read from the file, so people can edit or delete it freely. Only usage counts are stored elsewhere.

documents     the file format: schema, parsing, validation, edits
store         reading, writing and trashing the files
catalog       the current memories, from indexes and changed files
similarity    equal wording; similar meaning
subjects      what a memory is about, and whether that changed since
results       result types
remember, changes (with forgetting), lists, moves, transfer, trash     the operations
memory_tool   Claude's memory tool, run on the memories of a project
querylog      logged queries: gaps and promoted answers
"""
