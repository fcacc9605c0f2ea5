from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relance.simulation import scenarios
from tests.integration.simulation.clusters import RunningCluster

TRAINER = [sys.executable, "-m", "relance.simulation.trainer"]
STEP_LINE = re.compile(
    r"(?:(?P<label>[0-9]+): )?"
    r" \[[0-9-]{10} [0-9:.]{15}\] iteration +(?P<step>[0-9]+)/ +[0-9]+ \| consumed samples: +(?P<samples>[0-9]+) \| "
    r"elapsed time per iteration \(ms\): (?P<elapsed_ms>[0-9.]+) \| learning rate: [0-9.]+E[+-][0-9]+ \| "
    r"global batch size: +[0-9]+ \| lm loss: (?P<loss>[0-9.]+E[+-][0-9]+) \| loss scale: 1\.0 \| "
    r"grad norm: [0-9.]+ \| number of skipped iterations:   0 \| number of nan iterations:   0 \|"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train(*options: str, ranks: int = 1) -> list[str]:
    """A whole run; the output of each rank."""
    port = str(free_port())
    processes = []
    for rank in range(ranks):
        env = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_PORT": port}
        command = [*TRAINER, "--step-s", "0", *options]
        processes.append(
            subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, outputs
    return outputs


def steps(output: str) -> list[re.Match[str]]:
    return [found for line in output.splitlines() if (found := STEP_LINE.fullmatch(line))]


def checksum(output: str) -> str:
    found = re.search(r"weights after iteration [0-9]+: checksum ([0-9a-f]{16})", output)
    assert found is not None, output
    return found[1]


def in_cluster(cluster: RunningCluster, *options: str, nodes: int = 4) -> int:
    """A run of two ranks per node whose job runs."""
    return cluster.running([*TRAINER, "--steps", "100000", "--step-s", "0.03", *options], nodes=nodes, ranks_per_node=2)


def until_output(cluster: RunningCluster, job_id: int, pattern: str, *, limit_s: float = 6.0) -> str:
    """Wait for a line in the job's output; the output then."""
    deadline = time.monotonic() + limit_s
    while not re.search(pattern, text := cluster.output(job_id)):
        assert time.monotonic() < deadline, text
        time.sleep(0.03)
    return text


def test_the_loss_falls() -> None:
    losses = [float(found["loss"]) for found in steps(train("--steps", "150", "--micro-batch", "16")[0])]
    assert len(losses) == 150
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


def test_a_resumed_run_ends_with_the_very_weights_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = train("--steps", "24", "--checkpoint-dir", str(tmp_path / "whole"), ranks=4)
    # The learning rate follows the whole run's length, so the interrupted run has it too and is broken off by an exit.
    first = ["--steps", "24", "--checkpoint-dir", str(tmp_path / "parts"), "--scenario", "exit:at=15,code=0"]
    broken = train(*first, ranks=4)
    resumed = train("--steps", "24", "--checkpoint-dir", str(tmp_path / "parts"), ranks=4)
    assert int(steps(broken[3])[-1]["step"]) == 14
    assert f" loading checkpoint from {tmp_path / 'parts'} at iteration 10" in resumed[0].splitlines()
    assert [int(found["step"]) for found in steps(resumed[3])] == list(range(11, 25))
    assert [found["loss"] for found in steps(resumed[3])] == [found["loss"] for found in steps(whole[3])[10:]]
    assert checksum(resumed[0]) == checksum(whole[0])
    assert (tmp_path / "parts" / "latest_checkpointed_iteration.txt").read_text() == "24"


def test_only_the_last_rank_prints_steps_and_only_the_first_saves(tmp_path: Path) -> None:
    outputs = train("--steps", "10", "--checkpoint-dir", str(tmp_path), "--eval-every", "5", ranks=3)
    assert [len(steps(output)) for output in outputs] == [0, 0, 10]
    assert [int(found["samples"]) for found in steps(outputs[2])] == [12 * step for step in range(1, 11)]
    assert "will not load any checkpoints and will start from random" in outputs[0]
    assert re.search(rf"\] saving checkpoint at iteration      10 to {tmp_path} in torch_dist format", outputs[0])
    assert re.search(rf"\] successfully saved checkpoint from iteration      10 to {tmp_path} \[", outputs[0])
    assert outputs[2].count("validation loss at iteration") == 2
    assert outputs[1] == ""


def test_a_rank_needs_little_to_start() -> None:
    before = os.times()
    train("--steps", "1")
    after = os.times()
    assert (after.children_user - before.children_user) + (after.children_system - before.children_system) < 0.8


def test_a_killed_rank_breaks_the_ring_and_the_others_say_how(cluster: RunningCluster) -> None:
    job_id = in_cluster(cluster)
    until_output(cluster, job_id, "iteration +5/")
    cluster.ask("kill_rank", job_id=job_id, rank=3)
    assert cluster.until(job_id, "FAILED")["exit_code"] == "137:0"
    text = cluster.output(job_id)
    told = set(re.findall(r"\[rank([0-9])\]: torch\.distributed\.DistBackendError: .*Connection closed by peer", text))
    assert {"2", "4"} & told
    assert "3" not in told
    assert "4: [rank4]: Traceback (most recent call last):" in text
    assert text.index("srun: error: node002: task 3: Killed") == text.index("srun: error: ")


def test_a_stopped_rank_makes_the_others_wait_until_it_goes_on(cluster: RunningCluster) -> None:
    job_id = in_cluster(cluster, nodes=2)
    until_output(cluster, job_id, "iteration +5/")
    cluster.ask("stop_rank", job_id=job_id, rank=1)
    time.sleep(0.2)
    seen = len(cluster.output(job_id))
    time.sleep(0.4)
    assert len(cluster.output(job_id)) == seen
    assert cluster.job(job_id)["state"] == "RUNNING"
    cluster.ask("kill_rank", job_id=job_id, rank=1, signal="CONT")
    last = steps(cluster.output(job_id))[-1]["step"]
    until_output(cluster, job_id, f"iteration +{int(last) + 3}/")


def test_with_a_limit_the_watchdog_ends_ranks_that_wait(cluster: RunningCluster) -> None:
    job_id = in_cluster(cluster, "--collective-timeout-s", "0.4", nodes=2)
    until_output(cluster, job_id, "iteration +3/")
    cluster.ask("stop_rank", job_id=job_id, rank=1)
    assert cluster.until(job_id, "FAILED")["exit_code"] == "134:0"
    assert "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" in cluster.output(job_id)
    assert re.search(r"srun: error: node00[12]: task [023]: Aborted", cluster.output(job_id))


def test_a_broken_node_kills_its_first_rank_each_time_and_then_its_kernel_says_why(cluster: RunningCluster) -> None:
    cluster.ask("break_node", node="node002", kind="xid79", after_steps=3)
    for attempt in (0, 1):
        job_id = in_cluster(cluster, nodes=2)
        cluster.until(job_id, "FAILED")
        assert "[rank2]: torch.AcceleratorError: CUDA error: unspecified launch failure" in cluster.output(job_id)
        kernel = Path(cluster.node("node002")["kernel_log"]).read_text()
        assert kernel.count("): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.") == attempt + 1
    cluster.ask("mend_node", node="node002")
    until_output(cluster, in_cluster(cluster, nodes=2), "iteration +8/")
    assert Path(cluster.node("node001")["kernel_log"]).read_text() == ""


def test_a_slow_node_makes_the_steps_of_all_take_longer_until_it_is_mended(cluster: RunningCluster) -> None:
    job_id = in_cluster(cluster, "--step-s", "0.05", nodes=2)
    until_output(cluster, job_id, "iteration +5/")
    cluster.ask("break_node", node="node002", kind="slow", factor=6)
    slowed = int(steps(cluster.output(job_id))[-1]["step"])
    until_output(cluster, job_id, f"iteration +{slowed + 5}/")
    cluster.ask("mend_node", node="node002")
    mended = int(steps(cluster.output(job_id))[-1]["step"])
    until_output(cluster, job_id, f"iteration +{mended + 8}/")
    took_ms = {int(row["step"]): float(row["elapsed_ms"]) for row in steps(cluster.output(job_id))}
    assert all(took_ms[step] >= 300 for step in range(slowed + 2, slowed + 5))
    assert min(took_ms[step] for step in range(mended + 2, mended + 8)) < 300


def test_a_bug_raises_the_same_error_at_the_same_step_in_every_attempt(cluster: RunningCluster, tmp_path: Path) -> None:
    folder = ["--checkpoint-dir", str(tmp_path), "--checkpoint-every", "3"]
    job_id = in_cluster(cluster, *folder, "--scenario", "bug:at=5,ranks=1", nodes=2)
    assert cluster.until(job_id, "FAILED")["exit_code"] == "1:0"
    first = cluster.output(job_id)
    cluster.ask("requeue", job_id=job_id)
    time.sleep(0.35)
    cluster.ask("update", job_id=job_id, start_time="now")
    cluster.until(job_id, "FAILED")
    for text in (first, cluster.output(job_id)):
        assert "1: [rank1]: KeyError: '~'" in text
        assert re.search(r'1: \[rank1\]:   File ".*corpora\.py", line [0-9]+, in encoded', text)
        assert int(steps(text)[-1]["step"]) == 4
    assert int(steps(cluster.output(job_id))[0]["step"]) == 4


def test_a_frightening_rank_trains_on(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = in_cluster(cluster, "--scenario-dir", str(tmp_path), nodes=2)
    until_output(cluster, job_id, "iteration +3/")
    scenarios.begin(tmp_path, "frightening", ranks=[2])
    text = until_output(cluster, job_id, "2: WARNING: out of memory, emptied the cache")
    assert "2: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in text
    assert "NCCL WARN Cuda failure 2 'out of memory'" in text
    until_output(cluster, job_id, f"iteration +{int(steps(text)[-1]['step']) + 5}/")
    assert cluster.output(job_id).count("Traceback") == 1
    assert cluster.job(job_id)["state"] == "RUNNING"


@pytest.mark.parametrize("wrong", ["nosuch", "bug:when=3", "pause:s=long"])
def test_a_scenario_that_makes_no_sense_is_refused(wrong: str) -> None:
    refused = subprocess.run([*TRAINER, "--scenario", wrong], capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "--scenario" in refused.stderr) == (2, True)
