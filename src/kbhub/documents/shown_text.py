"""Text as it is shown: safe for a model (on one line, within quotes or fences that it cannot close), and as readers see
the pages of a site, without what MDX, Docusaurus, MkDocs, Hugo, Jekyll, Obsidian and Sphinx add.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from itertools import groupby, islice

TITLE_BYTES = 160
"""UTF-8 bytes shown of a title with its headings."""

LONG_FENCE = 40
"""Run of backticks beyond which the fence uses tildes, so that hostile text cannot double the length of the answer."""

_ICON = r"(?<!\w):(?:material|fontawesome|octicons|simple)-[a-z\d-]+:(?:\{[^{}\n]*\})?[ \t]*"

# Code spans keep their content; elsewhere icons, strong emphasis, links, anchors and escapes lose their markup.
_INLINE = re.compile(
    rf"(?P<ticks>`{{1,3}})(?P<code>[^`]+)(?P=ticks)(?!`)|{_ICON}|\*\*"
    r"|!?\[(?P<text>[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])"
    r"|</?(?:a|abbr|b|br|code|em|i|kbd|small|span|strong|sub|sup)(?:\s[^<>]*)?/?>|<[A-Z]\w*+(?:\s[^<>=]*+=[^<>]*+|[^<>]*+(?<=/))>|</[A-Z]\w*>|\\(?P<escaped>[!-/:-@\[-`{-~])|(?P<entity>&[a-zA-Z#][a-zA-Z0-9]{1,31};)"
)
_INLINE_OR_PAGE = re.compile(
    rf"{_INLINE.pattern}|!?\[\[(?:[^\[\]|]{{1,300}}+\|)?(?P<page>[^\[\]|]{{1,300}}+)\]\]"
    r"|(?<![\w:]):[a-z]+(?:[:-][a-z]+)*:(?=`[^`\d])"
)
"""And links of wikis, and roles of reStructuredText but those of numbers."""

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Bidirectional controls, zero-width and tag characters can make a text look like another.
_MARKS = "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_INVISIBLE = re.compile(f"[{_MARKS}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_EMPTY_LINES = re.compile(r"(?:\n[ \t>]*)+\Z|\n(?:[ \t>]*\n){2,}")
_CONTROL = re.compile(
    r"<(?=[|｜])|(?<=[|｜])>"  # ChatML and others: <|im_start|>, <｜User｜>
    r"|<(?=/?(?:s|bos|eos|pad|unk|think|thinking|start_of_turn|end_of_turn|start_of_image|tool_call|tool_response)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])|<(?=</?SYS>>)",
    re.IGNORECASE,
)
"""Where control tokens of chat templates begin or end. Servers tokenize them wherever they occur, so a document could
speak as the system."""

_THINKING = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_UNSEEN = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f{_MARKS}]")
"""And control characters: a NUL ends the text for a server in C. The joiners that scripts and emojis need stay."""
_QUOTES = str.maketrans({'"': "'", "`": "'", "·": "-"})


def one_line(text: str, limit: int) -> str:
    """Put a text on one line, remove invisible characters, and cut it at `limit` UTF-8 bytes, with `…` if cut."""
    # Slice first to save work on long texts; `limit` bytes hold at most `limit` characters.
    line = text[: 8 * limit]
    if not line.isascii():
        line = _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", line))
    return cut(_BREAKS.sub(" ", line).strip(), limit)


def quoted(text: str, limit: int) -> str:
    """Return a text on one line in double quotes; quotes and backticks inside are replaced."""
    return f'"{bare(text, limit)}"'


def bare(text: str, limit: int) -> str:
    """Return a text like `quoted`, but without the surrounding quotes."""
    return one_line(text, limit).translate(_QUOTES)


def fenced(text: str) -> str:
    """Put a text, verbatim, into a code fence that it cannot close."""
    ticks, tildes = (max(map(len, re.findall(f"{mark}+", text)), default=0) for mark in "`~")
    fence = "`" * max(3, ticks + 1)
    if ticks > LONG_FENCE > tildes:
        fence = "~" * max(3, tildes + 1)
    return f"{fence}\n{_SURROGATES.sub(chr(0xFFFD), text)}\n{fence}"


REJECTED = "tried, and not taken"


def outdated_mark(why: str) -> str:
    """Return the mark of an outdated document, with the untrusted reason from its own text."""
    return f"outdated: {bare(why, TITLE_BYTES)}"


def compact(text: str) -> str:
    """Return a text with one empty line for several, also in quotes, and none at its ends."""
    return _EMPTY_LINES.sub("\n\n", text).strip("\n")


def cut(text: str, limit: int) -> str:
    """Cut a text at a number of UTF-8 bytes, marked with `…`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len("…".encode())].decode("utf-8", "ignore").rstrip() + "…"


