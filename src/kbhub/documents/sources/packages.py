"""Open the zip files that Office documents and books are, within limits, and read what they say of themselves."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterator

UNPACKED_BYTES = 500_000_000
"""Most bytes of all members together: ten times the size limit of the file, as pictures hardly shrink."""

XML_BYTES = 100_000_000
"""Most bytes of all members of XML together; a page of a Word document has some 5,000."""

MEMBERS = 20_000
"""Most members; a book of a thousand chapters and pictures has a tenth."""

BLOCK = 1 << 16
"""Bytes unpacked at a time."""

OLD_FORMAT = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of an OLE file: Office before 2007, or a newer file that is encrypted."""

ENCRYPTED = "it is encrypted, and kbhub knows no password"

VALUE_CHARACTERS = 1000
"""Characters of one value of metadata."""

XML_SUFFIXES = (".xml", ".rels", ".opf", ".ncx")
"""Members that are parsed as XML."""

_NAMES = {"title": "title", "creator": "author", "modified": "date", "date": "date"}
"""Elements of Dublin Core → keys of front matter."""


def open_package(data: bytes) -> zipfile.ZipFile:
    """Open a zip file once all of it is known to be harmless.

    A member can be no longer than the file's directory says, or reading it fails. Zip files within are not opened.
    Raises ValueError if it is encrypted, too large when unpacked, or declares entities, and BadZipFile if it is broken.
    """
    if data.startswith(OLD_FORMAT):
        encrypted = "EncryptedPackage".encode("utf-16-le") in data
        raise ValueError(ENCRYPTED if encrypted else "it is in the format of before 2007; save it in the present one")
    try:
        package = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile as error:
        raise ValueError("it is no such file, or broken") from error
    members = package.infolist()
    if any(member.flag_bits & 1 for member in members):
        raise ValueError(ENCRYPTED)
    if len(members) > MEMBERS:
        raise ValueError(f"it has {len(members):,} members and the limit is {MEMBERS:,}")
    xml = [member for member in members if member.filename.lower().endswith(XML_SUFFIXES)]
    for some, limit in ((members, UNPACKED_BYTES), (xml, XML_BYTES)):
        if (size := sum(member.file_size for member in some)) > limit:
            raise ValueError(f"it has {size:,} bytes when unpacked and the limit is {limit:,}")
    checked = set(xml)
    for member in members:
        _check(package, member, xml=member in checked)
    return package


def _check(package: zipfile.ZipFile, member: zipfile.ZipInfo, *, xml: bool) -> None:
    """Unpack a member once, a block at a time, and refuse XML that declares entities.

    Broken XML passes: what reads that member fails as well, and the others may be all that is needed.
    """
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entities
    with package.open(member) as file:
        while block := file.read(BLOCK):
            try:
                if xml:
                    parser.Parse(block, False)
            except expat.ExpatError:
                xml = False


def _refuse_entities(*_: object) -> NoReturn:
    raise ValueError("its XML declares entities")


def tree_of(data: bytes) -> ElementTree.Element:
    """Parse a member that `open_package` has checked."""
    return ElementTree.fromstring(data)  # noqa: S314 - it declares no entities


def local_name(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def metadata_of(package: zipfile.ZipFile, member: str) -> tuple[str, dict[str, str]]:
    """Return title (or `""`), and author and date as front matter, from the member with Dublin Core."""
    try:
        tree = tree_of(package.read(member))
    except (KeyError, ElementTree.ParseError):
        return "", {}
    values: dict[str, str] = {}
    for key, text in _dublin_core(tree):
        values.setdefault(key, text)
    title = values.pop("title", "")
    if "date" in values:
        values["date"] = values["date"][:10]
    return title, values


def _dublin_core(tree: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for element in tree.iter():
        key = _NAMES.get(local_name(element))
        if key and (text := " ".join((element.text or "")[:VALUE_CHARACTERS].split())):
            yield key, text
