"""What lies between us and Slurm: the connection, the container, the token; and what of it is missing."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.views import Impairment
from relance.ports.clocks import Clock
from relance.ports.schedulers import SchedulerSilentError, SchedulerUnreachedError
from relance.slurm.errors import SlurmError, UnreachedError
from relance.slurm.outputs import TOKEN, Output
from relance.slurm.running import Commands
from relance.slurm.tokens import Token, TokenError, read_token
from relance.telemetry.schedulers import SchedulerMeter

_RENEW = "write a new one into {path} (`scontrol token lifespan=…`); it counts from the next command on"


class Way:
    """The way to one cluster, as far as its commands tell."""

    def __init__(self, commands: Commands, clock: Clock, meter: SchedulerMeter) -> None:
        """Take how commands are run; nothing is known yet."""
        self.account: tuple[str, int] | None = None
        """Name and uid as which commands run, where the other side has said so."""
        self.lacks: tuple[str, ...] = ()
        """Why nothing may be changed this way, as the newest answer tells."""
        self._token_file = commands.token_file
        self._clock = clock
        self._meter = meter
        self._missing: SchedulerUnreachedError | None = None

    def check(self) -> None:
        """Raises SchedulerUnreachedError where there is no token that Slurm would take."""
        try:
            token = self._token()
        except TokenError as error:
            self._missing = SchedulerUnreachedError(str(error), way=TOKEN)
            raise self._missing from error
        if token is not None and (left_s := token.left_s(self._now_s())) is not None and left_s <= 0:
            text = f"the token for Slurm has expired, at {_shown(token)}: {self._renewal()}"
            self._missing = SchedulerUnreachedError(text, way=TOKEN)
            raise self._missing

    def note(self, output: Output) -> None:
        """Learn from what came of a command."""
        self.account = output.account or self.account
        if not output.unreached:
            self._missing = None
            self.lacks = (output.lacks,) if output.lacks else ()
            return
        said = output.stderr.strip() or output.gave_up or ""
        self._missing = SchedulerUnreachedError(said, way=output.unreached)

    def failure(self, text: str) -> SchedulerSilentError:
        """The error of a question that was not answered, with these words: whether something on the way is missing."""
        return SchedulerUnreachedError(text, way=self._missing.way) if self._missing else SchedulerSilentError(text)

    def impairments(self) -> tuple[Impairment, ...]:
        """What will soon be missing: Slurm has just answered."""
        try:
            token = self._token()
        except TokenError:
            return ()  # the next command tells
        if token is None or not token.is_short(self._now_s()):
            return ()
        reason = f"the token for Slurm is good until {_shown(token)} only: {self._renewal()}"
        return (Impairment(name=TOKEN, reason=reason, is_ahead=True),)

    def _token(self) -> Token | None:
        """The token as it is now; None: there is no need of one. Raises TokenError."""
        if self._token_file is None:
            return None
        token = read_token(self._token_file)
        if (left_s := token.left_s(self._now_s())) is not None:
            self._meter.token_left(left_s)
        return token

    def _renewal(self) -> str:
        return _RENEW.format(path=self._token_file)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def silent(error: SlurmError) -> SchedulerSilentError:
    """The port's word for a question that was not answered."""
    if isinstance(error, UnreachedError):
        return SchedulerUnreachedError(str(error), way=error.way)
    return SchedulerSilentError(str(error))


def _shown(token: Token) -> str:
    return f"{datetime.fromtimestamp(token.expires_s or 0.0, UTC):%Y-%m-%d %H:%M:%S} UTC"
