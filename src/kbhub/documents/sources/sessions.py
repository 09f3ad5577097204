"""Parse the session log of a coding agent into a `Document` with one part per turn, tolerating broken records."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from kbhub.documents.sources.parts import Part, document_of_parts
from kbhub.documents.sources.transcripts import Transcript
from kbhub.workspace.formats import LOG_SUFFIX

if TYPE_CHECKING:
    from kbhub.documents.sources.transcripts import Turn
    from kbhub.types import Document

LINE_BYTES = 16 << 20
"""Bytes of the longest record that is read; longer ones (a picture, a build log) are skipped to bound memory."""

TITLE_CHARACTERS = 100
"""Longest title derived from the first message, in characters."""

_SENTENCE = re.compile(r"(?<=[.!?])\s|[。！？]|\n")


def read_session(path: str, file: BinaryIO, max_bytes: int) -> Document:
    """Parse the log of a session.

    Args:
        path: relative to its base, with `/`; `.jsonl` has one record per line, `.json` is a single record.
        file: the open file.
        max_bytes: most bytes to read.

    Returns:
        The document, with a part per turn below a line with role, model, time and line of the log. Its `problems`
        count the lines that could not be read.
    """
    transcript = Transcript()
    if path.lower().endswith(LOG_SUFFIX):
        problem = _read_lines(file, max_bytes, transcript)
    else:
        problem = _read_whole(file, max_bytes, transcript)
    turns = list(transcript.turns.values())
    problems = [problem] if problem else []
    if not transcript.known and not problem:
        problems.append("It holds no record of a session of Claude Code, Codex or Gemini CLI.")
    return document_of_parts(
        path,
        _title(transcript, path),
        [_part(turn) for turn in turns],
        _front_matter(transcript, turns),
        aliases=[transcript.session] if transcript.session else (),
        problems=problems,
    )


def _read_lines(file: BinaryIO, max_bytes: int, transcript: Transcript) -> str | None:
    """Feed all records to the transcript; return a message on the lines that could not be read, or None."""
    broken: list[int] = []
    read = number = 0
    while read < max_bytes and (line := file.readline(LINE_BYTES)):
        number += 1
        read += len(line)
        whole = line.endswith(b"\n")
        if not whole and len(line) == LINE_BYTES:
            read += _skip_line(file, max_bytes - read)
            broken.append(number)
            continue
        try:
            if line.strip():
                transcript.take(json.loads(line), number)
        except (ValueError, RecursionError):
            # The last line of a running session may be incomplete.
            broken += [number] if whole else []
    if not broken:
        return None
    lines = "1 line is" if len(broken) == 1 else f"{len(broken)} lines are"
    return f"{lines} no JSON or too long, line {broken[0]} first; the other turns were read."


def _skip_line(file: BinaryIO, left: int) -> int:
    """Skip to the end of a line; return the number of bytes skipped."""
    passed = 0
    while passed < left and (more := file.readline(LINE_BYTES)):
        passed += len(more)
        if more.endswith(b"\n"):
            break
    return passed


def _read_whole(file: BinaryIO, max_bytes: int, transcript: Transcript) -> str | None:
    try:
        record = json.loads(file.read(max_bytes))
    except (ValueError, RecursionError) as error:
        return f"It is no JSON ({error}), so no turn could be read."
    transcript.take(record if isinstance(record, dict) and "messages" in record else None, 0)
    return None


def _part(turn: Turn) -> Part:
    who = turn.role if not turn.model else f"{turn.role} ({turn.model})"
    when = _moment(turn.when)
    day, minute = (when.strftime("%Y-%m-%d"), when.strftime("%Y-%m-%d %H:%M")) if when else ("", "")
    place = f"line {turn.line}" if turn.line else ""
    lines = "\n\n".join([*turn.texts, *(["\n".join(turn.tools)] if turn.tools else [])]).split("\n")
    return Part(
        heading=" · ".join(text for text in (day, who) if text),
        header="## " + " · ".join(text for text in (who, minute, place) if text),
        lines=tuple(line.rstrip() for line in lines),
    )


def _title(transcript: Transcript, path: str) -> str:
    if transcript.title:
        return transcript.title
    for turn in transcript.turns.values():
        # A message that begins with a tag is a command or a paste, which makes no title.
        if turn.role == "user" and turn.texts and not turn.texts[0].startswith("<"):
            sentence = _SENTENCE.split(turn.texts[0], maxsplit=1)[0].strip()
            return sentence if len(sentence) <= TITLE_CHARACTERS else f"{sentence[: TITLE_CHARACTERS - 1]}…"
    return PurePosixPath(path).stem


def _front_matter(transcript: Transcript, turns: list[Turn]) -> dict[str, object]:
    models = list(dict.fromkeys(turn.model for turn in turns if turn.model))
    moments = [moment for turn in turns if (moment := _moment(turn.when))]
    values: dict[str, object] = {
        "session": transcript.session,
        "agent": transcript.agent,
        "model": models[0] if len(models) == 1 else models,
        "folder": transcript.folder,
        "date": max(moments).isoformat(timespec="seconds") if moments else "",
    }
    return {key: value for key, value in values.items() if value}


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # not a time, or one that does not fit the calendar in UTC
        return None
