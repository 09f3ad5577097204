"""The index of a base: its interface for reading, and the engines. All SQL is in this package."""
