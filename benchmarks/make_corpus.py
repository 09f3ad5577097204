"""Make `corpus.tar.xz`: files of many formats, converted by pandoc and LibreOffice from Markdown that is known.

Run it where both are installed (Debian: `apt-get install --no-install-recommends pandoc libreoffice-writer
libreoffice-impress libreoffice-calc`), then `test_corpus.py`, which needs neither:

    python benchmarks/make_corpus.py

The Markdown comes from a seed, so it is always the same; the files differ in what the programs write about themselves.
Each folder of the archive has its `source.md` and what was made of it. Packages are stored unpacked, so that what many
have in common, such as styles, is compressed once.
"""

import io
import lzma
import os
import random
import re
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

ARCHIVE = Path(__file__).parents[1] / "tests" / "extensions" / "formats" / "corpus.tar.xz"

ARTICLES, SLIDES, SHEETS = 13, 14, 14
"""Sources of each kind."""

THINGS, KINDS, VERBS = (
    re.findall(r"\w+", text)
    for text in (
        """server client index backup cache token user folder report queue worker schedule password disk network engine
        garden river valve pump bridge letter recipe harbour lantern mountain archive window ticket invoice contract""",
        "old new small large broken shared local remote green heavy silent public private early late",
        "starts stops reads writes checks moves opens closes finds keeps loses sends counts sorts",
    )
)
PLACES = (
    "at night",
    "after a restart",
    "in the cellar",
    "on Mondays",
    "before the release",
    "without a warning",
    "twice",
)

OTHER_SCRIPTS = (
    "Сервер хранит копии каждую ночь, а старые журналы удаляет через неделю.",
    "Ключ лежит в красном ящике рядом с насосом.",
    "Ο διακομιστής ξεκινά ξανά κάθε Δευτέρα το πρωί.",
    "設定ファイルは毎晩保存されます。古い記録は一週間後に消えます。",
    "服务器每天晚上备份数据，旧日志保留七天。",
    "يبدأ الخادم من جديد كل صباح ويحفظ النسخ القديمة.",
    "सर्वर हर रात प्रतियाँ सहेजता है।",
    "서버는 매일 밤 사본을 저장합니다.",
    "Größere Änderungen prüft das Büro für Maße übermorgen.",
    "Zażółć gęślą jaźń, řeka teče pod mostem.",
)

CODE = (
    ("python", "def backup(path):\n    # not a heading\n    for name in sorted(path):\n        yield name\n"),
    ("sh", "# stop it first\nsystemctl stop engine\n\ncp -a data/ backup/ | tee log.txt\n"),
    ("json", '{"port": 8080, "hosts": ["a", "b"],\n "verbose": true}\n'),
)