def cell_width(text: str) -> int:
    """Return the width in columns of a text without control characters: two for wide ones, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum([1 + (unicodedata.east_asian_width(one) in "WF") for one in text if not unicodedata.combining(one)])


def sendable(text: str) -> str:
    """Remove invisible characters from a text, and break up the control tokens of chat templates with a space."""
    return _CONTROL.sub(lambda match: f" {match[0]}" if match[0] == ">" else f"{match[0]} ", seen(text))


def seen(text: str) -> str:
    """Remove invisible characters from a text, and replace lone surrogates, which cannot be encoded."""
    return _SURROGATES.sub("\ufffd", _UNSEEN.sub("", text))


def without_thinking(text: str) -> str:
    """Remove a model's thinking from its answer, even if its opening or closing tag is missing."""
    kept, thinking, at = list[str](), False, 0
    for tag in _THINKING.finditer(text):
        if not thinking:
            kept.append(text[at : tag.start()])
        if tag[1] and not thinking:  # the opening tag is missing
            kept.clear()
        thinking, at = not tag[1], tag.end()
    return "".join([*kept, "" if thinking else text[at:]]).strip()


def unmarked(text: str) -> str:
    """Return Markdown of a line without the markup of code, strong emphasis, links and HTML."""
    return text if text.isalnum() else _INLINE.sub(_unmarked, text)


def _unmarked(match: re.Match[str]) -> str:
    shown = match[match.lastgroup] if match.lastgroup else ""
    return html.unescape(shown) if match.lastgroup == "entity" else shown


MAX_HEADING_CHARS = 300
"""Characters at which `Heading.text` is cut, as it is repeated in every chunk and result. A longer paragraph above a
line of dashes is a paragraph and a rule."""

_CLOSING_MARKS = re.compile(r"(?<=[ \t])#++\s*+$")
_HEADING_ATTRIBUTES = re.compile(r"\{(?::?[ \t]*(?:[#.:]|[\w-]+=)[^{}]*|/\*[^{}]*\*/)\}$")
_COMMENT = re.compile(r"<!--\s*(?:[\w-]+:[\w-]+\s+)?(.*?)\s*-->")
"""A comment, or a short code of a site (`<!-- md:setting name -->`), whose last group is what readers see."""


def atx_text(line: str) -> str:
    """Return a heading as readers see it, given what follows the marks before it."""
    return heading_text(_CLOSING_MARKS.sub("", _HEADING_ATTRIBUTES.sub("", line.rstrip())).strip())


def heading_text(text: str) -> str:
    """Return a heading as readers see it: on one line, without ids in braces, comments and the markup within a line."""
    text = _HEADING_ATTRIBUTES.sub("", text[: 2 * MAX_HEADING_CHARS])
    if "<!--" in text:
        text = _COMMENT.sub("", text).strip() or _COMMENT.sub(r"\1", text)
    return " ".join(unmarked(text).split())[:MAX_HEADING_CHARS]


def without_code(text: str, mask: str = "x") -> str:
    """Replace the characters of code spans."""
    if "`" not in text:
        return text
    runs = [match.span() for match in re.finditer("`+", text)]
    escaped = {match.start(1) for match in re.finditer(r"\\(.)", text, re.DOTALL)} if "\\" in text else ()
    closing, latest = [-1] * len(runs), dict[int, int]()  # for each run, the next one of the same length
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = latest.get(length, -1)
        latest[length] = number
    parts, position, number = list[str](), 0, 0
    while number < len(runs):
        start, partner = runs[number][0], closing[number]
        if partner < 0 or start in escaped:
            number += 1
            continue
        end = runs[partner][1]
        parts += (text[position:start], mask * (end - start))
        position, number = end, partner + 1
    parts.append(text[position:])
    return "".join(parts)


