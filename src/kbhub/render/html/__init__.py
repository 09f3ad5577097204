"""Templates of the page, the plots that they draw, and documents as inert HTML."""

from __future__ import annotations

import hashlib
import html as entities
import posixpath
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import nh3
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup, escape
from mdit_py_plugins.footnote import footnote_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from kbhub.documents.markdown import heading_end
from kbhub.documents.shown_text import CALLOUT, TAB, renderable, without_markup
from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import Term, terms_of
from kbhub.memory.files import MemoryFile
from kbhub.render.search import contribution_of, heading_path, verdict_words, why
from kbhub.render.terminal import ago, neutralised, passed_over_text, size_text
from kbhub.search.document_signals import FADING_DAYS
from kbhub.search.judge import is_unfinished
from kbhub.types import Document, Heading
from kbhub.values import DAY_SECONDS, age_text, counted, struct
from kbhub.workspace.formats import MARKUP_SUFFIXES, has_markdown, in_markdown, is_native, suffix_of

HERE = Path(__file__).parent
STATIC = HERE / "static"

_MARKS = re.compile(
    r"^[ \t>]*(?:#{1,6}[ \t].*|-{3,}[ \t]*|\|[ \t|:-]+)$|^[ \t]*[-*+][ \t]+|[ \t]*\|[ \t]*", re.MULTILINE
)
"""Headings, lines, and marks of lists and tables."""

PASSAGE = 180
"""Characters of a hit's passage in a list: two lines."""

_CODE = re.compile(r"`([^`]+)`")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment, created on first use."""
    files = FileSystemLoader(HERE / "templates")
    made = Environment(loader=files, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    sizes = {"bytes": size_text, "counted": counted, "age": age_text, "ago": ago, "passed_over": passed_over_text}
    texts = {"coded": _coded, "passage": _passage, "why": why, "contribution": contribution_of}
    words = {"folder": _folder, "verdict_words": verdict_words, "is_unfinished": is_unfinished}
    made.filters.update(**sizes, **texts, **words, url=partial(quote, safe="/@:"))
    made.filters["percent"] = lambda share: f"{100 * share:.0f} %"
    made.globals.update(heading_path=heading_path, static=_static)
    return made


def _static(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def rendered(name: str, **values: Any) -> str:
    """Render a file below `templates/` with variables."""
    return environment().get_template(name).render(values)


def _with_marks(text: str, terms: tuple[Term, ...]) -> Markup:
    parts, at = list[Markup](), 0
    for start, end in spans(text, terms):
        parts += [escape(text[at:start]), Markup("<mark>"), escape(text[start:end]), Markup("</mark>")]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def _passage(text: str, terms: Sequence[str]) -> Markup:
    """Return the densest part of Markdown as text that runs on, without its marks, the words of a query marked."""
    plain, wanted = _MARKS.sub(" ", without_markup(text)).strip() or text.lstrip("# "), terms_of(tuple(terms))
    return _with_marks(neutralised(excerpt(" ".join(plain.split()), wanted, PASSAGE)[0]), wanted)


def _folder(ref: str) -> str:
    """Return the folder of a document's ref with its base; empty at the top of the project base."""
    base, at, path = ref.rpartition("@")
    return f"{base}{at}{posixpath.dirname(path)}".removesuffix("@")


def _coded(text: str) -> Markup:
    """Return one of kbhub's sentences with text in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(neutralised(text)))))  # noqa: S704 - it is escaped


DAYS_AHEAD = 200
"""Days of a memory's curve after its last use: until it fades no further, and a little more."""


def strength_curve(memory: MemoryFile, now: float) -> dict[str, Any]:
    """Return the points (day, 1 - strength) of a line from a memory's last use on, and on which day `now` is."""
    last = memory.last_use()
    points = [f"{day},{1 - memory.strength(last + day * DAY_SECONDS):.3f}" for day in (0, FADING_DAYS, DAYS_AHEAD)]
    elapsed = min(max(0.0, (now - last) / DAY_SECONDS), DAYS_AHEAD)
    return {"points": " ".join(points), "now": round(elapsed, 1), "days": DAYS_AHEAD}


PART_CHARACTERS = 200_000
"""Characters of a document on one page: some 3,000 lines, rendered in a fifth of a second."""

HIGHLIGHTED_CHARACTERS = 20_000
"""Longer code blocks are shown plain; highlighting takes 2 µs a character."""

ID_PREFIX = "doc-"
"""Begins every id of a document, so that none is one of the page's."""

CODE_CLASS = "hl-"
"""Begins the classes of highlighted code; `static/kbhub.css` has their colours."""

