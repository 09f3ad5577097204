"""However much is asked for, an answer keeps its size, and what it leaves out can be asked for in so many words."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import synced
from kbhub.errors import UsageError
from kbhub.reading.read import ANSWER_BYTES, FRAME_BYTES, LEAST_BYTES, ReadOptions, fit

STEPS = 2_000
"""Bound of the loops that read on."""


def whole(hub, ref, options=None):
    """Read on until nothing is left; give the text, and how many answers it took."""
    text = ""
    for step in range(STEPS):
        (reading,) = hub.read([ref], options).readings
        text += reading.text if step == 0 or reading.offset else f"\n{reading.text}"
        if reading.rest is None:
            return text, step + 1
        ref = reading.rest
    raise AssertionError("reading on does not end")


def pages(hub, refs, options=None):
    """Give every page of some refs."""
    options = options or ReadOptions()
    found = [hub.read(refs, options)]
    while found[-1].cursor:
        assert len(found) < STEPS
        found.append(hub.read(refs, ReadOptions(**{**_fields(options), "cursor": found[-1].cursor})))
    return found


def _fields(options):
    return {name: getattr(options, name) for name in ReadOptions.__slots__}


def size_of(result):
    return sum(len((reading.text + reading.ref + reading.title).encode()) + FRAME_BYTES for reading in result.readings)


def test_a_line_longer_than_an_answer_is_read_to_its_end(environment):
    """Each answer keeps its size, no letter is cut in two, and together they are the document."""
    for number, word in enumerate(("word ", "語", "👩‍🚀")):
        text = f"# Wide\n\n{word * (60_000 // len(word.encode()))}\n\nThe end."
        environment.write(f"knowledge/{number}.md", text)
        read, answers = whole(environment.hub(), f"{number}.md")

        assert text == read
        assert 3 <= answers <= 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40), max_size=20),
    room=st.integers(1, 60),
)
def test_any_document_is_read_to_its_end_in_pieces_of_any_size(environment, lines, room):
    text = "\n".join(["# Any", *lines, "end"])
    environment.write("knowledge/any.md", text)

    read, _ = whole(environment.hub(), "any.md", ReadOptions(document_bytes=room))

    assert text == read


def test_reading_on_stays_in_the_part_that_was_asked_for(environment):
    environment.write("knowledge/a.md", "# A\n\n## B\n\n" + "x" * 500 + "\nlast of b\n\n## C\n\nnot asked for\n")
    hub = environment.hub()

    assert whole(hub, "a.md#B", ReadOptions(document_bytes=100))[0].startswith("## B\n\nxxx")
    assert whole(hub, "a.md#B", ReadOptions(document_bytes=100))[0].rstrip().endswith("x\nlast of b")
    assert "x" * 490 == whole(hub, "a.md:5+10:1", ReadOptions(document_bytes=100))[0]


def test_a_reading_says_how_far_it_goes(environment):
    environment.write("knowledge/a.md", "one\n" + "x" * 100 + "\nthree\n")
    hub = environment.hub()

    first = hub.read(["a.md"], ReadOptions(document_bytes=50)).readings[0]
    second = hub.read([first.rest], ReadOptions(document_bytes=50)).readings[0]
    third = hub.read([second.rest], ReadOptions(document_bytes=50)).readings[0]

    assert ("one\n" + "x" * 46, 1, 2, 0) == (first.text, first.start_line, first.end_line, first.offset)
    assert ("x" * 50, 2, 2, 46) == (second.text, second.start_line, second.end_line, second.offset)
    assert ("xxxx\nthree", 2, 3, 96) == (third.text, third.start_line, third.end_line, third.offset)
    assert ["a.md:2+46:2", "a.md:2+96:2", None] == [one.rest for one in (first, second, third)]


def test_many_documents_come_in_pages(environment):
    """Each within its size, all documents once, in order, and the last page has no cursor."""
    for number in range(60):
        environment.write(f"knowledge/n{number:03}.md", f"# Note {number}\n\n{'about it ' * (number * 14)}\n")
    hub = synced(environment)

    found = pages(hub, ["*.md"])

    assert [f"n{number:03}.md" for number in range(60)] == [one.ref for page in found for one in page.readings]
    assert {60} == {page.total for page in found}
    assert 2 <= len(found) <= 40
    for page in found:
        assert () == page.unread
        assert size_of(page) <= ANSWER_BYTES + len("# Note 999")
    for one in (one for page in found for one in page.readings if one.rest):
        assert len(one.text) > LEAST_BYTES // 2  # nobody is given a few words


def test_several_documents_share_an_answer_and_what_one_leaves_the_next_may_take(environment):
    """Three of which one is short: the others get more than a third each."""
    environment.write("knowledge/short.md", "short\n")
    for name in ("long", "longer"):
        environment.write(f"knowledge/{name}.md", "".join(f"{name} {number}\n" for number in range(5_000)))

    result = environment.hub().read(["short.md", "long.md", "longer.md"])

    assert [None] == [one.rest for one in result.readings if one.ref == "short.md"]
    assert all(len(one.text) > ANSWER_BYTES / 3 + 1_000 for one in result.readings if one.ref != "short.md")
    assert size_of(result) <= ANSWER_BYTES + len("longer")


def test_line_numbers_take_their_room(environment):
    environment.write("knowledge/a.md", "x\n" * 20_000)
    hub = environment.hub()
    plain = hub.read(["a.md"]).readings[0]
    numbered = hub.read(["a.md"], ReadOptions(line_numbers=True)).readings[0]

    assert set(plain.text) == set(numbered.text) == {"x", "\n"}
    assert plain.end_line > 4 * numbered.end_line


def test_a_failure_does_not_end_a_page(environment):
    """Refs that lead nowhere count with those that lead somewhere; of each document the beginning fits its limit."""
    environment.write("knowledge/a.md", "# A\n" + "line\n" * 100)
    result = environment.hub().read(["nope.md", "a.md", "neither.md"], ReadOptions(document_bytes=30))

    assert [(one.ref, one.rest, len(one.text) <= 30) for one in result.readings] == [("a.md", "a.md:7:95", True)]
    assert ([one.ref for one in result.unread], result.total, result.cursor) == (["nope.md", "neither.md"], 3, None)


def test_a_cursor_is_of_its_refs_only(environment):
    """Another list, or what is no cursor, is refused with what to do."""
    for number in range(30):
        environment.write(f"knowledge/n{number}.md", "word " * 1_000)
    hub = synced(environment)
    cursor = hub.read("*.md").cursor
    assert cursor

    with pytest.raises(UsageError, match="to other refs"):
        hub.read("n*.md", ReadOptions(cursor=cursor))
    with pytest.raises(UsageError, match="not one from kbhub"):
        hub.read("*.md", ReadOptions(cursor="page 2"))


@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=10),
    room=st.integers(0, 200),
)
def test_what_fits_is_a_beginning_and_no_larger_than_the_room(lines, room):
    taken, cut = fit(lines, room)

    assert len(taken) >= 1
    assert taken[:-1] == lines[: len(taken) - 1]
    assert taken[-1] == (lines[len(taken) - 1][:cut] if cut else lines[len(taken) - 1])
    size = len("\n".join(taken).encode("utf-8", "replace"))
    assert size <= room or len("".join(taken)) <= 1
