"""Properties of parsing and chunking that hold for every document, whatever is in it."""

import json
from collections import Counter
from itertools import pairwise

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.documents.chunking import CHUNK_WORDS, FRONT_MATTER_WORDS, MIN_WORDS, chunk_document, size
from kbhub.documents.markdown import decode, parse_document

WORDS = (
    "a", "setting", "of", "the", "`code`", "[[note]]", "[x](y.md)", "設定ファイルを読む", "e.g.", "don't", "—",
    "x" * 70,
)  # fmt: skip


def _text(count: int, width: int, seed: int) -> str:
    """`count` words in lines of `width` words."""
    chosen = [WORDS[(seed + 7 * number) % len(WORDS)] for number in range(count)]
    return "\n".join(" ".join(chosen[at : at + width]) for at in range(0, count, width))


seeds = st.integers(0, 11)
names = st.lists(st.sampled_from(("Use", "of", "the", "`flag`", "**bold**", "設定")), max_size=4).map(" ".join)
paragraphs = st.builds(_text, st.integers(1, 260), st.integers(3, 30), seeds)
long_lines = st.builds(_text, st.integers(300, 1200), st.just(10_000), seeds)
code_lines = st.sampled_from(("# comment", "", "x = 1", "| a |", "<!-- c", "    deep", "---", "~~~", "value " * 12))
fences = st.builds(
    lambda mark, lines, closed: "\n".join([mark, *lines, *([mark] if closed else [])]),
    st.sampled_from(("```", "````", "~~~")),
    st.lists(code_lines, max_size=60),
    st.integers(0, 9).map(bool),
)
tables = st.integers(0, 90).map(lambda rows: "| k | v |\n|---|:-:|" + "\n| key | value |" * rows)
lists = st.builds(
    lambda marker, items: "\n".join(f"{marker} {item}" for item in items),
    st.sampled_from(("-", "*", "1.", "  -", "- [ ]", "- >")),
    st.lists(st.sampled_from(("item", "two words", "```", "item\n\n  more", "# no heading")), min_size=1, max_size=40),
)
headings = st.one_of(
    st.builds(lambda level, name: f"{'#' * level} {name}", st.integers(1, 6), names),
    st.builds(lambda line, name: f"{name or 'Name'}\n{line}", st.sampled_from(("===", "---")), names),
)
others = st.sampled_from(
    ("---", "***", "<!-- note -->", "<!--\n# no\n-->", "<pre>\n# no\n</pre>", "> quote\n> # no", "[r]: ./target.md",
     "    indented", "\ttab", "\x0c", "\u2028", "\0", "\\", "text \\# `a", "&amp;", "![[e]]", " ", ":", "a:")
)  # fmt: skip
fronts = st.sampled_from(
    ("", "---\ntitle: T\ntags: [a, 1]\n---\n", "---\na: b: c\n---\n", "---\nnever: closed\n", "---\n---\n",
     "---\n" + "".join(f"k{n}: some words here\n" for n in range(40)) + "...\n", "\ufeff---\ndate: 2024-01-01\n---\n")
)  # fmt: skip
parts = st.one_of(headings, headings, paragraphs, paragraphs, fences, tables, lists, long_lines, others)


@st.composite
def markdown(draw: st.DrawFn) -> str:
    least = draw(st.sampled_from((0, 4, 12)))
    pieces = draw(
        st.lists(st.tuples(parts, st.sampled_from(("\n", "\n\n", "\n\n", "\n \n\n"))), min_size=least, max_size=25)
    )
    text = draw(fronts) + "".join(piece + gap for piece, gap in pieces)
    text = text.removesuffix(draw(st.sampled_from(("", "\n"))))
    return draw(st.sampled_from((text, text, text.replace("\n", "\r\n"), text.replace("\n", "\r"))))


texts = st.one_of(markdown(), markdown(), st.text(max_size=300), st.text("#-=`~|<>![]()*: \n\ta1.", max_size=300))
files = st.one_of(texts.map(str.encode), st.binary(max_size=300), texts.map(lambda t: t.encode("utf-16")))
many = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _documents(text: str):
    document = parse_document("a.md", text.encode("utf-8", "replace"))
    return document, chunk_document(document)


def _rows(document, chunks):
    """Line number → the text of it that the chunks hold, parts of a line put together again."""
    rows: dict[int, list[str]] = {}
    for chunk in chunks:
        lines = chunk.text.split("\n")
        assert len(lines) == chunk.end_line - chunk.start_line + 1
        for number, line in enumerate(lines, chunk.start_line):
            rows.setdefault(number, []).append(line)
    return rows


