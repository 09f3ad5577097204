"""Any string is a query: what its words ask for, such as terms, phrases, exclusions, filters and identifiers."""

import re
from itertools import pairwise

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from kbhub.index.query.excerpts import CODE_REST, excerpt, spans
from kbhub.index.query.parser import MAX_TERMS, TOKENIZER, cased_parts, cased_words, parse_query, searchable, stems

PIECES = st.sampled_from(
    ["word", "the", "-draft", '-"two words"', '"a phrase"', "tag:ops", "-tag:a,b", 'owner:"Jane Doe"', "n:>=3", "-m",
     "age:<30d", "path:api/*.md", "d:2024-01..", "base:x", "base:y", "http://x", "std::vector", "12:30", "C:\\x", ",",
     "--no-track", "-", '"', ":", "maxRetries", "日本語", "-日本", "tag:日本", '-k:"x y"', 'k:">3"', "tag:", 'tag:""',
     "-x=y", "1日-foo", "1日tag:x", "status:a..b", "age:old", "İ:x", 'key:a"b']
)  # fmt: skip
QUERIES = st.one_of(
    st.text(),
    st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=8).map(" ".join),
    st.lists(PIECES, max_size=5).map("".join),
)
KEYS = st.frozensets(st.sampled_from(["owner", "n", "d", "k", "status", "http", "c", "key"]))


def texts(query: str, *known: str) -> list[str]:
    return [term.text for term in parse_query(query, frozenset(known)).terms]


def excluded(query: str, *known: str) -> list[str]:
    return [term.text for term in parse_query(query, frozenset(known)).excluded]


def filters(query: str, *known: str) -> list[str]:
    return [str(one) for one in parse_query(query, frozenset(known)).filters]


@given(QUERIES, KEYS)
@example('-A":', frozenset())
@example("㊀D:0", frozenset({"d"}))
def test_a_filter_is_understood_as_it_is_shown(query, known):
    for one in parse_query(query, known).filters:
        assert parse_query(str(one), known | {one.key}).filters == (one,)


@given(QUERIES)
def test_a_key_that_no_document_has_makes_no_filter(query):
    """Without known keys only the five filter words filter; the keys to ask for are told."""
    understood = parse_query(query)
    first, later = ({one.key for one in each.filters} for each in (understood, parse_query(query, understood.keys)))
    assert first <= {"tag", "path", "base", "kind", "age"}
    assert later <= {*first, *understood.keys}


def test_quotes_are_known_text_with_a_colon_stays_text_and_a_dash_excludes_only_where_it_is_meant_to():
    """URLs, paths, times, code, log lines and what stands in quotes are searched for."""
    terms = [(term.text, term.quoted) for term in parse_query('a1 "b2 c3" d4 "d4"').terms]
    assert terms == [("a1", False), ("b2 c3", True), ("d4", True)]
    for query in (
        *("http://example.org/x", "std::vector", "12:30", "C:\\temp", "error:foo", '"tag:x"', "tag:", 'tag:""'),
        *("tag: x", "age:old", "say:", ":x", "a:b:c"),
    ):
        understood = parse_query(query)
        assert (understood.filters, bool(understood.terms)) == ((), True), query

    # Flags, numbers, bullets and words with a dash are text; so is a query that is nothing but exclusions.
    for query, terms, without in (
        ("deploy -draft", ["deploy"], ["draft"]),
        ('deploy -"work in progress"', ["deploy"], ["work in progress"]),
        ("deploy -日本", ["deploy"], ["日本"]),
        ("deploy -error:x", ["deploy"], ["error:x"]),
        ("deploy - draft", ["deploy", "draft"], []),
        ("the -draft", ["the"], ["draft"]),
        ("-draft", ["draft"], []),
        ('-draft -"a b"', ["draft", "a b"], []),
        ('"-draft"', ["-draft"], []),
        *(
            (text, text.split(), [])
            for text in (
                *("git checkout --no-track", "git commit -m", "rm -rf build", "java -Dfile=x", "well-known"),
                *("x (-draft)", "5 -3", "-v"),
            )
        ),
    ):
        assert (texts(query), excluded(query)) == (terms, without), query


def test_filters_are_read_with_their_operators_and_a_key_of_the_documents_filters():
    """`status:draft` is a filter where documents have the key and text where they have not."""
    found = parse_query('n:>=3 n:1..5 n:">3" n:>x n:a..b age:<30d tags:#a', frozenset({"n"})).filters
    assert [(one.key, value.operator, value.text, value.upper) for one in found for value in one.values] == [
        ("n", ">=", "3", ""), ("n", "..", "1", "5"), ("n", "=", ">3", ""), ("n", "=", ">x", ""),
        ("n", "=", "a..b", ""), ("age", "<", "30d", ""), ("tag", "=", "#a", ""),
    ]  # fmt: skip
    assert parse_query("status:draft x").keys == {"status"}
    assert (texts("status:draft x"), filters("status:draft x")) == (["status:draft", "x"], [])
    assert (texts("Status:draft x", "status"), filters("Status:draft x", "status")) == (["x"], ["status:draft"])
    assert filters('owner:"Jane Doe",bob -n:>=3', "owner", "n") == ['owner:"Jane Doe",bob', "-n:>=3"]
    assert texts("http://x c:\\y a::b", "http", "c", "a") == ["http://x", "c:\\y", "a::b"]