CODE_INDENT = 4
"""Columns of indentation that make a line indented code (CommonMark 4.4)."""

FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_DRAWN = re.compile(r"[ \t>]*[`~]+[ \t]*(?:mermaid\b|\{(?:contents|image|include|literalinclude|mermaid|toctree)\})")
"""First line of a diagram, and of what Sphinx replaces with a picture or with text from elsewhere."""

_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)+(?:\[![\w-]+\][+-]?[ \t]*)?")
"""The marks of a quote, and the type of a callout (GitHub, Obsidian)."""

_CALLOUT = re.compile(r"((?:[ \t]*>)+[ \t]*)\[!([\w-]+)(?:\|[^\[\]]*)?\][+-]?[ \t]*(.*)")

_NOTICE = re.compile(r"admonition|alert|attention|callout|caution|danger|hint|important|info|note|notice|tip|warning")
"""Blocks and shortcodes that are admonitions."""

_DIRECTIVE = rf"\{{(?:dropdown|error|seealso|tab-item|{_NOTICE.pattern})\}}"
_DIRECTIVE_FENCE = re.compile(rf"^ *(`{{3,}}|~{{3,}}) *{_DIRECTIVE}", re.MULTILINE)
"""First line of a block of MyST whose contents are Markdown."""

_OPENING = re.compile(
    r"(?P<indent> *)(?:(?P<marks>:{3,}|/{3,}(?= +[a-z][\w-]* *(?:\||$)| *$)) *"
    rf"(?:(?={_DIRECTIVE})(?P<brace>\{{))?(?P<kind>[\w-]*)(?(brace)\}}) *"
    r"(?:\[(?P<label>[^\]]*)\]|\|(?P<said>.*)|(?P<rest>[^{\[]*))(?:\{.*\})?"
    r"|(?:!!!|\?\?\?\+?) +(?P<type>[\w-]+)[\w -]*(?:\"(?P<title>[^\"]*)\")?|===[!+]? +\"(?P<tab>[^\"]+)\") *$"
)
"""First or last line of an admonition, or first line of a tab."""

_CLOSING = re.compile(r" *(?::{3,}|/{3,}) *")
_CONTAINER = re.compile(r":::|///|!!!|\?\?\?|===|\[!")
"""Occurs in each such line, and in the first one of a callout."""

_ATTRIBUTES = (
    r"\{:?[ \t]*(?:[#.][\w-]+|[\w-]+=\"[^\"\n]*\")(?:[ \t]+(?:[#.][\w-]+|[\w-]+=(?:\"[^\"\n]*\"|[\w-]+)))*[ \t]*\}"
)

TEMPLATE = r"\{[{%][^{}\n]{1,500}[%}]\}"
"""An expression that the build of a site replaces: of Hugo or Liquid."""

_INCLUDE = (
    r"[ \t>]*(?:\{\{#(?:(?:rustdoc_|shift)?include|playground)[^{}\n]*\}\}|-+8<-+[^\n]*+"
    r"|\{[*!][ \t]*[\w./-]+\.\w+[^{}\n]*[*!]\})[ \t]*"
)
"""A line of mdBook or MkDocs that stands for lines of another file, in code as well."""

_BRACES = r"\{(?:[^{}]|" * 4 + r"\{[^{}]*\}" + r")*+\}" * 4
"""A value of a component, nested up to five deep."""

_PROPERTY = rf"\s*[\w:-]+=(?:\"[^\"]*\"|'[^']*'|{_BRACES})"

