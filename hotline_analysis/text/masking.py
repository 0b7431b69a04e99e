"""Hide secrets in a trace's texts, recognised by the name of a value or by its form.

Some tools store the environment of the process in a trace, including keys and passwords, and a trace is often shared. A
name indicates a secret by its words (HF_TOKEN, dbPassword, X-Api-Key). `tokenizer`, `max_tokens`, `pad_token`, `author`
and `session_length` are therefore not secrets. The words are common to log scrubbers and code scanners: the defaults of
Sentry's data scrubbing, of the KeywordDetector of detect-secrets, and of gitleaks' generic-api-key. The forms are the
recognisable key formats of providers, by gitleaks' rules, with less strict lengths. A secret with neither such a name
nor such a form is not found.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

MASK = "***"

# --- by form ---------------------------------------------------------------------------------------------------------

# Patterns with the same meaning in Python's and Polars's regex engines, and their replacements. A match never begins or
# ends inside an escape or after a quote, so the patterns also work on the text of a JSON value.
FORMS = (
    # A password in a URL. User and host are kept.
    (r"(:\\?/\\?/[^\s/:@\"\\]*):[^\s/\"\\]+@", rf"${{1}}:{MASK}@"),
    # The signature of a presigned URL: Amazon, Google, Azure.
    (
        r"(?i)([?&](?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig|signature)=)[^&\s\"\\]+",
        rf"${{1}}{MASK}",
    ),
    # To the end of the key, or of the text if the key is cut off.
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?:"
        r"(?:[^\"\\]|\\.)*?-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|(?:[^\"\\]|\\.)*)",
        MASK,
    ),
    # JSON Web Tokens, whose first part is the base64 of `{"`.
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", MASK),
    (
        r"\b(?:"
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"  # Amazon
        r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}"  # GitHub, GitLab
        r"|(?:hf|api_org)_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{37}"  # Hugging Face, Replicate
        r"|sk-[A-Za-z0-9]{20,}|sk-(?:admin|ant|proj|svcacct)-[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic
        r"|gsk_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}"  # Groq, NVIDIA, Databricks
        r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{64}"  # Google, DigitalOcean
        r"|(?:sk|rk)_(?:live|prod|test)_[A-Za-z0-9]{16,}|xox[abeoprs]-[A-Za-z0-9-]{16,}"  # Stripe, Slack
        r"|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"  # SendGrid
        r")",
        MASK,
    ),
    (r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{16,}", rf"${{1}} {MASK}"),
)
_SHORTEST = 20  # minimum length of a form, except for URLs
_FORMS = [(re.compile(form), text.replace("${1}", r"\1")) for form, text in FORMS]
_FORM = "|".join(f"(?:{form})" for form, _ in FORMS)

# --- by name ---------------------------------------------------------------------------------------------------------

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# These match anywhere in a name, with or without separators between their parts. Everything below the name is hidden.
_STRONG = re.compile(
    "passw(?:or)?d|passphrase|passcode|pwd|secret|credential|connectionstring|"
    "(?:api|app|access|account|auth|client|consumer|deploy|encryption|hmac|license|master|priv|private|service|shared"
    "|signing|ssh|ssl|subscription|tls)key"
)
_LAST = frozenset({"auth", "authorization", "bearer", "cookie", "cookies", "jwt", "oauth", "psk", "pw"})
_USERS = frozenset(
    {"admin", "db", "docker", "ftp", "ldap", "mail", "mysql", "pg", "proxy", "redis", "registry", "root", "smtp"}
    | {"user"}
)
_GIT = frozenset({"ado", "azure", "ext", "gh", "git", "github", "gitlab"})
# Before `token`, these words mean a piece of text or a count.
_OF_TEXT = frozenset(
    {"audio", "begin", "bos", "class", "cls", "decoder", "end", "eos", "eot", "fim", "first", "image", "img", "last"}
    | {"mask", "next", "pad", "padding", "per", "prefix", "sep", "special", "start", "stop", "unk", "video"}
)
_HOLDERS = frozenset({"access", "api", "auth", "bearer", "csrf", "refresh"})
# Before a plural, or before `token`, these words mean a count.
_COUNTS = frozenset({"count", "max", "min", "n", "num", "number", "total"})
# At the end of a name, these words mean a property of the secret: length, location or kind.
_ABOUT = frozenset(
    {"addr", "algorithm", "arn", "count", "dir", "directory", "enabled", "endpoint", "expiration", "expires", "expiry"}
    | {"file", "folder", "format", "helper", "host", "len", "length", "limit", "manager", "method", "mode", "name"}
    | {"path", "policy", "port", "provider", "required", "server", "size", "sock", "timeout", "ttl", "type", "uri"}
    | {"url", "usage", "version"}
)
# The values hidden by a name: nothing, a text or a list of texts, all texts below it, or also numbers.
_NONE, _ITSELF, _TEXTS, _ALL = range(4)

# A text without any of these stems has no secret name, and is not parsed.
_STEMS = (
    *("pass", "pwd", "secret", "credential", "connection", "key", "auth", "bearer", "cookie", "jwt", "psk", "pw"),
    *("token", "sess", "_pat"),
)
_HARMLESS = re.compile(
    r"|\*+|true|false|yes|no|on|off|none|null|enabled|disabled|required|optional|\d"
    r"|v?\d+(?:\.\w+)+(?:[-+=]\S*)?",  # the version of a package, such as google-auth
    re.IGNORECASE,
)
# A number (see `masked_json`), or a token such as [PAD] or </s>.
_OF_A_MODEL = re.compile(r"\0?[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?|[<\[].*[>\]]", re.DOTALL)
_NAME = re.compile(r"-{0,2}[A-Za-z_][\w.-]*")
# Pattern 1: an assignment on its own line, whose value is the rest of the line. Pattern 2: any other pair, as in JSON,
# a URL or a header. Pattern 3: a command-line flag.
_LINE = re.compile(r"(?:(?<=[\n\0])|\A)[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)=(?!=)")
_PAIR = re.compile(r"(?<![\w.-])-{0,2}([A-Za-z_][\w.-]*)(?:\\*[\"'])?\s*(?:=>|=(?!=)|:(?!:|//))\s*")
_FLAG = re.compile(r"(?<!\S)--?([A-Za-z][\w-]*)\s+(?!-)")
_REST = re.compile(r"[^\n\0]*")
_VALUE = re.compile(r"\\*\"[^\"]*\"|\\*'[^']*'|(?:Bearer\s+|Basic\s+)?[^\s\0\"',;&]+")


@functools.lru_cache(4096)
def _hides(name: str) -> int:
    """Return which values a name hides: `_NONE`, `_ITSELF`, `_TEXTS` or `_ALL`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    *_, before, last = "", "", *words
    if last in _ABOUT or (words[:1] and words[0] in _COUNTS and last.endswith(("s", "token"))):
        return _NONE
    if _STRONG.search("".join(words)) or last in _LAST or (last == "pass" and before in _USERS):
        return _ALL
    if last.endswith("token") and before not in _OF_TEXT:
        return _TEXTS
    if (last == "tokens" and before in _HOLDERS) or (last == "pat" and before in _GIT):
        return _TEXTS
    is_session = last.endswith(("session", "sessionid", "sessid")) or words[-2:] == ["session", "id"]
    return _ITSELF if is_session else _NONE


