"""What is asked of the scheduler: the fields of a request, checked, and the job that a submission makes."""

from __future__ import annotations

import hashlib
import pwd
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relance.simulation import commands
from relance.simulation.commands import Refused
from relance.simulation.records import Job, Submission
from relance.simulation.tables import Tables


class Request:
    """A request: its fields, checked for their types, and who asks."""

    def __init__(self, fields: Mapping[str, Any], peer_uid: int) -> None:
        self._fields = fields
        self.uid = self.get("acting_uid", int, peer_uid)

    @property
    def op(self) -> str:
        """The operation's name."""
        return str(self._fields.get("op", ""))

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:  # noqa: ANN401 -- JSON
        """The field's value; `default` where it is absent.

        Raises:
            Refused: It is absent and has no default, or is of another type.
        """
        value = self._fields.get(name, default)
        if value is ...:
            raise Refused(f"missing field {name}")
        is_default = name not in self._fields
        if not is_default and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise Refused(f"field {name} has the wrong type")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when absent.

        Raises:
            Refused: It is something else.
        """
        value = self.get(name, list, [])
        if not all(isinstance(each, str) for each in value):
            raise Refused(f"field {name} has the wrong type")
        return tuple(value)

    def signal(self, name: str, default: Any = ...) -> signal.Signals:  # noqa: ANN401 -- JSON
        """A signal by its name, with or without SIG, or its number.

        Raises:
            Refused: There is no such signal.
        """
        value = self.get(name, (str, int), default)
        try:
            if isinstance(value, int):
                return signal.Signals(value)
            return signal.Signals[value if value.startswith("SIG") else f"SIG{value}"]
        except (KeyError, ValueError):
            raise Refused(f"Invalid signal {value}") from None

    def others(self, *names: str) -> dict[str, Any]:
        """All fields but those, the operation's name and the acting uid."""
        return {name: value for name, value in self._fields.items() if name not in {*names, "op", "acting_uid"}}


def submitted(request: Request, tables: Tables, around: commands.Surroundings, *, home: Path) -> Job:
    """The job that a submission makes; it takes its id when nothing speaks against it.

    Args:
        request: The submission.
        tables: Gives the id, the partitions and the nodes.
        around: The time and what there is.
        home: The work directory of a job that names none.

    Raises:
        Refused: Something speaks against it.
    """
    spec = _spec(request, tables, home)
    count = sum(spec.partition in node.partitions for node in tables.nodes.values())
    if not 1 <= spec.node_count <= count or spec.ranks_per_node < 1:
        raise Refused("Requested node configuration is not available")
    limit = request.get("time_limit_s", (int, float, type(None)), None)
    values = {
        "spec": spec,
        "output": request.get("output", str, "slurm-%j.out"),
        "submit_time": around.now,
        "eligible_time": around.now,
        "exclude": commands.named_nodes(request.words("exclude"), around.node_names),
        "nodelist": commands.named_nodes(request.words("nodelist"), around.node_names),
        "requeue": request.get("requeue", bool, True),
        "time_limit_s": None if limit is None else float(limit),
        "dependency": commands.checked_dependency(request.get("dependency", str, "")),
        "comment": request.get("comment", str, ""),
    }
    return Job(job_id=tables.new_job_id(), **values)


def _spec(request: Request, tables: Tables, home: Path) -> Submission:
    argv = request.words("argv")
    partition = request.get("partition", str, tables.default_partition)
    work_dir = request.get("work_dir", str, str(home))
    open_mode = request.get("open_mode", str, "truncate")
    env = request.get("env", dict, {})
    uid = request.get("uid", int, request.uid)
    problems = {
        "argv is empty": not argv,
        "Invalid partition name specified": partition not in tables.partitions,
        "work_dir is not an absolute path of a folder": not (Path(work_dir).is_absolute() and Path(work_dir).is_dir()),
        "open_mode is neither append nor truncate": open_mode not in ("append", "truncate"),
        "env has something else than texts": not all(isinstance(each, str) for pair in env.items() for each in pair),
    }
    if found := [text for text, is_so in problems.items() if is_so]:
        raise Refused(found[0])
    script = request.get("script", str, "\0".join(argv))
    return Submission(
        name=request.get("name", str),
        user=request.get("user", str, _user_name(uid)),
        uid=uid,
        partition=partition,
        node_count=request.get("nodes", int),
        ranks_per_node=request.get("ranks_per_node", int, 1),
        argv=argv,
        env=env,
        work_dir=work_dir,
        open_mode=open_mode,
        ranks_files=request.get("ranks_files", (str, type(None)), None),
        ranks_tee=request.get("ranks_tee", bool, False),
        features=request.words("features"),
        script_hash=hashlib.sha256(script.encode()).hexdigest(),
        kill_on_bad_exit=request.get("kill_on_bad_exit", bool, True),
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
