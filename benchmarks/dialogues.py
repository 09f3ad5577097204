"""What is found in dialogues that change their mind: `python benchmarks/dialogues.py [--without SIGNAL]`.

Made-up session logs, the same in every run: one session a week, in which 43 things are said and 25 of them said anew
some weeks later, 18 other things get a later remark about another side of them, and every week has an outing of its
own. Of the updated things: in how many of the answers that have both is the newer statement above the older one. Of
the others: in how many of the answers that have both is the remark above the answer (the fewer, the better). Of the
outings: how often the one of the asked time comes first. Then, by kind of question, what others publish of dialogues:
the share of questions with any, and with all, of the sessions that have their evidence among the first 5 and 10 (an
updated thing has two), with the first at the top (R@1), and the reciprocal rank of the first.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.common import environment, parser
from kbhub.api import Hub
from kbhub.extensions.lab.measurement import METRICS, judge
from kbhub.hub import HubOptions
from kbhub.types import Query, SearchResult

SESSIONS, SAID_AGAIN = 24, 9
"""Weekly sessions, and weeks between a statement and its update."""

SHOWN = {"recall_any5": "any@5", "recall_any10": "any@10", "recall_all5": "all@5", "recall_all10": "all@10"} | {
    "hit1": "R@1",
    "mrr10": "MRR",
}

FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)
NOW = FIRST + timedelta(weeks=SESSIONS - 1, days=5)

UPDATES = (
    ("When is the stand-up?", "Our stand-up is at 9:30 every day.", "We moved the stand-up to 10:15 from now on."),
    (
        "Which database does the shop use?",
        "The shop runs on MySQL for its database.",
        "The shop's database is Postgres now.",
    ),
    ("When does the beta launch?", "We want to launch the beta on 12 April.", "The beta launch slipped to 3 May."),
    (
        "How many users does the pilot have?",
        "The pilot has 40 users so far.",
        "There are 95 users in the pilot by now.",
    ),
    ("Where is my desk?", "My desk is on the second floor by the window.", "They put my desk on the fourth floor."),
    ("Who is the on-call lead?", "Priya is the on-call lead this quarter.", "Marek took over as on-call lead."),
    (
        "What is the budget of the campaign?",
        "The campaign has a budget of 8,000 euros.",
        "The budget for the campaign went up to 12,000 euros.",
    ),
    (
        "Which framework does the mobile app use?",
        "The mobile app is written with the Ionic framework.",
        "For the mobile app we switched the framework to Flutter.",
    ),
    (
        "How long do sessions last before logout?",
        "Login sessions last 30 minutes before the logout.",
        "A login session now lasts two hours until logout.",
    ),
    (
        "What is my running goal?",
        "My running goal is 20 kilometres a week.",
        "I raised the running goal to 35 kilometres weekly.",
    ),
    (
        "Which plan of the gym do I have?",
        "I took the basic plan at the gym.",
        "At the gym I upgraded to the premium plan.",
    ),
    (
        "How many chapters does the thesis have?",
        "The thesis will have six chapters.",
        "I restructured, so the thesis has eight chapters.",
    ),
    (
        "Where does the backup go?",
        "The nightly backup goes to the NAS in the office.",
        "Since the fire drill the backup goes to an S3 bucket.",
    ),
    (
        "What is the rate limit of the API?",
        "The API has a rate limit of 100 requests a minute.",
        "We set the API's rate limit to 250 requests per minute.",
    ),
    (
        "Which airline do I fly to Lisbon?",
        "I booked TAP as the airline to Lisbon.",
        "I rebooked the Lisbon flight, the airline is Ryanair.",
    ),
    (
        "How old must a password be to expire?",
        "A password expires when it is 90 days old.",
        "Passwords expire only once they are a year old.",
    ),
    (
        "Who reviews the pull requests?",
        "Jonas reviews all pull requests.",
        "Pull requests are reviewed by Amira, as Jonas left the team.",
    ),
    (
        "What deadline should I plan for with the grant?",
        "The grant application has to be in by 15 March, so that is my deadline.",
        "Good news, the grant people gave us an extension: the deadline is 2 April.",
    ),
    (
        "How many commits are merged into the main branch?",
        "I have merged 112 commits into the main branch so far.",
        "There are now 140 commits merged into main.",
    ),
    (
        "What is the response time of the dashboard?",
        "The dashboard's average response time is about 800 ms.",
        "After the caching work the dashboard responds in 250 ms on average.",
    ),
    (
        "How much do I pay for rent?",
        "The rent for my flat is 950 euros a month.",
        "My landlord raised the rent, I pay 1,020 euros from June.",
    ),
    (
        "Who is the supervisor of my project?",
        "Dr. Haas supervises the project.",
        "Dr. Haas went on leave, my project has Dr. Ito as the supervisor now.",
    ),
    (
        "How many books do I have on my reading list?",
        "My reading list has 14 books on it.",
        "I added a few novels, that makes 19 books on the reading list.",
    ),
    (
        "When do I meet with the mentor?",
        "I meet my mentor every Tuesday at noon.",
        "My mentor can only meet on Thursdays from this month on.",
    ),
    (
        "What does the course cost?",
        "The Spanish course costs 180 euros.",
        "They told me that the Spanish course costs 210 euros.",
    ),
)
"""Question, statement, newer statement."""

REMARKS = (
    (
        "When is the retrospective?",
        "The retrospective is on Friday at four.",
        "In the retrospective we talked about flaky tests.",
    ),
    ("Which editor do I use?", "I use Helix as my editor.", "My editor crashed on a large log file."),
    (
        "Who owns the invoice service?",
        "Lena owns the invoice service.",
        "The invoice service got slower after the release.",
    ),
    (
        "Where is the summer party?",
        "The summer party is at the lake house.",
        "I am baking two cakes for the summer party.",
    ),
    (
        "What is the port of the staging proxy?",
        "The staging proxy listens on port 8443.",
        "Staging's proxy logs too much, I silenced it.",
    ),
    (
        "Which paint did I choose for the kitchen?",
        "For the kitchen I chose a pale green paint.",
        "The kitchen needs a new tap before autumn.",
    ),
    (
        "How many replicas has the queue?",
        "The queue has three replicas.",
        "The queue was empty all weekend, which is odd.",
    ),
    (
        "What is the name of my sister's dog?",
        "My sister's dog is named Waffle.",
        "My sister is looking for a bigger flat.",
    ),
    ("When do we freeze the code?", "The code freeze starts on 2 June.", "I do not like writing code on trains."),
    ("Which trail did I hike?", "I hiked the Rennsteig trail.", "My hiking boots have a hole."),
    (
        "Who teaches the pottery class?",
        "Ms. Okafor teaches the pottery class.",
        "In the pottery class I made a lopsided bowl.",
    ),
    (
        "What is the timeout of the upload?",
        "The upload has a timeout of 45 seconds.",
        "Somebody reported an upload with a broken name.",
    ),
    (
        "Where do I keep the spare key?",
        "I keep the spare key with Mr. Lund.",
        "The key ring that you recommended arrived.",
    ),
    ("Which bike did I buy?", "I bought a gravel bike.", "The bike lane on my street is closed for works."),
    ("How do we name branches?", "We name branches after the ticket number.", "I deleted forty stale branches today."),
    ("What is allergic to nuts?", "My nephew is allergic to nuts.", "I toasted nuts for the salad, they were great."),
    ("Which font has the logo?", "The logo is set in the font Inter.", "The logo looks blurry on the invoice."),
    (
        "When is the dentist appointment?",
        "My dentist appointment is on 18 September.",
        "The dentist said that I should floss more.",
    ),
)
"""Question, answer, later remark about another side of it."""

PLACES = (
    *(
        "the museum",
        "the harbour",
        "a jazz bar",
        "the botanical garden",
        "a chess club",
        "the old castle",
        "a food market",
    ),
    *("the planetarium", "an escape room", "the sculpture park", "a cooking school", "the zoo", "a comedy show"),
    *("the climbing hall", "a vineyard", "the aquarium", "the observatory", "a flea market", "the bird reserve"),
    *("a film festival", "the maze", "the tram depot", "a poetry slam", "the salt mine"),
)

CHATTER = (
    "Can you help me to write a short mail to the landlord about the heating?",
    "I slept badly and need a plan for a calm day.",
    "Please explain what a closure is, with an example.",
    "What could I cook with lentils and spinach tonight?",
    "My regex does not match the second line, any idea?",
    "I feel stuck with the slides, they have too much text.",
)


def week_of(number: int, offset: int) -> int:
    """Return the week in which a thing is said first."""
    return (3 * number + offset) % (SESSIONS - SAID_AGAIN)


def log(week: int) -> str:
    return f"session-{FIRST + timedelta(weeks=week):%Y%m%d}.jsonl"


def sessions() -> list[tuple[datetime, list[str]]]:
    """Return the time of each session and what the user says in it."""
    said: list[list[str]] = [[] for _ in range(SESSIONS)]
    for facts, offset in ((UPDATES, 0), (REMARKS, 1)):
        for number, (_, statement, later) in enumerate(facts):
            week = week_of(number, offset)
            said[week].append(f"{CHATTER[number % len(CHATTER)]} By the way, {statement}")
            said[week + SAID_AGAIN].append(f"{later} {CHATTER[(number + 2) % len(CHATTER)]}")
    for week, texts in enumerate(said):
        texts.append(f"At the weekend I made an outing with Kim to {PLACES[week]}, and we had a good time.")
    return [(FIRST + timedelta(weeks=week), texts) for week, texts in enumerate(said)]


def write_logs(folder: Path) -> None:
    """Write one log per session."""
    folder.mkdir(parents=True)
    for week, (when, texts) in enumerate(sessions()):
        rows = []
        for number, text in enumerate(texts):
            at = (when + timedelta(minutes=5 * number)).isoformat()
            rows.append({"role": "user", "timestamp": at, "content": text})
            answer = f"Noted. {text.split('. ')[-1]} That sounds good; tell me when you want to go deeper into it."
            rows.append({"role": "assistant", "timestamp": at, "content": answer})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / log(week)).write_text(lines, "utf-8")


def place(result: SearchResult, text: str) -> int | None:
    """Return the place of the first hit that says something, or None."""
    return next((number for number, hit in enumerate(result.hits) if text in hit.excerpt), None)


def compared(hub: Hub, facts: tuple[tuple[str, str, str], ...], without: tuple[str, ...]) -> tuple[int, int]:
    """Return in how many answers the later statement is above the earlier one, and how many have both."""
    above = both = 0
    for question, earlier, later in facts:
        result = hub.search(Query(text=question, limit=10, granularity="chunk", without=without))
        places = place(result, earlier), place(result, later)
        if places[0] is not None and places[1] is not None:
            both += 1
            above += places[1] < places[0]
    return above, both


def outings() -> list[tuple[str, int]]:
    """Return questions for the outing of a time, with its week."""
    asked = []
    for week in range(SESSIONS):
        when = FIRST + timedelta(weeks=week)
        ways = [f"on {when.day} {when:%B}, {when.year}", f"on {when:%B} {when.day}, {when.year}", f"{when:%Y-%m-%d}"]
        ago = SESSIONS - 1 - week
        ways += [f"{ago} weeks ago"] if ago > 1 else ["this week"] if not ago else ["last week"]
        asked += [(f"Where did I go on the outing with Kim {way}?", week) for way in ways]
    return asked


def evidence() -> dict[str, list[tuple[str, set[str]]]]:
    """Return kind → questions, each with the logs that have its evidence."""
    return {
        "updated": [
            (question, {log(week_of(number, 0)), log(week_of(number, 0) + SAID_AGAIN)})
            for number, (question, _, _) in enumerate(UPDATES)
        ],
        "remarked": [(question, {log(week_of(number, 1))}) for number, (question, _, _) in enumerate(REMARKS)],
        "outing": [(question, {log(week)}) for question, week in outings()],
    }


def judged(hub: Hub, question: str, logs: set[str], without: tuple[str, ...]) -> dict[str, float]:
    """Return metric → value of one question, whose results are sessions."""
    hits = hub.search(Query(text=question, limit=10, without=without)).hits
    ranked = list(dict.fromkeys(Path(hit.path).name for hit in hits))
    return dict(zip(METRICS, judge(ranked, dict.fromkeys(logs, 1)), strict=True))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--without", default="", metavar="SIGNAL", help="leave out signals, joined by commas")
    without = tuple(filter(None, arguments.parse_args().without.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        write_logs(top / "logs")
        config = {"bases": {"logs": {"knowledge": str(top / "logs"), "kind": "session"}}, "repos": {"*": ["logs"]}}
        (top / ".kbhub.json").write_text(json.dumps(config))
        hub = Hub(HubOptions(cwd=top, home=top, env=environment(top, top), clock=NOW.timestamp))
        hub.sync()
        for name, (count, of) in (
            ("newer above older, of the answers that have both", compared(hub, UPDATES, without)),
            ("remark above answer, of the answers that have both", compared(hub, REMARKS, without)),
        ):
            print(f"{name}: {count} of {of} ({count / max(1, of):.2f})")
        print("\n" + " " * 14 + "".join(f"{head:>8}" for head in ("n", *SHOWN.values())))
        for kind, questions in evidence().items():
            rows = [judged(hub, question, logs, without) for question, logs in questions]
            means = [f"{sum(row[metric] for row in rows) / len(rows):8.3f}" for metric in SHOWN]
            print(f"{kind:14}{len(rows):8}{''.join(means)}")


if __name__ == "__main__":
    main()
