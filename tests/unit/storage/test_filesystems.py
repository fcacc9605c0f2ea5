from __future__ import annotations

from pathlib import Path

import pytest

from relance.storage.filesystems import OVER_A_NETWORK, UNKNOWN, file_system_of

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /home rw,relatime - autofs systemd-1 rw
31 30 0:50 /export /home rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
32 31 0:51 / /home/local\040disk rw - xfs /dev/sdb1 rw
33 22 0:52 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw
34 22 0:53 / /scratchy rw - btrfs /dev/sdc rw
35 22 0:54 / /mnt/ssh rw - fuse.sshfs host:/ rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS)
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/var/lib/relance.db", "ext4", id="the root holds what nothing else does"),
        pytest.param("/home/ada/relance.db", "nfs4", id="a later mount hides an earlier one"),
        pytest.param("/home/local disk/relance.db", "xfs", id="the deepest mount counts, spaces and all"),
        pytest.param("/scratch/a/b/relance.db", "lustre", id="a folder that does not exist lies where it would"),
        pytest.param("/scratchy/relance.db", "btrfs", id="a name that begins the same is another folder"),
        pytest.param("/mnt/ssh/relance.db", "fuse.sshfs", id="a network behind fuse"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_deepest_mount(mounts: Path, path: str, kind: str) -> None:
    assert file_system_of(Path(path), mounts) == kind


def test_a_link_is_followed_to_where_the_file_would_be(mounts: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scratch/data")
    assert file_system_of(tmp_path / "link" / "relance.db", mounts) == "lustre"


def test_where_mounts_cannot_be_read_nothing_is_claimed(tmp_path: Path) -> None:
    assert file_system_of(tmp_path, tmp_path / "missing") == UNKNOWN
    assert UNKNOWN not in OVER_A_NETWORK


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "gpfs", "beegfs", "fuse.sshfs", "9p", "ceph"])
def test_what_clusters_share_counts_as_a_network(kind: str) -> None:
    assert kind in OVER_A_NETWORK


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay"])
def test_local_disks_do_not(kind: str) -> None:
    assert kind not in OVER_A_NETWORK