class Author:
    """Writes Markdown from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.notes = 0

    def sentence(self) -> str:
        """One sentence, now and then with emphasis, code or a link."""
        pick = self.random.choice
        thing = pick(THINGS)
        thing = pick(
            (
                thing,
                thing,
                thing,
                f"*{thing}*",
                f"**{thing}**",
                f"`{thing}_{pick(THINGS)}`",
                f"[{thing}]({pick(THINGS)}.md)",
            )
        )
        text = f"The {pick(KINDS)} {thing} {pick(VERBS)} the {pick(KINDS)} {pick(THINGS)} {pick(PLACES)}."
        return text if self.random.random() > 0.1 else pick(OTHER_SCRIPTS)

    def paragraph(self) -> str:
        """A few sentences."""
        return " ".join(self.sentence() for _ in range(self.random.randint(1, 5)))

    def name(self) -> str:
        """A heading, in no two places the same."""
        self.notes += 1
        pick = self.random.choice
        return f"{pick(KINDS).title()} {pick(THINGS)} {pick(('and', 'or', 'without'))} {pick(THINGS)} {self.notes}"

    def table(self) -> str:
        """A table of two to five columns."""
        width = self.random.randint(2, 5)
        cells = [[f"{self.random.choice(THINGS)} {number}" for number in range(width)]]
        for _ in range(self.random.randint(1, 6)):
            cells.append([self.cell() for _ in range(width)])  # noqa: PERF401 - a list in a list in a list reads worse
        rows = [f"| {' | '.join(row)} |" for row in cells]
        return "\n".join([rows[0], "|" + "---|" * width, *rows[1:]])

    def cell(self) -> str:
        """The text of a cell: a number, a word or a sentence."""
        number, word = str(self.random.randint(1, 9999)), self.random.choice(KINDS)
        return self.random.choice((number, word, "a **bold** one", "設定", self.sentence()))

    def items(self, depth: int = 0) -> str:
        """A list with lists in it."""
        lines = []
        marker = self.random.choice(("-", "1."))
        for _ in range(self.random.randint(2, 4)):
            lines.append(f"{'    ' * depth}{marker:<4}{self.sentence()}")
            if depth < 2 and self.random.random() < 0.3:
                lines.append(self.items(depth + 1))
        return "\n".join(lines)

    def block(self) -> str:
        """Any block."""
        kind = self.random.randint(0, 9)
        if kind < 4:
            return self.paragraph()
        if kind == 4:
            return self.table()
        if kind == 5:
            return self.items()
        if kind == 6:
            language, code = self.random.choice(CODE)
            return f"```{language}\n{code}```"
        if kind == 7:
            return f"> {self.sentence()}\n>\n> {self.sentence()}"
        if kind == 8:
            return f"{self.random.choice(THINGS).title()}\n\n:   {self.sentence()}"
        self.notes += 1
        return f"{self.sentence()[:-1]}.[^{self.notes}]\n\n[^{self.notes}]: {self.sentence()}"

    def article(self, sections: int) -> str:
        """Sections of several levels, the first of level 1."""
        blocks, level = [], 0
        for _ in range(sections):
            level = self.random.randint(1 if level > 1 else 2, min(level + 1, 5)) if level else 1
            blocks += [f"{'#' * level} {self.name()}", *(self.block() for _ in range(self.random.randint(1, 4)))]
        return "\n\n".join(blocks) + "\n"

    def slides(self) -> str:
        """A presentation: a heading and a few points or a table for each slide."""
        blocks = []
        for _ in range(self.random.randint(3, 9)):
            points = "\n".join(f"- {self.sentence()}" for _ in range(self.random.randint(2, 4)))
            blocks += [f"## {self.name()}", self.random.choice((points, points, self.table()))]
        return "\n\n".join(blocks) + "\n"

    def sheets(self) -> str:
        """A workbook: a heading and a table for each sheet."""
        return (
            "\n\n".join(f"## {self.name()[:28]}\n\n{self.plain_table()}" for _ in range(self.random.randint(1, 4)))
            + "\n"
        )

    def plain_table(self) -> str:
        """A table without markup, as sheets have none."""
        return self.table().replace("*", "").replace("`", "").replace("](", " ").replace("[", "").replace(".md)", "")


def flat_sheets(markdown: str) -> str:
    """A workbook in flat OpenDocument XML, for LibreOffice, from Markdown of `Author.sheets`."""
    tables = []
    for part in markdown.split("## ")[1:]:
        name, *lines = part.strip().split("\n")
        rows = []
        for number, line in enumerate(lines[1:]):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if number != 1:
                rows.append("".join(map(_sheet_cell, cells)))
        body = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
        tables.append(f'<table:table table:name="{escape(name)}">{body}</table:table>')
    return (
        '<?xml version="1.0" encoding="UTF-8"?><office:document office:version="1.2" '
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
        'office:mimetype="application/vnd.oasis.opendocument.spreadsheet"><office:body><office:spreadsheet>'
        f"{''.join(tables)}</office:spreadsheet></office:body></office:document>"
    )


def _sheet_cell(text: str) -> str:
    kind = f'office:value-type="float" office:value="{text}"' if text.isdigit() else 'office:value-type="string"'
    return f"<table:table-cell {kind}><text:p>{escape(text)}</text:p></table:table-cell>"


def run(*command: str) -> None:
    """Run a program, with its output shown, and stop if it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, check=True, env=environment, timeout=600, stdin=subprocess.DEVNULL)


