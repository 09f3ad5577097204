"""Read captions of a recording (WebVTT) as a document: a section every five minutes."""

import re

from kbhub.documents.converted import document_of_markdown
from kbhub.types import Document

SECTION_MINUTES = 5

_CUE = re.compile(r"(?:(\d+):)?(\d\d):\d\d\.\d{3} --> .*")
_MARKUP = re.compile(r"<[^>]*>")


def read_captions(path: str, data: bytes) -> Document:
    """Read a file; what is raised becomes a problem that `kbhub status` lists."""
    text = data.decode("utf-8-sig", "replace")
    if not text.startswith("WEBVTT"):
        raise ValueError("it does not start with WEBVTT")
    title = text.splitlines()[0].removeprefix("WEBVTT").strip(" -")
    lines: list[str] = []
    section = -1
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n"))[1:]:
        rows = block.strip().split("\n")
        cue = next((found for row in rows[:2] if (found := _CUE.fullmatch(row))), None)
        if cue is None:  # a note or a style
            continue
        minute = 60 * int(cue[1] or 0) + int(cue[2])
        if minute // SECTION_MINUTES > section:
            section = minute // SECTION_MINUTES
            lines += ["", f"## Minute {section * SECTION_MINUTES}", ""]
        spoken = " ".join(_MARKUP.sub("", row) for row in rows[rows.index(cue[0]) + 1 :])
        if not lines or lines[-1] != spoken:  # live captions repeat the line above
            lines.append(spoken)
    return document_of_markdown(path, "\n".join(lines), title=title)