_WIKI_LINK = re.compile(r"(!?)\[\[([^\[\]\n|]{1,500})(?:\|([^\[\]\n]{1,500}))?\]\]")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w-]*)(?P<rest>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+>)?")
_SOURCE = re.compile(r"\ssrc=[\"']?([^\s\"'<>]+)")
_SIZE = re.compile(r"(\d+)(?:x\d+)?")
_CITATION = re.compile(r"\[(\d{1,3}(?:, ?\d{1,3})*)\](?!\()")
_HTML_TAG = re.compile(r"(<(?:\"[^\"]*\"|[^\">])*>)")
_FOOTNOTE = re.compile(r"fn(?:ref)?\d+(?::\d+)?")
"""Anchors of footnotes and their marks, as `footnote_plugin` names them."""

_BOXES = {"[ ] ": "☐", "[x] ": "☑"}

_KIND = re.compile(rf"{CALLOUT}([\w-]+) ")
_BLOCKS = frozenset(("paragraph_open", "heading_open", "fence", "code_block", "tr_open", "html_block", "hr"))
_CONTAINERS = frozenset(("blockquote_open", "bullet_list_open", "ordered_list_open", "list_item_open", "table_open"))

TAGS = (
    *("a", "abbr", "aside", "b", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd"),
    *("del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "picture", "pre", "q", "rp", "rt", "ruby", "s"),
    *("samp", "section", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th"),
    *("thead", "tr", "tt", "u", "ul", "var", "wbr"),
)
"""Elements that a document may have; of others the text stays."""

MEDIA = ("audio", "embed", "iframe", "source", "video")
"""Elements of which a link to what they would play stays."""

UNUSED = (*MEDIA, "button", "font", "form", "input", "label", "nav", "option", "select", "textarea")
"""Elements that are left out where they have attributes; others that are not allowed may be placeholders."""

_ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan", "scope"},
    "details": {"open", "name"},
    "*": {"id", "class"},
}

FOUND = f"found-{secrets.token_hex(8)}"
"""Class of what was found, until HTML is clean; no document can have guessed it."""

_CLASSES = re.compile(rf"{FOUND}|inert|cite|tabs|task|callout(-[\w-]+)?|plain|prose|language-[\w+-]+|{CODE_CLASS}\w+")


@struct
class Addresses:
    """Where what a document names is to be had in the page."""

    link: Callable[[str, str], str | None]
    """Returns the address of a link's target and fragment, both decoded; None if it leads to no document."""
    image: Callable[[str], str | None]
    """Returns the address of an image, named by its decoded path; None if there is none."""


def part_with(document: Document, line: int) -> range:
    """Return the lines that are shown with a line of a document: all of them, unless it is long."""
    lines, start, size = document.lines, document.body + 1, 0
    for number in range(document.body + 1, len(lines) + 1):
        size += len(lines[number - 1]) + 1
        if size > PART_CHARACTERS and number > start:
            if line < number:
                return range(start, number)
            start, size = number, len(lines[number - 1])
    return range(start, max(len(lines), document.body) + 1)


def document_html(
    document: Document,
    part: range,
    addresses: Addresses,
    found: range = range(0),
    terms: Sequence[str] = (),
) -> Markup:
    """Return lines of a document as HTML, with lines `found` and `terms` marked."""
    if not has_markdown(document.path):
        return _marked_html(_plain(document, part, found), terms)
    lines = in_markdown("\n".join(document.lines), document.path).split("\n")
    text = "\n".join(line[:PART_CHARACTERS] for line in lines[part.start - 1 : part.stop - 1])
    while found and found.stop <= len(lines) and not lines[found.stop - 1].strip():  # lists have such lines, too
        found = range(found.start, found.stop + 1)
    environment = {"addresses": addresses, "issued": set()}
    tokens = _tokens(text, environment, only_fences=suffix_of(document.path) in (".mdx", *MARKUP_SUFFIXES))
    _number(tokens, part.start, found)
    return _marked_html(_html(tokens, environment), terms)


def answer_html(text: str, citations: Mapping[int, str] | None = None) -> Markup:
    """Return an answer or a passage in Markdown as HTML, with `[n]` linked to the address of citation n, if any."""
    nothing = Addresses(lambda _target, _fragment: None, lambda _path: None)
    environment = {"addresses": nothing, "issued": set((citations or {}).values()), "citations": citations}
    return Markup(_html(_tokens(text, environment), environment))  # noqa: S704 - nh3 has cleaned it


def _tokens(text: str, environment: dict[str, Any], *, only_fences: bool = False) -> list[Token]:
    """Parse Markdown of any site; `[ ]` and `[x]` in front of list items are boxes, and quotes may be callouts."""
    tokens = _parser(only_fences=only_fences).parse(renderable(neutralised(text), tabs=True), environment)
    _make_harmless(tokens)
    for at, token in enumerate(tokens):
        if align := token.attrs.pop("style", None):  # of a cell of a table
            token.attrSet("align", str(align).removeprefix("text-align:"))
        children, around = token.children or (), tokens[max(at - 2, 0)]
        box = _BOXES.get(token.content[:4].lower()) if around.type == "list_item_open" else None
        if box and children:
            children[0].content = box + children[0].content[3:]
            around.attrSet("class", "task")
        for child in children:
            if kind := _KIND.match(child.content):
                child.content = child.content[kind.end() :]
                if around.type == "blockquote_open":
                    around.attrSet("class", f"callout callout-{kind[1]}")
    return tokens


def _html(tokens: Sequence[Token], environment: dict[str, Any]) -> str:
    """Return tokens as clean HTML."""
    html = _parser().renderer.render(_tabbed(tokens), _parser().options, environment)
    return _clean(html, environment["addresses"], environment["issued"])


def _marked_html(html: str, terms: Sequence[str]) -> Markup:
    """Return HTML that nh3 or Jinja has made, with the words of a query marked."""
    parts, wanted = _HTML_TAG.split(html), terms_of(tuple(terms))
    if wanted:
        parts[::2] = [_with_marks(entities.unescape(part), wanted) if part.strip() else part for part in parts[::2]]
    return Markup("".join(parts))  # noqa: S704 - its tags are as they were, and its text is escaped


def _plain(document: Document, part: range, found: range) -> Markup:
    """Return plain text with its headings, or the text of pages, slides or turns."""
    titles: dict[int, Heading] = {}
    starts = {heading.line for heading in document.headings}
    # Those of pages, slides and turns are no lines of the text.
    for heading in document.headings if is_native(document.path) else ():
        titles |= dict.fromkeys(range(heading.line, heading_end(document.lines, heading.line - 1) + 1), heading)
    blocks, mark = [], Markup('<span class="found">{}</span>')
    for title, numbers in groupby(part, titles.get):
        shown = []
        for number in numbers:
            text = escape(neutralised(title.text if title else document.lines[number - 1][:PART_CHARACTERS]))
            if number in starts and not title:
                text = Markup('<span id="{}line-{}">{}</span>').format(ID_PREFIX, number, text)
            shown.append(mark.format(text) if number in found else text)
        if title:
            blocks.append(
                Markup('<h{0} id="{1}line-{2}">{3}</h{0}>').format(title.level, ID_PREFIX, title.line, shown[0])
            )
        elif any(shown):
            name = "plain prose" if starts else "plain"
            blocks.append(Markup('<pre class="{}">{}</pre>').format(name, Markup("\n").join(shown).strip("\n")))
    return Markup().join(blocks)


@lru_cache(maxsize=2)
def _parser(*, only_fences: bool = False) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "highlight": _highlighted}).enable(["table", "strikethrough"])
    parser.use(footnote_plugin, inline=False)
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    parser.inline.ruler.before("link", "citation", _citation)
    if only_fences:
        parser.disable("code")  # what is indented belongs to a component, a definition or a list
    return parser


