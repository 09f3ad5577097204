"""Sets to measure questions in other languages with: `python benchmarks/languages.py ROOT OUT [--distractors CORPUS.jsonl]`.

ROOT is that of lexicon_sources.py, with the LibreOffice help of Debian (libreoffice-help-{en-us,de,es,vi,ru,zh-cn,hi,el}) and
debian-handbook, each unpacked in a folder of that name. OUT gets folders for `kbhub dev eval`, SET-LANGUAGE: questions in
that language, English documents; and same-LANGUAGE (FastAPI) and course-LANGUAGE (the lessons of edgeai and security101):
headings, and the sections below them in the same language.

| set | documents | questions |
|---|---|---|
| fastapi | sections of FastAPI's documentation | heading and first sentence of sections on pages that the lexicon was not trained on |
| lohelp | pages of LibreOffice's help | first paragraph of a translated page |
| handbook | paragraphs of the Debian Administrator's Handbook | first sentence of a translated paragraph |
| general | languages.jsonl, and the first 3,000 documents of CORPUS | its questions, of everyday and general knowledge |
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path

from lexicon_sources import SECTION, held_out

LANGUAGES = {
    "de": "de-DE",
    "es": "es-ES",
    "vi": "vi-VN",
    "ru": "ru-RU",
    "zh": "zh-CN",
    "ar": "ar-MA",
    "hi": "hi-IN",
    "th": "th-TH",
    "el": "el-GR",
}
MOST = 150
Questions = list[tuple[str, int]]


def plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def first_sentence(text: str) -> str:
    match = re.match(r"(.{20,}?[.!?。！？])(\s|$|(?<=[。！？]))", text)
    return match[1] if match else text[:200]


def write(folder: Path, documents: list[str], questions: Questions) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(documents)]
    asked = [{"_id": f"q{number}", "text": text} for number, (text, _) in enumerate(questions)]
    for name, lines in (("corpus", rows), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines), "utf-8"
        )
    judged = [f"q{number}\td{document}\t1\n" for number, (_, document) in enumerate(questions)]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged), "utf-8")


def sample(questions: Questions) -> Questions:
    random.Random(1).shuffle(questions)
    return questions[:MOST]


def sections(root: Path, language: str) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(Page, anchor) → heading, whole text, first paragraph."""
    found = {}
    for file in sorted((root / "fastapi" / language / "docs").rglob("*.md")):
        text = re.sub(r"^---\n.*?\n---\n", "", file.read_text("utf-8"), flags=re.DOTALL)
        marks = list(SECTION.finditer(text))
        for mark, following in zip(marks, [*marks[1:], None], strict=False):
            body = text[mark.end() : following.start() if following else len(text)]
            prose = re.sub(r"```.*?```|\{\*.*?\*\}|^////*.*?$", "", body, flags=re.DOTALL | re.MULTILINE)
            paragraphs = [
                plain(part) for part in re.split(r"\n\s*\n", re.sub(r"\]\([^)]*\)", "]", prose)) if part.strip()
            ]
            page = str(file.relative_to(root / "fastapi" / language / "docs"))
            found[page, mark[3]] = mark[2].replace("`", ""), plain(body), paragraphs[0] if paragraphs else ""
    return found


def fastapi(root: Path, out: Path) -> None:
    english = sections(root, "en")
    number = {key: at for at, key in enumerate(english)}
    documents = [f"{heading}\n{text}" for heading, text, _ in english.values()]
    for language in (*LANGUAGES, "fr", "ja"):
        own = sections(root, language)
        new = [key for key in own if held_out("fastapi", key[0])]
        asked = [
            (f"{own[key][0]} {first_sentence(own[key][2])}", number[key])
            for key in new
            if key in number and own[key][2]
        ]
        if asked:
            write(out / f"fastapi-{language}", documents, sample(asked))
            long = [key for key in own if len(own[key][1]) > MOST]
            write(
                out / f"same-{language}",
                [own[key][1] for key in long],
                [(own[key][0], at) for at, key in enumerate(long) if key in new],
            )


