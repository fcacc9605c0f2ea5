from __future__ import annotations

import pytest

from relance.rules.masking import mask, mask_bytes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://bob:hunter2@db.example/x", "postgres://[masked]@db.example/x"),
        ("clone https://tok123@git.example/x", "clone https://[masked]@git.example/x"),
        ("Authorization: Bearer abcdef123", "Authorization: [masked]"),
        ("sent Bearer abcdef123 to it", "sent Bearer [masked] to it"),
        ("password=hunter2 next", "password=[masked] next"),
        ("{'password': 'it\\'s', 'a': 1}", "{'password': [masked], 'a': 1}"),
        ('"api_key": "k v", "b": 2', '"api_key": [masked], "b": 2'),
        ("HF_TOKEN=hf_abcdefghijklmnop", "HF_TOKEN=[masked]"),
        ("key hf_abcdefghijklmnop here", "key [masked] here"),
        ("aws_secret_access_key = wJalr/XU+x", "aws_secret_access_key = [masked]"),
        ("id AKIAABCDEFGHIJKLMNOP", "id [masked]"),
        ("--password hunter2 --steps 5", "--password [masked] --steps 5"),
        ("['x.py', '--auth-token', 'abc']", "['x.py', '--auth-token', [masked]]"),
        ("wandb login 0123456789abcdef0123456789abcdef01234567", "wandb login [masked]"),
        ("Set-Cookie: sid=1; Path=/", "Set-Cookie: [masked]"),
        ("curl -u bob:hunter2 x", "curl -u [masked] x"),
        ("GET /b?x=1&X-Amz-Signature=abc123", "GET /b?x=1&X-Amz-Signature=[masked]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nAAAA", "-----BEGIN PRIVATE KEY----- [masked]"),
        ("DB_PASSWORD: pässwörd x", "DB_PASSWORD: [masked] x"),
    ],
)
def test_secrets_are_hidden_and_their_names_stay(text: str, shown: str) -> None:
    assert mask(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "srun: error: cn07: task 3: Killed",
        "KeyError: 'layer_7.weight'",
        "tokens: 1,234 num_tokens=2048 token_count=12",
        "eos_token: '<s>'",
        "tokenizer: /models/t5",
        "monkey: banana, keyboard: on",
        "next-token prediction and basic checks",
        "http://cn01:29500/healthz",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert mask(text) == text


def test_bytes_without_secrets_come_back_as_the_same_object() -> None:
    data = b"srun: error: cn07: task 3: Killed \xff"
    assert mask_bytes(data) is data


def test_masking_twice_changes_nothing_more() -> None:
    once = mask("password=hunter2 token: abcdefgh https://a:b@c/d")
    assert mask(once) == once
