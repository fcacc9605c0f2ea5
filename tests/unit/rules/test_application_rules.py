"""What rules about the job's own output must tell apart, and healthy logs that must give no reason to act."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relance.attribution import judge_runs
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role
from relance.domain.verdicts import Verdict
from relance.watching import finished
from relance.watching.finished import Context, cases_of, named, read_finished
from tests.unit.rules.packs import by_rule, packaged, scan, scanner

HEALTHY = sorted((Path(__file__).parent / "healthy").glob("*.log"))
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def one_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack is compiled once, not for each log."""
    monkeypatch.setattr(finished, "Scanner", lambda *_args, **_kwargs: scanner())


def diagnosed(name: str, text: bytes) -> Verdict:
    log = named(name, lambda: [text])
    return judge_runs(cases_of(read_finished([log], Context(), packaged(), NOW), Context(), NOW))


def symptoms(text: str) -> list[str]:
    """The symptoms of the lines that can name a cause."""
    return [hit.symptom for hit in scan(text.encode()).hits if hit.role in (Role.ROOT, Role.MAYBE)]


def test_there_are_healthy_logs_of_many_kinds() -> None:
    assert len(HEALTHY) >= 30
    assert all(20 <= log.read_bytes().count(b"\n") <= 70 for log in HEALTHY)


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log.stem)
def test_a_healthy_log_gives_no_reason_to_act(log: Path) -> None:
    verdict = diagnosed(log.name, log.read_bytes())
    shown = [(hit.rule, hit.line, hit.excerpt) for hit in verdict.evidence]
    assert verdict.remedy is Remedy.NONE, shown
    assert verdict.domain in (FaultDomain.NONE, FaultDomain.UNKNOWN), shown


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log.stem)
def test_a_healthy_log_has_no_root_line_outside_of_tracebacks(log: Path) -> None:
    """Tracebacks that were caught are told from others by what comes after; any other line has to be told by itself."""
    hits = scan(log.read_bytes(), scope=named(log.name, list).scope).hits
    roots = [hit for hit in hits if hit.role in (Role.ROOT, Role.MAYBE) and "frame" not in hit.captures]
    assert [(hit.rule, hit.line, hit.excerpt) for hit in roots if hit.symptom != "cold_start_unwanted"] == []


def traceback_of(*last: str, label: str = "") -> str:
    head = ("Traceback (most recent call last):", '  File "/repo/train.py", line 12, in main', "    run(config)")
    return "".join(f"{label}{line}\n" for line in (*head, *last))


KINDS = {
    "ModuleNotFoundError: No module named 'acme'": "import_error",
    "NameError: name 'lr' is not defined": "code_error",
    "TypeError: Trainer.__init__() got an unexpected keyword argument 'packing'": "code_error",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.bin'": "path_missing",
    "PermissionError: [Errno 13] Permission denied: '/ckpt/a.tmp'": "permission",
    "KeyError: 'tokens'": "python_exception",
    "KeyError: 'MASTER_ADDR'": "env_missing",
    "ZeroDivisionError: division by zero": "math_error",
    "MemoryError": "host_oom",
    "RecursionError: maximum recursion depth exceeded in comparison": "recursion_limit",
    "NotImplementedError": "not_supported",
    "AssertionError": "assertion",
    "AssertionError: num_attention_heads (30) must be divisible by tensor_model_parallel_size (8)": "parallel_config",
    "AssertionError: expert parallelism is only supported with --use-mcore": "config_invalid",
    "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path": "config_invalid",
    "pydantic_core._pydantic_core.ValidationError: 2 validation errors for TrainConfig": "config_invalid",
    "yaml.scanner.ScannerError: mapping values are not allowed here": "config_invalid",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x512 and 1024x64)": "shape_mismatch",
    "RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu!": "device_mismatch",
    "RuntimeError: expected scalar type BFloat16 but found Float": "dtype_mismatch",
    "RuntimeError: Trying to backward through the graph a second time": "autograd_error",
    "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 81 (char 80)": "bad_data_record",
    "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1": "bad_data_record",
    "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer.": "bad_data_record",
    "struct.error: unpack requires a buffer of 8 bytes": "bad_data_record",
    "IndexError: index out of range in self": "bad_token",
    "OSError: Can't load tokenizer for 'acme/llm'.": "tokenizer_failed",
    "StopIteration": "data_exhausted",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0": "data_empty",
    "RuntimeError: DataLoader timed out after 600 seconds": "dataloader_timeout",
    "RuntimeError: PytorchStreamReader failed reading zip archive: not a zip": "checkpoint_corrupt",
    "_pickle.UnpicklingError: pickle data was truncated": "checkpoint_corrupt",
    "_pickle.UnpicklingError: Weights only load failed. Set it to False.": "checkpoint_incompatible",
    "RuntimeError: Error(s) in loading state_dict for GPTModel:": "checkpoint_incompatible",
    "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/run7/.metadata'": "checkpoint_load_failed",
    "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 34 vs 33": "checkpoint_save_failed",
    "FileExistsError: [Errno 17] File exists: '/ckpt/run7/step_500'": "checkpoint_conflict",
    "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:": "compile_failed",
    "wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec.": "tracker_failed",
    "huggingface_hub.errors.GatedRepoError: 401 Client Error.": "hub_denied",
    "huggingface_hub.errors.LocalEntryNotFoundError: An error happened on the way to the Hub": "hub_unreachable",
    "Exception: Current loss scale already at minimum - cannot decrease": "loss_scale_exhausted",
    "ValueError: Loss became NaN at step 12": "nan_detected",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='data.example', port=443)": "service_unreachable",
    "acme.errors.BadShard: shard 7 has no index": "python_exception",
    "acme.errors.BadShard": "python_exception",
    "Exception: the writer said no": "python_exception",
    "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated": "pool_worker_died",
}