def courses(root: Path, out: Path) -> None:
    for language in LANGUAGES:
        documents: list[str] = []
        asked: Questions = []
        folders = [root / course / "translations" / language for course in ("security101", "edgeai")]
        for file in (file for folder in folders for file in sorted(folder.rglob("*.md"))):
            text = re.sub(r"```.*?```|<!--.*?-->", "", file.read_text("utf-8"), flags=re.DOTALL)
            _, *parts = re.split(r"^#{1,4} (.+)$", text, flags=re.MULTILINE)
            for heading, body in zip(parts[::2], parts[1::2], strict=True):
                section = plain(re.sub(r"\]\([^)]*\)", "]", body))
                if len(section) >= 200:
                    asked.append((re.sub(r"[*`_#]", "", heading).strip(), len(documents)))
                    documents.append(section[:2500])
        once = {heading for heading, count in Counter(heading for heading, _ in asked).items() if count == 1}
        own = [
            (heading, at) for heading, at in asked if heading in once and len(re.sub(r"[\x00-\x7f]", "", heading)) > 7
        ]
        if own:
            write(out / f"course-{language}", documents, sample(own))


def lohelp(root: Path, out: Path) -> None:
    def pages(name: str, locale: str) -> dict[str, dict[str, str]]:
        folder = root / f"libreoffice-help-{name}/usr/share/libreoffice/help/{locale}/text"
        marks = r'<(?:h[1-6]|p) id="([^"]+)"[^>]*>(.*?)</(?:h[1-6]|p)>'
        files = sorted(file for file in folder.rglob("*.html") if "sbasic" not in file.parts)
        texts = ((str(file.relative_to(folder)), file.read_text("utf-8", "ignore")) for file in files)
        return {
            page: {key: plain(part) for key, part in re.findall(marks, text, re.DOTALL) if plain(part)}
            for page, text in texts
        }

    english = {page: parts for page, parts in pages("en-us", "en-US").items() if 5 < len(parts) < 200}
    number = {page: at for at, page in enumerate(english)}
    for language in LANGUAGES:
        asked: Questions = []
        names = ("zh-cn", "zh-CN") if language == "zh" else (language, language)
        for page, parts in pages(*names).items():
            original = english.get(page, {})
            own = [
                (original[key], text)
                for key, text in parts.items()
                if original.get(key, text) != text and len(text) > 15
            ]
            long = [text for before, text in own if len(before) > 40]
            if len(own) >= 3 and long:
                asked.append((long[0], number[page]))
        if not asked:
            continue
        write(
            out / f"lohelp-{language}", [" ".join(parts.values())[:3000] for parts in english.values()], sample(asked)
        )


def handbook(root: Path, out: Path) -> None:
    def paragraphs(locale: str) -> dict[str, list[str]]:
        folder = root / "debian-handbook/usr/share/doc/debian-handbook/html" / locale
        mark = re.compile(r'<div class="para">(.*?)</div>', re.DOTALL)
        return {
            file.name: [plain(part) for part in mark.findall(file.read_text("utf-8", "ignore"))]
            for file in sorted(folder.glob("*.html"))
        }

    english = paragraphs("en-US")
    keys = [(page, at) for page, parts in english.items() for at, part in enumerate(parts) if len(part) > 120]
    number = {key: at for at, key in enumerate(keys)}
    for language, locale in LANGUAGES.items():
        asked: Questions = []
        for page, parts in paragraphs(locale).items():
            for at, part in enumerate(parts if len(parts) == len(english.get(page, ())) else ()):
                original = english[page][at]
                words, known = re.findall("[a-z]{4,}", part.lower()), set(re.findall("[a-z]{4,}", original.lower()))
                untranslated = part == original or sum(word in known for word in words) > 0.6 * len(words) > 0
                if (page, at) in number and not (untranslated and part.isascii()) and part != original:
                    asked.append((first_sentence(part), number[page, at]))
        if asked:
            write(out / f"handbook-{language}", [english[page][at] for page, at in keys], sample(asked))


def general(out: Path, distractors: Path) -> None:
    rows = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").open(encoding="utf-8")]
    with distractors.open(encoding="utf-8") as lines:
        others = [f"{row['title']} {row['text']}".strip() for row in map(json.loads, islice(lines, 3000))]
    for language in LANGUAGES:
        write(
            out / f"general-{language}",
            [row["en"] for row in rows] + others,
            [(row[language], at) for at, row in enumerate(rows)],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--distractors", type=Path)
    arguments = parser.parse_args()
    for make in (fastapi, courses, lohelp, handbook):
        make(arguments.root, arguments.out)
    if arguments.distractors:
        general(arguments.out, arguments.distractors)


if __name__ == "__main__":
    main()