@many
@given(files)
@example(b"\xff\xfe")
@example(b"---\n\xff: [\n---\n")
def test_any_bytes_parse_and_keep_all_their_text(data):
    document = parse_document("a/b.md", data)
    text = decode(data)[0].replace("\r\n", "\n").replace("\r", "\n")
    assert "\n".join(document.lines) == text.removesuffix("\n") or (text == "\n" and document.lines == ("",))
    assert document == parse_document("a/b.md", data)
    assert document.title
    json.dumps(document.front_matter, allow_nan=False)
    stored = [*document.lines, document.title, *document.tags, *document.aliases]
    stored += [heading.text for heading in document.headings]
    stored += [text for link in document.links for text in (link.target, link.fragment, link.text)]
    assert "\0" not in "".join(stored).encode().decode()
    assert all(document.body < heading.line for heading in document.headings)
    check_soundness(document)


@many
@given(texts)
def test_chunks_cover_every_line_once_in_order_with_its_very_text_and_keep_their_limit(text):
    """A chunk passes it only to keep a heading or introduction with what follows it; blocks that fit are whole."""
    document, chunks = _documents(text)
    rows = _rows(document, chunks)
    assert list(rows) == sorted(rows)
    for number, line in enumerate(document.lines, 1):
        held = rows.get(number, [])
        if line.strip() or held:
            assert "".join(held) == line
        if len(held) > 1:
            assert size(line) > CHUNK_WORDS
    assert Counter(" ".join(document.lines).split()) == Counter(
        word for held in rows.values() for word in "".join(held).split()
    )
    starts = [(chunk.start_line, chunk.end_line) for chunk in chunks]
    assert starts == sorted(starts)
    assert all(chunk.text.strip() for chunk in chunks)
    for chunk in chunks:
        lines = chunk.text.split("\n")
        front = max(0, document.body - chunk.start_line + 1)
        counted = min(FRONT_MATTER_WORDS, sum(map(size, lines[:front]))) + sum(map(size, lines[front:]))
        assert counted <= CHUNK_WORDS + MIN_WORDS
    for first, last in (*document.fences, *document.tables):
        lines = document.lines[first - 1 : last]
        if sum(map(size, lines)) <= CHUNK_WORDS:
            while not lines[-1].strip():  # an open block may end in blank lines, which belong to no chunk
                lines, last = lines[:-1], last - 1
            assert any(chunk.start_line <= first and last <= chunk.end_line for chunk in chunks)


def _path(document, line: int) -> list[int]:
    """Numbers of the headings above a line, found anew by looking back from it."""
    path: list[int] = []
    level = 7
    for number in range(len(document.headings) - 1, -1, -1):
        heading = document.headings[number]
        if heading.line <= line and heading.level < level:
            path.insert(0, number)
            level = heading.level
    return path


@many
@given(markdown())
def test_heading_paths_are_what_all_lines_of_a_chunk_share(text):
    """Headings without text of their own count with the subsection that they open."""
    document, chunks = _documents(text)
    for chunk in chunks:
        numbers = range(max(chunk.start_line, document.body + 1), chunk.end_line + 1)
        filled = [number for number in numbers if document.lines[number - 1].strip()]
        owners = {number: _path(document, number) for number in filled}
        sections: dict[tuple[int, ...], list[int]] = {}
        for number in filled:
            sections.setdefault(tuple(owners[number]), []).append(number)
        paths = list(sections)
        kept = [
            path
            for path, following in zip(paths, [*paths[1:], (-1,)], strict=False)
            if not (following[: len(path)] == path and _is_bare(document, sections[path], path))
        ]
        shared: list[int] = []
        for level in zip(*kept, strict=False):
            if len(set(level)) > 1:
                break
            shared.append(level[0])
        assert chunk.headings == tuple(t for n in shared if (t := document.headings[n].text))


def _heading_end(document, line: int) -> int:
    """The last line of the heading that starts at a line."""
    if document.lines[line - 1].lstrip().startswith("#"):
        return line
    return next(n for n in range(line + 1, line + 4) if not document.lines[n - 1].strip().strip("=-"))


def _is_bare(document, numbers: list[int], path: tuple[int, ...]) -> bool:
    """Whether the lines of a section are its heading and link definitions only."""
    after = _heading_end(document, document.headings[path[-1]].line) if path else 0
    return all(document.lines[n - 1].lstrip().startswith("[r]:") for n in numbers if n > after)


@many
@given(markdown())
def test_no_chunk_ends_with_the_heading_of_what_the_next_one_holds(text):
    document, chunks = _documents(text)
    ends = {_heading_end(document, heading.line): number for number, heading in enumerate(document.headings)}
    for chunk, following in pairwise(chunks):
        if chunk.end_line in ends:
            path = _path(document, following.start_line)
            assert not path or path[-1] != ends[chunk.end_line]
