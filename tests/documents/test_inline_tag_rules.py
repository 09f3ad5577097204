"""Tags in the text of a document are found by the rules of Obsidian, and nothing else is taken for one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbhub.documents.links import MAX_TAG_CHARACTERS, MAX_TAGS, is_inline_tag
from kbhub.documents.markdown import inline_tags_of, parse_document


def tags(text: str) -> tuple[str, ...]:
    return parse_document("a.md", text.encode(), inline=True).tags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#ops\n", ("ops",)),
        ("A release. #ops, #release/2025.\n", ("ops", "release/2025")),
        ("- [ ] call #todo\n> quoted #idea\n", ("todo", "idea")),
        ("| a | #cell |\n|---|---|\n| #row | b |\n", ("cell", "row")),
        ("# Deploying #howto\n", ("howto",)),
        ("#\u092a\u094d\u0930\u0936\u094d\u0928 #\u0448\u043b\u044e\u0437 #\u6f22\u5b57\uff0c\u305d\u3057\u3066\n",
         ("\u092a\u094d\u0930\u0936\u094d\u0928", "\u0448\u043b\u044e\u0437", "\u6f22\u5b57")),
        ("#y2024 #2024/01 #1-2 #snake_case #kebab-case\n", ("y2024", "2024/01", "1-2", "snake_case", "kebab-case")),
        ("#open/ #(x) #don't\n", ("open", "don")),
        ("`code` then #after\n", ("after",)),
        ("1. item\n\n    in the item #kept\n", ("kept",)),
        ("a paragraph\n    goes on #lazily\n", ("lazily",)),
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


def test_a_tag_counts_once_in_the_form_of_the_front_matter():
    assert tags("---\ntags: [Ops, a b]\n---\n#ops #new #New #OPS\n") == ("Ops", "a b", "new")


def test_they_are_tags_only_where_the_base_says_so():
    assert parse_document("a.md", b"#ops\n").tags == ()
    assert parse_document("a.txt", b"#ops\n", inline=True).tags == ()


def test_each_is_found_at_its_place():
    lines = ["---", "tags: x", "---", "A #one.", "", "  - \u00e9\u00e9 #two/three/ #one", ""]
    found = inline_tags_of("\n".join(lines))
    assert [(one.tag, one.line) for one in found] == [("one", 4), ("two/three", 6), ("one", 6)]
    assert [lines[one.line - 1][one.column - 1 :].startswith(f"#{one.tag}") for one in found] == [True] * 3


def test_a_flood_of_tags_is_bounded():
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