def _highlighted(code: str, language: str, _attributes: str) -> str:
    if not language or len(code) > HIGHLIGHTED_CHARACTERS:
        return ""
    with suppress(ClassNotFound):
        return str(highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True, classprefix=CODE_CLASS)))
    return ""


def _wiki_link(state: StateInline, silent: bool) -> bool:
    """Parse `[[target#heading|text]]`, and `![[image.png]]`."""
    match = _WIKI_LINK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        target, _, fragment = match[2].strip().partition("#")
        addresses: Addresses = state.env["addresses"]
        address = addresses.link(target.strip(), fragment.strip())
        image = addresses.image(target.strip()) if match[1] and address is None else None
        if image:
            size = _SIZE.fullmatch((match[3] or "").strip())
            state.push("image", "img", 0).attrs = {"src": image, "alt": target, **({"width": size[1]} if size else {})}
            state.tokens[-1].children = [Token("text", "", 0, content=target)]
            state.env["issued"].add(image)
        else:
            state.env["issued"].add(address)
            # As Obsidian writes it: with the heading, without the id of a block.
            named = " > ".join(filter(None, (target.strip(), "" if fragment.startswith("^") else fragment.strip())))
            _push_link(state, (match[3] or named).strip(), {"href": address} if address else {"class": "inert"})
    state.pos = match.end()
    return True


def _push_link(state: StateInline, text: str, attributes: dict[str, str | int | float]) -> None:
    state.push("link_open", "a", 1).attrs = attributes
    state.push("text", "", 0).content = text
    state.push("link_close", "a", -1)


def _citation(state: StateInline, silent: bool) -> bool:
    """Parse `[n]` and `[n, m]`, the citations of an answer."""
    match = _CITATION.match(state.src, state.pos) if state.env.get("citations") else None
    if match is None:
        return False
    if not silent:
        for number in map(int, match[1].replace(" ", "").split(",")):
            address = state.env["citations"].get(number)
            _push_link(state, f"[{number}]", {"href": address, "class": "cite"} if address else {"class": "inert"})
    state.pos = match.end()
    return True