def test_the_text_to_compare_is_what_is_asked_in_words_and_two_bases_mean_either():
    """Filters, exclusions and quotes say nothing of the meaning; stop words do.

    A document has one base and one kind, so that two filters on them are one list; others must both hold. Very many
    filters, values and exclusions are limited; the limit of a test's time is the check.
    """
    assert parse_query('how do I "roll back" tag:ops -draft status:x').text == "how do I roll back status:x"
    assert parse_query("-v").text == "-v"
    assert parse_query("-draft").text == "draft"
    assert parse_query("tag:ops").text == ""

    found = filters("base:a base:b kind:memory -base:c tag:x tag:y")
    assert found == ["base:a,b", "kind:memory", "-base:c", "tag:x", "tag:y"]

    understood = parse_query(
        " ".join(f"tag:t{number} -word{number}" for number in range(30_000)) + " tag:" + ",".join(["a"] * 200_000)
    )
    assert len(understood.filters) == len(understood.excluded) == len(understood.terms) == 64


def test_words_in_mixed_case_come_apart_and_stand_behind_the_text():
    """Identifiers are taken apart where their capitals say so; acronyms, their plurals and encoded data are not.

    What is added for identifiers comes once each, after the text, so that phrases in it stay whole.
    """
    for parts in (
        *("max Retries", "Max Retries", "HTTP Server", "parse JSON", "get URL For", "parse URLs", "utf8 Decode"),
        *("OAuth2 Token", "iPhone Case", "Git Hub"),
    ):
        assert " ".join(cased_parts(parts.replace(" ", ""))) == parts
    for whole in (
        *("APIs", "IDs", "xAxis", "MAX_RETRIES", "Word", "WORD", "a" * 40 + "B" * 40),
        "aGVsbG8gV29ybGQgYW5kIGFnYWluIQaGVsbG8gV29ybGQ",
    ):
        assert not cased_parts(whole), whole
    assert searchable("set maxRetries to 3; maxRetries again") == "set maxRetries to 3; maxRetries again max Retries"

    (term,) = parse_query("maxRetries").terms
    assert set(stems("max retries")) <= set(stems(searchable("the option maxRetries")))
    assert term.tokens == ("maxretri",)
    assert term.apart is not None
    assert (term.apart.match, term.apart.tokens) == ('"max Retries"', ("max", "retri"))
    assert parse_query('"maxRetries"').terms[0].apart is None


