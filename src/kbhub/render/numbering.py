"""Line numbers before the lines of what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.reading.reports import Reading


def numbered(reading: Reading) -> str:
    """Give the text of a reading, each line with its number in the document before it.

    Args:
        reading: a document, or a part of it.
    """
    width = len(str(reading.end_line))
    lines = reading.text.split("\n") if reading.end_line >= reading.start_line else []
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, reading.start_line))
