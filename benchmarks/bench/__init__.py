"""What the scripts of this folder share, and the parts of `run.py`."""
