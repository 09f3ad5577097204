"""Checks of a setup, with remedies, and the repairs that are safe to make automatically.

Checks change nothing except lock files that exist already. Repairs touch only what kbhub created itself: modes of its
own folders and files, indexes and their remains; never a document, a configuration or a pointer.
"""

from __future__ import annotations

from kbhub.setup.doctor.repairs import examine, repair

__all__ = ["examine", "repair"]