def _make_harmless(tokens: Sequence[Token]) -> None:
    """Show tags that a document may not have as text, as GitHub does: unclosed ones would swallow the rest."""

    def shown(tag: re.Match[str]) -> str:
        name, rest = tag["name"].lower(), tag["rest"] or ""
        if name in TAGS:
            return tag[0]
        if name in UNUSED and rest and (tag["end"] or "=" in rest or " controls" in rest):
            source = _SOURCE.search(rest) if name in MEDIA else None
            return f'<a href="{source[1]}">{source[1]}</a>' if source else ""
        return f"&lt;{tag[0][1:]}"

    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            token.content = _TAG.sub(shown, token.content)
        _make_harmless(token.children or ())


def _is_tab(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].type == "heading_open" and tokens[at + 1].content.startswith(TAB)


def _tabbed(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens in which quotes that begin with a tab are groups of `details`; the tab with a hit is open."""
    made, quotes, groups = list[Token](), list[list[Token] | None](), 0
    for at, token in enumerate(tokens):
        tabs = quotes[-1] if quotes else None
        if FOUND in str(token.attrs.get("class")):
            for around in filter(None, quotes):
                around[-1].meta["found"] = True
        if token.type == "blockquote_open":
            quotes.append([] if _is_tab(tokens, at + 1) else None)
            if quotes[-1] is not None and made and "tabs" in made[-1].meta:  # another tab of the same group
                quotes[-1] = made.pop().meta["tabs"]
                continue
            if quotes[-1] is not None:
                token.tag, groups = "div", groups + 1
                token.attrSet("class", "tabs")
        elif token.type == "blockquote_close" and quotes.pop() is not None and tabs:
            shown = next((tab for tab in tabs if tab.meta), tabs[0])
            for tab in tabs:
                tab.attrs = {"name": tab.attrs["name"], **({"open": ""} if tab is shown else {})}
            made.append(Token("details_close", "details", -1))
            token.tag, token.meta = "div", {"tabs": tabs}
        elif _is_tab(tokens, at):
            if tabs is not None:
                name = tabs[0].attrs["name"] if tabs else f"tabs-{groups}"
                made += [Token("details_close", "details", -1)] if tabs and made[-1].type != "details_close" else []
                tabs.append(Token("details_open", "details", 1, attrs={"name": name}))
                made.append(tabs[-1])
                token.tag = tokens[at + 2].tag = "summary"
            text = (tokens[at + 1].children or [tokens[at + 1]])[0]
            text.content = text.content.removeprefix(TAB)
        made.append(token)
    return made


def _number(tokens: Sequence[Token], start: int, found: range) -> None:
    """Add anchors to headings, and marks to what was found: of blocks within each other, to the outermost."""
    marked = None
    for at, token in enumerate(tokens):
        if marked and token.level <= marked.level:
            marked = None
        if token.map is None:
            continue
        lines = range(token.map[0] + start, token.map[1] + start)
        if token.type == "heading_open" and not _is_tab(tokens, at):
            token.attrSet("id", f"line-{lines.start}")
        if token.type in _CONTAINERS:
            hit = lines.start in found and lines[-1] in found and not _is_tab(tokens, at + 1)
        else:
            hit = token.type in _BLOCKS and lines.start < found.stop and found.start < lines.stop
        if hit and marked is None:
            # The paragraph of a tight list has no element: its item stands for it.
            marked = tokens[at - 1] if token.hidden and tokens[at - 1].type == "list_item_open" else token
            marked.attrJoin("class", FOUND)


def _clean(html: str, addresses: Addresses, issued: set[str]) -> str:
    def attribute(tag: str, name: str, value: str) -> str | None:
        if name == "class":
            return " ".join(word for word in value.split() if _CLASSES.fullmatch(word)).replace(FOUND, "found") or None
        if (tag, name) == ("a", "href"):
            if value in issued or value.startswith(("http://", "https://")):
                return value
            target, _, fragment = value.partition("#")
            if not target and _FOOTNOTE.fullmatch(fragment):
                return f"#{ID_PREFIX}{fragment}"
            return addresses.link(unquote(target), unquote(fragment))
        if (tag, name) == ("img", "src"):
            return value if value in issued else addresses.image(unquote(value.partition("#")[0].partition("?")[0]))
        return value

    return nh3.clean(
        html,
        tags=set(TAGS),
        clean_content_tags={"script", "style", "iframe", "object", "embed", "noscript", "template", "svg", "math"},
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=attribute,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
        id_prefix=ID_PREFIX,
    )
