"""Text of documentation sites: what MDX, Docusaurus, MkDocs, Obsidian and Sphinx add, and what readers see of it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from kbhub.documents.links import without_code

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_OPENING = re.compile(
    r"(?P<indent> *)(?:(?P<colons>:{3,}) *(?P<kind>[\w-]*) *(?:\[(?P<label>[^\]]*)\]|(?P<rest>[^{\[]*))(?:\{.*\})?"
    r"|(?:!!!|\?\?\?\+?) +(?P<type>[\w-]+)[\w -]*(?:\"(?P<title>[^\"]*)\")?|===[!+]? +\"(?P<tab>[^\"]+)\") *$"
)
"""First or last line of an admonition, or first line of a tab."""

_ATTRIBUTES = (
    r"\{:?[ \t]*(?:[#.][\w-]+|[\w-]+=\"[^\"\n]*\")(?:[ \t]+(?:[#.][\w-]+|[\w-]+=(?:\"[^\"\n]*\"|[\w-]+)))*[ \t]*\}"
)

_HIDDEN = (
    r"^import[ \t]+(?:(?:[\w$]+|\{[^{}'\"]{0,500}\}|\*[ \t]+as[ \t]+[\w$]+)(?:[ \t]*,[ \t]*\{[^{}'\"]{0,500}\})?"
    r"[ \t]+from[ \t]+)?['\"][^'\"\n]+['\"];?[ \t]*$"
    r"|^export[ \t]+(?:(?:const|let|var)[ \t]+[\w$]+[ \t]*=|(?:default[ \t]+)?(?:async[ \t]+)?(?:function|class)[ \t]+"
    r"[\w$]+[ \t]*[({]|default[ \t]+[\w$]+;?[ \t]*$)(?:.|\n(?![ \t]*\n))*"
    r"|<!--(?:[^<]|<(?!!--))*?-->"
    r"|(?<!\w)<(?P<closing>/?)(?P<component>[A-Z][\w.]*+)"
    r"(?P<attributes>\s(?:[^<>{}\"']|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*+\})*+)?/?>"
    r"|<a[ \t]+(?:name|id)=[^<>]*>(?:</a>)?"
    rf"|(?<![ \t])[ \t]*+(?<!\{{){_ATTRIBUTES}(?=[ \t]*$)|(?<=[)\]*_`]){_ATTRIBUTES}"
    r"|(?<!\w):(?:material|fontawesome|octicons|simple)-[a-z\d-]+:[ \t]*"
)
"""Imports, exports, comments, components, anchors, attributes and icons; prose that resembles them stays."""

_CLOSED = re.compile(r"</([A-Z][\w.]*)[ \t]*>")
_CHARACTERS = re.compile(r"\^?(?:.-.)+\W*")
"""A set of characters in an expression, such as `a-z`."""

GENERATING = re.compile(
    r"^[ \t]*(?:::: [\w-]+(?:\.\w+|\n[ \t]+:?[\w-]+:)|-{2,}8<-|\{!|\{%-? *include"
    r"|import \w+ from ['\"][^'\"\n]+\.mdx?['\"])",
    re.MULTILINE,
)
"""A line that the build of a site replaces with text from elsewhere, which may have headings."""

TAB = "\ue000"
"""Begins the heading of a tab; no document's text is shown with it."""

_TAB_LABEL = re.compile(r"\s(label|value)=\{?(?:\"([^\"]*)\"|'([^']*)')")

MOST_OPEN = 8
"""Admonitions and tabs within each other that are laid out."""

_DEFINITION = (
    r"^[ \t>]*\[(?!\^)(?P<name>[^\]\n]{1,999})\]:[ \t]*(?:\n[ \t]+)?(?:<|\S*[./#:])\S+"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*$"
)
_RST = (
    r"^[ \t]*\.\. (?:_|(?:toctree|contents|index|currentmodule|highlight|include|literalinclude|image)::)[^\n]*"
    r"(?:\n[ \t]+\S[^\n]*|\n[ \t]*(?=\n[ \t]+\S))*"
    r"|^[ \t]*\.\. (?:code|code-block|sourcecode)::[^\n]*(?:\n[ \t]+:[\w-]+:[^\n]*)*"
    r"|^(?P<line>[=~^\"'#*+.:_-])(?P=line){3,}[ \t]*$"
)
"""Targets of links, directives that list or fetch something, those before code, and lines above and below titles."""

_DEFINITIONS = re.compile(_DEFINITION, re.MULTILINE)
_UNRENDERED = re.compile(_HIDDEN, re.MULTILINE)
_UNSEEN = re.compile(
    rf"{_HIDDEN}|{_DEFINITION}|{_RST}|!\[\[[^\[\]\n]{{0,500}}\]\]"
    r"|(?<![\w\]])!?\[(?P<text>[^\[\]]{1,300}+)\](?:\[(?P<label>[^\[\]\n]*)\]|(?![\[(:]))",
    re.MULTILINE,
)


def readable(text: str) -> str:
    """Return Markdown or reStructuredText as the readers of its site see it, with its lines where they were.

    What only a site understands is gone, and so are diagrams, embeds and definitions of links; a link by reference is
    its text, and an admonition or a tab begins with its title, if it has one.
    """
    code = _code(text)
    lines = _cleared(text, code, _UNSEEN)
    seen = ["" if code.get(number) == "mermaid" else line for number, line in enumerate(lines)]
    return "\n".join(_laid_out(seen, code, quotes=False))


