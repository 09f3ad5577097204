"""Several agents in several windows: one indexes, nobody fails, nobody waits for what is done already."""

import apsw
import pytest

from daemons import call, text_of, until, windows
from test_stdio import LIST, SERVE


def documents(window):
    """How many documents the server says its project base has."""
    line = next(line for line in text_of(window.ask(call("status"))).splitlines() if line.startswith("- project"))
    return int(line.split(" · ")[2].split(" ")[0])


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_servers_that_start_together_index_once(environment, count):
    for number in range(150):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\nabout zebra{number} and {'words ' * 50}\n")
    environment.write("knowledge/last.md", "# Giraffe\n")
    with windows(environment) as begin:
        opened = [begin(SERVE) for _ in range(count)]
        for window in opened:
            window.handshake()
        asked = [window.begin(LIST) for window in opened]  # nobody's answer is read before everybody has asked
        for window, number in zip(opened, asked, strict=True):
            assert "result" in window.answer(number)
        for window in opened:
            until(lambda window=window: documents(window) == 151)
            assert "last.md" in text_of(window.ask(call("search", query="giraffe")))
        assert [window.end() for window in opened] == [0] * count

    hub = environment.hub()
    connection = apsw.Connection(str(hub.index(hub.select()[0]).path))
    assert connection.execute("SELECT count(*), max(id) FROM chunk").fetchone() == (151, 151)
    assert connection.execute("PRAGMA quick_check").get == "ok"
    connection.close()


def test_a_server_takes_over_when_the_one_that_indexes_is_killed(environment):
    """The rest is indexed by who is left, without being asked."""
    for number in range(400):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\n{'words of many kinds ' * 60}\n")
    with windows(environment) as begin:
        first, second = begin(SERVE), begin(SERVE)
        for window in (first, second):
            window.handshake()
            window.ask(LIST)
        first.process.kill()
        until(lambda: documents(second) == 400)
        assert second.end() == 0
