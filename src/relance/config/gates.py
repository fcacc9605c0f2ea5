"""Settings of gates: whose jobs need no wish of their own, and when nothing begins."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from relance.domain.quiet_hours import WEEKDAYS, QuietHours

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_MINUTES = 60
_HOURS = 24


class OptInSettings(BaseModel):
    """Whose jobs need no wish of their own: those in one of the partitions that are charged to one of the accounts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions: Literal["all"] | tuple[str, ...] = "all"
    """Partitions, or `all`. A job that names several has to name no other."""
    accounts: Literal["all"] | tuple[str, ...] = "all"
    """Accounts, or `all`."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.partitions or not self.accounts:
            message = "an empty list opts nobody in: write `opt_in: none`"
            raise ValueError(message)
        return self


def _time_of_day(value: object) -> object:
    """A time such as 18:00, which YAML takes for a number when it is not quoted."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        message = 'should be a time of day such as "18:00"'
        raise ValueError(message)  # noqa: TRY004 - the settings know no other error
    if isinstance(value, int):
        if value < _MINUTES:  # YAML makes a number of nothing before 1:00, so this is an hour or a day's minute
            message = f'{value} should be a time of day such as "18:00"'
            raise ValueError(message)
        hours, minutes = divmod(value, _MINUTES)
    else:
        first, colon, second = value.strip().partition(":")
        if not (colon and first.isdecimal() and second.isdecimal() and len(second) == 2):  # noqa: PLR2004 - two digits
            message = f'{value!r} should be a time of day such as "18:00"'
            raise ValueError(message)
        hours, minutes = int(first), int(second)
    if (hours, minutes) == (_HOURS, 0):
        return time(0)
    if hours not in range(_HOURS) or minutes not in range(_MINUTES):
        message = f'{value!r} should be a time of day such as "18:00"'
        raise ValueError(message)
    return time(hours, minutes)


TimeOfDay = Annotated[time, BeforeValidator(_time_of_day, json_schema_input_type=str)]


class QuietHoursSettings(BaseModel):
    """Hours in which nothing begins: by the site's `time_zone`, safe over changes of the clocks."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    begins: TimeOfDay = Field(alias="from")
    """When they begin, such as `"08:00"`."""
    ends: TimeOfDay = Field(alias="to")
    """When they end; where that is not later than their beginning it is the next day."""
    days: tuple[Weekday, ...] = Field(default=get_args(Weekday), min_length=1)
    """The days on which they begin."""
    partitions: tuple[str, ...] = ()
    """Partitions to which they are limited; empty: all."""

    @property
    def hours(self) -> QuietHours:
        """They as policy takes them."""
        return QuietHours(
            begins=self.begins,
            ends=self.ends,
            days=frozenset(WEEKDAYS.index(day) for day in self.days),
            partitions=frozenset(self.partitions),
        )
