"""What is wrong with a setup, what to do about it, and the part of that which is safe to do at once.

Looking changes nothing but lock files that are there already. Mending touches only what kbhub made itself: modes of
its own folders and files, indexes, and what is left of them; never a document, a configuration or a pointer.
"""

from __future__ import annotations

from kbhub.doctor.examining import examine
from kbhub.doctor.mending import mend

__all__ = ["examine", "mend"]
