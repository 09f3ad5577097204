"""Line numbers for the text of a reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.reading.reports import Reading


def numbered(reading: Reading) -> str:
    """Return the text of a reading with the line number in the document before each line."""
    width = len(str(reading.end_line))
    lines = reading.text.split("\n") if reading.end_line >= reading.start_line else []
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, reading.start_line))