def mask_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Hide secrets recognised by form in the texts of a frame. Without secrets, returns the same frame."""
    import polars as pl

    found = [texts.name for texts in frame.select(pl.col(pl.String)) if texts.str.contains(_FORM).any()]
    for name in found:
        for form, instead in FORMS:
            frame = frame.with_columns(pl.col(name).str.replace_all(form, instead))
    return frame


def mask_json_column(texts: pl.Series) -> pl.Series:
    """Hide secrets in JSON objects, by name or form. Only texts with a suspicious word or form are parsed."""
    import polars as pl

    suspects = texts.filter(texts.str.contains(f"(?i:{'|'.join(_STEMS)})|{_FORM}")).unique().drop_nulls()
    masked = pl.Series([masked_text(text) for text in suspects], dtype=pl.String)
    return texts.replace(suspects, masked) if len(suspects) else texts


def mask(value: dict[str, Any] | list[Any]) -> bool:
    """Hide secrets in a JSON value in place, at any depth. Returns whether there were any."""
    found = False
    stack: list[tuple[dict[str, Any] | list[Any], int]] = [(value, _NONE)]
    while stack:
        holder, around = stack.pop()
        for place, item, own in _items(holder):
            hides = max(around, own)
            if isinstance(item, dict | list):
                stack.append((item, hides if hides > _ITSELF or isinstance(item, list) else _NONE))
            elif (masked := _masked(item, hides)) != item:
                holder[place] = masked  # type: ignore[index]
                found = True
        if isinstance(holder, dict) and (odd := [name for name in holder if masked_text(name) != name]):
            found = True
            for name in odd:
                holder[masked_text(name)] = holder.pop(name)
    return found


def _items(holder: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any, int]]:
    """The items of a JSON value: position, item, and the values hidden by a name before the item."""
    if isinstance(holder, dict):
        # As in {"name": "HF_TOKEN", "value": "…"}.
        of_value = _hides(str(holder.get("name", holder.get("key", ""))))
        for name, item in list(holder.items()):
            yield name, item, max(_hides(name), of_value if name.lower() == "value" else _NONE)
        return
    before = ""
    for place, item in enumerate(list(holder)):
        # As in ["--hf-token", "…"], or in a pair inside a list of pairs.
        yield place, item, _hides(before)
        is_name = isinstance(item, str) and _NAME.fullmatch(item) and (item.startswith("-") or len(holder) == 2)
        before = item if is_name else ""


def _masked(value: Any, hides: int) -> Any:
    if isinstance(value, str):
        return MASK if _is_secret(value, hides) else masked_text(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return MASK if is_number and hides == _ALL else value


def _is_secret(text: str, hides: int) -> bool:
    if hides == _NONE or _HARMLESS.fullmatch(text):
        return False
    return hides == _ALL or not _OF_A_MODEL.fullmatch(text)


def masked_text(text: str) -> str:
    """Hide secrets in a text: by form, in JSON, and in shell-style assignments, headers and flags."""
    if len(text) >= _SHORTEST or "://" in text:
        for form, instead in _FORMS:
            text = form.sub(instead, text)
    lower = text.lower()
    if not any(stem in lower for stem in _STEMS):
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return masked_json(text)
        except (ValueError, RecursionError):
            pass
    for named, value in ((_LINE, _REST), (_PAIR, _VALUE), (_FLAG, _VALUE)):
        text = _without(text, named, value)
    return text


def _without(text: str, named: re.Pattern[str], value: re.Pattern[str]) -> str:
    """The text without the values of secret names."""
    parts = []
    kept = at = 0
    # The search continues right after any other name, because a value may be an assignment itself.
    while name := named.search(text, at):
        at = name.end()
        found = value.match(text, at) if (hides := _hides(name[1])) else None
        if found and _is_secret(found[0].strip("\\\"' "), hides):
            parts += [text[kept:at], MASK]
            kept = at = found.end()
    return "".join([*parts, text[kept:]])


def masked_json(text: str) -> str:
    """Hide secrets in the text of a JSON object or array. Without secrets, returns the same text. Raises ValueError."""
    # Fractions keep their digits, because a double is too imprecise for some times.
    value = json.loads(text, parse_float=lambda digits: f"\0{digits}")
    if not mask(value):
        return text
    return re.sub(r'"\\u0000([-+.\deE]+)"', r"\1", json.dumps(value))