def office(profile: Path, sources: list[Path], target: str, folder: Path) -> None:
    """Convert files by LibreOffice, all in one process."""
    folder.mkdir(parents=True, exist_ok=True)
    profiled = f"-env:UserInstallation=file://{profile}"
    paths = map(str, sources)
    run("soffice", profiled, "--headless", "--convert-to", target, "--outdir", str(folder), *paths)


def pandoc(source: Path, target: Path, to: str, *options: str) -> None:
    """Convert a file by pandoc."""
    run("pandoc", "--from", "markdown", "--to", to, *options, "--output", str(target), str(source))


ARTICLE_FORMATS = (
    ("docx", "docx"), ("odt", "odt"), ("epub", "epub"), ("html", "html"), ("rst", "rst"), ("org", "org"),
    ("adoc", "asciidoc"), ("ipynb", "ipynb"), ("plain.txt", "plain"), ("underlined.txt", "rst"),
)  # fmt: skip
"""End of the name of a file → pandoc's format."""


def make(work: Path) -> dict[str, bytes]:
    """Make all files: name in the archive → content."""
    files: dict[str, bytes] = {}
    made: dict[str, Path] = {}
    for number in range(ARTICLES):
        markdown = Author(number).article((4, 8, 14, 25, 90)[number % 5])
        made[f"article-{number:02}"] = work / f"article-{number:02}.md"
        made[f"article-{number:02}"].write_text(markdown, "utf-8")
    for number in range(SLIDES):
        made[f"slides-{number:02}"] = work / f"slides-{number:02}.md"
        made[f"slides-{number:02}"].write_text(Author(100 + number).slides(), "utf-8")
    for number in range(SHEETS):
        made[f"sheets-{number:02}"] = work / f"sheets-{number:02}.md"
        made[f"sheets-{number:02}"].write_text(Author(200 + number).sheets(), "utf-8")
    for name, source in made.items():
        files[f"{name}/source.md"] = source.read_bytes()
        if name.startswith("article"):
            for ending, to in ARTICLE_FORMATS:
                target = work / f"{name}.{ending}"
                identity = ("--standalone", "--metadata", f"title={name}", "--metadata", f"identifier={name}")
                pandoc(source, target, to, *(identity if to in ("epub", "html") else ()))
                files[f"{name}/pandoc.{ending}"] = target.read_bytes()
        elif name.startswith("slides"):
            pandoc(source, work / f"{name}.pptx", "pptx")
            files[f"{name}/pandoc.pptx"] = (work / f"{name}.pptx").read_bytes()
        else:
            (work / f"{name}.fods").write_text(flat_sheets(source.read_text("utf-8")), "utf-8")
    for sources, how, ending in (
        (sorted(work.glob("article-*.odt")), "docx", "docx"),
        (sorted(work.glob("article-*.docx")), "odt", "odt"),
        (sorted(work.glob("article-*.odt")), "html:HTML (StarWriter)", "html"),
        (sorted(work.glob("slides-*.pptx"))[:7], "pptx", "pptx"),
        (sorted(work.glob("sheets-*.fods")), "xlsx", "xlsx"),
    ):
        folder = work / f"office-{ending}"
        office(work / "profile", sources, how, folder)
        for path in sorted(folder.glob(f"*.{ending}")):
            files[f"{path.stem}/libreoffice.{ending}"] = path.read_bytes()
    return files


def unpacked(data: bytes) -> bytes:
    """A package with the same members, none compressed, and no picture of its first page."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            if not info.filename.startswith(("Thumbnails/", "Configurations2/")):
                new.writestr(zipfile.ZipInfo(info.filename), old.read(info))
    return target.getvalue()


def main() -> None:
    """Make the archive."""
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        # Files of a format lie side by side, so that what they share is compressed once.
        for name in sorted(files, key=lambda name: (name.rpartition(".")[2], name)):
            data = unpacked(files[name]) if zipfile.is_zipfile(io.BytesIO(files[name])) else files[name]
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26}]
    ARCHIVE.write_bytes(lzma.compress(packed.getvalue(), filters=filters))
    print(f"{len(files)} files, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
