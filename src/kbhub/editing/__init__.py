"""Create, change, delete, restore and rename documents, leaving everything else in them untouched."""

from kbhub.editing.documents import Written, write_document
from kbhub.editing.renames import Renamed, rename
from kbhub.editing.trash import Deleted, Restored, TrashEntry, delete_document, empty_trash, restore, trash

__all__ = [
    "Deleted",
    "Renamed",
    "Restored",
    "TrashEntry",
    "Written",
    "delete_document",
    "empty_trash",
    "rename",
    "restore",
    "trash",
    "write_document",
]