_HIDDEN = (
    r"^import[ \t]+(?:(?:[\w$]+|\{[^{}'\"]{0,500}\}|\*[ \t]+as[ \t]+[\w$]+)(?:[ \t]*,[ \t]*\{[^{}'\"]{0,500}\})?"
    r"[ \t]+from[ \t]+)?['\"][^'\"\n]+['\"];?[ \t]*$"
    r"|^export[ \t]+(?:(?:const|let|var)[ \t]+[\w$]+[ \t]*=|(?:default[ \t]+)?(?:async[ \t]+)?(?:function|class)[ \t]+"
    r"[\w$]+[ \t]*[({]|default[ \t]+[\w$]+;?[ \t]*$)(?:.|\n(?![ \t]*\n))*"
    r"|<!-- md:(?:option|setting|(?P<default>default)) (?P<option>(?:[^<>\n-]|-(?!->))+) -->"
    r"|<!--(?:[^<]|<(?!!--))*?-->|^\([^()\s]+\)=[ \t]*$"
    r"|^(?P<opening> *(?::{3,} *\{|/{3,} +\w)[^\n]*)(?:\n(?: *:[\w-]+:(?:[ \t][^\n]*)?| {4,}[a-z_]+:[^\n]*)(?=\n|\Z))+"
    r"|^[ \t]*<(?P<unseen>script|style)(?:[ \t][^<>]*)?>(?:[^<]|<(?!/?(?:script|style)\b))*+</(?P=unseen)>"
    r"|\{(?:' *'|\" *\")\}|(?<![ \t])[ \t]*+\{/\*(?:[^*{]|\*(?!/)|\{(?!/\*))*+\*/\}"
    r"|(?<!\w)<(?P<closing>/?)(?P<component>[A-Z][\w.]*+)"
    rf"(?P<attributes>\s(?:[^<>{{}}\"']|\"[^\"]*\"|'[^']*'|{_BRACES})*+)?/?>"
    r"|^[ \t]*/>[ \t]*$"
    rf"|^[ \t]*<[A-Z][\w.]*(?:{_PROPERTY})*\s*\Z"
    r"|<a[ \t]+(?:name|id)=[^<>]*>(?:</a>)?"
    rf"|(?<![ \t])[ \t]*+(?<!\{{){_ATTRIBUTES}(?=[ \t]*$)|(?<=[)\]*_`]){_ATTRIBUTES}"
    rf"|(?<!\])!?\[(?P<linked>[^\[\]\n]{{1,300}}+)\]\([^()\s{{}}]*+{TEMPLATE}[^()\n]*\)"
    r"|\{(?:\{[<%]|%)-?[ \t]*(?P<ended>/|end)?[ \t]*(?P<shortcode>\w*+)(?P<parameters>[^{}\n]*?)[>%]\}\}?"
    rf"|^{_INCLUDE}$"
    r"|^[ \t]*+(?:\[\[_?TOC_?\]\]|\[(?:TOC|toc)\]|(?:(?:[-*+]|1\.)[ \t][^\n]*+\n[ \t]*+)?\{:[ \t]*toc[ \t]*\})[ \t]*$"
    rf"|{_ICON}|(?<![+\w])\+\+(?P<keys>[\w-]++(?:\+[\w-]++)*+)\+\+(?![+\w])"
    r"|^[ \t]{0,3}\*\[[^\[\]\n]{1,300}+\]:[^*\n]*$"
    r"|^[ \t]*+:::[ \t]+[\w-]+(?:(?:\.\w+)++[ \t]*$|(?=\n[ \t]+(?:handler|options):))(?:\n[ \t]+\S[^\n]*)*+"
    r"|(?<![ \t])[ \t]*+(?<![%\w{])%%(?:[^%\n]|%(?!%))*+%%(?![%\w])|^%%[ \t]*\n(?:(?!%%)[^\n]*\n)*+%%[ \t]*$"
    r"|(?:^|(?<=[.!?)\]*`])[ \t]++)\^(?=[\w-]*[a-zA-Z])[\w-]{2,}[ \t]*$"
    r"|(?<![=\w<])==(?P<marked>[^\s=>](?:[^=\n]*+(?<=\S))?)==(?![=\w>])"
)
"""Imports, exports, comments, components, anchors, attributes, shortcodes, places of a table of contents, icons, keys,
abbreviations, API references, comments and ids of blocks of Obsidian, highlights; prose that resembles them stays."""