def renderable(text: str, *, tabs: bool = False) -> str:
    """Return Markdown that any renderer understands, with the same number of lines.

    Admonitions are quotes. With `tabs`, tabs are too, and each begins with a heading whose text begins with `TAB`.
    """
    code = _code(text)
    lines = _cleared(text, code, _UNRENDERED, tabs=tabs)
    return "\n".join(_laid_out(lines, code, quotes=True, tabs=tabs))


def _cleared(text: str, code: Container[int], pattern: re.Pattern[str], *, tabs: bool = False) -> list[str]:
    """Return the lines without what a pattern matches outside of code; with `tabs`, their components are containers."""
    lines = text.split("\n")
    prose = "\n".join(["" if number in code else line for number, line in enumerate(lines)])
    masked = without_code(prose)
    names = {match["name"].casefold() for match in _DEFINITIONS.finditer(masked)}
    closed = set(_CLOSED.findall(masked))
    parts, at = list[str](), 0
    for match in pattern.finditer(masked):
        found = match.groupdict()
        shown = prose[slice(*match.span("text"))] if found.get("text") else ""
        if shown and found["label"] is None and shown.casefold() not in names:
            continue
        if shown and _CHARACTERS.fullmatch(shown) and (found["label"] or "").casefold() not in names:
            continue
        # A bare `<Name>` is rather a placeholder than a component, unless something closes it.
        named = found["component"]
        surely = found["closing"] or match[0].endswith("/>") or "=" in (found["attributes"] or "")
        if named and not surely and named not in closed:
            continue
        if tabs and named == "TabItem" and not _beside(prose, match):
            labels = {key: one or other for key, one, other in _TAB_LABEL.findall(found["attributes"] or "")}
            label = re.sub(r"[\[\]\n]", " ", labels.get("label") or labels.get("value") or "")
            shown = ":::" if found["closing"] else f":::tab[{label}]"
        parts += [prose[at : match.start()], shown, "\n" * (match[0].count("\n") - shown.count("\n"))]
        at = match.end()
    cleared = "".join([*parts, prose[at:]]).split("\n")
    return [lines[number] if number in code else line for number, line in enumerate(cleared)]


def _beside(text: str, match: re.Match[str]) -> str:
    """Return what else is on the lines of a match."""
    before, after = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
    return (text[before : match.start()] + text[match.end() : after if after >= 0 else None]).strip()


def _code(text: str) -> dict[int, str]:
    """Return number → language, of the lines of fenced code, however it is indented."""
    code, fence, language = dict[int, str](), "", ""
    for number, line in enumerate(text.split("\n")):
        match = _FENCE.match(line)
        if match and not fence:
            fence, language = match[1], (match[2].split() or [""])[0]
            code[number] = language
        elif fence:
            code[number] = language
            if match and match[1].startswith(fence) and not match[2]:
                fence = ""
    return code


def _laid_out(lines: Sequence[str], code: Container[int], *, quotes: bool, tabs: bool = False) -> Iterator[str]:
    """Yield the lines without the indentation of admonitions and tabs; as quotes if asked, `tabs` only with those."""
    opened: list[tuple[int, int, str]] = []
    """Column, indentation and mark of the contents of each admonition and tab."""
    closings = sum(line.strip(" :") == "" and ":::" in line for number, line in enumerate(lines) if number not in code)
    blank: list[str] = []
    """Lines that belong to what goes on after them."""
    for number, line in enumerate(lines):
        if not line.strip() and number not in code:
            blank.append("" if opened else line)
            continue
        column = len(line) - len(line.lstrip(" "))
        while line.strip() and opened and opened[-1][1] and column < opened[-1][0] + opened[-1][1]:
            opened.pop()
        prefix = f"{' ' * opened[0][0]}{''.join(mark for _, _, mark in opened)}".rstrip() if opened else ""
        yield from (prefix or one for one in blank)
        blank.clear()
        opening = None if number in code else _OPENING.match(line)
        tab = opening and (opening["tab"] or opening["kind"] == "tab")
        if opening and opening["colons"] and not opening["kind"]:
            del opened[-1:]
            opening, line, closings = None, "", closings - 1
        elif opening:
            title = (opening["label"] or opening["rest"] or opening["title"] or opening["tab"] or "").strip()
            name = f"**{title or (opening['kind'] or opening['type']).capitalize()}**" if quotes else title
            name = f"###### {TAB}{title or 'Tab'}" if tab and tabs else name
            line = f"{opening['indent']}{name}"
        base, indented = opened[0][0] if opened else 0, sum(indentation for _, indentation, _ in opened)
        # One that nothing closes would quote the rest.
        if opening and len(opened) < MOST_OPEN and (not opening["colons"] or closings > len(opened)):
            quoted = quotes and (tabs or not opening["tab"])
            opened.append((column, 0 if opening["colons"] else 4, "> " if quoted else ""))
            base = opened[0][0]
        marks = "".join(mark for _, _, mark in opened)
        yield f"{' ' * base}{marks}{line[min(base + indented, column) :]}".rstrip() if opened else line
    yield from blank
