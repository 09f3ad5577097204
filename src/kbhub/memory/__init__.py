"""Memories: what agents and users wrote down to keep, per project or per user.

A memory is a Markdown file with front matter, in a folder that is searched like any other base. Its state is always
read from the file, so people can edit or delete it freely. Only usage counts are stored elsewhere.
"""