GENERATING = re.compile(
    r"^[ \t]*(?:::: [\w-]+(?:\.\w+|\n[ \t]+:?[\w-]+:)|-{2,}8<-|\{!|\{\{#include|\{%-? *include"
    r"|import \w+ from ['\"][^'\"\n]+\.mdx?['\"])",
    re.MULTILINE,
)
"""A line that the build of a site replaces with text from elsewhere, which may have headings."""

TAB, CALLOUT = "\ue000", "\ue001"
"""Begin the heading of a tab, and the kind of a callout before its title; no document's text is shown with them."""

_LINE_END = re.compile(r"[ \t]*$", re.MULTILINE)
_NAMED = re.compile(r"\b(title|type)=[\"']([^\"'\[\]]*)")
_SAID = re.compile(r"(?<!\S)(?:(title|label)|npm|yarn|pnpm|bun|deno|cargo|pip|command)=(?:\"([^\"]+)\"|'([^']+)')")
"""An attribute that readers see: a title, or a command."""

_TAB_LABEL = re.compile(r"\s(label|value)=\{?(?:\"([^\"]*)\"|'([^']*)')")

MOST_OPEN = 8
"""Admonitions and tabs within each other that are laid out."""

_DEFINITION = (
    rf"^[ \t>]*\[(?!\^)(?P<name>[^\]\n]{{1,999}})\]:[ \t]*(?:\n[ \t]+)?(?:(?:<|\S*[./#:])\S+|#|{TEMPLATE}\S*)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$"
)
_EMPTY_OR_LISTED = re.compile(
    r"</?summary(?:[ \t][^<>]*)?>"
    r"|^(?:[ \t]*#{1,6}[ \t]*$|:[ \t]{2,}"
    r"|[ \t]*</?(?:br|center|details|div|fig(?:ure|caption)|p|section|t(?:able|[dhr]))(?:[ \t][^<>]*)?/?>[ \t]*$"
    r"|[ \t>]*(?:\[?!\[[^\[\]]*\]\([^()]*\)(?:\]\([^()]*\))?[ \t]*)+$)"
)
"""An empty heading, what begins the text of a definition list, and lines of only a tag or pictures."""

_PADDING = re.compile(r"(?<!`)(`++[^`]+`+)|(?<=\S ) +|(?<=[ |:]-{3})-+(?=:? *\|)")
"""Code, which stays, and what aligns the columns of a table."""

_DEFINITIONS = re.compile(_DEFINITION, re.MULTILINE)
_INCLUDED = re.compile(_INCLUDE)
_ROLE = re.compile(r"(?<![\w`}])\{[a-z][\w:+-]*\}`[~!]?(?P<text>[^\s`<>{}][^`<>{}]*?)(?: ?<[^`<>\n]+>)?`(?!`)")
"""A role of MyST, with its text or its target."""

_FIRST = r"[<{/\[!>*+:%^=&\\-]"
# None of them begins at a letter of prose or at other marks, which halves the time of a warm search's excerpts.
_START = rf"(?={_FIRST}|[ \t](?<![ \t]{{2}})[ \t]*(?:{_FIRST}|1\.)|1\.|^\(|import|export)"
_CONTINUED = rf"\A(?:{_PROPERTY})+\s*/?>"
_UNRENDERED = re.compile(rf"{_START}(?:{_HIDDEN})|{_CONTINUED}", re.MULTILINE)
_UNREADABLE = re.compile(
    rf"{_START}(?:{_HIDDEN}|{_DEFINITION}|!\[\[[^\[\]\n]{{0,500}}\]\]"
    r"|(?<![\w)])\[\[(?![a-z._-]+\]\])(?:[^\[\]\n|]{1,300}+\|)?#?(?P<page>[^\s\[\]|#\d:\"'][^\[\]\n|]{0,300}+)\]\](?![(\[:])"
    r"|(?<![\w\]])!?\[(?!\^?(?:[^\[\]]-[^\[\]]){1,99}+[^\w\[\]]{0,9}+\])(?P<text>[^\[\]]{1,300}+)\](?:\[(?P<label>[^\[\]\n]*)\]|(?P<data>\([^()\s]{200,}\))|(?![\[(:]))"
    rf"|\\(?P<escaped>[{{}}])|(?P<entity>&(?:[a-zA-Z]{{2,31}}|#\w{{2,7}});))|{_CONTINUED}",
    re.MULTILINE,
)


