"""Markdown laid out for a terminal: headings, lists, tables and code, neutralised, without clickable links.

Loaded only for output to a terminal, because importing rich takes a tenth of a second.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.shown_text import code_blocks, renderable
from kbhub.index.query.excerpts import CODE, spans
from kbhub.index.query.parser import Term
from kbhub.render.terminal import TAB_COLUMNS, column_widths, fitted, neutralised

DRAWN_CHARACTERS = 200_000
"""Length up to which a text is laid out; longer ones are only wrapped."""

HIGHLIGHTED_CHARACTERS = 4_000
"""Length up to which code is highlighted; hostile code can make the highlighter slow."""

MOST_FRONT_LINES = 200
"""Lines in which the end of the front matter is looked for."""

_YAML = re.compile(r"[A-Za-z_][\w-]*:(?:\s|$)|\s+\S|-\s|#")

LEAST_WIDTH = 20

TABLE_GAP = 3

THEME = Theme(
    {
        **{f"markdown.h{level}": "bold underline" if level < 3 else "bold" for level in range(1, 7)},
        "markdown.code": "cyan",
        "markdown.a": "underline",
        "markdown.block_quote": "italic",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)


def drawn(text: str, width: int, *, colour: bool, terms: tuple[Term, ...] = ()) -> str:
    """Lay Markdown out for a terminal of `width` columns; front matter and long text are only wrapped."""
    lines = neutralised(text).split("\n")
    front = _front_matter_end(lines)
    code = CODE if -1 in dict(code_blocks(lines[front:])) else ""
    text, above = code + "\n".join(lines[front:]), [*lines[:front], ""] if front else []
    width = max(width, LEAST_WIDTH)
    if len(text) > DRAWN_CHARACTERS:
        return fitted("\n".join([*above, text]), width)
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system="standard" if colour else None,
        force_terminal=True,
        legacy_windows=False,
        theme=THEME,
        highlight=False,
        emoji=False,
        markup=False,
        no_color=not colour,
    )
    rows = console.render_lines(_PlainMarkdown(text, colour=colour), pad=False)
    body = "\n".join(_line(console, segments, terms if colour else ()) for segments in rows)
    return fitted("\n".join([*above, body.strip("\n")]), width)


def _front_matter_end(lines: Sequence[str]) -> int:
    """Return the number of lines of front matter that a text starts with, or starts within."""
    if closing := read_front_matter(lines[:MOST_FRONT_LINES]).closing:
        return closing + 1
    for number, line in enumerate(lines[:MOST_FRONT_LINES]):
        if line.rstrip() == "---":
            return number + 1 if number else 0
        if not _YAML.match(line):
            return 0
    return 0


def _line(console: Console, segments: Iterable[Segment], terms: tuple[Term, ...]) -> str:
    """Render a line with the terms of a query highlighted, without trailing spaces."""
    line = Text(no_wrap=True, end="")
    for text, style, control in segments:
        if not control:
            line.append(neutralised(text), style)
    line.rstrip()
    for start, end in spans(line.plain, terms) if terms else ():
        line.stylize("bold yellow", start, end)
    return "".join(
        segment.style.render(segment.text, color_system=console._color_system) if segment.style else segment.text
        for segment in line.render(console)
    )


class _Heading(Heading):
    """Left-aligned heading."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(CodeBlock):
    """Indented and wrapped code, without a background colour."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme=self.theme,
            word_wrap=True,
            padding=(0, 2),
            background_color="default",
            tab_size=TAB_COLUMNS,
        )


class _Table(TableElement):
    """Table that wraps cells instead of truncating them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table: Any = next(iter(super().__rich_console__(console, options)))
        columns = [[column.header, *column.cells] for column in table.columns]
        room = options.max_width - TABLE_GAP * (len(columns) - 1)
        widths = column_widths([[cell.plain for cell in column] for column in columns], room)
        if widths is None:
            # A table that is too wide is a line for each cell, row by row.
            header, *rows = zip(*columns, strict=True)
            for number, row in enumerate(rows):
                if number:
                    yield Text()
                for name, cell in zip(header, row, strict=True):
                    if cell.plain.strip():
                        yield Text.assemble(name, ": ", cell) if name.plain.strip() else cell
            if not rows:
                yield Text("  ").join(header)
            return
        table.box, table.show_edge, table.collapse_padding = box.SIMPLE_HEAD, False, False
        for column, width in zip(table.columns, widths, strict=True):
            column.overflow, column.width = "fold", width
        yield table


class _PlainMarkdown(Markdown):
    """Markdown without clickable links, in which images and HTML are shown as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
    inlines: ClassVar[set[str]] = {*Markdown.inlines, "a"}  # type: ignore[misc]

    def __init__(self, text: str, *, colour: bool) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        # Show HTML tags as text: `<name>` is more often a placeholder than an element.
        parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        self.parsed = [_harmless(token, colour=colour) for token in parser.parse(renderable(text))]
        for heading, content in pairwise(self.parsed):
            if heading.type == "heading_open" and not colour:
                mark = Token("text", "", 0, content=f"{'#' * int(heading.tag[1:])} ")
                content.children = [mark, *(content.children or ())]


def _harmless(token: Token, *, colour: bool) -> Token:
    """Return a token with neutralised text, since entities can stand for control characters."""
    content = neutralised(token.content)
    if token.type == "code_inline" and not colour:
        content = f"`{content}`"
    inner = token.children
    children = list(chain.from_iterable(_inline(inner, token.content, colour=colour))) if inner else inner
    info = neutralised(token.info).strip() if colour and len(content) <= HIGHLIGHTED_CHARACTERS else ""
    return token.copy(content=content, info=info, children=children)


def _inline(children: Sequence[Token], content: str, *, colour: bool) -> Iterable[list[Token]]:
    is_table_part = content.lstrip().startswith("|")  # without its header; keep each row on its line
    targets: list[tuple[str, int]] = []
    for at, child in enumerate(children):
        if child.type == "image":
            yield [Token("text", "", 0, content=neutralised(f"[{child.content or 'image'}]"))]
        elif child.type == "link_open":
            targets.append((str(child.attrs.get("href", "")), at))
            yield [child.copy(type="mark_open")]
        elif child.type == "link_close":
            href, start = targets.pop() if targets else ("", at)
            label = "".join(token.content for token in children[start:at])
            hidden = not href or href.startswith("#") or label in href
            target = [] if hidden else [Token("text", "", 0, content=f" ({neutralised(href)})")]
            yield [child.copy(type="mark_close"), *target]
        elif child.type == "softbreak" and is_table_part:
            yield [child.copy(type="hardbreak")]
        else:
            yield [_harmless(child, colour=colour)]
