"""A planted secret never survives, wherever it stands."""

from __future__ import annotations

import string

from hypothesis import assume, given
from hypothesis import strategies as st

from relance.rules.masking import mask, mask_bytes

SAFE = string.ascii_letters + string.digits
secrets = st.text(SAFE + "+/=_-.~!%*", min_size=8, max_size=40).filter(
    lambda text: text.strip("0123456789.,_+-eE") != ""
)
surely = secrets.map(lambda text: f"Q{text}Z")
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.sampled_from([
    "password", "DB_PASSWORD", "passwd", "secret", "client_secret", "api_key", "apikey", "API-KEY", "access_key",
    "aws_secret_access_key", "token", "HF_TOKEN", "auth_token", "WANDB_API_KEY", "private_key", "credentials",
])  # fmt: skip
signs = st.sampled_from(["=", ": ", " = ", ":", "=>"])
quotes = st.sampled_from(["", '"', "'"])


@given(words, names, signs, quotes, surely, words)
def test_a_value_beside_a_name_is_hidden_and_the_name_stays(
    before: str, name: str, sign: str, quote: str, secret: str, after: str
) -> None:
    assume(secret not in before + after)
    shown = mask(f"{before} {name}{sign}{quote}{secret}{quote} {after}")
    assert secret not in shown
    assert name in shown or "[masked]" in shown.split(" ")[0]


@given(words, st.text(SAFE, min_size=1, max_size=10), surely, words)
def test_what_stands_before_the_host_of_a_url_is_hidden(before: str, user: str, secret: str, after: str) -> None:
    assume(secret not in before + after)
    assert secret not in mask(f"{before} https://{user}:{secret}@host.example/path {after}")


@given(
    words, st.sampled_from(["Authorization: Bearer ", "authorization: Basic ", "Cookie: sid=", "--password "]), surely
)
def test_headers_and_options_are_hidden(before: str, name: str, secret: str) -> None:
    assume(secret not in before)
    assert secret not in mask(f"{before} {name}{secret}")


@given(
    words, st.sampled_from(["hf_", "ghp_", "sk-", "glpat-", "AKIA"]), st.text(SAFE.upper(), min_size=20, max_size=40)
)
def test_known_shapes_are_hidden_without_any_name(before: str, prefix: str, rest: str) -> None:
    assume(rest not in before)
    assert rest not in mask(f"{before} {prefix}{rest} x")


@given(words, st.lists(st.text(SAFE + "+/", min_size=1, max_size=64), min_size=1, max_size=9), words, st.booleans())
def test_a_private_key_is_hidden_to_its_end(before: str, body: list[str], after: str, ends: bool) -> None:
    end = "-----END PRIVATE KEY-----" if ends else ""
    assume(not any(f"Q{row}Q" in before + after for row in body))
    shown = mask("\n".join([before, "-----BEGIN PRIVATE KEY-----", *[f"Q{row}Q" for row in body], end, after]))
    assert [row for row in body if len(row) > 5 and f"Q{row}Q" in shown] == []


@given(st.binary(max_size=200))
def test_any_bytes_can_be_masked(data: bytes) -> None:
    assert mask_bytes(mask_bytes(data)) == mask_bytes(data)
