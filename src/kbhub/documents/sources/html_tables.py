"""Tables of HTML as pipe tables, with cells that span several rows or columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbhub.documents.sources.markdown_writer import cell_text, pipe_table

MAX_SPAN = 1000
"""Rows or columns of a cell at most, as in browsers."""

REPEATED_CHARACTERS = 200
"""Longest text of a cell that is repeated in each row that it spans."""


@dataclass(slots=True)
class Cell:
    """A cell of a table."""

    columns: int = 1
    rows: int = 1
    lines: list[str] = field(default_factory=list)
    blocks: bool = False
    """Whether it has what no cell of a pipe table can have: a heading, a code block, a table."""


@dataclass(slots=True)
class Table:
    """A table that is being read."""

    layout: bool = False
    """Whether its author says that it only arranges things."""
    caption: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    cell: Cell | None = None
    """The open cell."""

    def arranges(self) -> bool:
        """Return whether it only arranges things, so that its cells are read one after the other."""
        cells = [cell for row in self.rows for cell in row]
        return self.layout or len(cells) == 1 or any(cell.blocks for cell in cells)

    def lines(self, room: int) -> tuple[list[str], int]:
        """Return the lines of the pipe table, none if it has no text, and the characters left for repetition.

        Args:
            room: characters that may be added for cells that span rows or columns.
        """
        grid: list[list[str]] = []
        above: dict[int, tuple[int, str]] = {}
        """Column → last row that a cell from above reaches, and what it says there."""
        for number, row in enumerate(self.rows):
            texts: list[str] = []
            coming: dict[int, tuple[int, str]] = {}
            for cell in row:
                _fill(texts, above, number)
                text = cell_text(cell.lines)
                repeated = text if len(text) <= REPEATED_CHARACTERS else ""
                room -= (len(repeated) + 3) * (cell.rows - 1) + 3 * (cell.columns - 1) * cell.rows
                rows, columns = (cell.rows, cell.columns) if room > 0 else (1, 1)
                if rows > 1:
                    last = number + rows - 1
                    coming[len(texts)] = (last, repeated)
                    coming.update((len(texts) + place, (last, "")) for place in range(1, columns))
                texts += [text, *[""] * (columns - 1)]
            _fill(texts, above, number)
            above |= coming
            if row:
                grid.append(texts)
        return (pipe_table(grid) if any(map(any, grid)) else []), room


def _fill(texts: list[str], above: dict[int, tuple[int, str]], number: int) -> None:
    """Add the cells from above that come next in a row."""
    while (entry := above.get(len(texts))) is not None and entry[0] >= number:
        texts.append(entry[1])
