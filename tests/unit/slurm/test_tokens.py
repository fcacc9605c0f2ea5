from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from relance.slurm.outputs import TOKEN
from relance.slurm.running import Commands, run
from relance.slurm.tokens import Token, TokenError, read_token

HOUR_S = 3600.0


def jwt(**claims: object) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{middle}.c2lnbmF0dXJl"


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_token_says_until_when_it_is_good(tmp_path: Path) -> None:
    text = jwt(iat=1_000_000, exp=1_086_400, sun="relance")
    for form in (text, f"{text}\n", f"SLURM_JWT={text}\n"):
        token = read_token(written(tmp_path, form))
        assert (token.text, token.issued_s, token.expires_s) == (text, 1_000_000, 1_086_400)
    assert token.left_s(1_086_000) == 400
    assert text not in repr(token)


@pytest.mark.parametrize(
    "text", ["opaque-token", "a.b.c" * 3, jwt(), jwt(exp="soon"), jwt(exp=True), jwt(exp=1e300), jwt(exp=-1)]
)
def test_a_token_that_does_not_say_so_is_used_all_the_same(tmp_path: Path, text: str) -> None:
    token = read_token(written(tmp_path, text))
    assert (token.text, token.expires_s, token.is_short(0)) == (text, None, False)


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (jwt(), 0o640, "chmod 600"),
        ("", 0o600, "does not hold one token"),
        ("two tokens", 0o600, "does not hold one token"),
        ("x" * 20_000, 0o600, "does not hold one token"),
        ("$(id)-----------", 0o600, "does not hold one token"),
    ],
)
async def test_without_a_token_nothing_is_run(tmp_path: Path, text: str, mode: int, says: str) -> None:
    path = written(tmp_path, text, mode)
    with pytest.raises(TokenError, match=says):
        read_token(path)
    got = await run(Commands(token_file=path), ("touch", str(tmp_path / "ran")), time_limit_s=20)
    assert (got.never_ran, got.unreached) == (True, TOKEN)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(TokenError, match="cannot be read"):
            read_token(str(path))


async def test_a_command_gets_the_token_of_the_moment_by_its_environment_alone(tmp_path: Path) -> None:
    ask = ("sh", "-c", 'echo "$SLURM_JWT"; tr "\\000" " " < /proc/$$/cmdline')
    for text in (jwt(exp=1), jwt(exp=2)):
        commands = Commands(token_file=written(tmp_path, text))
        got = await run(commands, ask, time_limit_s=20)
        assert got.stdout.decode().splitlines()[0] == text
        assert got.stdout.count(text.encode()) == 1


@pytest.mark.parametrize(
    ("life_h", "left_h", "is_short"),
    [
        (24 * 365, 24 * 40, False),
        (24 * 365, 24 * 30, True),
        (24, 3, False),
        (24, 2, True),
        (5, 1.1, False),
        (5, 0.9, True),
        (1, 0.6, False),
        (1, 0.4, True),
    ],
)
def test_the_end_of_a_token_is_told_in_time_and_not_all_the_time(life_h: float, left_h: float, is_short: bool) -> None:
    token = Token(text="x", issued_s=1.0, expires_s=1.0 + life_h * HOUR_S)
    assert token.is_short(1.0 + (life_h - left_h) * HOUR_S) is is_short


def test_the_end_of_a_token_of_unknown_age_is_told_an_hour_before() -> None:
    token = Token(text="x", expires_s=10 * HOUR_S)
    assert [token.is_short(at * HOUR_S) for at in (8.9, 9.1, 11)] == [False, True, True]
