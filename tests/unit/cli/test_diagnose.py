from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relance.cli.main import main

STEPS = "".join(f" iteration {number:8d}/ 1000 | elapsed time per iteration (ms): 900.0 |\n" for number in range(1, 40))
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/train.py", line 12, in <module>
    main()
  File "/home/ada/train.py", line 9, in main
    total = sum(losses) / len(lossess)
NameError: name 'lossess' is not defined. Did you mean: 'losses'?
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["diagnose", *words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.log").write_text(STEPS + TRACEBACK)
    (tmp_path / "context.yaml").write_text("nodes: [n1, n2]\nrank_to_node: [{ranks: 0-7, node: n1}]\n")
    (tmp_path / "expected.yaml").write_text("domain: hardware\n")
    (tmp_path / ".hidden").write_text("CUDA error: uncorrectable ECC error encountered\n")
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100 + b"CUDA error: uncorrectable ECC error encountered\n")
    return tmp_path


def test_a_bug_is_told_to_a_person_with_its_line(folder: Path) -> None:
    told = run(str(folder))
    assert told.exit_code == 0, told.output
    assert "whose fault:   It is your code or data" in told.output
    assert "NameError: name 'lossess' is not defined" in told.output
    assert "decision:      stop" in told.output
    assert "last step 39" in told.output


def test_programs_get_the_verdict_as_one_object(folder: Path) -> None:
    report = json.loads(run(str(folder), "--json").output)
    assert (report["domain"], report["decision"], report["suspects"]) == ("application", "stop", [])
    assert report["first_evidence"]["file"] == "job.log"
    assert report["logs"] == ["job.log"], "neither context, nor hidden, nor binary files"
    assert report["progress"]["step"] == 39


def test_a_file_alone_is_called_as_it_was_named(folder: Path) -> None:
    path = folder / "job.log"
    assert json.loads(run(str(path), "--json").output)["logs"] == [str(path)]


def test_a_kernel_log_is_known_by_its_name_and_names_its_node(folder: Path) -> None:
    kernel = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"
    (folder / "dmesg-n2.log").write_text(kernel)
    (folder / "job.log").write_text(STEPS)
    report = json.loads(run(str(folder), "--json").output)
    assert report["domain"] == "hardware"
    assert [(suspect["node"], suspect["device"]) for suspect in report["suspects"]] == [("n2", "0000:3b:00")]
    assert report["decision"] == "restart_excluding"


def test_logs_of_several_places_are_read_together(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "rank-3.log").write_text("hello\n")
    logs = json.loads(run(str(folder / "job.log"), str(other), "--json").output)["logs"]
    assert logs == [str(folder / "job.log"), str(other / "rank-3.log")]


def test_links_in_a_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.log").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.log")
    assert json.loads(run(str(folder), "--json").output)["logs"] == ["job.log"]


def test_text_of_a_log_steers_no_terminal(folder: Path) -> None:
    (folder / "job.log").write_text(STEPS + TRACEBACK.replace("lossess", "los\x1b]0;owned\x07ses"))
    told = run(str(folder))
    assert told.exit_code == 0
    assert "\x1b" not in told.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("/nowhere",), 2, "does not exist"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_is_not_there_is_wrong_usage(words: tuple[str, ...], code: int, said: str) -> None:
    told = run(*words)
    assert told.exit_code == code
    assert said in told.stderr


def test_a_folder_without_logs_is_said(tmp_path: Path) -> None:
    told = run(str(tmp_path))
    assert told.exit_code == 2
    assert told.stderr.startswith("relance: there is no log to read")


def test_a_folder_of_nothing_readable_says_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0\1" * 500)
    (tmp_path / "train.yaml").write_text("lr: 0.1\n")
    (tmp_path / "sacct.json").write_text('{"jobs": [')
    told = run(str(tmp_path))
    assert told.exit_code == 2
    assert "weights.bin: no text: not read" in told.stderr
    assert "train.yaml: settings: not read" in told.stderr
    assert "sacct.json: no whole JSON document" in told.stderr


def test_a_context_that_cannot_be_used_is_said(folder: Path) -> None:
    (folder / "context.yaml").write_text("nodes: 3\n")
    told = run(str(folder))
    assert told.exit_code == 2
    assert f"cannot use {folder / 'context.yaml'}: nodes: a list of names is wanted" in told.stderr


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_refused(tmp_path: Path, kind: str) -> None:
    endless = tmp_path / "log" if kind == "pipe" else Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(endless)
    told = run(str(endless))
    assert told.exit_code == 2
    assert "is not a plain file" in told.output


def test_a_name_that_is_not_utf_8_is_told_with_its_bytes(tmp_path: Path) -> None:
    with (tmp_path / os.fsdecode(b"job-\xff\xfe.log")).open("w") as log:
        log.write(STEPS + TRACEBACK)
    report = json.loads(run(str(tmp_path), "--json").output)
    assert report["decision"] == "stop"
    assert report["logs"] == ["job-\\xff\\xfe.log"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_log_in_utf_16_is_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "job.log").write_bytes(("\ufeff" + STEPS * 900 + TRACEBACK).encode(encoding))
    report = json.loads(run(str(tmp_path), "--json").output)
    assert (report["decision"], report["first_evidence"]["line"]) == ("stop", 900 * 39 + 6)


@pytest.mark.parametrize("date", ["9999-12-31T23:59:59.99", "9999-12-31 23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_date_at_the_end_of_all_dates_stops_no_answer(tmp_path: Path, date: str) -> None:
    lines = (STEPS + TRACEBACK).splitlines()
    (tmp_path / "job.log").write_text("".join(f"{date} {line}\n" for line in lines))
    assert json.loads(run(str(tmp_path), "--json").output)["domain"] == "application"


@pytest.mark.parametrize("made_up", ["/proc/self", "/proc/version", "/sys/kernel", "/dev/null"])
def test_what_has_no_end_is_refused_with_a_remedy(made_up: str) -> None:
    told = run(made_up)
    assert (told.exit_code, told.stdout) == (2, "")
    assert "and name that" in told.stderr


def test_a_context_without_an_end_is_not_read_to_its_end(folder: Path) -> None:
    told = run(str(folder), "--context", "/dev/zero")
    assert told.exit_code == 2
    assert "it is longer than 1 MiB" in told.stderr


def test_a_file_that_goes_while_a_folder_is_read_stops_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gone.log").write_text("x")
    seen = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path.name == "gone.log":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return seen(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert json.loads(run(str(folder), "--json").output)["logs"] == ["job.log"]


@pytest.mark.parametrize(("where", "code", "told"), [("/dev/full", 1, "could not be written"), (None, 0, "")])
def test_an_output_that_is_full_or_closed_is_no_crash(folder: Path, where: str | None, code: int, told: str) -> None:
    closed = ">&-" if where is None else f"> {where}"
    program = "import sys; sys.argv[0] = 'relance'; from relance.cli.entry import main; main()"
    ended = subprocess.run(
        ["/bin/sh", "-c", f'"$0" "$@" {closed}', sys.executable, "-c", program, "diagnose", str(folder)],
        stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert told in ended.stderr
