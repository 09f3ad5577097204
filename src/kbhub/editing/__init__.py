"""Create, change, delete, restore and rename documents, leaving everything else in them untouched."""

from kbhub.editing.documents import Written, write_document
from kbhub.editing.renames import Renamed, rename
from kbhub.editing.trash import Deleted, Restored, delete_document, empty_trash, restore

__all__ = [
    "Deleted",
    "Renamed",
    "Restored",
    "Written",
    "delete_document",
    "empty_trash",
    "rename",
    "restore",
    "write_document",
]
