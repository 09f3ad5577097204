"""Any string is a query."""

from itertools import pairwise

import apsw
from hypothesis import given
from hypothesis import strategies as st

from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import MAX_TERMS, TOKENIZER, parse_query, searchable


def matches(text: str, query: str) -> list[bool]:
    """For each term of a query, whether SQLite's own FTS5 finds it in a text."""
    connection = apsw.Connection(":memory:")
    tokenizer = " ".join(f"'{part}'" for part in TOKENIZER)
    connection.execute(f'CREATE VIRTUAL TABLE t USING fts5(body, tokenize="{tokenizer}")')
    connection.execute("INSERT INTO t VALUES (?)", (searchable(text),))
    return [
        bool(connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (term.match,)).get)
        for term in parse_query(query).terms
    ]


def test_any_string_makes_valid_expressions_without_stop_words_and_a_page_is_cut():
    """And the same stem counts once."""
    for query in (
        "c++", "foo-bar", "don't", 'what is "x', "hello?", '"', "a AND (", "NEAR(", "col:x", "^x", "*", "日本語",
        "😀", "\ud800", "\0", "-x", "()", "a OR b", "x" * 100_000, "wörd " * 20_000, "",
    ):  # fmt: skip
        matches("some text", query)

    for query, terms in (
        ("how do I deploy", ["deploy"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("hash hashes Hash", ["hash"]),
    ):
        assert [term.text for term in parse_query(query).terms] == terms

    query = parse_query(" ".join(f"word{number}" for number in range(MAX_TERMS + 10)))

    assert (len(query.terms), query.left_out) == (MAX_TERMS, 10)


@given(st.text())
def test_no_text_makes_an_invalid_expression(query):
    matches("some text", query)


@given(st.text(alphabet=st.characters(categories=["Lu", "Ll", "Nd", "Lo"]), min_size=1, max_size=12))
def test_a_word_finds_the_text_that_holds_it(word):
    assert all(matches(f"before {word} after", word))


def test_a_query_finds_what_it_names():
    for text, *queries in (
        ("set NO_COLOR=1 to switch it off", "NO_COLOR"), ("git checkout --no-track origin/x", "--no-track"),
        ("GET /api/v1/format_query returns", "/api/v1/format_query"), ("needs TLS1.3 or newer", "tls1.3"),
        ("we don't do that", "don't"), ("AI and k8 and Go", "AI k8 go"),
        ("サーバーを再起動する方法", "再起動", '"再起動"'), ("白い猫が好き", "猫", '"白い猫"'), ("白い猫", "猫"),
        ("猫が好き", "猫", '"猫"'), ("Docker環境を構築する", "docker環境", '"docker環"'),
        ("重启服务器的方法", "服务器"), ("서버를 다시 시작하는 방법", "방법"), ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("ระบบบันทึกไฟล์Dockerในเครื่อง", "ไฟล์", "บันทึก ไฟล์", "docker", '"ไฟล์docker"'),
        ("والملفات المضغوطة في الخادم", "ملف", "الملفات مضغوط", "للخادم"), ("المَلَفّ", "ملف"), ("שָׁלוֹם", "שלום"),
        ("the café is open", "cafe"), ("policies were rolled back", "policy rolling"),
        ('he said "exactly this phrase" twice', '"exactly this phrase"'), ("東京 tower", '"京 tower"'),
    ):  # fmt: skip
        for query in queries:
            found = matches(text, query)
            assert found, query
            assert all(found), query


def test_a_quoted_phrase_needs_its_order_and_the_words_of_a_phrase_are_those_that_were_written():
    """In scripts without spaces too. A stem is not stemmed again, which would make another word of it."""
    for text, query in (
        ("phrase exact", '"exact phrase"'),
        ("起動再する", '"再起動"'),
        ("東京タワー", '"東京 タワー"'),
    ):
        assert matches(text, query) == [False]

    text = "Agreed-upon generalization of universities"
    (term,) = parse_query(f'"{text}"').terms
    words = term.words()

    assert ["Agreed", "upon", "generalization", "of", "universities"] == [word.text for word in words]
    assert all(all(matches(text, word.match)) for word in words)
    assert term.tokens == tuple(token for word in words for token in word.tokens)


def test_an_excerpt_of_a_long_line_shows_the_term_and_one_of_many_empty_lines_takes_no_time():
    """A paragraph on one line is cut around what was asked for, whatever short lines stand before it.

    A heading that answers is shown with the beginning of its paragraph. Work grows with the text, not with the text
    times its lines; the limit of a test's time is the check.
    """
    text = f"# Title\n\nshort line\n\n{'word ' * 300}needle {'word ' * 300}"
    part, offset = excerpt(text, parse_query("needle").terms, 400)

    assert "needle" in part
    assert 4 == offset

    part, offset = excerpt(f"# Needle\n\n{'word ' * 300}", parse_query("needle").terms, 400)

    assert part.startswith("# Needle\n\nword word")
    assert (0, True) == (offset, 350 < len(part) <= 400)

    terms = parse_query(" ".join(f"w{number}" for number in range(64))).terms
    part, _ = excerpt("\n" * 400_000 + "w1\n" + " \n" * 400_000 + "w2", terms, 900)

    assert "w1" in part


def test_an_excerpt_is_around_the_rarest_words_and_what_decides():
    """Neither the beginning with the commonest word nor a line that only asks is shown instead."""
    filler = [f"Storage is a matter of part {number}." for number in range(20)]
    terms = parse_query("which storage for sessions").terms
    asks, decides = "What about storage of sessions?", "Sessions must go to Redis, and so do other kinds of storage."
    text = "\n\n".join(["Storage for all.", *filler, "Sessions last an hour.", *filler])
    rare, _ = excerpt(text, terms, 150, {"storage": 0.1, "sessions": 5.0})
    decided, _ = excerpt("\n\n".join([asks, *filler, decides, *filler]), terms, 150)

    assert "Sessions last an hour." in rare
    assert decides in decided
    assert asks not in decided


@given(st.text(), st.text(max_size=30), st.integers(20, 400))
def test_an_excerpt_is_part_of_the_text(text, query, limit):
    part, offset = excerpt(text, parse_query(query).terms, limit)

    assert len(part) <= limit
    assert part.strip("…") in "\n".join(text.split("\n")[offset:])


def test_spans_mark_inflections_and_words_of_other_scripts_as_they_stand():
    """A word of Thai is more than its letters, and one of Arabic is more than its beginning."""
    text = "Rolled back; 日本語検索"

    assert [text[start:end] for start, end in spans(text, parse_query("rolling 日本").terms)] == ["Rolled", "日本"]

    for text, query, marked in (
        ("เขาทำงานกับไฟล์ใหม่", "ไฟล์ทำ", ["ทำ", "ไฟล์"]),
        ("حفظ والملفات", "الملفّ", ["والملفات"]),
    ):
        assert [text[start:end] for start, end in spans(text, parse_query(query).terms)] == marked

    assert not any(matches("الملفات", "مل"))
    assert not any(matches("การตลาดใหม่", "ตา"))


@given(st.text(), st.text(max_size=30))
def test_spans_are_in_order_and_inside(text, query):
    found = spans(text, parse_query(query).terms)

    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(left[1] <= right[0] for left, right in pairwise(found))
