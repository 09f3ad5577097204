"""What the words of a query ask for: terms, phrases, exclusions, filters, identifiers."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import cased_parts, cased_words, parse_query, searchable, stems

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

    assert {one.key for one in understood.filters} <= {"tag", "path", "base", "kind", "age"}
    assert {one.key for one in parse_query(query, understood.keys).filters} <= {
        *(one.key for one in understood.filters),
        *understood.keys,
    }


def test_quotes_are_known_and_text_with_a_colon_stays_text():
    """URLs, paths, times, code, log lines and what stands in quotes are searched for."""
    terms = [(term.text, term.quoted) for term in parse_query('a1 "b2 c3" d4 "d4"').terms]
    assert terms == [("a1", False), ("b2 c3", True), ("d4", True)]

    for query in (
        *("http://example.org/x", "std::vector", "12:30", "C:\\temp", "error:foo", '"tag:x"', "tag:", 'tag:""'),
        *("tag: x", "age:old", "say:", ":x", "a:b:c"),
    ):
        understood = parse_query(query)
        assert (understood.filters, bool(understood.terms)) == ((), True), query


def test_a_dash_excludes_only_where_it_is_meant_to():
    """Flags, numbers, bullets and words with a dash are text; so is a query that is nothing but exclusions."""
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
