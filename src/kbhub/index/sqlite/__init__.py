"""The engine of local bases: one SQLite file each, with FTS5 and sqlite-vec."""
