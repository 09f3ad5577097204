"""Parsing: bytes of a file become a document, and nothing of the text is lost."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kbhub.documents.frontmatter import MAX_DEPTH
from kbhub.documents.links import MAX_TAG_CHARACTERS, MAX_TAGS, is_inline_tag
from kbhub.documents.markdown import decode, inline_tags_of, parse_document
from kbhub.documents.shown_text import CALLOUT, TAB, readable, renderable

MANY = 100_000


def parse(text: str, path: str = "notes/a.md"):
    return parse_document(path, text.encode())


def headings(text: str):
    return [(h.level, h.text, h.line) for h in parse(text).headings]


def links(text: str):
    return [(k.target, k.fragment, k.text, k.line, k.kind) for k in parse(text).links]


class TestDecode:
    @pytest.mark.parametrize(
        "data",
        [
            "Grüße\n".encode(), "Grüße\n".encode("utf-8-sig"), b"\xff\xfe" + "Grüße\n".encode("utf-16-le"),
            b"\xfe\xff" + "Grüße\n".encode("utf-16-be"), b"\xff\xfe\0\0" + "Grüße\n".encode("utf-32-le"),
        ],
    )  # fmt: skip
    def test_every_marked_encoding_gives_the_same_text(self, data):
        assert decode(data) == ("Grüße\n", None)

    @pytest.mark.parametrize(
        ("data", "text", "said"),
        [
            ("Grüße".encode("latin-1"), "Gr\ufffd\ufffde", "UTF-8 (byte 2)"),
            (b"\xff\xfea\0b", "a\ufffd", "UTF-16"),
            (b"a\0b", "a\ufffdb", "NUL"),
        ],
    )
    def test_what_is_no_text_is_replaced_and_reported(self, data, text, said):
        assert decode(data)[0] == text
        assert said in decode(data)[1]


class TestLines:
    def test_line_endings_of_all_systems_end_lines_and_nothing_else_does(self):
        document = parse("a\nb\r\nc\rd\x0be\x0cf\x1cg\x85h\u2028i\n")
        assert document.lines == ("a", "b", "c", "d\x0be\x0cf\x1cg\x85h\u2028i")

    @pytest.mark.parametrize(
        ("text", "lines"), [("", ()), ("a", ("a",)), ("a\n", ("a",)), ("a\n\n", ("a", "")), ("\n", ("",))]
    )
    def test_a_final_newline_starts_no_line(self, text, lines):
        assert parse(text).lines == lines

    def test_a_plain_text_file_has_no_structure(self):
        document = parse("---\ntitle: x\n---\n# h\n[a](b.md)\n", "log_of-today.txt")
        assert document.title == "log of today"
        assert (document.headings, document.links, document.front_matter, document.body) == ((), (), {}, 0)


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("---\ntitle: Front\n---\n# Head\n", "Front"), ("---\ntitle: 1.10\n---\n", "1.10"),
            ("---\ntitle: [a]\n---\n# Head\n", "Head"), ("---\ntitle:\n---\n# Head\n", "Head"),
            ("## Second\n# First\n", "First"), ("## Only\n### Deeper\n", "Only"), ("# \n\n## Named\n", "Named"),
            ("text\n", "my long name"), ("Text.\n\n## Part\n", "my long name"),
            ("```sh\n# comment\n```\n# Real\n", "Real"),
            # one that opens with a part called "Summary" beside other parts is named by its file
            ("# Summary\n\na\n\n# Motivation\n\nb\n", "my long name"),
            ("# Summary\n\nthe only heading at its level\n\n## More\n", "Summary"),
            ("# Lifetimes\n\na\n\n# Motivation\n\nb\n", "Lifetimes"),
        ],
    )  # fmt: skip
    def test_comes_from_front_matter_then_headings_then_the_file_name(self, text, title):
        assert parse(text, "x/my-long_name.md").title == parse(text, "my-long_name/README.md").title == title


class TestFrontMatter:
    def test_values_are_json_safe_whatever_yaml_makes_of_them(self):
        document = parse(
            "---\ndate: 2024-01-31\nat: 2024-01-31T10:00:00Z\n1: one\ntrue: yes\nx: .nan\ny: [.inf, -.inf]\n"
            "bad: 2024-13-45\nbig: 123456789012345678901234567890\nbin: !!binary aGk=\nset: !!set {a, b}\n"
            "odd: !thing value\n? [a, b]\n: pair\nnested: {on: {2: 3}}\n---\nbody\n"
        )
        assert json.loads(json.dumps(document.front_matter, allow_nan=False)) == {
            "date": "2024-01-31", "at": "2024-01-31T10:00:00+00:00", "1": "one", "true": True, "x": "nan",
            "y": ["inf", "-inf"], "bad": "2024-13-45", "big": "123456789012345678901234567890", "bin": "aGk=",
            "set": {"a": None, "b": None}, "odd": "value", "a, b": "pair", "nested": {"on": {"2": 3}},
        }  # fmt: skip
        assert document.problems == ()
        assert document.lines[document.body] == "body"

    @pytest.mark.parametrize(
        ("fields", "tags"),
        [
            ("tags: foo", ("foo",)), ("tags: a, b", ("a", "b")), ("tags: '#a #b'", ("a", "b")),
            ("tags: '#a b'", ("a", "b")), ("tags: machine learning", ("machine learning",)),
            ("tags: [a, '#b', a, '']", ("a", "b")),
            ("tags: [1, 1.10, no, 2024-01-01, null]", ("1", "1.10", "no", "2024-01-01")),
            ("tags: [[a, [b]], c]", ("a", "b", "c")), ("tags: {a: , b: [c]}", ("a", "b", "c")), ("tags:", ()),
            ("tags: ~", ()), ("tags: 7", ("7",)), ("Tags: x\ntag: y", ("x", "y")),
        ],
    )  # fmt: skip
    def test_tags_of_every_type_become_clean_strings(self, fields, tags):
        assert parse(f"---\n{fields}\n---\n").tags == tags

    def test_aliases_in_a_list_keep_their_commas_and_a_string_is_split(self):
        assert parse("---\naliases: ['Smith, John', 'C#', 3]\n---\n").aliases == ("Smith, John", "C#", "3")
        assert parse("---\nalias: One, Two\n---\n").aliases == ("One", "Two")

    def test_is_closed_by_dashes_or_dots_and_may_be_empty(self):
        for closing in ("---", "...", "---  "):
            document = parse(f"---\na: 1\n{closing}\ntext\n")
            assert (document.body, document.front_matter) == (3, {"a": 1})
        for text in ("---\n---\ntext\n", "---\n# nothing\n---\ntext\n"):
            document = parse(text)
            assert (document.front_matter, document.problems, document.lines[document.body]) == ({}, (), "text")

    @pytest.mark.parametrize(
        "fields",
        [
            "a: b: c", "tags: [#a]", "- a\n- b", "just words", "a: {", "\ta: 1", "a: *missing", "<<: x",
            "a: [" + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "]", "a: " + "[" * 30_000, "- " * 30_000,
            "a: " + "{a: " * 10_000, "a: &a [*a]",
            "a: &a [x, x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i or ''}, *a{i or ''}]\n" for i in range(40)),
        ],
    )  # fmt: skip
    def test_what_cannot_be_read_is_reported_and_stays_text(self, fields):
        document = parse(f"---\n{fields}\n---\n# Head\ntext\n")
        assert len(document.problems) == 1
        assert "Front matter" in document.problems[0]
        assert (document.body, document.front_matter, document.tags) == (0, {}, ())
        assert document.title == "Head"
        assert document.lines[0] == "---"

    def test_that_is_never_closed_is_text_and_reported_if_it_looks_like_fields(self):
        assert "not closed" in parse("---\ntitle: x\n\ntext\n").problems[0]
        assert parse("---\n\nAfter a rule.\n").problems == ()

    @pytest.mark.parametrize("opening", ["---js", "---json", "+++", " ---", "text\n---"])
    def test_other_openings_are_text(self, opening):
        document = parse(f"{opening}\ntitle: process.exit(1)\n---\n")
        assert (document.front_matter, document.body) == ({}, 0)

    def test_tags_that_would_run_code_are_data_and_merge_keys_are_written_out(self):
        document = parse("---\na: !!python/object/apply:os.system ['exit 1']\n---\n")
        assert document.front_matter == {"a": ["exit 1"]}
        document = parse("---\nbase: &b {x: 1}\nmore: {<<: *b, y: 2}\n---\n")
        assert document.front_matter["more"] == {"x": 1, "y": 2}

    @pytest.mark.parametrize("fields", ["a: [1, {b: 2024-01-01}]", "a: " + "[" * 30_000, "a:\n" + " a:\n" * 9])
    def test_reads_the_same_without_the_compiled_yaml_library(self, fields, monkeypatch):
        text = f"---\n{fields}\n---\n"
        compiled = parse(text)
        monkeypatch.setattr("kbhub.documents.frontmatter.LOADER", yaml.SafeLoader)
        pure = parse(text)
        assert (pure.front_matter, len(pure.problems)) == (compiled.front_matter, len(compiled.problems))


class TestHeadings:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("# One", (1, "One")), ("   ###### Six ###", (6, "Six")), ("#", (1, "")), ("## ##", (2, "")),
            ("# C#", (1, "C#")), ("#\tTab", (1, "Tab")), ("# `code` and **bold**", (1, "code and bold")),
            ("# `**/*.md`", (1, "**/*.md")), ("# A [link](b.md) and [ref][r]", (1, "A link and ref")),
            ("# [1.2.0] - 2024", (1, "[1.2.0] - 2024")), ("# Named {#anchor}", (1, "Named")),
            ("# Set {a, b}", (1, "Set {a, b}")), ('# <a name="x"></a>Anchored', (1, "Anchored")),
            (r"# snake\_case &lt;T&gt;", (1, "snake_case <T>")), ("# __init__", (1, "__init__")),
            ('## 7.1 <small>May</small> { id="7.1" }', (2, "7.1 May")), ("# :simple-a: Why <!-- x -->", (1, "Why")),
            ("# `<b>` <T u> <B a/><C d=e>f</C>", (1, "<b> <T u> f")), ("### <!-- md:setting a.x -->", (3, "a.x")),
        ],
    )  # fmt: skip
    def test_atx_forms(self, line, expected):
        assert headings(line) == [(*expected, 1)]

    @pytest.mark.parametrize("line", ["#hashtag", "####### seven", "    # code", "\t# code", r"\# escaped", "- # item"])
    def test_lines_that_only_look_like_headings(self, line):
        assert headings(f"text\n\n{line}\n") == []

    def test_setext_sections_as_in_changelogs_of_up_to_three_lines_that_start_at_the_first(self):
        text = "TBD\n===\nUnreleased.\n\n15.2.0 (2026-07-15)\n===================\ntext\n\nPlatforms\n---\n* a\n"
        assert headings(text) == [(1, "TBD", 1), (1, "15.2.0 (2026-07-15)", 5), (2, "Platforms", 9)]
        assert headings("one\ntwo\nthree\n===\n") == [(1, "one two three", 1)]
        assert headings("one\ntwo\nthree\nfour\n---\n") == []

    @pytest.mark.parametrize(
        "above",
        [
            "", "- item", "- item\n  more", "- item\n\n  paragraph", "1. item", "> quote",
            "| a | b |\n|---|---|\n| 1 | 2 |", "```\ncode\n```", "    code", "[label]: ./target.md", "<div>", "***",
            "# Head",
        ],
    )  # fmt: skip
    def test_dashes_under_anything_but_a_paragraph_are_a_rule(self, above):
        assert headings("---\na: b: c\n---\n") == []
        assert [h for h in headings(f"{above}\n---\ntext\n") if h[0] == 2] == []

    @pytest.mark.parametrize(
        "text",
        [
            "```\n# no\n```", "~~~\n# no\n```\n# no\n~~~", "````\n```\n# no\n````", "```\n# no\n    ```\n# no\n```",
            "```\n# no", "- ```\n  # no\n  ```", "1. step\n\n    ```sh\n    # no\n   # no\n    ```",
            "- a\n  - b\n    - c\n\n      ```\n      # no\n      ```", "> ```\n> # no\n> ```",
            "- > ```\n  > # no\n  > ```", "<!-- # no\n# no\n-->", "<!--\n\n# no\n\n-->",
            "<pre>\n# no\n\n# no\n</pre>", "<!-- never closed\n# no",
        ],
    )  # fmt: skip
    def test_none_in_code_and_comments(self, text):
        assert headings(text) == []

    @pytest.mark.parametrize(
        "text",
        [
            "``` no fence ` in info\n# yes\n", "> ```\n> code\n# yes\n", "- ```\n  code\n\n# yes\n",
            "`````\ncode\n``````\n# yes\n", "<!-- one line -->\n# yes\n", "<!---->\n# yes\n", "<preface>\n# yes\n",
            "    ```\n# yes\n",
        ],
    )  # fmt: skip
    def test_what_ends_a_block_is_found(self, text):
        assert [h[1] for h in headings(text)] == ["yes"]

    def test_spans_of_fences_and_tables(self):
        document = parse(
            "a\n\n```x\ncode\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\ntext\n> ```\n> q\n\nend\n```\nopen\n\n"
        )
        assert document.fences == ((3, 5), (11, 12), (15, 16))
        assert document.tables == ((7, 9),)


class TestLinks:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[a](b.md)", ("b.md", "", "a", 1, "markdown")),
            ("[a](../x/b.md#part)", ("../x/b.md", "part", "a", 1, "markdown")),
            ("[a](#part)", ("", "part", "a", 1, "markdown")),
            ("[a](b%20c.md#d%20e)", ("b c.md", "d e", "a", 1, "markdown")),
            ("[a](<b c.md> 'title')", ("b c.md", "", "a", 1, "markdown")),
            ('[a](b.md "title (x)")', ("b.md", "", "a", 1, "markdown")),
            ("[a](b_(c).md)", ("b_(c).md", "", "a", 1, "markdown")),
            ("[a](b.md?raw=1#L2)", ("b.md", "L2", "a", 1, "markdown")),
            ("[two\nlines](b.md)", ("b.md", "", "two lines", 1, "markdown")),
            ("[a [b] c](d.md)", ("d.md", "", "a [b] c", 1, "markdown")),
            ("[![logo](l.png)](b.md)", ("b.md", "", "![logo](l.png)", 1, "markdown")),
            ("[`code`](b.md)", ("b.md", "", "`code`", 1, "markdown")),
            ("[[note]]", ("note", "", "note", 1, "wikilink")),
            ("[[dir/note]]", ("dir/note", "", "dir/note", 1, "wikilink")),
            ("[[note#Head|shown]]", ("note", "Head", "shown", 1, "wikilink")),
            ("[[#Head]]", ("", "Head", "#Head", 1, "wikilink")),
            ("[[Note: a b]]", ("Note: a b", "", "Note: a b", 1, "wikilink")),
            ("| [[a\\|b]] |", ("a", "", "b", 1, "wikilink")),
            ("![[image.png]]", ("image.png", "", "image.png", 1, "embed")),
            ("[[foo]](b.md)", ("b.md", "", "[foo]", 1, "markdown")),
            ("x\n\n[text][r]\n\n[R]: b.md 'T'", ("b.md", "", "text", 3, "reference")),
            ("[b][]\n\n[b]: <c d.md>", ("c d.md", "", "b", 1, "reference")),
            ("[b] c\n\n[b]: c.md#d", ("c.md", "d", "b", 1, "reference")),
            ("[b] c ]: d\n\ne [f]: g ]: h\n\n[b]: c.md ]: i", ("c.md", "", "b", 1, "reference")),
            ("[a\\]: b]\n\n> [a\\]: b]: c.md", ("c.md", "", "a\\]: b", 1, "reference")),
            ("\\![a](b.md)", ("b.md", "", "a", 1, "markdown")), ("`x [a](b.md)", ("b.md", "", "a", 1, "markdown")),
            ("a%00 [a](b%00.md)", ("b\ufffd.md", "", "a", 1, "markdown")),
        ],
    )  # fmt: skip
    def test_forms(self, text, expected):
        assert links(text) == [expected]

    @pytest.mark.parametrize(
        "text",
        [
            "[a](https://x.org/b.md)", "[a](mailto:a@b.c)", "[a](ftp://x/y)", "[a](//x.org/y)", "[[https://x.org]]",
            "<https://x.org>", "[a][r]\n\n[r]: https://x.org", "![a](b.png)", "[a]()", "[a](b c.md)", "`[a](b.md)`",
            "``[[x]] ` ``", "`two\nlines [a](b.md)`", "```\n[a](b.md)\n[[x]]\n```", "<!--\n[a](b.md)\n-->",
            "\\[a](b.md)", "- [ ] task\n\n[r]: b.md", "[^1]: note.md", "---\nsee: '[[x]]'\n---\n",
            "```\n[r]: b.md\n```\n[r]",
        ],
    )  # fmt: skip
    def test_other_sites_images_and_code_give_none(self, text):
        assert links(text) == []

    def test_lines_are_those_of_the_file_and_order_is_that_of_the_text(self):
        text = "---\na: 1\n---\n[a](1.md) [b](2.md)\n```\n[x](y)\n```\n[[3]]\n\n\n[c](4.md)\n"
        assert [(k.target, k.line) for k in parse(text).links] == [("1.md", 4), ("2.md", 4), ("3", 8), ("4.md", 11)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "[" * MANY, "![](" * (MANY // 4), "[x](" * (MANY // 4), "[](<" * (MANY // 4),
        "[" * (MANY // 2) + "](a)" * (MANY // 8), "[a]: ./b\n\n" + "[" * (MANY // 2) + "]" * (MANY // 2),
        "[a](b (" * (MANY // 7), '[a](b "' * (MANY // 7), "[[a" * (MANY // 3), "`" * MANY,
        " ".join("`" * (n % 300 + 1) for n in range(MANY // 150)), "\\" * MANY, "<!--" * (MANY // 4),
        "<!--\n" * (MANY // 5), "- " * (MANY // 2) + "x", "- ```\n" * (MANY // 6), "> ```\n> a\n" * (MANY // 10),
        ">" * MANY, "# " + " " * MANY + "x", "# " + "`*[" * (MANY // 3), "=\n" * (MANY // 2),
        "|a|\n|-|\n" * (MANY // 8), "\n".join("  " * level + "- x" for level in range(1000)), "\n" * MANY, " " * MANY,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_hostile_text_parses_in_bounded_time(text):
    assert "\n".join(parse(text).lines) in (text, text.removesuffix("\n"))


def tags(text: str) -> tuple[str, ...]:
    return parse_document("a.md", text.encode(), inline=True).tags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#ops\n", ("ops",)), ("A release. #ops, #release/2025.\n", ("ops", "release/2025")),
        ("- [ ] call #todo\n> quoted #idea\n", ("todo", "idea")),
        ("| a | #cell |\n|---|---|\n| #row | b |\n", ("cell", "row")), ("# Deploying #howto\n", ("howto",)),
        ("#\u092a\u094d\u0930\u0936\u094d\u0928 #\u0448\u043b\u044e\u0437 #\u6f22\u5b57\uff0c\u305d\u3057\u3066\n",
         ("\u092a\u094d\u0930\u0936\u094d\u0928", "\u0448\u043b\u044e\u0437", "\u6f22\u5b57")),
        ("#y2024 #2024/01 #1-2 #snake_case #kebab-case\n", ("y2024", "2024/01", "1-2", "snake_case", "kebab-case")),
        ("#open/ #(x) #don't\n", ("open", "don")), ("`code` then #after\n", ("after",)),
        ("1. item\n\n    in the item #kept\n", ("kept",)), ("a paragraph\n    goes on #lazily\n", ("lazily",)),
        ("```\n#fenced\n```\n#after\n", ("after",)),
    ],
)  # fmt: skip
def test_what_is_a_tag(text, found):
    assert tags(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "# Heading\n## Another ##\n#\n", "#123 and #2024, fixes #12\n", "C# and a#b and x.#y\n", "\\#escaped\n",
        "##double #---  #/ #/route\n", "```sh\n#fenced\n```\n", "~~~\n\n#fenced\n",
        "    #indented code\n    more #code\n\n    and #more\n", "# Heading\n    #code\n",
        "text `#span` and ``x ` #y``\n", "<!-- #hidden -->\n", "text <!-- a #hidden --> more\n",
        "<!--\n#hidden\n\n#too\n-->\n", "[a #text](b.md) and [x](y.md #z) and [[note #part]] and ![[n #p|q]]\n",
        "[a #text][ref] \n\n[ref]: https://example.org/ 'at #top'\n",
        "<https://example.org/ #x> and https://example.org/#top\n", "<a href='x' title='a #b'>c</a>\n",
        "<pre>\n#raw\n</pre>\n", "---\nsummary: a #b\n---\n", "#!/bin/sh\n", "#" + "a" * (MAX_TAG_CHARACTERS + 1),
    ],
)  # fmt: skip
def test_what_is_none(text):
    assert tags(text) == ()


def test_a_tag_counts_once_in_the_form_of_the_front_matter_and_has_its_place():
    assert tags("---\ntags: [Ops, a b]\n---\n#ops #new #New #OPS\n") == ("Ops", "a b", "new")
    assert parse_document("a.md", b"#ops\n").tags == ()
    assert parse_document("a.txt", b"#ops\n", inline=True).tags == ()
    lines = ["---", "tags: x", "---", "A #one.", "", "  - \u00e9\u00e9 #two/three/ #one", ""]
    found = inline_tags_of("\n".join(lines))
    assert [(one.tag, one.line) for one in found] == [("one", 4), ("two/three", 6), ("one", 6)]
    assert [lines[one.line - 1][one.column - 1 :].startswith(f"#{one.tag}") for one in found] == [True] * 3
    assert len(tags(" ".join(f"#a{number}" for number in range(5 * MAX_TAGS)))) == MAX_TAGS


@pytest.mark.parametrize("piece", ["[", "<", "<!-- ", "`", "[[", "](", " #", "#a ", "<!-->", "[a]: ", "> "])
def test_anything_is_read_in_linear_time(piece):
    """A quadratic pass would take minutes."""
    assert len(tags("#a " + piece * (300_000 // len(piece)))) >= 1


@example("#1`1`")
@example("#a`1`")
@given(st.text(alphabet="#a1/-_ \n`<>![]()é\t漢,.\\", max_size=200))
def test_any_text_parses_and_every_tag_can_be_written(text):
    lines = text.split("\n")
    for one in inline_tags_of(text):
        assert is_inline_tag(one.tag)
        assert lines[one.line - 1].startswith(f"#{one.tag}", one.column - 1)


@pytest.mark.parametrize("tag", ["machine learning", "2024", "", "a.b", "a/", "#a", "a#b"])
def test_not_every_tag_of_front_matter_can_stand_in_the_text(tag):
    """A rename must not make a word of it."""
    assert not is_inline_tag(tag)


UNSEEN = [
    ("| a    |  b\n|------|:---\n| `c`  |  d  e\n\n    a    |  b", "| a | b\n|---|:---\n| `c` | d e\n\n    a    |  b"),
    ("| `a  b  |  -----`  |  -----c |", "| `a  b  |  -----` | -----c |"), ('!!! note ""\n    Text.\n', "\nText.\n"),
    ('import Table from "@site/src/Table";', ""), ("import {\n  A,\n} from '@site/x'", "\n\n"),
    ("export const rows = [\n  1,\n];", "\n\n"),
    ("<AdrTable frontMatter={frontMatter}></AdrTable>\nA{' '}\nb", "\nA\nb"),
    ('<Tabs\n  groupId="os"\n>\n<TabItem label="A">\na\n</TabItem>\n</Tabs>', "\n\n\nA:\na\n\n"),
    ('Go:\n <Run\n  npm="npm i"\n  pnpm="c `d`" rel="a b" n={1}\n />', "Go:\n \n  - npm i\n  - c `d`\n"),
    ("<Grid\n  rows={[\n{ a: [{ b: [{ c: {} }] }] }]}\n/>\n\n  /> \n<Community>\nAsk.", "\n\n\n\n\n\n\nAsk."),
    ("#### <!-- md:feature -->\n\n`a`\n\n:   What it is.\n\nA : b", "\n\n`a`\n\nWhat it is.\n\nA : b"),
    ("#### <!-- md:option a-b -->\n<!-- md:default `x` -->", "#### a-b\nDefault: `x`."),
    ('<div class="a">\n\nA <div>\n```\n<div>\n```\n</div>', "\n\nA <div>\n```\n<div>\n```\n"),
    ("Before <Icon name={{ a: 1 }} /> after", "Before  after"),
    ("# Roll back {#undo}\n# Again {/*undo*/}\n{/* not\nthis */}", "# Roll back\n# Again\n\n"),
    ('*Undo it.*{ style="display: inline" }', "*Undo it.*"),
    ('<a name="undo"></a>One <!-- not\nthis --> two', "One \n two"),
    (":::tip\n\nUse it.\n\n:::", "Tip:\n\nUse it.\n\n"),
    ("/// tip | Use **x**\n    open: true\n\nA\n///\n//// tab | B\nC\n////", "Use x:\n\n\nA\n\nB:\nC\n"),
    ("````{note}\n:class: x\nA\n```sh\nls\n```\n````\n:::{tip} B\nC\n:::", "Note:\n\nA\n```sh\nls\n```\n\nB:\nC\n"),
    ("(a-b)=\nA {ref}`b <c>`, {py:func}`~d`.\n```{toctree}\ne\n```\n| \\{f\\} |", "\nA b, d.\n\n\n\n| {f} |"),
    ("[//]: # 'a'\n[//]: # (b)\n[//]: #\n{* ../a.py hl[1:3] *}\n{!b.md!}", "\n\n\n\n"),
    (":::warning[Mind this]\nIt hurts.\n:::", "Mind this:\nIt hurts.\n"),
    ('!!! note inline "Mind this"\n\n    It hurts.', "Mind this:\n\nIt hurts."),
    ("??? bug\n    It hurts.\n\n> [!tip]-\n> b\n\n::: grid\nA\n:::", "Bug:\nIt hurts.\n\n> Tip:\n> b\n\n\nA\n"),
    ('=== "Linux"\n\n    apt', "Linux:\n\napt"), ("```mermaid\ngraph TD\n```\n\nText.", "\n\n\n\nText."),
    ("```rust\n{{#rustdoc_include ../listings/main.rs:here}}\n```\n{{#include a.md}}\n\nText.", "\n\n\n\n\nText."),
    ("See [the guide][g] and [g].\n\n[g]: guide.md\n[long]:\n  guide.md", "See the guide and g.\n\n\n\n"),
    ('{{% alert title="Mind" %}}\nIt {{< param v >}} hurts.\n{{% /alert %}}', "Mind:\nIt  hurts.\n"),
    ('{{< admonition type="note" >}}\nA\n{{< /admonition >}}\n\t{{< note >}}', "Note:\nA\n\n\t"),
    ("{% note %}\n\nIt hurts.\n\n{% endnote %}\n{{< tabs >}}", "Note:\n\nIt hurts.\n\n\n"),
    ("{% if x %}\nOnly *then*.\n{%- endif %}", "\nOnly *then*.\n"),
    ('See [a `b`]({{< ref "b#c" >}}) and ![c]({{ "/c.png" | relative_url }}).', "See a `b` and c."),
    ("[[TOC]]\n\n[toc]\n\n* x\n{:toc}\n\n[[toc]] [TOC] in text", "\n\n\n\n\n\n\n[[toc]] [TOC] in text"),
    ("[:octicons-tag-24: 1.2][v] or :material-cog:{ .x } set\n\n[v]: v.md", "1.2 or set\n\n"),
    ("Press ++ctrl+page-up++.", "Press Ctrl+Page-Up."),
    ('--8<-- "a.md"\nA\n```sh\n--8<-- "a.sh"\n```\n*[A]: b c', "\nA\n\n\n\n"),
    ("::: a.B\n    options:\n      x: false\n\n::: a\n    handler: c\nText.", "\n\n\n\n\n\nText."),
    ("A %%no%% b.\n%%\nno\n%%\n- c. ^d-1\n\n^e1", "A b.\n\n\n\n- c.\n\n"),
    ("==Ask `a`.== ![[diagram.png]][[A b#c|d]], [[#e]]", "Ask `a`. d, e"), ("Text.\n\n<Card", "Text.\n\n"),
    ('Text.\n<Card\n  title="a > b"\n  size={1}', "Text.\n\n\n"), ('  title="a"\n  size={1}\n/>\nText.', "\n\n\nText."),
    ("<script setup>\nimport A from './A'\nlet a = 1 < 2\n</script>\n\nText.", "\n\n\n\n\nText."),
    ("<details>\n<summary>More</summary>\n<tr>\n<td>\n\nText.\n<br />\n</details>", "\nMore\n\n\n\nText.\n\n"),
    ("A&nbsp;b&shy;c&hellip; &lt;d&gt; &amp; `&nbsp;` &foo; &#8232;", "A\xa0bc… &lt;d&gt; &amp; `&nbsp;` &foo; \u2028"),
    (f"[Try it](https://play.example/#{'a' * 200}) or [this](#a).", "Try it or [this](#a)."),
]  # fmt: skip


def test_a_link_that_the_build_of_a_site_computes_leads_to_the_page_that_it_names():
    """What only the build knows is no link."""
    text = """[a]({{< relref "../a.md#x" >}} "A") [b]({% link _docs/b.md %}) [c]({{ '/c/#y' | relative_url }})
