"""Memories: what agents and users wrote down to keep, per project or per user.

A memory is a Markdown file with front matter, in a folder that is searched like any other base. Its state is always
read from the file, so people can edit or delete it freely. Only usage counts are stored elsewhere.

files         the file format, its checks and edits; reading, writing and trashing files; equal wording
catalog       the current memories, from indexes and changed files; what they are about
results       result types
remember, changes (with forgetting), lists (with restoring), transfer     the operations
"""
