r"""Find what looks like a credential in a text: tokens by their issuer's format, others by name and randomness.

Formats are those that the issuers document. A token is only reported if it is random enough to be real, so that the
placeholders of documentation (`ghp_xxxx`, `AKIAIOSFODNN7EXAMPLE`, `${TOKEN}`) pass.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from kbhub.errors import SecretFound
from kbhub.values import struct

SHOWN_CHARACTERS = 4
"""Characters of a credential that a message shows: enough to find it, useless to a thief."""

LEAST_BITS = 2.6
"""Least Shannon entropy per character of a token in an issuer's format. 20 random hex digits have 3.4 in the mean and
less than 2.6 once in 100,000; `xxxxxxxx1234` and words repeated to fill a placeholder have less."""

LEAST_BITS_ASSIGNED = 3.0
"""The same for a value that only its name makes a credential."""

LONGEST_TEXT = 16 << 20
"""Characters searched; an index takes no longer texts."""


@struct
class Secret:
    """A credential in a text."""

    kind: str
    """Its name in messages: `GitHub token`."""
    start: int
    end: int
    """The character after its last."""

    def line(self, text: str) -> int:
        """Return its line in the text, from 1."""
        return text.count("\n", 0, self.start) + 1

    def shown(self, text: str) -> str:
        """Return its beginning, for a message."""
        return f"{text[self.start : self.start + SHOWN_CHARACTERS]}…"


_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_H = r"[0-9a-f]"
_U = r"[A-Z0-9]"
_UUID = rf"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"

_FORMATS: tuple[tuple[str, str, str], ...] = (
    # kind, a part that every such token has, the format
    ("AWS access key", "A", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ("GitHub token", "gh", rf"gh[pousr]_{_A}{{36,255}}"),
    ("GitHub token", "github_pat_", rf"github_pat_{_A}{{22}}_{_A}{{59}}"),
    ("GitLab token", "gl", rf"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-{_W}{{20,64}}"),
    ("Slack token", "xox", r"xox[abeoprs]-(?:[0-9A-Za-z]+-)*[0-9A-Za-z]{18,}"),
    ("Slack token", "xapp-", rf"xapp-\d-{_U}+-\d+-{_A}{{32,}}"),
    ("Slack webhook", "hooks.slack.com", rf"hooks\.slack\.com/(?:services|workflows)/[TA]{_U}+/{_U}+/{_A}{{18,}}"),
    ("Discord webhook", "/api/webhooks/", rf"discord(?:app)?\.com/api/webhooks/\d{{17,20}}/{_W}{{60,}}"),
    ("Discord bot token", ".", rf"[MNO]{_W}{{23,27}}\.{_W}{{6}}\.{_W}{{27,40}}"),
    ("Telegram bot token", ":AA", rf"\d{{8,10}}:AA{_W}{{33}}"),
    ("Stripe key", "_live_", rf"[sr]k_live_{_A}{{24,}}"),
    ("Stripe key", "_test_", rf"[sr]k_test_{_A}{{24,}}"),
    ("Stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/]{32,}"),
    ("Google API key", "AIza", rf"AIza{_W}{{35}}"),
    ("Google OAuth secret", "GOCSPX-", rf"GOCSPX-{_W}{{28}}"),
    ("Google OAuth token", "ya29.", rf"ya29\.{_W}{{40,}}"),
    ("OpenAI key", "T3BlbkFJ", rf"sk-(?:proj-|svcacct-|admin-)?{_W}{{20,}}T3BlbkFJ{_W}{{20,}}"),
    ("Anthropic key", "sk-ant-", rf"sk-ant-(?:api|admin|sid|oat)\d\d-{_W}{{60,}}"),
    ("OpenRouter key", "sk-or-", rf"sk-or-v1-{_H}{{64}}"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z]{34,}"),
    ("Groq key", "gsk_", rf"gsk_{_A}{{48,}}"),
    ("Replicate token", "r8_", rf"r8_{_A}{{37}}"),
    ("Perplexity key", "pplx-", rf"pplx-{_A}{{40,}}"),
    ("xAI key", "xai-", rf"xai-{_A}{{70,}}"),
    ("Pinecone key", "pcsk_", rf"pcsk_{_A}{{4,8}}_{_A}{{50,}}"),
    ("LangSmith key", "lsv2_", rf"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{10}}"),
    ("Twilio key", "SK", rf"SK{_H}{{32}}"),
    ("SendGrid key", "SG.", rf"SG\.{_W}{{22}}\.{_W}{{43}}"),
    ("Mailgun key", "key-", rf"key-{_H}{{32}}"),
    ("Mailchimp key", "-us", rf"{_H}{{32}}-us\d{{1,2}}"),
    ("Brevo key", "xkeysib-", rf"xkeysib-{_H}{{64}}-{_A}{{16}}"),
    ("npm token", "npm_", rf"npm_{_A}{{36}}"),
    ("PyPI token", "pypi-", rf"pypi-AgE{_W}{{50,}}"),
    ("RubyGems key", "rubygems_", rf"rubygems_{_H}{{48}}"),
    ("crates.io token", "cio", rf"cio{_A}{{32}}"),
    ("Docker token", "dckr_", rf"dckr_(?:pat|oat)_{_W}{{27,}}"),
    ("DigitalOcean token", "_v1_", rf"do[opr]_v1_{_H}{{64}}"),
    ("Heroku token", "HRKU-", rf"HRKU-(?:AA{_W}{{58}}|{_UUID})"),
    ("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("Square token", "sq0", rf"sq0(?:atp|csp|idp)-{_W}{{22,43}}"),
    ("Databricks token", "dapi", rf"dapi{_H}{{32}}(?:-\d)?"),
    ("Doppler token", "dp.", rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?{_A}{{40,44}}"),
    ("Linear key", "lin_", rf"lin_(?:api|oauth)_{_A}{{40,64}}"),
    ("Notion token", "ntn_", rf"ntn_\d{{11}}{_A}{{35}}"),
    ("Airtable token", "pat", rf"pat{_A}{{14}}\.{_H}{{64}}"),
    ("Atlassian token", "AT", rf"AT(?:ATT3|CTT3|BB){_W}{{24,}}(?:=[0-9A-F]{{8}})?"),
    ("Grafana token", "gl", rf"(?:glsa_{_A}{{32}}_[0-9A-Fa-f]{{8}}|glc_[A-Za-z0-9+/]{{32,}})"),
    ("New Relic key", "NRAK-", rf"NRAK-{_U}{{27}}"),
    ("Sentry token", "sntry", rf"sntry(?:s_[A-Za-z0-9+/_=]{{60,}}|u_{_H}{{64}})"),
    ("Postman key", "PMAK-", rf"PMAK-{_H}{{24}}-{_H}{{34}}"),
    ("Vault token", "hv", rf"hv[sbr]\.{_W}{{24,}}"),
    ("Terraform token", ".atlasv1.", rf"{_A}{{14}}\.atlasv1\.{_W}{{60,}}"),
    ("PlanetScale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,}"),
    ("Fly.io token", "fm", r"fm[12][ar]?_[A-Za-z0-9+/=_-]{60,}"),
    ("Figma token", "fig", rf"fig[dour]_{_W}{{36,}}"),
    ("Dropbox token", "sl.", rf"sl\.(?:u\.)?{_W}{{120,}}"),
    ("Supabase token", "sb", rf"(?:sbp_{_H}{{40}}|sb_secret_{_W}{{22,}})"),
    ("Tailscale key", "tskey-", rf"tskey-(?:auth|api|client|scim|webhook)-{_A}+-{_A}{{20,}}"),
    ("1Password token", "ops_", rf"ops_eyJ{_W}{{100,}}"),
    ("Alibaba key", "LTAI", rf"LTAI{_A}{{17,21}}"),
    ("Cloudflare key", "v1.0-", rf"v1\.0-{_H}{{24}}-{_H}{{146}}"),
    ("Netlify token", "nfp_", rf"nfp_{_A}{{36}}"),
    ("Vercel token", "vc", rf"vc[pkiar]_{_A}{{24,}}"),
    ("Pulumi token", "pul-", rf"pul-{_H}{{40}}"),
    ("Buildkite token", "bkua_", rf"bkua_{_A}{{40}}"),
    ("CircleCI token", "CCI", rf"CCI(?:PAT|PRJ)_{_A}{{22}}_{_H}{{40}}"),
    ("Asana token", "/", r"[012]/\d{16}(?:/\d{16})?:[0-9a-f]{32}"),
    ("Facebook token", "EAA", rf"EAA[A-Z]{_A}{{100,}}"),
    ("age key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("Azure storage key", "AccountKey=", r"(?<=AccountKey=)[A-Za-z0-9+/]{86}=="),
    ("Azure client secret", "Q~", rf"{_A}{{3}}\dQ~[A-Za-z0-9_.~-]{{31,34}}"),
    ("Azure signature", "sig=", r"(?<=[?&]sig=)[A-Za-z0-9%+/]{43,64}(?:=|%3D)"),
    ("JSON web token", "eyJ", rf"eyJ{_W}{{15,}}\.eyJ{_W}{{6,}}\.{_W}{{20,}}"),
)

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<body>(?:[A-Za-z0-9+/=\s\\]|(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*)*)(?:-----END [A-Z0-9 ]*-----)?"
    r"|PuTTY-User-Key-File-\d:.{0,2000}?Private-Lines: \d+\s+(?P<putty>[A-Za-z0-9+/=\s]+)",
    re.DOTALL,
)
_URL_PASSWORD = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@<>{}$'\"`]{0,64}:(?P<value>[^\s/@<>{}$'\"`]{6,128})@")
_HEADER = re.compile(
    r"\b(?:Authorization|X-[A-Za-z-]*(?:Key|Token))\b[\"']?\s*[:=]\s*[\"']?(?:Bearer|Basic|Token)?\s*"
    r"(?P<value>[A-Za-z0-9+/._~-]{20,}=*)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?:(?:passw(?:or)?d|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|"
    r"private[_-]?key|signing[_-]?key|encryption[_-]?key|account[_-]?key|credential|\bpwd)[\w-]{0,20})"
    r"[\"'`]?\s{0,4}(?:=>|:=|=|:|\bis\b)\s{0,4}"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`,;<>()\[\]{}$|]{8,256})(?P=quote)",
    re.IGNORECASE,
)
_EXPORTED = ("PASSWORD", "PASSWD", "PASSPHRASE")
"""Names before `=` without a blank, as in a shell: what a person typed there may be made of words."""
_CURL = re.compile(
    r"\bcurl\b[^\n|]{0,300}?\s(?:-[A-Za-z]{0,4}u|--user)(?:\s{0,3}|=)[\"']?"
    r"[^\s:\"'`<>{}$]{1,64}:(?P<value>[^\s\"'`<>{}$]{6,128})"
)
_PASSCODE = re.compile(
    r"(?P<link>https?://[^\s\"'`<>:]{1,400}(?::\d{1,5}/[^\s\"'`<>:]{0,400})?(?:[?&]|&amp;))"
    r"(?P<code>pwd=[^\s\"'`<>&#;]*)(?P<rest>[^\s\"'`<>]{0,400})",
    re.IGNORECASE,
)
"""A link that contains its own passcode, such as an invitation to a meeting: readers of the document may have both."""
_ACCOUNT = re.compile(r"[?&;](?:user(?:[_-]?(?:name|id))?|uid|login|account|e?mail)=", re.IGNORECASE)
"""What makes the passcode the password of an account."""
_ASSIGNED_HINTS = ("passw", "passphrase", "secret", "token", "key", "credential", "pwd")

_PLACEHOLDER = re.compile(
    r"example|placeholder|change[_-]?me|replace|your[_-]|redacted|x{5,}|\*{3,}|\.{3,}|0{7,}|1234567|abcdefg",
    re.IGNORECASE,
)
"""What stands in a credential of documentation, and in a generated one less than once in 10,000."""
_MADE_UP = re.compile(
    r"dummy|sample|foo|bar\b|baz|fake|test|s3cr3t|passw|secret|token|hunter2|lorem|abc|1234?\b|key", re.IGNORECASE
)
"""The same for a short value, where it shows that a person made it up."""
_WORD = re.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+")
_NAMES_A_THING = re.compile(
    r"^(?:[a-z][\w-]*[./:])+[\w.-]*$|^https?://\S*[?&;]$|^[A-Z][A-Z0-9_]+$|^[\w.-]+\.(?:py|md|json|ya?ml|toml|txt)$"
)

_COMPILED = tuple(
    (kind, part, re.compile(rf"(?<![A-Za-z0-9_]){pattern}(?![A-Za-z0-9_])")) for kind, part, pattern in _FORMATS
)
"""Each format, neither preceded nor followed by a letter or digit."""


def find_secrets(text: str) -> list[Secret]:
    """Return the credentials in the first `LONGEST_TEXT` characters of a text, in order, none overlapping another."""
    text, every, found = text[:LONGEST_TEXT], list[Secret](), list[Secret]()
    for kind, part, pattern in _COMPILED:
        if part in text:
            for match in pattern.finditer(text):
                if _is_random(match[0], LEAST_BITS) and not _PLACEHOLDER.search(match[0]):
                    every.append(Secret(kind, *match.span()))
    if "PRIVATE KEY" in text or "PuTTY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            body = "".join((match["body"] or match["putty"] or "").split())
            if len(body) >= 40 and _is_random(body, LEAST_BITS):
                every.append(Secret("private key", *match.span()))
    if "://" in text and "@" in text:
        every += _valued("password in a URL", _URL_PASSWORD, text, 2.0)
    for match in _CURL.finditer(text) if "curl" in text else ():
        if _is_mixed(match["value"]) and not _MADE_UP.search(match["value"]):
            every.append(Secret("password", *match.span("value")))
    lower = text.lower()
    if "authorization" in lower or "x-" in lower:
        every += _valued("authorization header", _HEADER, text, LEAST_BITS_ASSIGNED)
    if any(hint in lower for hint in _ASSIGNED_HINTS):
        for match in _ASSIGNED.finditer(_PASSCODE.sub(_without_passcode, text) if "pwd=" in lower else text):
            value = match["value"].rstrip(".")
            plain = len(value) < 8 or _MADE_UP.search(value) or _NAMES_A_THING.match(value)
            typed = match[0].partition("=")[0] in _EXPORTED and _is_mixed(value)
            if not plain and (typed or _is_generated(value, LEAST_BITS_ASSIGNED)):
                every.append(Secret("password or key", *match.span("value")))
    for secret in sorted(every, key=lambda secret: (secret.start, -secret.end)):
        if not found or secret.start >= found[-1].end:
            found.append(secret)
    return found


def refuse_secrets(what: str, text: str) -> None:
    """Raise `SecretFound` if a text holds a credential; `what` names the text in the message, such as `The memory`."""
    if found := find_secrets(text):
        raise SecretFound(what, found[0].kind, found[0].line(text), found[0].shown(text))


def masked(text: str) -> str:
    """Return the text with each credential replaced by its kind: `[GitHub token left out]`."""
    parts, at = [], 0
    for secret in find_secrets(text):
        parts += [text[at : secret.start], f"[{secret.kind} left out]"]
        at = secret.end
    return "".join((*parts, text[at:])) if parts else text


def _valued(kind: str, pattern: re.Pattern[str], text: str, least: float) -> Iterator[Secret]:
    for match in pattern.finditer(text):
        if _is_generated(match["value"], least):
            yield Secret(kind, *match.span("value"))


def _without_passcode(match: re.Match[str]) -> str:
    """Return a link with spaces for its passcode, unless it names an account."""
    blank = match["code"] if _ACCOUNT.search(match[0]) else " " * len(match["code"])
    return f"{match['link']}{blank}{match['rest']}"


def _is_generated(value: str, least: float) -> bool:
    """Return whether a value is random, mixes kinds of characters, and is no placeholder and not made of words."""
    if not _is_mixed(value) or not _is_random(value, least):
        return False
    runs = [len(word) for word in _WORD.findall(value)]
    # Words with a number (`token-v2-production`) have long runs of letters of one case; random text has short ones.
    return sum(runs) / len(runs) < 3.5 or sum(map(str.isdigit, value)) / len(value) > 0.3


def _is_mixed(value: str) -> bool:
    """Return whether a value has letters and digits, and is no placeholder."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _PLACEHOLDER.search(value)


def _is_random(value: str, least: float) -> bool:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values()) >= least
