"""What frameworks announce beside steps: checkpoints and phases.

The wordings are those of their sources: megatron/training (checkpointing.py, training.py), torchtitan's checkpointer,
DeepSpeed's checkpoint engines, the Hugging Face Trainer, Lightning's checkpoint connector and loops, NeMo's strategies,
Composer's trainer and console_logger.py, MaxText's checkpointing.py with orbax, fairseq's checkpoint_utils.py, and the
extension builder of PyTorch.
"""

from __future__ import annotations

from typing import Final

from relance.progress.dialects import Mark, Told

_PATH: Final = r"(?P<path>\S*?)(?:\.{1,3}|[,;:])?(?:\s|$)"

MEGATRON: Final = (
    Mark(
        told=Told.SAVE_BEGUN,
        pattern=r"(?:saving checkpoint|scheduled an async checkpoint save) at iteration +(?P<step>\d+)"
        r" to (?P<path>\S+)",
    ),
    Mark(
        told=Told.SAVED,
        pattern=r"[Ss]uccessfully saved checkpoint (?:from|at) iteration +(?P<step>\d+)"
        r"(?: to (?P<path>\S+))?",
    ),
    Mark(told=Told.LOADING, pattern=r"loading (?:distributed |release )?checkpoint from (?P<path>\S+)"),
    Mark(
        told=Told.LOADED,
        pattern=r"successfully loaded checkpoint from (?P<path>\S+).{0,200}? at iteration +(?P<step>\d+)",
    ),
    Mark(told=Told.COLD, pattern=r"will not load any checkpoints and will start from random"),
    Mark(told=Told.COMPILING, pattern=r"compiling (?:and loading fused kernels|dataset index builder)"),
    Mark(
        told=Told.STARTING,
        pattern=r"done with (?:compiling and loading fused kernels|dataset index builder)\. Compilation time",
    ),
    Mark(
        told=Told.STARTING,
        pattern=r"\[(?:after megatron is initialized|after model|after dataloaders|before the start of training)"
        r"[^\]]{0,80}\] datetime:|initializing torch distributed|time to initialize megatron",
    ),
    Mark(told=Told.EVALUATING, pattern=r"Evaluating (?:on \d+ samples|iter \d+/\d+)", is_plain=False),
    Mark(told=Told.TRAINING, pattern=r"(?:validation|test) loss at (?:iteration|the end)", is_plain=False),
    Mark(told=Told.ENDING, pattern=r"\[after training is done\]|exiting program (?:at iteration|after|with code)"),
)
TITAN: Final = (
    Mark(
        told=Told.SAVE_BEGUN,
        pattern=r"Saving (?:the|a (?:full|model only)) checkpoint(?:.{0,80}?step,? +(?:step )?(?P<step>\d+))?",
    ),
    Mark(told=Told.SAVED, pattern=r"Finished saving the checkpoint|Last step checkpoint completed in"),
    Mark(
        told=Told.LOADING,
        pattern=r"Loading the checkpoint(?: from (?P<path>\S*?(?:step-(?P<step>\d+))?)\.?(?:\s|$))?",
    ),
    Mark(told=Told.LOADED, pattern=r"Finished loading the checkpoint"),
    Mark(told=Told.STARTS_AT, pattern=r"Training starts at step +(?P<step>\d+)"),
    Mark(told=Told.COMPILING, pattern=r"Compiling (?:each|the) .{1,60} with torch\.compile"),
    Mark(told=Told.TRAINING, pattern=r"validate step: *\d+", is_plain=False),
    Mark(told=Told.ENDING, pattern=r"- Training completed"),
)
EXTENSIONS: Final = (
    Mark(told=Told.COMPILING, pattern=r"Building extension module \w+\.\.\."),
    Mark(told=Told.STARTING, pattern=r"Time to load \w+ op: [\d.]+ seconds"),
)
DEEPSPEED: Final = (
    Mark(
        told=Told.SAVE_BEGUN,
        pattern=r"\[\w{3,12}\] Checkpoint (?:global_step(?P<step>\d+)|\S+) is about to be saved",
    ),
    Mark(told=Told.SAVE_BEGUN, pattern=r"\[Torch\] Saving (?P<path>\S{0,400}/global_step(?P<step>\d+))/\S+\.pt\.\.\."),
    Mark(told=Told.SAVED, pattern=r"\[\w{3,12}\] Checkpoint (?:global_step(?P<step>\d+)|\S+) is ready now"),
    Mark(
        told=Told.LOADING,
        pattern=r"\[Torch\] Loading checkpoint from (?P<path>\S*global_step(?P<step>\d+)\S*?|\S+?)\.\.\.",
    ),
    Mark(
        told=Told.LOADED,
        pattern=r"\[Torch\] Loaded checkpoint from (?P<path>\S*global_step(?P<step>\d+)\S*?|\S+?)\.(?:\s|$)",
    ),
    Mark(told=Told.COLD, pattern=r"Unable to find latest file at \S+, if trying to load latest checkpoint"),
    *EXTENSIONS,
)
LIGHTNING: Final = (
    Mark(told=Told.LOADING, pattern=r"Restoring states from the checkpoint path at " + _PATH),
    Mark(told=Told.LOADED, pattern=r"Restored all states from the checkpoint(?: at " + _PATH + ")?"),
    Mark(told=Told.SAVES, pattern=r"Epoch \d+, global step \d+: .{1,160}?saving model to '(?P<path>[^']+)/[^'/]+'"),
    Mark(
        told=Told.EVALUATING,
        pattern=r"(?:Sanity Checking|Validation|Validating|Testing)(?: DataLoader \d+)?: +(?:\d+%)?\|",
    ),
    Mark(told=Told.ENDING, pattern=r"`Trainer\.fit` stopped: `max_"),
)
NEMO: Final = (
    Mark(told=Told.SAVE_BEGUN, pattern=r"Global Checkpoint Save : Rank ?: \d+ : Iteration ?: (?P<step>\d+) :"),
    Mark(
        told=Told.SAVE_BEGUN,
        pattern=r"Scheduled async checkpoint save for (?P<path>\S*step=(?P<step>\d+)\S*|\S+)",
    ),
    Mark(
        told=Told.SAVED,
        pattern=r"Async checkpoint save for step \d+ \((?P<path>\S*step=(?P<step>\d+)\S*|\S+)\) finalized successfully",
    ),
    Mark(told=Told.LOADING, pattern=r"Checkpoint Restore Start : Rank ?: \d+ :"),
    Mark(
        told=Told.LOADED, pattern=r"Global Checkpoint Load : Rank ?: \d+ :|Finished restoring checkpoint : Rank ?: \d+"
    ),
    Mark(told=Told.EVALUATING, pattern=r"Validation: iteration \d+/\d+"),
)
TRAINER: Final = (
    Mark(told=Told.STARTING, pattern=r"\*{5} Running training \*{5}"),
    Mark(told=Told.EVALUATING, pattern=r"\*{5} Running (?:[Ee]valuation|[Pp]rediction) \*{5}"),
    Mark(told=Told.TRAINING, pattern=r"\{'eval_loss': ", is_plain=False),
    Mark(told=Told.SAVES, pattern=r"Saving model checkpoint to (?P<path>\S*checkpoint-(?P<step>\d+))"),
    Mark(told=Told.SAVED, pattern=r"Deleting older checkpoint \[", is_plain=False),
    Mark(told=Told.LOADING, pattern=r"Loading model from (?P<path>\S*checkpoint-(?P<step>\d+))"),
    Mark(told=Told.LOADED, pattern=r"Continuing training from global step (?P<step>\d+)"),
    Mark(told=Told.ENDING, pattern=r"Training completed\. Do not forget to share your model|\{'train_runtime': "),
)
COMPOSER: Final = (
    Mark(told=Told.EVALUATING, pattern=r"\[Eval batch=\d+/\d+\]"),
    Mark(told=Told.LOADING, pattern=r"composer\.\S+: (?:INFO: )?Loading checkpoint from " + _PATH, is_plain=False),
    Mark(told=Told.COLD, pattern=r"No previous autoresume checkpoint found"),
)
MAXTEXT: Final = (
    Mark(told=Told.SAVE_BEGUN, pattern=r"Started an asynchronous checkpoint save for step (?P<step>\d+)"),
    Mark(told=Told.SAVED, pattern=r"[Ss]aved a checkpoint at step (?P<step>\d+)"),
    Mark(
        told=Told.SAVED,
        pattern=r"Finished async_save \(blocking \+ background\)\.(?:.{0,80}directory=(?P<path>\S*/(?P<step>\d+)\b))?",
    ),
    Mark(told=Told.LOADING, pattern=r"restoring from this run's directory (?:latest )?step (?P<step>\d+)"),
    Mark(
        told=Told.LOADING, pattern=r"Restoring checkpoint from (?P<path>\S*/(?P<step>\d+)(?:/\S*)?|\S+)", is_plain=False
    ),
    Mark(told=Told.LOADED, pattern=r"Finished restoring checkpoint (?:in|from) "),
    Mark(told=Told.COLD, pattern=r"No existing checkpoints found, not restoring checkpoint"),
    Mark(told=Told.COMPILING, pattern=r"Compiling (?:module )?jit[_(]\w*train_step"),
    Mark(told=Told.EVALUATING, pattern=r"Completed eval step \d+"),
    Mark(told=Told.TRAINING, pattern=r"eval metrics after step: \d+", is_plain=False),
)
FAIRSEQ: Final = (
    Mark(told=Told.SAVE_BEGUN, pattern=r"[Pp]reparing to save checkpoint for epoch \d+ @ (?P<step>\d+) updates"),
    Mark(told=Told.SAVED, pattern=r"[Ss]aved checkpoint (?P<path>\S+)/[^\s/]+ \(epoch \d+ @ (?P<step>\d+) updates"),
    Mark(told=Told.SAVED, pattern=r"\| Finished saving checkpoint to (?P<path>\S+)/[^\s/]+", is_plain=False),
    Mark(told=Told.LOADING, pattern=r"[Pp]reparing to load checkpoint (?P<path>\S+)", is_plain=False),
    Mark(told=Told.LOADED, pattern=r"[Ll]oaded checkpoint (?P<path>\S+) \(epoch \d+ @ (?P<step>\d+) updates"),
    Mark(told=Told.COLD, pattern=r"\| [Nn]o existing checkpoint found \S+"),
    Mark(told=Told.EVALUATING, pattern=r'begin validation on "[^"]{1,60}" subset'),
    Mark(told=Told.TRAINING, pattern=r'"valid_num_updates": ', is_plain=False),
    Mark(told=Told.ENDING, pattern=r"\| done training in [\d.]+ seconds"),
)
LOOPS: Final = (
    Mark(
        told=Told.EVALUATING,
        pattern=r"\b(?:[Rr]unning|[Ss]tarting|[Bb]eginning|[Ee]ntering|[Bb]egin|[Ss]tart) (?:the |an |a )?"
        r"(?:evaluation|validation|[Ee]val)\b",
    ),
    Mark(told=Told.TRAINING, pattern=r"\b(?:[Ee]valuation|[Vv]alidation)\b.{0,40} (?:done|finished|completed?)\b"),
)
"""What people write into loops of their own."""
MARKS: Final = {
    "megatron": MEGATRON,
    "torchtitan": TITAN,
    "deepspeed": DEEPSPEED,
    "nemo": NEMO,
    "lightning": LIGHTNING,
    "transformers": TRAINER,
    "composer": COMPOSER,
    "maxtext": MAXTEXT,
    "fairseq": FAIRSEQ,
    "loops": LOOPS,
}
"""The marks of each framework, by its name."""
