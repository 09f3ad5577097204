"""Count what `kbhub.documents.secrets` finds and reports in vain: `python benchmarks/credentials.py FOLDER…`.

FOLDER holds Markdown in which no credential is expected; each finding is printed, to be judged. Credentials are made up
by `tests/documents/secret_corpus.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from documents.secret_corpus import secrets
from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import parse_document
from kbhub.documents.secrets import find_secrets

SEEDS = 20
"""Corpora of 400 credentials."""

SHOWN_BEFORE = 30
"""Characters shown before a finding."""


def main() -> None:
    """Print both counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    made = [text for seed in range(SEEDS) for _, text in secrets(400, seed)]
    found = sum(bool(find_secrets(text)) for text in made)
    print(f"{found} of {len(made)} made-up credentials found ({found / len(made):.4f})")
    chunks = alarms = size = 0
    seconds = 0.0
    for path in (path for folder in folders for path in sorted(folder.rglob("*.md"))):
        text = path.read_text("utf-8", "replace")
        chunks += len(chunk_document(parse_document(path.name, text.encode())))
        size += len(text)
        began = time.perf_counter()
        reported = find_secrets(text)
        seconds += time.perf_counter() - began
        for secret in reported:
            alarms += 1
            beginning = text[max(0, secret.start - SHOWN_BEFORE) : secret.start]
            print(f"  {path.name}:{secret.line(text)} {secret.kind}: {beginning!r} {secret.shown(text)}")
    print(f"{alarms} reported in {chunks:,} chunks; {size / seconds / 1e6:.1f} million characters a second")


if __name__ == "__main__":
    main()
