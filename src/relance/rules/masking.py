"""Hides secrets in what is taken from logs, where it is taken, and keeps the names beside which they stood.

Rather too much than too little: a masked word costs a reader a glance, a kept secret costs the owner a night. All of it
is RE2, so its time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import re2

MASK = "[masked]"

_Replacement = Callable[[Any], bytes] | bytes
_MASK = MASK.encode("ascii")

_VALUE = rb"""(?:b?"(?:[^"\\\n]|\\.)*"?|b?'(?:[^'\\\n]|\\.)*'?|\S+)"""
_ASSIGNED = rb"""\\?["']?\]?[ \t]*(?:=>|:=|[=:])[ \t]*\\?"""
_SECRET_NAME = (
    rb"(?:[\w.-]*(?:passw(?:or)?d|passphrase|passwd|pwd|secret|credential|auth[_-]?token"
    rb"|(?:api|access|account|private|encryption|signing|subscription|service|ssh|license)[_-]?key(?:[_-]?id)?)[\w.-]*)"
)
_OPTION = rb"[\w-]*(?:password|passwd|passphrase|token|secret|api-?key|access-?key)"
_TOKEN_NAME = rb"(?:[\w.-]*(?:token|jwt|session[_-]?id|signature|x-amz-[a-z-]+))"


def mask(text: str) -> str:
    """The text with every secret in it replaced by `[masked]`."""
    data = text.encode("utf-8", "surrogatepass")
    masked = mask_bytes(data)
    return text if masked is data else masked.decode("utf-8", "replace")


def mask_bytes(data: bytes) -> bytes:
    """The same for bytes; the very same object where there is nothing to hide."""
    if _ANY.search(data) is None:
        return data
    masked = data
    for pattern, replacement in _STEPS:
        masked = pattern.sub(replacement, masked)
    return data if masked == data else masked


def _compiled(pattern: bytes) -> Any:  # noqa: ANN401 - google-re2 ships no types
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options)


def _after_name(match: Any) -> bytes:  # noqa: ANN401 - a match of google-re2
    return bytes(match[1]) + _MASK


def _after_token_name(match: Any) -> bytes:  # noqa: ANN401 - a match of google-re2
    """Frameworks count tokens and name special ones: plain numbers and `<eos>` are no secrets."""
    return bytes(match[0]) if _NO_SECRET.match(match[2]) else bytes(match[1]) + _MASK


_NO_SECRET = _compiled(rb"""["']?(?:[0-9.,_+eE-]+(?:[,;)\]}"']|$)|<[^<>]*>)""")
_KEY_BLOCK = (
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
    rb"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)"
)
_KNOWN_SHAPES = rb"|".join(
    (
        rb"\b(?:AKIA|ASIA|AROA|AIDA|AGPA|ABIA|ACCA)[A-Z0-9]{12,}\b",
        rb"\bhf_[A-Za-z0-9]{10,}",
        rb"\bgh[pousr]_[A-Za-z0-9]{16,}",
        rb"\bgithub_pat_\w{16,}",
        rb"\bglpat-[\w-]{10,}",
        rb"\bxox[a-z]-[\w-]{8,}",
        rb"\bsk-[\w-]{16,}",
        rb"\bnvapi-[\w-]{16,}",
        rb"\bwandb_v\d_\w{16,}",
        rb"\bAIza[\w-]{30,}",
        rb"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?",
        rb"\bya29\.[\w-]{10,}",
    )
)
_STEPS: tuple[tuple[Any, _Replacement], ...] = (
    (_compiled(_KEY_BLOCK), b"-----BEGIN PRIVATE KEY----- " + _MASK),
    (_compiled(rb"(?m:^)[A-Za-z0-9+/]{60,}={0,2}(?m:$)"), _MASK),
    (_compiled(rb"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#\"'<>]*|[^\s/@:\"'<>]*:[^\s\"'<>]*)@"), rb"\1" + _MASK + b"@"),
    (_compiled(rb"(?i)([?&](?:sig|key|code|auth)=)[^&\s\"']+"), _after_name),
    (_compiled(rb"(?i)((?:proxy-)?authorization" + _ASSIGNED + rb")[^\n]+"), _after_name),
    (_compiled(rb"(?i)(\b(?:set-)?cookie" + _ASSIGNED + rb")[^\n]+"), _after_name),
    (_compiled(rb"(?i)(\bbearer\s+)[^\s\"',;]{6,}"), _after_name),
    (_compiled(rb"(?i)(\bbasic\s+)[a-z0-9+/]{12,}={0,2}"), _after_name),
    (_compiled(rb"(?i)(" + _SECRET_NAME + _ASSIGNED + rb")" + _VALUE), _after_name),
    (_compiled(rb"(?i)(" + _TOKEN_NAME + _ASSIGNED + rb")(" + _VALUE + rb")"), _after_token_name),
    (_compiled(rb"(?i)((?:^|[\s\"'\[])--?" + _OPTION + rb"[\"']?,?[ \t]+)" + _VALUE), _after_name),
    (_compiled(rb"(?i)((?:^|\s)(?:-u|--user|--proxy-user)[\s=]+)[^\s:]+:\S+"), _after_name),
    (_compiled(rb"(?i)(\bwandb\b[^\n]{0,120}?)\b[0-9a-f]{40}\b"), _after_name),
    (_compiled(_KNOWN_SHAPES), _MASK),
)
_ANY = _compiled(
    rb"(?i)://\S*@|PRIVATE KEY|authorization|cookie|bearer|basic|passw|passphrase|pwd|secret|credential|token|jwt"
    rb"|key|session|signature|x-amz|[?&](?:sig|code|auth)=|-u\s|--user|--proxy-user|wandb|(?m:^)[a-z0-9+/]{60,}|"
    + _KNOWN_SHAPES
)