@pytest.mark.parametrize("label", ["", "3: ", "[rank5]: ", "[default0]:", "(TrainWorker pid=441, ip=10.0.0.7) "])
@pytest.mark.parametrize("last", KINDS)
def test_the_exception_that_ended_a_program_is_known_by_its_kind(last: str, label: str) -> None:
    assert set(symptoms(traceback_of(last, label=label))) == {KINDS[last]}


@pytest.mark.parametrize(
    "line",
    [
        "2026-05-02 11:00:00,120 WARNING data: sample 17: KeyError: 'text', left out",
        "[WARNING] ValueError: bad length, going on",
        "2026-05-02 11:00:00 INFO reward: answer 3 raised ZeroDivisionError: division by zero",
        "    raise ValueError: text in a comment of the code",
        "except FileNotFoundError: use the default",
        "INFO RuntimeError: profiler is busy, ignoring it",
        "the docs say: 'KeyError: x' means that a key is missing",
        "INFO reward: answer 4 raised TypeError: solve() missing 1 required positional argument: 'n'",
        "INFO sandbox: RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
        "WARNING: vocab size must be divisible by 128, padding it",
        "WARNING ckpt: step-400 is corrupt (PytorchStreamReader failed reading zip archive), trying step-300",
        "INFO eval: 'RecursionError: maximum recursion depth exceeded' is what the answer printed",
        "WARNING hub: couldn't connect to 'https://huggingface.co', using the local cache",
        "        ValueError: if the shapes do not match",
    ],
)
def test_an_exception_that_a_line_only_mentions_ended_nothing(line: str) -> None:
    assert symptoms(line + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "[2026-05-02 11:00:01,120][__main__][ERROR] - ValueError: no shard left",
        "2026-05-02 11:00:01 CRITICAL Uncaught exception: no shard left",
        "cn07: ValueError: no shard left",
        "[1,3]<stderr>: ValueError: no shard left",
        "2026-05-02T11:00:01.120Z [rank3]: ValueError: no shard left",
    ],
)
def test_an_exception_without_its_traceback_counts_where_it_ends_a_program(line: str) -> None:
    assert symptoms(line + "\n") == ["python_exception"]


def test_of_a_data_loader_worker_the_exception_below_is_the_one_that_counts() -> None:
    text = traceback_of("KeyError: Caught KeyError in DataLoader worker process 3.") + (
        'Original Traceback (most recent call last):\n  File "/repo/data.py", line 7, in __getitem__\n'
        "    return self.rows[at]['text']\nKeyError: 'text'\n"
    )
    roots = [hit for hit in scan(text.encode()).hits if hit.role is Role.ROOT]
    assert [(hit.captures["message"], hit.captures["frame"]) for hit in roots] == [
        ("'text'", "/repo/data.py:7 in __getitem__")
    ]


def test_the_rerun_machine_names_rank_node_device_and_step() -> None:
    line = b"ERROR:rerun:Rank 21, node cn07, device 5, iteration #90413: Possible persistent error!!\n"
    (hit,) = by_rule(scan(line), "sdc-persistent")
    assert (hit.rank, hit.device, hit.captures["node"], hit.captures["step"]) == (21, "gpu5", "cn07", "90413")
    assert hit.restart is RestartHint.EXCLUDE


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("[exiting program at iteration 400 due to kill switch]", "planned_exit"),
        ("[exiting program after receiving SIGTERM.] datetime: 2026-05-02 11:12:00", "planned_exit"),
        ("Time limit reached. Elapsed time is 3:59:00. Signaling Trainer to stop.", "planned_exit"),
        ("INFO: requeueing job 4411...", "requeued"),
        ("[after training is done] datetime: 2026-05-02 11:12:00", "done"),
        ("{'train_runtime': 4411.2, 'train_samples_per_second': 12.1, 'epoch': 3.0}", "done"),
        ("[INFO|2026-05-02 11:12:59] >> 训练完成, 耗时 1:12:40, 异常: 无", "done"),
        ("INFO Entraînement terminé en 3 h", "done"),
        ("学習が完了しました", "done"),
        ("Обучение завершено", "done"),
        ("Rank 0: SIGTERM received, saving and exiting", "terminated_from_outside"),
    ],
)
def test_a_program_that_ends_by_its_own_plan_needs_nothing(line: str, cause: str) -> None:
    verdict = diagnosed("job.log", f"step 12\n{line}\n".encode())
    assert (verdict.cause, verdict.remedy) == (cause, Remedy.NONE)
