"""Documents are parsed and cut where a reader would cut them, whatever is in them; every line stays in its place."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.documents.chunking import (
    CHUNK_WORDS,
    FRONT_MATTER_WORDS,
    MIN_WORDS,
    WORD_CHARS,
    chunk_document,
    size,
    split_line,
)
from kbhub.documents.markdown import decode, parse_document


def chunk(text: str):
    return chunk_document(parse_document("a.md", text.encode()))


def spans(text: str):
    return [(c.start_line, c.end_line, c.headings) for c in chunk(text)]


def words(count: int, per_line: int = 10) -> str:
    """Lines of `per_line` words, `count` in all."""
    full, rest = divmod(count, per_line)
    lines = [" ".join(["word"] * per_line)] * full + ([" ".join(["word"] * rest)] if rest else [])
    return "\n".join(lines) + "\n"


class TestSize:
    @pytest.mark.parametrize(
        ("line", "count"),
        [
            ("", 0), (" \t ", 0), ("one two", 2), ("one " + "x" * 160, 11), ("https://example.org/" + "a" * 60, 5),
            ("漢字かな交じり文", 5), ("使う Python です", 5), ("ภาษาไทย", 2), ("naïve café", 2),
        ],
    )  # fmt: skip
    def test_counts_words_in_every_script_and_long_tokens_by_length(self, line, count):
        assert size(line) == count


class TestSections:
    @pytest.mark.parametrize(
        ("sections", "paths"),
        [
            # skipped levels keep the right ancestors
            ([("# A", 50), ("#### D", 50), ("## B", 50), ("### C", 50), ("# E", 50)], "A A/D A/B A/B/C E"),
            # small siblings are joined under their shared path
            ([("# T", 60), ("## A", 20), ("## B", 30), ("## C", 60)], "T T T/C"),
            # a small section takes in its subsection and keeps its own path
            ([("## A", 20), ("### B", 60), ("## C", 60)], "A C"),
            # a bare heading goes with what it heads and takes its path
            ([("# T", 0), ("## O", 0), ("### F", 60), ("### G", 60)], "T/O/F T/O/G"),
            # joining never passes the limit
            ([("## A", 30), ("## B", CHUNK_WORDS - 20)], "A B"),
            # text before the first heading has no path, nor has one without text
            ([("", 50), ("# A", 50)], "- A"),
            ([("# ", 50), ("## A", 50)], "- A"),
        ],
    )
    def test_paths(self, sections, paths):
        chunks = chunk("".join(f"{heading}\n{words(count)}" for heading, count in sections))
        assert " ".join("/".join(c.headings) or "-" for c in chunks) == paths

    def test_a_bare_heading_goes_with_what_it_heads_and_a_small_last_subsection_with_its_sibling(self):
        chunks = chunk(f"## Options\n[options]: #options\n### Tree\n{words(500)}")
        assert chunks[0].text.startswith("## Options\n[options]: #options\n### Tree\nword")
        assert {c.headings for c in chunks} == {("Options", "Tree")}
        text = f"# T\n{words(60)}## A\n### A1\n{words(60)}### A2\n{words(10)}## B\n{words(60)}"
        found = [(c.headings, "A2" in c.text) for c in chunk(text)]
        assert found == [(("T",), False), (("T", "A"), True), (("T", "B"), False)]


class TestFrontMatter:
    def test_belongs_to_the_first_section_and_prose_begins_after_it(self):
        text = f"---\ntitle: x\n---\n\n# Head\n{words(50)}"
        (only,) = chunk(text)
        assert (only.start_line, only.headings) == (1, ("Head",))
        assert only.text[: only.prose] == "---\ntitle: x\n---\n"

    def test_counts_for_little_however_long_it_is(self):
        fields = "".join(f"key{n}: value\n" for n in range(500))
        assert len(chunk(f"---\n{fields}---\n{words(CHUNK_WORDS - FRONT_MATTER_WORDS)}")) == 1

    def test_alone_makes_one_chunk_without_prose_and_a_broken_one_is_prose(self):
        (only,) = chunk("---\ntitle: x\n---\n\n")
        assert (only.start_line, only.end_line, only.prose) == (1, 3, len(only.text))
        (only,) = chunk("---\na: b: c\n---\ntext\n")
        assert (only.text, only.prose) == ("---\na: b: c\n---\ntext", 0)


class TestBlocks:
    @pytest.mark.parametrize(("above", "kept"), [(words(100) + "\n", "## Example"), ("", "For instance:")])
    def test_a_heading_or_short_introduction_stays_with_a_block_that_just_fits(self, above, kept):
        block = "```\n" + words(CHUNK_WORDS - 2) + "```"
        chunks = chunk(f"{above}{kept}\n\n{block}\n\n{words(100)}")
        assert f"{kept}\n\n{block}" in [c.text for c in chunks]

    def test_a_block_that_does_not_fit_is_cut_between_lines_preferably_blank_ones(self):
        text = "```\n" + words(250) + "\n" + words(250) + "```\n"
        assert [c.start_line for c in chunk(text)] == [1, 28]


class TestBreaks:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            (f"{words(230)}\n---\n\n{words(40)}\n{words(200)}", 25),  # a rule beats a nearer blank line,
            (f"{words(260)}\n{words(240)}", 26),  # that beats nearer plain lines,
            (f"{words(220)}\n{words(60)}\n{words(200)}", 22 + 1 + 6),  # and of equals the nearer is taken
        ],
    )
    def test_the_best_break_is_taken(self, text, line):
        assert chunk(text)[0].end_line == line

    def test_a_list_is_cut_between_its_items_and_an_announcement_not_from_what_it_announces(self):
        chunks = chunk("- item one two three\n  more words here\n" * 100)
        assert len(chunks) > 1
        assert all(c.text.startswith("- item") for c in chunks)
        text = f"{words(200)}\n{words(75)}So do this:\n\n{words(200)}"
        assert "So do this:\n\nword" in chunk(text)[1].text


class TestLongLines:
    def test_words_are_not_torn_where_there_are_spaces_and_cut_by_length_where_not(self):
        assert {w for c in chunk("word " * 1000) for w in c.text.split()} == {"word"}
        parts = [c.text for c in chunk("x" * 20_000)]
        assert "".join(parts) == "x" * 20_000
        assert max(map(len, parts)) <= CHUNK_WORDS * WORD_CHARS

    @pytest.mark.parametrize("lead", ["", "\n", "\x0c\n", "\n\n \n"])
    def test_a_heading_after_blank_lines_stays_with_its_line(self, lead):
        first, *rest = chunk(f"{lead}# T\n" + "A few words. " * 300)
        assert first.text.startswith("# T\nA few")
        assert rest

    def test_text_before_and_after_is_kept_apart_and_no_part_is_white_space_only(self):
        first, *_, last = chunk("before\n" + "word " * 600 + "\nafter\n")
        assert (first.text, last.text) == ("before", "after")
        line = " " * 9_000 + "a" + " " * 9_000 + "word " * 400
        parts = [line[start:end] for start, end in split_line(line)]
        assert "".join(parts) == line
        assert all(part.strip() for part in parts)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "# h\n" * 10_000, "## x\n\n" * 10_000, "a\n---\n" * 10_000, "word " * 60_000, "x" * 300_000,
        "漢字。" * 30_000, "\n" * 300_000, ("a\n" + "\n" * 3_000) * 60, "```\n" * 20_000,
        "|a|\n|-|\n" + "|x|\n" * 30_000, "word\n" * 30_000, "[a]: b\n" * 10_000, "#" * 300_000,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_hostile_text_is_cut_in_bounded_time(text):
    """Every word of the file is in the chunks, and square-time cutting would take minutes."""
    chunks = chunk(text)
    assert sum(len("".join(c.text.split())) for c in chunks) == len("".join(text.split()))


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
many = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


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


def _heading_end(document, line: int) -> int:
    """The last line of the heading that starts at a line."""
    if document.lines[line - 1].lstrip().startswith("#"):
        return line
    return next(n for n in range(line + 1, line + 4) if not document.lines[n - 1].strip().strip("=-"))


@many
@given(markdown())
def test_no_chunk_ends_with_the_heading_of_what_the_next_one_holds(text):
    document, chunks = _documents(text)
    ends = {_heading_end(document, heading.line): number for number, heading in enumerate(document.headings)}
    for chunk, following in pairwise(chunks):
        if chunk.end_line in ends:
            path = _path(document, following.start_line)
            assert not path or path[-1] != ends[chunk.end_line]