def readable(text: str) -> str:
    """Return Markdown as the readers of its site see it, with its lines where they were.

    What only a site understands is gone, and so are diagrams, embeds and definitions of links; a link by reference is
    its text, an admonition or a tab begins with its title, if it has one, and the columns of a table are not aligned.
    """
    code = _code(text := _with_colons(text))
    lines = _cleared(text, code, _UNREADABLE)
    for number, line in enumerate(lines):
        if number not in code:
            line = _PADDING.sub(r"\1", line) if line.lstrip().startswith("|") else line
            lines[number] = _EMPTY_OR_LISTED.sub("", line)
        elif not code[number]:
            lines[number] = ""
    shown = "\n".join(lines)
    return "\n".join(_laid_out(lines, code, quotes=False)) if _CONTAINER.search(shown) else shown


def renderable(text: str, *, tabs: bool = False) -> str:
    """Return Markdown that any renderer understands, with the same number of lines.

    Admonitions and callouts are quotes. With `tabs`, tabs are too, each below a heading that begins with `TAB`, and
    the title of a callout begins with `CALLOUT` and its kind.
    """
    code = _code(text := _with_colons(text))
    return "\n".join(_laid_out(_cleared(text, code, _UNRENDERED, tabs=tabs), code, quotes=True, tabs=tabs))


def _named(title: str, kind: str = "", *, quotes: bool = False, marked: bool = False) -> str:
    """Return the title of a callout, or its kind: of a quote on a line of its own, else so that a sentence goes on."""
    title = title.replace("**", "").strip() or kind.capitalize()
    if quotes:
        return f"**{CALLOUT + kind.lower() + ' ' if marked else ''}{title}**  "
    return f"{title}:" if title and title[-1] not in ".:!?…" else title


def _cleared(text: str, code: Container[int], pattern: re.Pattern[str], *, tabs: bool = False) -> list[str]:
    """Return the lines without what a pattern matches outside of code; with `tabs`, their components are containers."""
    lines = text.split("\n")
    prose = "\n".join(["" if number in code else line for number, line in enumerate(lines)])
    masked = without_code(prose)
    if "}`" in prose:
        prose = _ROLE.sub(lambda role: role["text"] if masked[role.start()] == "{" else role[0], prose)
        masked = without_code(prose)
    names = {match["name"].casefold() for match in _DEFINITIONS.finditer(masked)}
    closed = set(re.findall(r"</([A-Z][\w.]*)[ \t]*>", masked))
    parts, at = list[str](), 0
    for match in pattern.finditer(masked):
        found = match.groupdict()
        part = next(filter(found.get, ("linked", "text", "page", "keys", "marked", "opening", "option", "escaped")), "")
        shown = prose[slice(*match.span(part))] if part else ""
        if part == "text" and found["label"] is found["data"] is None and shown.casefold() not in names:
            continue
        if part:
            shown = "\n".join(_cleared(shown.title() if part == "keys" else shown, (), pattern))
        shown = f"Default: {shown}." if found["default"] else shown
        if found.get("entity"):
            shown = _INVISIBLE.sub("", html.unescape(match[0]))
            if shown and shown.isascii():  # it may be markup
                continue
        # A bare `<Name>` is rather a placeholder than a component, unless it has its own line or something closes it.
        named = found["component"]
        surely = found["closing"] or match[0].endswith("/>") or "=" in (found["attributes"] or "") or named in closed
        if named and not surely and not _alone(prose, match):
            continue
        if tabs and named == "TabItem" and _alone(prose, match):
            labels = {key: one or other for key, one, other in _TAB_LABEL.findall(found["attributes"] or "")}
            label = re.sub(r"[\[\]\n]", " ", labels.get("label") or labels.get("value") or "")
            shown = ":::" if found["closing"] else f":::tab[{label}]"
        elif found["attributes"] and _alone(prose, match):
            attributes = prose[slice(*match.span("attributes"))].removeprefix(" ").split("\n")
            heads = pattern is _UNREADABLE and not match[0].endswith("/>")
            shown = "\n".join([_said(line, heads=heads) for line in attributes])
        listed = prose.endswith("\t", 0, match.start())
        if _NOTICE.fullmatch(found["shortcode"] or "") and _alone(prose, match) and not listed:
            named = {"type": found["shortcode"], "title": "", **dict(_NAMED.findall(found["parameters"]))}
            shown = ":::" if found["ended"] else f":::{named['type']}[{named['title']}]"
        left = prose.count("\n", *match.span()) - shown.count("\n")
        parts += [prose[at : match.start()], shown, "\n" * left]
        at = match.end()
    cleared = "".join([*parts, prose[at:]]).split("\n")
    return [lines[number] if number in code else line for number, line in enumerate(cleared)]


