"""Print what hooks deliver for the prompts in `prompts.jsonl`, to be judged by reading.

`python benchmarks/prompts.py security=FOLDER edgeai=FOLDER react=FOLDER`, with the Markdown of microsoft/Security-101
and microsoft/edgeai-for-beginners without translations, and `text` of reactjs/rfcs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from kbhub.api import Hub
from kbhub.hooks.delivery import deliver
from kbhub.hooks.events import Event
from kbhub.hooks.sessions import let_speak
from kbhub.hub import HubOptions


def main() -> None:
    """Ask each prompt in a session of its own, in a project that may speak."""
    prompts = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text().splitlines()]
    count = 0
    for name, _, folder in (given.partition("=") for given in sys.argv[1:]):
        with tempfile.TemporaryDirectory() as made:
            root, home = Path(made, "project"), Path(made, "home")
            home.mkdir()
            (root / ".git").mkdir(parents=True)
            shutil.copytree(folder, root / "knowledge")
            env = {"HOME": str(home), "PATH": os.environ["PATH"]}
            env |= {"KBHUB_CACHE_DIR": f"{made}/cache", "KBHUB_DATA_DIR": f"{made}/data"}
            hub = Hub(HubOptions(cwd=root, home=home, env=env))
            hub.sync()
            let_speak(hub)
            for number, prompt in enumerate(one["prompt"] for one in prompts if one["set"] == name):
                delivery = deliver(hub, Event("prompt", "claude-code", str(number), str(root), prompt=prompt))
                print(f"\n{prompt}\n{delivery.text if delivery else ''}")
                count += len(delivery.refs) if delivery else 0
    print(f"{count} delivered")


if __name__ == "__main__":
    main()
