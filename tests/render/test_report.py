"""One report, written for a model and for a person: the same facts, each in its form."""

from __future__ import annotations

from kbhub.render.report import Bare, Call, Item, Line, Name, Names, Quote, Ref, Report, model_answer, say
from kbhub.render.terminal import Painter, notes, text

ONE = Item(Ref("a.md", "#0000aa", ":3-5"), Name("A"), "0.90", ("1 year old",), quote=Quote("x\ny", 99), number=1)
TWO = Item(Ref('b"\n.md', "#0000bb"), Bare("B"), row=True, depth=1)


def test_a_report_is_written_twice():
    """Names in quotes and a docid for a ref that no call takes, or as they are; a call, or a command."""
    call = Call("read", {"refs": Ref("a.md", part=":1"), "options": {"all": ["é", True]}}, "kbhub read a.md:1")
    report = Report(
        say("Found {}; open it with {}", Names(("a", "b")), call), ["", "Parts", TWO], notes=[Line("Odd.", 99)]
    )

    assert model_answer(report)[0] == (
        'Found a, b; open it with read(refs="a.md:1", options={"all": ["é", true]})\n'
        'Parts\n  - #0000bb · path "b\' .md" · B\nNote: Odd.'
    )
    assert text(report) == 'Found a, b; open it with `kbhub read a.md:1`\n\nParts\n  #0000bb  b"␊.md    B'
    assert notes(report) == ["Odd."]


def test_a_quote_is_fenced_or_behind_a_rule():
    report = Report(parts=[ONE], calls=lambda shown: [f"{shown} shown"])

    assert model_answer(report)[0] == '1. a.md:3-5 · "A" · 0.90 · 1 year old\n```\nx\ny\n```\n1 shown'
    assert text(report) == "0.90  a.md:3-5  #0000aa  1 year old\n      A\n  │ x\n  │ y"
    assert "\x1b[1;36ma.md:3-5\x1b[0m" in text(report, Painter(colour=True))


def test_what_does_not_fit_is_counted():
    """For a model; a person gets everything."""
    items = [Item(title=Name(f"{number} {'x' * 90}")) for number in range(200)]
    report = Report(parts=items, summary=lambda shown: [f"{shown} of 200"], advice="ask for less")
    told = model_answer(report, 2_000)[0]

    assert len(told.encode()) <= 2_000
    shown = told.count("\n- ")
    assert told.startswith(f"{shown} of 200\n")
    assert told.endswith(f"… and {200 - shown} more lines; ask for less.")
    assert text(report).count("\n") == 199
