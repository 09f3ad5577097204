"""Remember what a nightly job learned, so that the agents of this project know it tomorrow.

Usage: python remember.py FOLDER TEXT…
"""

from __future__ import annotations

import sys

from kbhub import Hub, memories, remember


def main(folder: str, text: str) -> int:
    """Remember a sentence and list all memories, strongest first."""
    hub = Hub.open(folder)
    done = remember(hub, text, tags=("nightly",), origin="the nightly job")
    print(f"{done.did}: {done.memory.id}")
    for one in memories(hub, tags=("nightly",)).memories:
        print(f"{one.strength:.2f}  {one.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], " ".join(sys.argv[2:])))
