"""What is asked again and again, and nothing answers, becomes a gap."""

import pytest

from conftest import DAY, synced
from kbhub.errors import UsageError
from kbhub.index.side_files import ONCE_SECONDS
from kbhub.memory.changes import remember
from kbhub.types import Query
from kbhub.usage.gaps import clear_log, close_gap, list_gaps, maintain, show_log, summary
from kbhub.usage.log import log_path, record

APART = ONCE_SECONDS + 1
COFFEE = (
    "who pays for the coffee machine",
    "who pays for the office coffee machine?",
    "Who pays for the coffee machine?",
)


@pytest.fixture
def hub(environment, clock):
    environment.write("knowledge/cache.md", "# Cache\n\nSessions are kept for an hour.\n")
    return synced(environment, clock=clock)


def ask(hub, *texts, times=1, client=None, apart=APART):
    for _ in range(times):
        for text in texts:
            query = Query(text=text)
            record(hub, hub.search(query), query, client)
            hub.options.clock.now += apart


def write_answer(environment, hub):
    path = environment.write("knowledge/coffee.md", "# Coffee machine\n\nFinance pays for the office coffee machine.\n")
    hub.sync()
    return path


@pytest.fixture
def gap(hub):
    """What was asked five times in vain."""
    ask(hub, COFFEE[0], times=5)
    maintain(hub)
    (gap,) = list_gaps(hub).gaps
    return gap


def test_a_question_that_nothing_answers_becomes_a_gap(hub):
    ask(hub, *COFFEE, client="agent")
    ask(hub, COFFEE[0])
    assert maintain(hub).opened == ()
    ask(hub, COFFEE[1])
    assert maintain(hub).opened == (COFFEE[0],)
    (gap,) = list_gaps(hub).gaps
    assert (gap.question, gap.count, gap.clients, gap.state) == (COFFEE[0], 5, ("agent", "user"), "open")
    assert gap.last_asked == "2027-01-15T08:20:04+00:00"
    told = summary(hub)
    assert (told.gaps, [one.id for one in told.top_gaps]) == (1, [gap.id])


def test_who_asks_the_same_within_minutes_asks_once(hub, clock):
    """A script that asks in every format makes no gap; the log has all that it asked."""
    for _ in range(4):
        for number in range(5):
            clock.now += ONCE_SECONDS if number else APART
            query = Query(text=COFFEE[0].upper() if number % 2 else COFFEE[0])
            record(hub, hub.search(query), query)
    assert maintain(hub).opened == ()
    assert show_log(hub).total == 20
    ask(hub, COFFEE[0], client="agent")  # another one does not repeat what the script asked
    assert len(maintain(hub).opened) == 1


def test_a_gap_counts_on_and_is_found_once_and_one_that_the_user_closed_stays_closed(hub, gap):
    again = maintain(hub)
    assert (again.opened, again.reopened, again.answered, list_gaps(hub).gaps) == ((), (), (), (gap,))
    ask(hub, COFFEE[1], times=7)
    assert maintain(hub).opened == ()
    (counted,) = list_gaps(hub).gaps
    assert (counted.id, counted.count) == (gap.id, 12)

    # However often it is asked, also after the log was cleared.
    assert close_gap(hub, gap.id).state == "closed"
    ask(hub, *COFFEE, times=5)
    maintain(hub)
    assert list_gaps(hub).gaps == ()
    assert [one.state for one in list_gaps(hub, every=True).gaps] == ["closed"]

    clear_log(hub)
    assert list_gaps(hub, every=True).gaps == ()
    folder = log_path(hub).parent
    assert not any(b"coffee" in file.read_bytes() for file in folder.iterdir())
    ask(hub, COFFEE[0], times=5)
    assert maintain(hub).opened == ()
    with pytest.raises(UsageError, match="No gap 'nonsense'"):
        close_gap(hub, "nonsense")


@pytest.mark.usefixtures("gap")
def test_a_document_or_memory_closes_a_gap_and_five_more_askings_open_it_without_it(environment, hub, clock):
    """As soon as something answers, the gap says what, and is in the list of all only."""
    write_answer(environment, hub)
    assert maintain(hub).answered == (COFFEE[0],)
    assert list_gaps(hub).gaps == ()
    (closed,) = list_gaps(hub, every=True).gaps
    assert (closed.state, closed.answer) == ("answered", "coffee.md")

    # When the answer is gone, five more askings in vain open it again, with what had answered it.
    answer = write_answer(environment, hub)
    maintain(hub)
    answer.unlink()
    hub.sync()
    ask(hub, COFFEE[1], times=3)
    ask(hub, *[COFFEE[1]] * 4, apart=1)  # which is one asking more
    assert maintain(hub).reopened == ()
    clock.now += APART
    ask(hub, COFFEE[1])

    done = maintain(hub)
    assert (len(done.reopened), done.opened) == (1, ())
    (opened,) = list_gaps(hub).gaps
    assert (opened.state, opened.answer) == ("open", "coffee.md")
    assert opened.reopened
    memory = remember(hub, "Finance pays for the office coffee machine.").memory
    assert (maintain(hub).answered, list_gaps(hub, every=True).gaps[0].answer) == ((COFFEE[0],), memory.ref)


@pytest.mark.usefixtures("gap")
def test_a_gap_that_nobody_asks_any_more_is_forgotten(hub, clock):
    """Its words are kept as long as the queries are."""
    clock.now += 91 * DAY
    maintain(hub)
    assert list_gaps(hub, every=True).gaps == ()


def test_maintenance_runs_once_an_hour_and_one_at_a_time_and_maintenance_stops_when_its_time_is_up(hub, clock):
    assert maintain(hub).ran is False
    ask(hub, COFFEE[0])
    assert maintain(hub, at_most_every=3600).ran is True
    assert maintain(hub, at_most_every=3600).ran is False
    clock.now += 3600
    assert maintain(hub, at_most_every=3600).ran is True
    assert maintain(hub).ran is True
    ask(hub, COFFEE[0], times=5)
    assert maintain(hub, seconds=-1).opened == ()
    assert len(maintain(hub).opened) == 1


def test_maintenance_is_the_same_whatever_the_embedder(environment, clock, hub):
    """Without vectors in the search, questions are compared by the packaged model all the same."""
    plain = environment.hub(clock=clock, env={**environment.env, "KBHUB_EMBEDDER__MODEL": "none"})
    ask(plain, *COFFEE, *COFFEE[:2])
    assert len(maintain(plain).opened) == 1