def _said(line: str, *, heads: bool) -> str:
    """Return what readers see of a line of attributes: titles, of what follows if it `heads` it, or items of a list."""
    said = _SAID.findall(line)
    shown = " ".join([f"{'' if title else '- '}{one}{other}".lstrip("#> ") for title, one, other in said])
    return line[: -len(line.lstrip())] + (_named(shown) if heads and said[0][0] else shown) if said else ""


def _alone(text: str, match: re.Match[str]) -> bool:
    """Return whether nothing else is on the lines of a match."""
    ends = _LINE_END.match(text, match.end()) is not None
    return ends and not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()


def code_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield first line and end of fenced code, however it is indented; -1 as first if the text begins within it."""
    marks = {number: match for number, line in enumerate(lines) if (match := FENCE.match(line))}
    first, opened, quoted = -1, None, False
    number, second = [*marks, -1, -1][:2]
    if marks and not marks[number][2] and (len(marks) % 2 or marks[second][2]):
        # It ends code that begins above: such a fence has no language, code above and none below.
        above, below = [*map(str.strip, lines[:number])], "".join(lines[number + 1 : number + 2]).strip()
        opened = marks[number] if not below and (not any(above) or above[-1]) else None
    for number, line in enumerate(lines):
        match = marks.get(number)
        if quoted and line.lstrip()[:1] != ">":  # a quote takes its fence along
            yield first, number
            opened, quoted = None, False
        if match and opened and match.start(1) - opened.start(1) >= CODE_INDENT:
            continue  # it is code itself
        if match and not opened:
            first, opened, quoted = number, match, ">" in match[0][: match.start(1)]
        elif match and opened and match[1].startswith(opened[1]) and not match[2]:
            yield first, number + 1
            opened, quoted = None, False
    if opened:
        yield first, len(lines)


def _with_colons(text: str) -> str:
    """Return Markdown with colons for the fences around blocks of MyST that are no code, within each other as well."""
    lines = text.split("\n")
    for _ in range(MOST_OPEN if _DIRECTIVE_FENCE.search(text) else 0):
        for first, end in [*code_blocks(lines)]:
            if opening := _DIRECTIVE_FENCE.match(lines[first]):
                for at in (first, end - 1):
                    lines[at] = re.sub(f"^( *){opening[1]}+", r"\1:::", lines[at])
    return "\n".join(lines)


def _code(text: str) -> dict[int, bool]:
    """Return number → whether readers see it, of the lines of fenced code."""
    code, lines = dict[int, bool](), text.split("\n")
    for first, end in code_blocks(lines):
        inside = [*filter(None, map(str.strip, lines[first + 1 : end - 1]))]
        seen = not inside or not all(map(_INCLUDED.fullmatch, inside))
        code.update(dict.fromkeys(range(max(first, 0), end), seen and not _DRAWN.match(lines[max(first, 0)])))
    return code


COMMENT = re.compile(r"<!--(?:[^<]|<(?!!--))*?-->")
_BLOCK_STARTS = re.compile(r"^[ \t>]*(?:#{1,6}[ \t].*$|(?:[-*+]|\d+[.)])[ \t]|$)", re.MULTILINE)
_LINKS = re.compile(r"\[[^\[\]\n]*\](?:\([^()\n]*\)|\[[^\[\]\n]*\])|<?https?://\S+")
_ENDED = re.compile(r"(?:[.!][\"')*_]*\s+|[\u3002\uff01]\s*)\w")
_WORD = re.compile(r"[\u3040-\u9fff]{1,2}|[^\W\u3040-\u9fff]+")  # most words of Han and Kana have two characters
MOST_BESIDE = 3
"""Words beside a link that add no statement to it, such as who published it."""


def states(text: str) -> bool:
    """Return whether Markdown has more than headings, pictures, links, comments, questions, and what leads to them."""
    for block in filter(_WORD.search, _BLOCK_STARTS.split(COMMENT.sub("", text))):
        plain, links = _LINKS.subn(" ", block)
        leads = plain.rstrip("*_ \t\n").endswith(("?", ":", "\uff1f", "\uff1a")) and not _ENDED.search(plain)
        if not leads and any(islice(_WORD.finditer(plain), MOST_BESIDE if links else 0, None)):
            return True
    return False


def without_markup(text: str) -> str:
    """Return the lines of a text but empty ones and rules, without marks of quotes, fences, and markup outside code."""
    code, parts = _code(text), list[str]()
    for in_code, lines in groupby(enumerate(text.split("\n")), lambda line: line[0] in code):
        unquoted = [_QUOTED.sub("", line) for _, line in lines if not FENCE.match(line)]
        plain = "\n".join([line for line in unquoted if line.strip(None if in_code else "|:- ")])
        parts.append(plain if in_code else _INLINE_OR_PAGE.sub(_unmarked, plain))
    return "\n".join(filter(None, parts))


def brief(text: str, limit: int) -> str:
    """Return a text without markup; without code, too, if it has more UTF-8 bytes and the rest states anything."""
    plain, code = without_markup(text), _code(text)
    prose = "\n".join([line for number, line in enumerate(text.split("\n")) if number not in code])
    return without_markup(prose) if len(plain.encode("utf-8", "replace")) > limit and states(prose) else plain or text


def _laid_out(lines: Sequence[str], code: Container[int], *, quotes: bool, tabs: bool = False) -> Iterator[str]:
    """Yield the lines without the indentation of admonitions and tabs; as quotes if asked, `tabs` only with those."""
    opened: list[tuple[int, int, str]] = []
    """Column, indentation and mark of the contents of each admonition and tab."""
    closings = sum(number not in code and _CLOSING.fullmatch(line) is not None for number, line in enumerate(lines))
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
        if number not in code and (callout := _CALLOUT.fullmatch(line)):
            line = callout[1] + _named(callout[3], callout[2], quotes=quotes, marked=tabs)
        opening = None if number in code else _OPENING.match(line)
        tab = opening and (opening["tab"] or opening["kind"] in ("tab", "tab-item"))
        if opening and opening["marks"] and not opening["kind"]:
            del opened[-1:]
            opening, line, closings = None, "", closings - 1
        elif opening:
            title = next(filter(None, opening.group("label", "said", "rest", "title", "tab")), "").strip()
            kind = opening["type"] or (opening["kind"] if quotes or _NOTICE.fullmatch(opening["kind"] or "") else "")
            name = f"###### {TAB}{title or 'Tab'}" if tab and tabs else _named(title, kind, quotes=quotes, marked=tabs)
            line = f"{opening['indent']}{name}" if opening["title"] != "" else ""  # a title that is left out on purpose
        base, indented = opened[0][0] if opened else 0, sum(indentation for _, indentation, _ in opened)
        # One that nothing closes would quote the rest.
        if opening and len(opened) < MOST_OPEN and (not opening["marks"] or closings > len(opened)):
            quoted = quotes and (tabs or not opening["tab"])
            opened.append((column, 0 if opening["marks"] else CODE_INDENT, "> " if quoted else ""))
            base = opened[0][0]
        marks = "".join(mark for _, _, mark in opened)
        shown = f"{' ' * base}{marks}{line[min(base + indented, column) :]}" if opened else line
        yield shown if (opening and quotes) or not opened else shown.rstrip()
    yield from blank
