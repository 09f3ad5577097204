"""What is beside the core: folders that it does not know, and that come in by entry points."""
