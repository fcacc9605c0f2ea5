"""What the site set, from `scontrol show config`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from relance.slurm.errors import UnreadableError
from relance.slurm.parsing import values
from relance.slurm.site_records import ControlFacts

_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_]*(?:\[\d+\])?)\s*= ?(.*)")
_SECONDS = re.compile(r"(\d+)(?: (sec|min))?\Z", re.ASCII)
_USER = re.compile(r"(.+)\((\d+)\)\Z", re.ASCII)
_FEDERATION = re.compile(rb"^Federation:\s*(\S+)", re.MULTILINE)
_UP = re.compile(r"Slurmctld\(\S+\) at \S+ is (?:UP|DOWN)")
_CRED_EXPIRE = re.compile(r"(?:^|,)cred_expire=(\d+)(?=,|\Z)", re.ASCII)


def parse_settings(output: bytes) -> ControlFacts:
    """The settings that Relance asks about.

    Raises:
        UnreadableError: Cut off, mangled, or without a setting that decisions rest on.
    """
    shown = _read(output)
    user = _USER.match(_demanded(shown, "SlurmUser"))
    cred_expire = _CRED_EXPIRE.search(shown.get("AuthInfo", ""))
    return ControlFacts(
        release=_demanded(shown, "SLURM_VERSION"),
        booted_at=values.shown_moment(_demanded(shown, "BOOT_TIME"), "when slurmctld started"),
        cluster=_demanded(shown, "ClusterName"),
        slurm_user=user[1] if user else shown["SlurmUser"],
        slurm_uid=int(user[2]) if user else None,
        min_job_age_s=_seconds(_demanded(shown, "MinJobAge"), "MinJobAge"),
        job_requeue=_switch(shown, "JobRequeue"),
        job_file_append=_switch(shown, "JobFileAppend"),
        accounting_type=values.shown_text(_demanded(shown, "AccountingStorageType")),
        accounting_store_flags=_words(shown, "AccountingStoreFlags"),
        cred_expire_s=int(cred_expire[1]) if cred_expire else None,
        requeue_exit=values.shown_text(shown.get("RequeueExit", "")),
        requeue_exit_hold=values.shown_text(shown.get("RequeueExitHold", "")),
        kill_wait_s=_seconds_or_none(shown.get("KillWait", ""), "KillWait"),
        unkillable_s=_seconds_or_none(shown.get("UnkillableStepTimeout", ""), "UnkillableStepTimeout"),
        private_data=_words(shown, "PrivateData"),
        preempt_mode=values.shown_text(shown.get("PreemptMode", "")),
        preempt_type=values.shown_text(shown.get("PreemptType", "")),
        scheduler_parameters=_parameters(shown.get("SchedulerParameters", "")),
        dependency_parameters=_words(shown, "DependencyParameters"),
        controller_parameters=_words(shown, "SlurmctldParameters"),
        has_federation=values.shown_text(shown.get("FederationParameters", "")) is not None,
    )


def parse_federation(output: bytes) -> str:
    """The name of the cluster's federation; empty where nothing at all is answered, which is how Slurm says "none".

    Raises:
        UnreadableError: An answer that names none.
    """
    if not output.strip():
        return ""
    found = _FEDERATION.search(output)
    if found is None:
        raise values.unreadable("a federation", output[:200])
    return found[1].decode("utf-8", "replace")


def _read(output: bytes) -> dict[str, str]:
    """The settings by name, from a whole answer: its last lines say of each slurmctld whether it is up."""
    text = output.decode("utf-8", "replace")
    first, _, rest = text.partition("\n")
    if not first.startswith("Configuration data as of "):
        raise values.unreadable("Slurm's settings", text[:200])
    shown: dict[str, str] = {}
    is_whole = False
    for line in rest.split("\n"):
        if _UP.match(line):
            is_whole = True
        elif match := _LINE.match(line):
            shown.setdefault(match[1], match[2].strip())
    if not is_whole:
        raise values.unreadable("the end of Slurm's settings", text[-200:])
    return shown


def _demanded(shown: Mapping[str, str], key: str) -> str:
    if not shown.get(key):
        raise values.unreadable(f"Slurm's settings without {key}", sorted(shown)[:5])
    return shown[key]


def _seconds(shown: str, what: str) -> int | None:
    if values.shown_text(shown) is None or shown in ("INFINITE", "UNLIMITED"):
        return None
    match = _SECONDS.match(shown)
    if match is None:
        raise values.unreadable(what, shown)
    return int(match[1]) * (60 if match[2] == "min" else 1)


def _seconds_or_none(shown: str, what: str) -> int | None:
    """A setting that has a default to fall back on: None also where it cannot be read."""
    try:
        return _seconds(shown, what)
    except UnreadableError:
        return None


def _switch(shown: Mapping[str, str], key: str) -> bool | None:
    value = shown.get(key)
    if value is None or value.lower() not in ("0", "1", "yes", "no"):
        return None
    return value.lower() in ("1", "yes")


def _words(shown: Mapping[str, str], key: str) -> tuple[str, ...]:
    value = values.shown_text(shown.get(key, ""))
    if value is None or value == "none":
        return ()
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _parameters(shown: str) -> dict[str, str]:
    if values.shown_text(shown) is None:
        return {}
    pairs = (word.partition("=") for word in shown.split(",") if word)
    return {key.strip(): value for key, _, value in pairs}