@given(st.text(alphabet="aAbB01 -_é\n", max_size=30))
def test_words_in_mixed_case_are_found_in_any_text(written):
    turned = re.compile("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
    words = [(word.start(), word.group()) for word in re.finditer("[A-Za-z0-9]+", written)]
    assert cased_words(written) == [(start, word) for start, word in words if turned.search(word)]


def test_identifiers_are_marked_however_they_are_written_and_questions_in_other_languages_keep_their_words():
    """English function words and stems take nothing from German, French and Spanish that a search needs."""
    text = "see maxRetries or max_retries, not max"
    shown = [text[start:end] for start, end in spans(text, parse_query("maxRetries").terms)]
    part, _ = excerpt("x\n" * 300 + "the max_retries\n" + "x\n" * 300, parse_query("maxRetries").terms, 100)
    assert shown == ["maxRetries", "max_retries"]
    assert [text[start:end] for start, end in spans(text, parse_query("retries").terms)] == ["maxRetries", "retries"]
    assert "max_retries" in part

    for question, needed in {
        "wie kann ich den Server neu starten": "server neu starten",
        "comment redémarrer le serveur": "redemarr serveur",
        "cómo reiniciar el servidor": "reiniciar servidor",
        "was will der Benutzer so": "benutz",
    }.items():
        found = {token for term in parse_query(question).terms for token in term.tokens}
        assert set(stems(needed)) <= found


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


def test_an_excerpt_of_a_long_line_shows_the_term_in_no_time_and_spans_mark_inflections_as_they_stand():
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

    # A word of Thai is more than its letters, and one of Arabic is more than its beginning.
    text = "Rolled back; 日本語検索"
    assert [text[start:end] for start, end in spans(text, parse_query("rolling 日本").terms)] == ["Rolled", "日本"]
    for text, query, marked in (("เขาทำงานกับไฟล์ใหม่", "ไฟล์ทำ", ["ทำ", "ไฟล์"]), ("حفظ والملفات", "الملفّ", ["والملفات"])):
        assert [text[start:end] for start, end in spans(text, parse_query(query).terms)] == marked
    assert not any(matches("الملفات", "مل"))
    assert not any(matches("การตลาดใหม่", "ตา"))


def test_an_excerpt_is_not_cut_within_a_link_and_is_marked_where_a_sentence_goes_on():
    """A script without spaces is cut anywhere."""
    for link in (f"[how](https://docs.example/{'leave-an-element-out-' * 8}of-it)", "[[Its guide#Part|guide]]"):
        text = f"{'Before. ' * 60}See {link} for this. A needle is shown. {'After. ' * 60}{link}"
        parts = [excerpt(text, parse_query("needle").terms, limit)[0] for limit in range(120, 700, 20)]
        assert all("needle" in part and not set(part.replace(link, "")) & set("[]()") for part in parts)
    assert len(excerpt("说明针" * 300, parse_query("针").terms, 200)[0]) <= 200

    prose = "\n".join(f"line {number} of a sentence that goes on and on" for number in range(20))
    terms = parse_query("9").terms
    for text, marks in ((prose, "……"), (f"```sh\n{prose}\n```", ""), (prose.replace("line", "- line"), "")):
        part = excerpt(text, terms, 200)[0]
        assert (part[:1] + part[-1:]).strip("".join(map(chr, range(128)))) == marks
    # What stands before is shown from the beginning of its paragraph, or not at all.
    part, _ = excerpt(f"{prose}\n\nThe needle is here.\n\nMore.", parse_query("needle").terms, 200)
    assert part == "The needle is here.\n\nMore."
    quote = prose.replace("\nline", "\n>     `line`")
    assert excerpt(f"> {quote}", terms, 200)[0][:3] == "…> "


def test_an_excerpt_begins_with_its_code_and_is_around_the_rarest_words_and_what_decides():
    terms, code, step = parse_query("needle").terms, "line of the code\n" * 30, "Then run it.\n\n"
    far = f"Text.\n\n```sh\n{code}\nneedle\nlast\n```\n\n## Locks\n\n{step * 30}"
    cut, after = f"{code}\nneedle\n```\n\n{step}## Locks\n\n", "\n```\n\nA needle.\n\n```sh\n# run\n```"
    assert excerpt(far, terms, 38) == ("```sh\nneedle\nlast\n```", 33)
    assert excerpt(cut, terms, 50) == ("```\nneedle\n```\n\nThen run it.", 30)
    assert excerpt(after, terms, 90) == ("A needle.\n\n```sh\n# run\n```", 3)
    led = f"{step * 9}So:\n\n```sh\n{code}needle\n```\n\n{step * 30}"
    assert excerpt(led, terms, 700)[0].startswith("So:\n\n```sh\n")
    assert excerpt(f"A needle.\n\n```sh\n{'x' * 50}\n```", terms, 60) == ("A needle.", 0)

    code = "Needle:\n\n```sh\n" + "line\n" * 10 + "last\n```"
    assert excerpt(f"{code}\n\n{step * 30}", terms, 72) == (code, 0)  # a little longer, to the end of the code
    assert len(excerpt(f"{code}\n\n{step * 30}", terms, 60)[0]) <= 60

    # A name in levels is found where each has a line of its own; a heading or a rule is not shown without what follows.
    levels, other = "```yaml\nproxy:\n  https:\n    hosts: []\n```", "Not essential for proxy nor https.\n\n"
    text = f"{step * 30}{levels}\n\n{other}---\n\n**Note:**\n\n{other * 30}"
    assert excerpt(text, parse_query("proxy.https.hosts").terms, 115) == (f"{step}{levels}\n\n{other.strip()}", 58)

    # Neither the beginning with the commonest word nor a line that only asks is shown instead.
    filler = [f"Storage is a matter of part {number}." for number in range(20)]
    terms = parse_query("which storage for sessions").terms
    asks, rule = "What about storage of sessions?", "Sessions must go to Redis, and so do other kinds of storage."
    text = "\n\n".join(["Storage for all.", *filler, "Sessions last an hour.", *filler])
    rare, _ = excerpt(text, terms, 150, {"storage": 0.1, "sessions": 5.0})
    assert "Sessions last an hour." in rare
    for decides in (rule, "```console\nship storage --sessions\n```"):
        decided, _ = excerpt("\n\n".join([asks, *filler, decides, *filler]), terms, 150)
        assert (decides in decided, asks in decided) == (True, False)


@given(st.text(), st.text(max_size=30), st.integers(20, 400))
def test_an_excerpt_is_part_of_the_text(text, query, limit):
    part, offset = excerpt(text, parse_query(query).terms, limit)
    assert len(part) <= (1 + CODE_REST) * limit
    assert part.strip("…") in "\n".join(text.split("\n")[offset:])


@given(st.text(), st.text(max_size=30))
def test_spans_are_in_order_and_inside(text, query):
    found = spans(text, parse_query(query).terms)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(left[1] <= right[0] for left, right in pairwise(found))
