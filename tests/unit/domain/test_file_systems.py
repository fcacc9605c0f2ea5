"""Which file system a path lies on, by its name alone."""

from __future__ import annotations

import pytest

from relance.domain.file_systems import file_system_of, file_systems_named


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/lustre/proj/run", "/lustre"),
        ("/lustre", "/lustre"),
        ("/home/ada", "/home"),
        ("/mnt/weka/ada/run", "/mnt/weka"),
        ("/p/scratch/ada", "/p/scratch"),
        ("/mnt", ""),
        ("/tmp/run", ""),
        ("/var/log/messages", ""),
        ("relative/path", ""),
        ("", ""),
        ("/", ""),
    ],
)
def test_it_is_told_by_the_first_folders_of_a_path(path: str, name: str) -> None:
    assert file_system_of(path) == name


def test_mount_points_that_the_site_names_go_first_and_the_longest_counts() -> None:
    known = ("/data", "/data/fast", "/tmp/shared")
    assert file_system_of("/data/fast/run", known) == "/data/fast"
    assert file_system_of("/data/slow", known) == "/data"
    assert file_system_of("/database/x", known) == "/database"
    assert file_system_of("/tmp/shared/x", known) == "/tmp/shared"


def test_those_that_a_line_names_are_found_in_order() -> None:
    lines = (
        "OSError: [Errno 116] Stale file handle: '/lustre/proj/ckpt/step_100/rank3.pt'",
        'File "/usr/lib/python3.11/shutil.py", line 1, in copy /home/ada/x.py https://example.org/a/b',
    )
    assert file_systems_named(lines) == ("/lustre", "/home")
