"""Frames that are not as they should be: each with an id is answered, and serving goes on."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_environment
from daemons import PATIENCE, call, furnish, text_of, windows
from fuzzed_frames import MAYBE, NONE, ONE, REFUSALS, REFUSED, Fuzz
from kbhub.server.frames import DEEPEST, EDGE_BYTES, FRAME_BYTES, MOST_VALUES, Frames, frames, read

SERVE = ("-m", "kbhub", "serve")
SHORT, LONG = 50, 400
"""Frames of one fuzz."""


@pytest.mark.parametrize(
    ("line", "code", "identifier"),
    [
        (b"garbage", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": ', -32700, 7),
        (b'{"method": "x", "params": {"id": NaN}, "jsonrpc": "2.0", "id": "a\\"}"}', -32700, 'a"}'),
        (b'{"jsonrpc": "2.0", "method": "x", "params": {"id": 3}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": NaN}}', -32700, 7),
        (b'{"jsonrpc": "2.0", "method": "x", "params": {"id": NaN, "a": "}"}, "id": 7}', -32700, 7),
        (b'{"params": {"id": 3}, "method": x}', -32700, None),
        (b'{"id": {"id": 3}, "method": x}', -32700, None),
        (b"[" * 1_000, -32600, None),
        (b'{"id": 7, "method": "x", "params": ' + b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST + b"}", -32600, 7),
        (b'{"method": "x", "params": {"a": [' + b"{}," * MOST_VALUES + b'1]}, "id": 7}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": "p"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": ["x"]}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        (b'{"id": 7, "method": "x"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7.5, "method": "x"}', -32600, 7.5),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "x"}', -32600, "\ud800"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "x"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "x"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1e999, "method": "x"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "x"}', -32700, None),
        (b'[{"jsonrpc": "2.0", "id": 7, "method": "x"}]', -32600, None),
        (b"7", -32600, None),
    ],
)
def test_what_cannot_be_served_is_refused_to_its_id(line, code, identifier):
    refusal = json.loads(read(line).refusal)
    assert refusal["error"]["code"] == code
    assert refusal["error"]["message"].endswith(".")
    assert refusal["id"] == identifier


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf", b" \t"])
def test_what_can_be_served_is_read(prefix):
    text = '[{"' * 1_000 + "," * (MOST_VALUES + 1) + '\\"'
    message = {"jsonrpc": "2.0", "id": "ü", "method": "x", "params": {"a": text}}
    assert read(prefix + json.dumps(message).encode() + b"\r").message == message


def test_half_characters_become_whole_ones():
    frame = read(rb'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"\udc00": ["a\ud83d b", "\ud83d\ude00"]}}')
    assert frame.message["params"] == {"\ufffd": ["a\ufffd b", "😀"]}
    assert json.loads(frame.line) == frame.message
    assert read(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}').message["method"] == "\ufffd"


@pytest.mark.parametrize("line", [b"", b"  \r", b'{"id": 3, "result": 5}', b'{"id": 3, "error": [' + b"[" * 500])
def test_answers_are_not_answered(line):
    """An error to the id of an answer would be taken for one to a request of the client's own."""
    assert read(line).refusal == b""


@pytest.mark.parametrize("where", [0, 1])
def test_a_frame_that_is_too_long_is_refused_and_not_kept(where):
    parts = [
        b'"id": 7',
        b'"jsonrpc": "2.0"',
        b'"params": {"a": "' + b'xxxxxxx\\"' * (FRAME_BYTES // 8) + b'"}',
        b'"method": "x"',
    ]
    line = b"{" + b", ".join(parts if where else parts[::-1]) + b"}"
    cut = Frames()
    pieces = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]
    assert not [frame for piece in pieces for frame in cut.feed(piece)]
    assert len(cut._line) <= 2 * EDGE_BYTES
    (refused, good) = cut.feed(b'\n{"jsonrpc": "2.0", "id": 8, "method": "x"}\n')
    refusal = json.loads(refused.refusal)
    assert refusal["id"] == 7
    assert str(FRAME_BYTES) in refusal["error"]["message"]
    assert good.message["id"] == 8


