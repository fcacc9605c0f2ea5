"""Kinds of failure that the packaged rules and the fusion have to tell apart together, each in words of its own."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.attribution import judge_runs
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import Verdict
from relance.watching.finished import Context, cases_of, named, read_finished
from tests.unit.rules.packs import packaged, scanner

NOW = datetime(2026, 11, 30, tzinfo=UTC)
TWO = Context(nodes=("ox1", "ox2"), rank_to_node={0: "ox1", 1: "ox1", 2: "ox2", 3: "ox2"})
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
CODE = 'Traceback (most recent call last):\n[rank1]:   File "/w/t.py", line 3, in f\n[rank1]: KeyError: "tokens"'


def judged(context: Context, **logs: str) -> Verdict:
    """The verdict on logs by their names, with `_` for `-`."""
    files = [
        named(f"{name.replace('_', '-')}.log", lambda text=text: [text.encode()])  # type: ignore[misc]
        for name, text in logs.items()
    ]
    found = read_finished(files, context, packaged(), NOW, scanner())
    return judge_runs(cases_of(found, context, NOW), by_hand=found.by_hand)


def steps(first: int, last: int, time_ms: float = 5000.0, loss: str = "2.1E+00") -> str:
    return "".join(
        f" [2026-05-02 10:{step // 60 % 60:02d}:{step % 60:02d}] iteration {step:8d}/  90000 | "
        f"elapsed time per iteration (ms): {time_ms:.1f} | lm loss: {loss} | grad norm: 0.4 |\n"
        for step in range(first, last + 1)
    )


class TestRunsThatSomebodyStartedAgain:
    def test_what_had_failed_is_told_though_the_next_run_goes_on(self) -> None:
        text = f"== run 1\n{steps(1, 9)}[rank1]: {CODE}\n== run 2\n{steps(1, 9)}"
        assert judged(TWO, job=text).domain is FaultDomain.APPLICATION

    def test_an_unnumbered_banner_of_another_try_begins_a_run(self) -> None:
        text = f"{steps(1, 9)}[rank1]: {CODE}\n--- second try, nothing changed ---\n{steps(1, 9)}"
        assert judged(TWO, job=text).domain is FaultDomain.APPLICATION

    def test_what_a_restarter_inside_the_job_got_over_is_no_fault(self) -> None:
        again = "Rendezvous complete for workers. Result: restart_count={} group_world_size=2\n"
        text = f"{again.format(0)}{steps(1, 9)}[rank1]: {CODE}\n{again.format(1)}{steps(8, 30)}"
        assert judged(TWO, job=text).remedy is Remedy.NONE

    def test_a_last_run_that_finished_settles_it(self) -> None:
        text = f"== run 1\n{steps(1, 9)}[rank1]: {CODE}\n== run 2\n{steps(1, 9)}Training completed\n"
        assert judged(TWO, job=text).remedy is Remedy.NONE

    def test_a_fault_that_one_run_ended_of_is_not_the_next_runs(self) -> None:
        events = "2026-05-02T10:00:08Z Warning Evicted pod/w-1 The node was low on resource: ephemeral-storage.\n"
        again = "Rendezvous complete for workers. Result: restart_count={} group_world_size=2\n"
        closing = "W0502 10:00:12.540000 18 torch/x.py:900] Sending process 77 closing signal SIGTERM\n"
        text = f"{again.format(0)}step 4 loss 2.1\n{closing}{again.format(1)}step 4 loss 2.1\nstep 5 loss 2.0\n"
        assert judged(TWO, events=events, worker_0=text).remedy is Remedy.NONE


class TestFaultsOfOneNodeOverRuns:
    def test_a_nan_that_stays_on_a_node_under_other_ranks_is_the_nodes(self) -> None:
        text = "".join(
            f"== run {run}\nstep {10 * run} loss 2.1\n[rank{rank}]: AssertionError: found NaN in local grad norm\n"
            for run, rank in ((1, 2), (2, 0))
        )
        places = {1: {0: "ox1", 2: "ox2"}, 2: {0: "ox2", 2: "ox3"}}
        verdict = judged(Context(nodes=("ox1", "ox2", "ox3"), places_of_run=places), attempts=text)
        assert verdict.remedy is Remedy.RESTART_EXCLUDING
        assert [item.node for item in verdict.to_leave_out] == ["ox2"]

    def test_a_nan_on_the_same_rank_may_be_the_data_of_that_rank(self) -> None:
        text = "".join(
            f"== run {run}\nstep {10 * run} loss 2.1\n[rank2]: AssertionError: found NaN in local grad norm\n"
            for run in (1, 2)
        )
        places = {1: {0: "ox1", 2: "ox2"}, 2: {0: "ox1", 2: "ox2"}}
        assert judged(Context(nodes=("ox1", "ox2"), places_of_run=places), attempts=text).to_leave_out == ()


class TestMemory:
    def test_memory_that_the_job_itself_holds_on_all_nodes_is_the_programs(self) -> None:
        told = f"{OOM} of which 1 GiB is free. Process 77{{0}} has 78.0 GiB memory in use."
        verdict = judged(TWO, job="".join(f"[rank{rank}]: {told.format(rank)}\n" for rank in range(4)))
        assert (verdict.domain, verdict.remedy) == (FaultDomain.APPLICATION, Remedy.STOP)

    def test_memory_that_a_stranger_holds_on_one_node_is_that_nodes(self) -> None:
        line = f"[rank2]: {OOM} of which 1 GiB is free. Process 991 has 60.0 GiB memory in use.\n"
        assert [item.node for item in judged(TWO, job=line).to_leave_out] == ["ox2"]

    def test_memory_that_ran_out_in_two_logs_before_the_first_step_runs_out_again(self) -> None:
        line = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 26306674688 bytes.\n"
        assert judged(Context(nodes=("ox1", "ox2")), worker_0=line, worker_1=line).remedy is Remedy.STOP

    def test_memory_of_devices_that_ran_out_on_all_nodes_at_once_runs_out_again_late_too(self) -> None:
        lines = "".join(f"[rank{rank}]: {OOM}\n" for rank in range(4))
        assert judged(TWO, job=steps(1, 30) + lines).remedy is Remedy.STOP

    def test_memory_that_ran_out_on_one_rank_late_may_suffice_the_next_time(self) -> None:
        assert judged(TWO, job=f"{steps(1, 30)}[rank3]: {OOM}\n").remedy is Remedy.RESTART


class TestStorage:
    TORN = (
        'Traceback (most recent call last):\n  File "/w/t.py", line 310, in <module>\n'
        'ValueError: DATA_LOSS: Error reading "p/c/3.0": zstd: unexpected end of input\n'
    )

    def test_a_checkpoint_that_is_torn_at_the_start_is_torn_at_the_next(self) -> None:
        assert judged(TWO, job=self.TORN).remedy is Remedy.STOP

    def test_a_call_that_failed_stays_failed_when_the_host_is_back(self) -> None:
        kernel = (
            "[9120.4] Lustre: s-OST001c-osc-ffff9: Connection to s-OST001c (at 10.3.1.28@o2ib) was lost; in progress "
            "operations using this service will wait for recovery to complete\n"
            "[9155.8] Lustre: s-OST001c-osc-ffff9: Connection restored to 10.3.1.28@o2ib (at 10.3.1.28@o2ib)\n"
        )
        failed = "OSError: [Errno 108] Cannot send after transport endpoint shutdown\n"
        job = f'{steps(1, 9)}Traceback (most recent call last):\n  File "/w/t.py", line 7, in g\n{failed}'
        ended = "srun: error: ox2: task 9: Exited with exit code 1\n"
        assert judged(TWO, dmesg_ox2=kernel, job=job + ended).domain is FaultDomain.STORAGE


class TestWhatAllNodesShow:
    def test_a_driver_too_old_everywhere_is_better_nowhere_else(self) -> None:
        told = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."
        verdict = judged(TWO, job="".join(f"[rank{rank}]: {told}\n" for rank in range(4)))
        assert verdict.remedy is Remedy.STOP
        assert verdict.suspects == ()

    def test_a_switch_that_shook_all_nodes_blames_none(self) -> None:
        nodes = tuple(f"ox{number}" for number in range(1, 5))
        told = "NCCL WARN NET/IB : mlx5_2:1 Got async event : port error"
        lines = "".join(f"{node}:31:33 [2] {told}\n" for node in nodes)
        verdict = judged(Context(nodes=nodes), job=steps(1, 9) + lines)
        assert (verdict.domain, verdict.remedy) == (FaultDomain.INTERCONNECT, Remedy.RESTART)
        assert verdict.to_leave_out == ()

    def test_the_logs_of_many_nodes_in_one_file_are_told_apart(self) -> None:
        nodes = tuple(f"ox{number}" for number in range(1, 5))
        kernel = "".join(f"{node}: [60.1] mlx5_core 0000:5e:00.0 mlx5_2: Port: 1 Link DOWN\n" for node in nodes)
        log = named("dmesg-all.log", lambda: [kernel.encode()])
        found = read_finished([log], Context(nodes=nodes), packaged(), NOW, scanner())
        hits = [hit for finding in found.findings for hit in finding.hits]
        assert {hit.excerpt.partition(":")[0] for hit in hits} == set(nodes)


class TestTheCourseOfSteps:
    def test_losses_that_are_no_numbers_to_the_end_are_a_reason_to_stop(self) -> None:
        verdict = judged(TWO, job=steps(1, 9) + steps(10, 14, loss="nan"))
        assert (verdict.cause, verdict.remedy) == ("loss_nan", Remedy.STOP)

    def test_losses_that_came_back_are_none(self) -> None:
        assert judged(TWO, job=steps(1, 9) + steps(10, 14, loss="nan") + steps(15, 17)).remedy is Remedy.NONE

    def test_slow_steps_alone_blame_nobody(self) -> None:
        assert judged(TWO, job=steps(1, 9) + steps(10, 20, time_ms=9000.0)).remedy is Remedy.NONE


def test_an_assertion_of_a_kernel_explains_the_xid_beside_it() -> None:
    kernel = "[11.2] NVRM: Xid (PCI:0000:c3:00): 13, pid=31206, name=python, Graphics Exception: ESR 0x50\n"
    assertion = "/pytorch/Indexing.cu:1422: f: block: [211,0,0], thread: [64,0,0] Assertion `i < n` failed.\n"
    verdict = judged(
        TWO, dmesg_ox1=kernel, job=f"{assertion}[rank1]: RuntimeError: CUDA error: device-side assert triggered\n"
    )
    assert verdict.cause in ("device_assert", "bad_index_or_label")
    assert verdict.to_leave_out == ()
