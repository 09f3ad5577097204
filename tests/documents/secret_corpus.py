"""Made-up credentials in their issuers' formats, and the texts they turn up in. None was ever valid."""

import base64
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
WORD = ALNUM + "_-"
BASE64 = ALNUM + "+/"
BASE32 = string.ascii_uppercase + "234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

Make = Callable[[random.Random], str]


def _of(alphabet: str, length: int) -> Make:
    return lambda rng: "".join(rng.choices(alphabet, k=length))


def _joined(*parts: str | tuple[str, int]) -> Make:
    makes = [(lambda _, part=part: part) if isinstance(part, str) else _of(*part) for part in parts]
    return lambda rng: "".join(make(rng) for make in makes)


def _jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head, body = {"alg": "HS256", "typ": "JWT"}, {"sub": str(rng.randrange(10**9)), "name": "Ada", "iat": 1716239022}
    return f"{part(head)}.{part(body)}.{_of(WORD, 43)(rng)}"


def _pem(name: str) -> Make:
    def make(rng: random.Random) -> str:
        body = "".join(rng.choices(BASE64, k=400))
        lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
        return f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----"

    return make


TOKENS: dict[str, Make] = {
    "aws access key": _joined("AKIA", (BASE32, 16)),
    "aws session key": _joined("ASIA", (BASE32, 16)),
    "github classic": _joined("ghp_", (ALNUM, 36)),
    "github app": _joined("ghs_", (ALNUM, 36)),
    "github fine-grained": _joined("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": _joined("glpat-", (WORD, 20)),
    "slack bot": _joined("xoxb-", (string.digits, 12), "-", (string.digits, 12), "-", (ALNUM, 24)),
    "slack app": _joined("xapp-1-", (UPPER, 11), "-", (string.digits, 13), "-", (HEX, 64)),
    "slack webhook": _joined("https://hooks.slack.com/services/T", (UPPER, 8), "/B", (UPPER, 8), "/", (ALNUM, 24)),
    "discord webhook": _joined("https://discord.com/api/webhooks/", (string.digits, 18), "/", (WORD, 68)),
    "discord bot": _joined("M", (ALNUM, 25), ".", (WORD, 6), ".", (WORD, 38)),
    "telegram": _joined((string.digits, 10), ":AA", (WORD, 33)),
    "stripe": _joined("sk_live_", (ALNUM, 24)),
    "stripe webhook": _joined("whsec_", (ALNUM, 32)),
    "google api": _joined("AIza", (WORD, 35)),
    "google oauth": _joined("GOCSPX-", (WORD, 28)),
    "openai": _joined("sk-proj-", (WORD, 74), "T3BlbkFJ", (WORD, 74)),
    "anthropic": _joined("sk-ant-api03-", (WORD, 93), "AA"),
    "hugging face": _joined("hf_", (string.ascii_letters, 34)),
    "groq": _joined("gsk_", (ALNUM, 52)),
    "replicate": _joined("r8_", (ALNUM, 37)),
    "twilio": _joined("SK", (HEX, 32)),
    "sendgrid": _joined("SG.", (WORD, 22), ".", (WORD, 43)),
    "mailgun": _joined("key-", (HEX, 32)),
    "mailchimp": _joined((HEX, 32), "-us14"),
    "npm": _joined("npm_", (ALNUM, 36)),
    "pypi": _joined("pypi-AgEIcHlwaS5vcmcC", (WORD, 150)),
    "rubygems": _joined("rubygems_", (HEX, 48)),
    "docker": _joined("dckr_pat_", (WORD, 27)),
    "digitalocean": _joined("dop_v1_", (HEX, 64)),
    "shopify": _joined("shpat_", (HEX, 32)),
    "databricks": _joined("dapi", (HEX, 32)),
    "doppler": _joined("dp.pt.", (ALNUM, 43)),
    "linear": _joined("lin_api_", (ALNUM, 40)),
    "notion": _joined("ntn_", (string.digits, 11), (ALNUM, 35)),
    "airtable": _joined("pat", (ALNUM, 14), ".", (HEX, 64)),
    "atlassian": _joined("ATATT3", (WORD, 180), "=", ("0123456789ABCDEF", 8)),
    "grafana": _joined("glsa_", (ALNUM, 32), "_", (HEX, 8)),
    "new relic": _joined("NRAK-", (UPPER, 27)),
    "postman": _joined("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "vault": _joined("hvs.", (WORD, 90)),
    "terraform": _joined((ALNUM, 14), ".atlasv1.", (WORD, 67)),
    "planetscale": _joined("pscale_tkn_", (WORD, 43)),
    "figma": _joined("figd_", (WORD, 40)),
    "supabase": _joined("sbp_", (HEX, 40)),
    "tailscale": _joined("tskey-auth-", (ALNUM, 12), "-", (ALNUM, 32)),
    "alibaba": _joined("LTAI", (ALNUM, 20)),
    "netlify": _joined("nfp_", (ALNUM, 36)),
    "pulumi": _joined("pul-", (HEX, 40)),
    "age": _joined("AGE-SECRET-KEY-1", (BECH32, 58)),
    "azure storage": _joined("DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=", (BASE64, 86), "=="),
    "azure client": _joined((ALNUM, 3), "8Q~", (WORD, 34)),
    "jwt": _jwt,
    "rsa key": _pem("RSA PRIVATE KEY"),
    "pkcs8 key": _pem("PRIVATE KEY"),
    "openssh key": _pem("OPENSSH PRIVATE KEY"),
    "pgp key": _pem("PGP PRIVATE KEY BLOCK"),
}
"""Credentials that are known by their format. Lengths are those that the issuers' documentation shows."""

NAMED: dict[str, Make] = {
    "aws secret": _joined("aws_secret_access_key = ", (BASE64, 40)),
    "password": _joined('DB_PASSWORD="', (ALNUM + "!#%&*+?", 16), '"'),
    "yaml": _joined("  client_secret: ", (ALNUM, 32)),
    "json": _joined('"apiKey": "', (HEX, 32), '",'),
    "url": _joined("postgres://app:", (ALNUM, 14), "@db.internal:5432/app"),
    "header": _joined("Authorization: Bearer ", (WORD, 40)),
    "toml": _joined("signing_key = '", (BASE64, 44), "'"),
}
"""Credentials that only their name gives away."""

TEXTS = (
    "The deploy bot uses {} since March.", "```sh\nexport TOKEN_FOR_CI={}\n```", "| staging | `{}` |",
    "- set it to {}\n- restart the service", "It failed with 401 until I passed {}, which works.", "{}",
)  # fmt: skip
"""How agents and people write them down; `{}` stands for the credential."""


def secrets(count: int, seed: int) -> list[tuple[str, str]]:
    """Return a number of texts with one credential each, all formats in turn, and the name of the format."""
    rng = random.Random(seed)
    names = [*TOKENS, *NAMED]
    result = []
    for number in range(count):
        name = names[number % len(names)]
        made = (TOKENS.get(name) or NAMED[name])(rng)
        text = rng.choice(TEXTS) if name in TOKENS and "\n" not in made else "See below.\n\n{}\n"
        result.append((name, text.replace("{}", made)))
    return result