long = st.text('ab"\\{}[],: é', min_size=EDGE_BYTES, max_size=2 * EDGE_BYTES)


@given(st.dictionaries(st.text(), st.text() | st.integers()), st.integers() | st.text(max_size=20), long, st.booleans())
def test_the_id_at_either_end_is_found_without_reading(params, identifier, text, last):
    ends = [{"method": "x", "params": params | {"id": text}}, {"jsonrpc": "2.0", "id": identifier}]
    first, second = ends if last else ends[::-1]
    line = json.dumps(first | second).encode()
    assert json.loads(read(line.replace(b'"params": {', b'"params": NaN {')).refusal)["id"] == identifier
    answer = json.dumps({"jsonrpc": "2.0", "id": identifier, "result": params}).encode()
    assert read(answer.replace(b'"result"', b'"result": NaN')).refusal == b""


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_cut_into_frames(data, size):
    whole = list(frames([data]))
    assert whole == list(frames(data[at : at + size] for at in range(0, len(data), size)))
    assert len(whole) == data.count(b"\n") + 1


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project with one document and an index."""
    return furnish(make_environment(tmp_path_factory.mktemp("frames")), "canary")


def good(modern):
    return call("search", modern=modern, query="canary")


def judge(frames, answers):
    """Hold answers against what is owed: exactly one to each id, a refusal for what cannot be read."""
    by_id = {}
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        by_id.setdefault(json.dumps(answer["id"]), []).append(answer)
    nameless = len(by_id.pop("null", []))
    for one in frames:
        got = by_id.pop(json.dumps(one.id), []) if one.id is not None else []
        if one.owed in (ONE, REFUSED) and one.id is not None:
            assert len(got) == 1, (one, got)
        if one.owed == REFUSED and got:
            assert got[0]["error"]["code"] in REFUSALS, (one, got)
        if one.owed == NONE:
            assert got == [], (one, got)
    changed = sum(one.owed == MAYBE for one in frames)
    owed = sum(one.owed == REFUSED and one.id is None for one in frames)
    assert owed <= nameless <= owed + changed
    assert len(by_id) <= changed  # of frames whose bytes were changed, with the id that they have now
    assert all(len(got) == 1 for got in by_id.values()), by_id


def fuzz_window(window, modern, seed, count):
    """Send frames to a process; give them and what it answered, once it has answered a good request after them."""
    if not modern:
        window.handshake()
    fuzz = Fuzz(seed, modern=modern)
    sent = [fuzz.frame() for _ in range(count)]
    window.ids = 10**9
    window.feed(b"".join(one.data + b"\n" for one in sent))
    assert "1. deploy.md" in text_of(window.ask(good(modern)))
    owed = {json.dumps(one.id) for one in sent if one.owed in (ONE, REFUSED) and one.id is not None}
    while not owed <= {json.dumps(message["id"]) for message in window.kept if "id" in message}:
        message = window.said.get(timeout=PATIENCE)
        assert message is not None, window.errors
        window.kept.append(message)
    code = window.end()
    return sent, [message for message in window.rest() if "method" not in message], code


CASES = [
    (False, 1, SHORT),
    pytest.param(True, 1, SHORT, marks=pytest.mark.slow),
    *(pytest.param(modern, seed, LONG, marks=pytest.mark.slow) for modern in (False, True) for seed in (2, 3)),
]


@pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")
@pytest.mark.parametrize(("modern", "seed", "count"), CASES)
def test_every_frame_is_answered_on_standard_streams(place, modern, seed, count):
    """Exactly once, a good request after them as well, and nothing else is said there."""
    with windows(place) as begin:
        window = begin(SERVE)
        sent, answers, code = fuzz_window(window, modern, seed, count)
    judge(sent, answers)
    assert (code, b"Traceback" in window.errors) == (0, False)