[d]({{ site.baseurl }}/d/) [e](/docs/{{< param v >}}/e/) [f]({{ site.repository }}/f) [g]({% post_url 2010-07-21-g %})
[h][]

[h]: {{< ref "h" >}}
"""
    named = [(link.target, link.fragment) for link in parse_document("x.md", text.encode()).links]
    assert named[:3] == [("../a.md", "x"), ("_docs/b.md", ""), ("/c/", "y")]
    assert named[3:] == [("/d/", ""), ("2010-07-21-g", ""), ("h", "")]


SIMILAR = [
    "```\n```\n```hbs\n{{#let x}}\n```\n```rust\n{{#include a.rs}}\nrun();\n```",
    "```md\n:::tip\n<Foo />\n[g]: guide.md\n```", '```md\n=== "A"\n\n    ```c\n    int a;\n    ```\n\n=== "B"\n```',
    "````md\n```{note}\n(a)=\n/// tip\n```\n````\n`{ref}` and `a {b}`c`; {c}, f(x)=\n/// Sums two.\n{* a remark *}",
    "Write `<Foo />`, `{#id}` and Vec<String>; then {{#if x}}, {#if x}, a[i][j] and [^1].",
    "- [ ] Ask [her] about [it](it.md) and the import of 'goods'.", "Title\n===\n\na ::: b",
    "a == b == c, `++a++`, c++ or g++, 100%% %%i ^2, [[f]](g), [[ -h i ]]", "*[a]: b*",
    "[[bin]] x[[1]], [[:alpha:]], npm: ^next\na ==> b ==> c\n    %% one\nAnd this.\n    %% two",
    "Press <Ctrl> and then <Enter>, set <Name> to the host; a list of <T extends X>, {.Name} and {{.Name}} in it.",
    'import the data into "warehouse"', "export function of the pump is vital.\nMore of it.",
    "Say :on-call: to all.\n\n[WARNING]: stop", 'title="a"\nsize=1\nText, for <Name', "A match of [a-z][0-9] counts.",
    "Write `{{< ref >}}`; {{ message }} and ${{ secrets.KEY }} stay.",
]  # fmt: skip


@pytest.mark.parametrize(("text", "seen"), [*UNSEEN, *zip(SIMILAR, SIMILAR, strict=True)])
def test_what_only_a_site_understands_is_not_seen_and_code_and_what_looks_similar_is(text, seen):
    assert readable(text) == seen


def test_admonitions_and_tabs_are_quotes_or_headed_for_a_renderer_and_what_nothing_closes_quotes_no_more():
    """Links keep their definitions, and every line its number."""
    text = '!!! tip\n\n    Do it.\n\n    ```sh\n    ls\n    ```\n\n=== "Linux"\n\n    apt\n\nEnd [x].\n\n[x]: x.md'
    quoted = "> **Tip**  \n>\n> Do it.\n>\n> ```sh\n> ls\n> ```\n\n**Linux**  \n\napt\n\nEnd [x].\n\n[x]: x.md"
    listed = "1. One\n\n   :::info\n\n   Two.\n\n   :::\n\n2. Three"
    warning = '{{< warning title="Mind" >}}\nIt hurts.\n{{< /warning >}}\nEnd.'
    assert renderable(warning) == "> **Mind**  \n> It hurts.\n\nEnd."
    assert renderable("{{< note >}} stays open") == " stays open"
    assert renderable(text) == quoted
    assert renderable(listed) == "1. One\n\n   > **Info**  \n   >\n   > Two.\n   >\n\n\n2. Three"
    assert renderable(":::tip\n\nUse it.\n\nMore.") == "**Tip**  \n\nUse it.\n\nMore."
    assert renderable("<Code\n  code={`## A\n\nB`}\n/>\n\n## C") == "\n\n\n\n\n\n## C"
    assert renderable("> Quote\n> ```sh\n> ls\n\n!!! tip\n    Do it.").endswith("> ls\n\n> **Tip**  \n> Do it.")
    assert renderable("```{warning} Mind\nIt *hurts*.\n```\nEnd.") == "> **Mind**  \n> It *hurts*.\n\nEnd."
    callouts = "> [!NOTE]\n> See **it**.\n\n> > [!tip|wide]- Use **x**\n> > y\n\n```\n> [!info]\n```"
    shown = "> **Note**  \n> See **it**.\n\n> > **Use x**  \n> > y\n\n```\n> [!info]\n```"
    assert renderable(callouts) == shown
    assert len(renderable("::: a\n" * 4_000)) < 100_000
    assert len(renderable("::: a\n" * 4_000 + ":::\n" * 4_000)) < 400_000

    # Those of MkDocs and of Docusaurus, apart from what comes after; other renderers have their titles.
    mkdocs = '=== "One"\n\n    a\n\n=== "Two"\n    b\n\n!!! tip\n    c'
    docusaurus = (
        '<Tabs>\n<TabItem value="a" label="A">\n\nx\n\n</TabItem>\n<TabItem\n  value="b">\nb\n</TabItem>\n</Tabs>'
    )
    shown = [renderable(text, tabs=True).replace(TAB, "@").replace(CALLOUT, "!") for text in (mkdocs, docusaurus)]
    assert shown[0] == "> ###### @One\n>\n> a\n\n> ###### @Two\n> b\n\n> **!tip Tip**  \n> c"
    assert shown[1] == "\n> ###### @A\n>\n> x\n>\n\n> ###### @b\n>\n> b\n\n"
    assert renderable(mkdocs).startswith("**One**  \n\na\n\n**Two**  \nb\n")


@pytest.mark.parametrize(
    "part",
    [
        *("<!--", "<script>", "a\n----", "&a", "<A b={[{", '<A b="', "[", "[a", "{#a b=", "import "),
        *("```{note}\n", ":::{a}\n:b: c\n", "/// a\n", "(\n", "{a}`b ", "{a}`", "<!-- md:option -", "\\{", "{* a."),
        *(":a-", "[a]: ", "`", "<a id=", "{/* a ", "<A\t/>", "++a", "%%", "%%a ", "==a", "[[a", "\n::: a", " ^a"),
    ],
)
def test_a_hostile_text_takes_no_time(part):
    text = f"{part * 50_000}\n- {' ' * 400_000}-"
    assert readable(text).count("\n") == renderable(text).count("\n") == text.count("\n")
