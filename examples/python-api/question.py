"""Answer a question from a folder's knowledge, and show the documents that the answer is based on.

Usage: python question.py FOLDER QUESTION…
"""

from __future__ import annotations

import sys

from kbhub import Hub, KbhubError, ask


def main(folder: str, question: str) -> int:
    """Print the best documents and an answer; 1 if nothing here covers the question."""
    hub = Hub.open(folder)
    for report in hub.sync():  # creates the indexes, or updates them from the files
        print(f"{report.base}: {report.added} new, {report.changed} changed", file=sys.stderr)

    found = hub.search(question)
    for hit in found.hits[:3]:
        print(f"{hit.score:.2f}  {hit.ref}:{hit.start_line}  {hit.title}")
    if found.verdict == "none" or not found.hits:
        print("Nothing here covers this.")
        return 1

    answer = ask(hub, question)
    print(f"\n{answer.text}\n")
    for reference in answer.references:
        if reference.cited:
            print(f"[{reference.number}] {reference.ref}:{reference.start_line}-{reference.end_line}")

    best = hub.read(found.hits[0].ref).readings[0]
    print(f"\n{best.title} has {best.total_lines} lines.")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1], " ".join(sys.argv[2:])))
    except KbhubError as error:  # every expected failure
        sys.exit(f"question.py: {error}")
