"""What a stack is at: waiting in a collective or for its GPU, saving, evaluating, loading data, or something else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from relance.traces.stacks import Frame, Stack


class At(Enum):
    """What a process is at; the value completes the sentence `it is ...`."""

    COLLECTIVE = "in a collective"
    DEVICE = "waiting for its GPU"
    SAVE = "saving or loading a checkpoint"
    EVALUATION = "evaluating"
    LOGGING = "logging"
    DATA = "loading data"
    COMPILING = "compiling"
    STARTING = "starting up"
    DEBUGGER = "in a debugger"
    OTHER = "elsewhere in its code"

    @property
    def waits(self) -> bool:
        """Whether it waits for others, or for its own GPU, which may wait for others."""
        return self in (At.COLLECTIVE, At.DEVICE)

    @property
    def may_be_planned(self) -> bool:
        """Whether one rank may do this by itself as its program means it to."""
        return self in (At.SAVE, At.EVALUATION, At.LOGGING)


_COLLECTIVE_FILES = re.compile(
    r"distributed_c10d|c10d_logger|p2p_communication|(?:^|/)nccl|torch_collectives|horovod|/mpi_ops|tensor_parallel/mappings"
)
_COLLECTIVE_CALLS = re.compile(
    r"^_?(?:all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|all_?to_?all|monitored_barrier|batch_isend_irecv|"
    r"i?send|i?recv)\w*$|^ncclGroup|^send_(?:for|back)ward|^recv_(?:for|back)ward"
)
_DEVICE_CALLS = re.compile(
    r"^(?:synchronize|cudaStreamSynchronize|cudaDeviceSynchronize|cuStreamSynchronize|_engine_run_backward|item|tolist|"
    r"_local_scalar_dense|wait_stream|current_stream)$"
)
_SAVES = re.compile(
    r"checkpoint|(?:^|_)(?:save|load)(?:_|$)|torch/serialization|state_dict_(?:saver|loader)|filesystem\.py"
)
_EVALUATES = re.compile(r"(?:^|_|/)(?:eval|evaluat\w*|validat\w*|generate|inference)(?:_|\.|/|$)")
_LOGS = re.compile(r"wandb|tensorboard|mlflow|comet_ml|(?:^|/)logging/|(?:^|_)log(?:_|ger|ging)(?:\w*)|^print$")
_LOADS = re.compile(
    r"data/dataloader|(?:^|_)next_data$|dataset|data_?loader|(?:^|_)(?:load|read|next|get|fetch)_(?:shard|batch|sample|data)|"
    r"tokeniz|h5py|arrow|fsspec|s3fs|boto|PIL/|indexed"
)
_COMPILES = re.compile(r"_dynamo|_inductor|torch/compile|cpp_extension|triton/|jit/_|tvm")
_STARTS = re.compile(r"rendezvous|init_process_group|_store_based_barrier|new_group|_new_process_group")
_DEBUGS = re.compile(r"(?:^|/)(?:[a-z]*pdb|bdb|remote_pdb|pydevd\w*)\.py$|(?:^|/)(?:debugpy|pydevd|pudb|IPython)/")
"""Files of debuggers, at whose prompts a person types."""
_LIBRARY = re.compile(
    r"(?:^|python3\.\d+/)(?:threading|selectors|subprocess|socket|ssl|queue|connection|popen_fork)\.py$"
)
"""Files in which a thread waits for what its caller waits for."""
_PROMPT = 8
"""A prompt of a debugger is at most so deep below where the program stopped."""
_LOOKED_AT = 25
"""So many of the innermost calls tell what a process is at; those around them are the same for all."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a process is at, and the call that tells."""

    at: At
    frame: Frame


def at_of(stack: Stack) -> At:
    """What a process is at."""
    return standing_of(stack).at


def standing_of(stack: Stack) -> Standing:
    """What a process is at, by its innermost calls that tell.

    A collective within a save or an evaluation is a collective: what counts is whether it waits for others.
    """
    frames = stack.frames[:_LOOKED_AT]
    for frame in frames[:_PROMPT]:
        if _DEBUGS.search(frame.file):
            return Standing(At.DEBUGGER, frame)
    for frame in frames:
        if _STARTS.search(_plain(frame)):
            return Standing(At.STARTING, frame)
    for frame in frames[:6]:
        if _COLLECTIVE_FILES.search(frame.file) or _COLLECTIVE_CALLS.search(_plain(frame)):
            return Standing(At.COLLECTIVE, frame)
    for frame in frames[:3]:
        if _DEVICE_CALLS.search(_plain(frame)):
            return Standing(At.DEVICE, frame)
    for frame in frames:
        found = _work(frame)
        if found is not None:
            return Standing(found, frame)
    own = (frame for frame in frames if not _LIBRARY.search(frame.file))
    return Standing(At.OTHER, next(own, frames[0]))


def _plain(frame: Frame) -> str:
    """The name of a function without that of its class, which newer versions of py-spy give."""
    return frame.function.rpartition(".")[2]


def _work(frame: Frame) -> At | None:
    for kind, pattern in (
        (At.COMPILING, _COMPILES),
        (At.DATA, _LOADS),
        (At.SAVE, _SAVES),
        (At.EVALUATION, _EVALUATES),
        (At.LOGGING, _LOGS),
    ):
        if pattern.search(_plain(frame)) or pattern.search(frame.file):
            return kind
    return None
