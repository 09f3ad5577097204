"""Several agents in several windows: one indexes, nobody fails, nobody waits for what is done already."""

from __future__ import annotations

from contextlib import suppress

import apsw
import pytest

from test_stdio import END_SECONDS, LIST, SERVE, Wire, call

ROUNDS = 200
"""Bound of the loops that ask until the index is whole; each answer takes some milliseconds."""


def documents(wire):
    """How many documents the server says its project base has."""
    text = wire.ask(call("status"))["result"]["content"][0]["text"]
    line = next(line for line in text.splitlines() if line.startswith("- project"))
    return int(line.split(" · ")[2].split(" ")[0])


def close(wires):
    """End what is left and its pipes."""
    for wire in wires:
        wire.process.kill()
        wire.process.wait(END_SECONDS)
        wire.listener.join(END_SECONDS)
        for pipe in (wire.process.stdin, wire.process.stdout, wire.process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_servers_that_start_together_index_once(environment, count):
    """All answer, all see the whole index in the end, and no document was written twice."""
    for number in range(400):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\nabout zebra{number} and {'words ' * 50}\n")
    environment.write("knowledge/last.md", "# Giraffe\n")
    wires = [Wire(environment, SERVE.format("")) for _ in range(count)]
    try:
        for wire in wires:
            wire.handshake()
        for wire in wires:  # all at once: nobody's answer is read before everybody has asked
            wire.send({**LIST, "id": 99})
        for wire in wires:
            assert '"id":99' in wire.process.stdout.readline().replace(" ", "")
        for wire in wires:
            for _ in range(ROUNDS):
                answer = wire.ask(call("search", query="giraffe"))["result"]
                assert not answer["isError"]
                if documents(wire) == 401:
                    break
            assert "last.md" in wire.ask(call("search", query="giraffe"))["result"]["content"][0]["text"]
        assert [wire.end()[0] for wire in wires] == [0] * count
    finally:
        close(wires)

    hub = environment.hub()
    connection = apsw.Connection(str(hub.index(hub.select()[0]).path))
    assert connection.execute("SELECT count(*), max(id) FROM chunk").fetchone() == (401, 401)
    assert connection.execute("PRAGMA quick_check").get == "ok"
    connection.close()


def test_a_server_takes_over_when_the_one_that_indexes_is_killed(environment):
    """The rest is indexed by who is left, without being asked."""
    for number in range(1500):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\n{'words of many kinds ' * 60}\n")
    first = Wire(environment, SERVE.format(""))
    second = Wire(environment, SERVE.format(""))
    try:
        first.handshake()
        first.send({**LIST, "id": 99})
        first.process.stdout.readline()
        second.handshake()
        second.send({**LIST, "id": 99})
        second.process.stdout.readline()
        first.process.kill()
        first.process.wait(30)
        for _ in range(ROUNDS):
            second.ask(call("search", query="words"))  # waits a little for a first index
            if documents(second) == 1500:
                break
        assert documents(second) == 1500
        assert second.end()[0] == 0
    finally:
        close([first, second])
