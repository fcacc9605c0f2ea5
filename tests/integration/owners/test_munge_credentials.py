from __future__ import annotations

import subprocess
import time
from dataclasses import replace

import pytest

from relance.slurm.munge import Asked, CredentialError, Munge, MungeError, credential, uid_of
from tests.components.munge import Munged, start_munged

ASKED = Asked(method="GET", target="/api/v1/jobs/17/story?x=%C3%A9", host="Relance.example:8642", body=b"{}")
PATIENCE_S = 20.0


@pytest.mark.parametrize("uid", [0, 4321, 100_000])
def test_the_uid_is_that_of_the_process_that_asked_for_the_credential(munged: Munged, uid: int) -> None:
    assert uid_of(credential(ASKED, munged.of(uid)), ASKED, munged.munge) == uid


def test_a_credential_is_good_once(munged: Munged) -> None:
    made = credential(ASKED, munged.of(4321))
    uid_of(made, ASKED, munged.munge)
    with pytest.raises(CredentialError, match="used before"):
        uid_of(made, ASKED, munged.munge)


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, method="POST"),
        replace(ASKED, target="/api/v1/jobs/18/story"),
        replace(ASKED, target="/api/v1/jobs/17/story"),
        replace(ASKED, host="elsewhere.example:8642"),
        replace(ASKED, body=b'{"stage":"off"}'),
    ],
    ids=["method", "path", "query", "host", "body"],
)
def test_a_credential_for_one_request_is_no_good_for_another(munged: Munged, other: Asked) -> None:
    with pytest.raises(CredentialError, match="another request"):
        uid_of(credential(ASKED, munged.of(4321)), other, munged.munge)


def test_a_host_is_the_same_in_capitals(munged: Munged) -> None:
    asked = replace(ASKED, host=ASKED.host.lower())
    assert uid_of(credential(ASKED, munged.of(4321)), asked, munged.munge) == 4321


def test_an_old_credential_is_refused(munged: Munged) -> None:
    made = subprocess.run(
        ["munge", f"--socket={munged.socket}", "--ttl=1", f"--string={ASKED.statement('n')}"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    give_up_at = time.monotonic() + PATIENCE_S
    said = ""
    while "expired" not in said and time.monotonic() < give_up_at:
        time.sleep(0.1)
        with pytest.raises(CredentialError) as caught:  # noqa: PT012 - the first may still be good
            uid_of(made, ASKED, munged.munge)
            raise CredentialError("still good")
        said = str(caught.value)
    assert "has expired" in said


@pytest.mark.parametrize(
    "forge",
    [
        lambda made: made[:40] + ("A" if made[40] != "A" else "B") + made[41:],
        lambda made: made.replace("MUNGE:", "MUNGE:AAAA"),
        lambda made: made[:-20] + ":",
    ],
    ids=["a changed letter", "more in front", "cut off"],
)
def test_a_credential_that_was_changed_is_refused(munged: Munged, forge: object) -> None:
    assert callable(forge)
    with pytest.raises(CredentialError):
        uid_of(forge(credential(ASKED, munged.of(4321))), ASKED, munged.munge)


def test_a_credential_of_another_cluster_is_refused(munged: Munged) -> None:
    foreign = start_munged()
    try:
        made = credential(ASKED, foreign.of(4321))
    finally:
        foreign.end()
    with pytest.raises(CredentialError, match="share a key"):
        uid_of(made, ASKED, munged.munge)


@pytest.mark.parametrize(
    "text", ["", "MUNGE::", "--help", "MUNGE:" + "A" * 5000 + ":", "MUNGE:AAAAAAAAAAAAAAAAA;:", "é"]
)
def test_what_is_no_credential_is_never_handed_to_a_command(text: str) -> None:
    with pytest.raises(CredentialError, match="not a munge credential"):
        uid_of(text, ASKED, Munge(decode=("/not/there",)))


def test_without_munged_neither_side_goes_on(munged: Munged) -> None:
    made = credential(ASKED, munged.of(4321))
    munged.end()
    with pytest.raises(MungeError, match="munge cannot be asked") as caught:
        credential(ASKED, munged.munge)
    assert "start munged" in caught.value.remedy
    with pytest.raises(MungeError, match="munge cannot be asked"):
        uid_of(made, ASKED, munged.munge)


def test_a_munge_that_hangs_is_given_up() -> None:
    stuck = Munge(encode=("sh", "-c", "exec sleep 60"), time_limit_s=0.2)
    with pytest.raises(MungeError, match=r"0\.2 s"):
        credential(ASKED, stuck)


def test_a_machine_without_munge_is_told() -> None:
    with pytest.raises(MungeError, match="No such file") as caught:
        credential(ASKED, Munge(encode=("/not/there",)))
    assert "--token-file" in caught.value.remedy
