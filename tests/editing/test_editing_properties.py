"""Whatever is edited, every byte that the edit is not about stays as it was."""

import itertools

import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kbhub.documents.edits import Text, text_of, with_values
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import parse_document
from kbhub.editing import documents as editing
from kbhub.errors import WriteRefused

NAMES = ["tags", "title", "source", "status", "related", "owner", "due date", "x"]
WORDS = st.sampled_from(["alpha", "beta", "1.10", "no", "2026-01-02", "a: b", "# not", "[x", "über", "", "null", "'q'"])
SCALARS = st.one_of(WORDS, st.integers(-5, 10**6), st.booleans(), st.floats(-9, 9), st.text(max_size=12))
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=4), st.dictionaries(st.sampled_from(["a", "b"]), SCALARS, max_size=2)
)
ENTRIES = st.sampled_from(
    [
        *(["{key}: plain text   # why"], ["{key}: 'single'"], ['{key}: "double \\" # x"'], ["{key}:"]),
        *(
            ["{key}:   # nothing yet"],
            ["{key}: [a, 'b',c ]  # flow"],
            ["{key}: []"],
            ["{key}: [a,", "  b]  # two lines"],
        ),
        ["{key}:", "  - a   # first", "  # about b", '  - "b"', "  - 1.10"],
        *(["{key}:", "- a", "- b"], ["{key}: # listed", "", "- a", "", "- b", ""]),
        *(["{key}: |", "  kept", "", "  # kept too", ""], ["{key}: >-", "    folded", "    text"]),
        *(["{key}:", "  a: 1", "  b: {{c: 2}}"], ["{key}:", "  - a: 1", "    b: 2", "  - [x, y]"]),
        *(["{key}: several words", "  on two lines"], ["{key}: 2026-01-02"], ["# a comment", "{key}: 3", ""]),
        *(["{key}: &{anchor} x", "{key}2: *{anchor}"], ["'{key}': quoted key"], ["{key}: !!str 5"]),
    ]
)
PARTS = ["# Title", "## Log", "### 2026", "## Other", "text", "more text", "", "", "- item", "* other", "| a | b |"]
PARTS += [
    "|---|---|", "```", "~~~", "---", "===", "> quote", "    code", "<!-- c -->", "Setext", "{brace}", "trailing  ",
]  # fmt: skip
BODIES = st.lists(st.sampled_from(PARTS), max_size=14)
ENDINGS = st.sampled_from(["\n", "\r\n", "\n", "\r\n", "\n", "\r\n", "\r"])
FRAMES = [(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]


@st.composite
def documents(draw, *, front: bool | None = None) -> bytes:
    """A document as people have it: odd front matter, mixed line endings, byte order marks, no final newline."""
    lines: list[str] = []
    if front if front is not None else draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
        for name in names:
            entry = draw(ENTRIES)
            lines += [line.format(key=name, anchor=f"a{len(lines)}") for line in entry]
        lines = ["---", *lines, draw(st.sampled_from(["---", "...", "---  "]))]
    lines += draw(BODIES)
    usual = draw(ENDINGS)
    odd = draw(st.booleans())
    parts = [line + (draw(ENDINGS) if odd else usual) for line in lines]
    if parts and draw(st.booleans()):
        parts[-1] = lines[-1]
    mark, encoding = draw(st.sampled_from(FRAMES))
    return mark + "".join(parts).encode(encoding)


def entry_lines(text: Text, key: str) -> set[int]:
    """Indexes of the lines that belong to a key, by PyYAML's nodes and the lines up to the next key."""
    front = read_front_matter(text.bare)
    node = yaml.compose("\n".join(text.bare[1 : front.closing]), Loader=yaml.SafeLoader)
    if node is None:
        return set()
    starts = [(one.start_mark.line + 1, one.value) for one, _ in node.value] + [(front.closing, None)]
    return {
        line
        for (start, name), (end, _) in itertools.pairwise(starts)
        if name == key or str(name).casefold() == key.casefold()
        for line in range(start, end)
    }


@given(documents())
def test_reading_for_an_edit_loses_nothing(data):
    text = text_of("x.md", data)
    assert text.encoded() == data
    assert len(text.lines) == len(parse_document("x.md", data).lines)


@given(documents(front=True), st.sampled_from([*NAMES, "new", "Tags"]), st.none() | VALUES)
@example(b"---\ntags:\n- a\n---\n", "tags", ["a", "b"])
@example(b"---\na: |+\n  x\n\n---\n", "b", 1)
@example(b"---\nx: 1\n---", "x", None)
def test_a_key_is_set_and_every_other_line_stays(data, key, value):
    """Only lines of the key change; it then has the value, and every other key the one that it had."""
    text = text_of("x.md", data)
    before = read_front_matter(text.bare)
    assume(before.closing and not before.problem)
    try:
        after = with_values("x.md", text, {key: value})
    except WriteRefused:
        return
    mine = entry_lines(text, key)
    kept = [line for index, line in enumerate(text.lines) if index not in mine]
    left = list(after.lines)
    for line in kept:  # in their order, and byte for byte
        assert line in left
        del left[: left.index(line) + 1]
    now = read_front_matter(after.bare)
    assert now.problem is None
    name = next((known for known in before.values if known == key), None) or next(
        (known for known in before.values if known.strip().casefold() == key.casefold()), key
    )
    if value is None:
        assert name not in now.values
    else:
        assert now.values[name] == value
    others = {known: it for known, it in before.values.items() if known.strip().casefold() != key.casefold()}
    assert {known: now.values.get(known) for known in others} == others
    assert after.encoded().startswith(text.mark)


@given(documents(), st.sampled_from(NAMES), SCALARS)
@example(b"", "tags", "\x85")
def test_setting_a_key_twice_changes_nothing_the_second_time(data, key, value):
    try:
        once = with_values("x.md", text_of("x.md", data), {key: value})
    except WriteRefused:
        return
    assert once.front.values[key] == value
    assert with_values("x.md", once, {key: value}) == once


NEW_TEXTS = st.sampled_from(
    ["one line", "two\nlines\n", "- item", "### 2027\n\ntext", "| c | d |", "```\ncode\n```", "\n\nx\n\n"]
)


@given(documents(), NEW_TEXTS, st.sampled_from([None, "Log", "Title > Log", "2026", "Setext"]))
@example(b"# Log\r\n\r\ntext", "x", "Log")
@example(b"a\r\rb\n", "x", None)
def test_appending_puts_text_between_what_was_there(data, new, heading):
    """The old bytes are the beginning and the end of the new ones, and all old headings are still headings."""
    text = text_of("x.md", data)
    try:
        change = editing.append("x.md", text, new, heading)
    except WriteRefused:
        return
    old, after = "".join(text.lines), "".join(change.text.lines)
    added = len(after) - len(old)
    prefix = next(at for at in range(len(old) + 1) if at == len(old) or old[at] != after[at])
    assert added > 0
    assert any(after[:at] == old[:at] and after[at + added :] == old[at:] for at in range(prefix + 1))
    shown = [line.rstrip("\r\n") for line in change.text.lines[change.start : change.end]]
    assert shown == new.strip("\n").split("\n")
    was = [(one.level, one.text) for one in parse_document("x.md", data).headings]
    now = [(one.level, one.text) for one in parse_document("x.md", change.text.encoded()).headings]
    for one in was:
        assert one in now
    assert change.text.ends_with_newline == text.ends_with_newline or not text.lines


@given(documents(), NEW_TEXTS, st.sampled_from(["Log", "Title", "2026"]))
def test_replacing_a_section_leaves_the_rest(data, new, heading):
    text = text_of("x.md", data)
    try:
        section = editing.find_section("x.md", text, heading)
        change = editing.replace_section("x.md", text, new, heading)
    except WriteRefused:
        return
    head, tail = "".join(text.lines[: section.start]), "".join(text.lines[section.end :])
    after = "".join(change.text.lines)
    assert after.startswith(head)
    assert after.endswith(tail)


@given(documents(), NEW_TEXTS)
def test_replacing_the_body_leaves_the_front_matter(data, new):
    text = text_of("x.md", data)
    try:
        change = editing.replace_body("x.md", text, new)
    except WriteRefused:
        return
    body = read_front_matter(text.bare).body
    assert change.text.lines[:body] == text.lines[:body] or (body == len(text.lines) and not text.ends_with_newline)
    assert change.text.mark == text.mark
