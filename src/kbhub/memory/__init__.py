"""Memories: what an agent learned and wrote down to keep, per project or for the user.

A memory is a Markdown file with front matter in a folder that is searched as a base. Its state is read from the file
each time, so that a person may edit or delete it like any other. Only the counts of its uses lie elsewhere.

identity     which project a directory belongs to
folders      where the memories of a project and of the user lie, and which of those folders are active bases
documents    a memory as the text of a file; facts: what its front matter says
strength     how much a memory has proved its worth: pure arithmetic; standing: what ranking makes of it
store        reading, writing and removing the files
known        what the active memories say: from their indexes, brought in step with the files
likeness     whether two memories say the same; nearness: which are near in meaning
subjects     what a memory is about, and whether that has changed since
models       what is given back
remember, changing, listing, forgetting, moving, transfer (and foreign)     what users and agents ask for
"""
