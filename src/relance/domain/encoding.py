"""Values to plain JSON data and back, driven by the type annotations of the dataclasses.

Datetimes become ISO 8601 in UTC with microseconds, enums their value, bytes base64, tuples and frozensets lists,
mappings objects. A dataclass is written with its class name under `"type"`, by which a union is read back. Unknown
fields are ignored and missing ones take their default, so an older reader reads a newer writer's values.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

Decoder = Callable[[Any], Any]
Encoder = Callable[[Any], Any]
_PLAIN: Final = (type(None), bool, int, float, str)


class EncodingError(ValueError):
    """A value or a piece of JSON does not have the shape that its type asks for."""


def encode(value: object) -> Any:  # noqa: ANN401 - JSON data
    """Plain JSON data for a value. Raises EncodingError for a type that has no encoding."""
    kind: Any = type(value)
    return value if kind in _PLAIN else _encoder(kind)(value)


def to_json(value: object) -> str:
    """The JSON text of what `encode` gives, without blanks, at a fraction of the cost.

    Raises EncodingError for a type that has no encoding.
    """
    try:
        return _WRITER.encode(value)
    except TypeError:  # a mapping by something else than names and numbers
        return _WRITER.encode(encode(value))


def decode(kind: Any, data: Any) -> Any:  # noqa: ANN401 - a type or union of types, JSON data, its value
    """The value of type `kind` (a class, or a union of classes) that `encode` wrote. Raises EncodingError."""
    try:
        return _decoder(kind)(data)
    except EncodingError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"not a {getattr(kind, '__name__', kind)}: {error}"
        raise EncodingError(message) from error


@cache
def _encoder(kind: Any) -> Encoder:  # noqa: ANN401 - a type
    """What makes plain data of values of exactly this type."""
    parts = _parts(kind)
    if issubclass(kind, (tuple, list)):
        return lambda value: [part if type(part) in _PLAIN else encode(part) for part in value]
    if parts is None:
        if issubclass(kind, Mapping):
            return lambda value: {_key(key): encode(item) for key, item in value.items()}
        return _writable(kind)

    def write(value: object) -> dict[str, Any]:
        return {name: part if type(part) in _PLAIN else encode(part) for name, part in parts(value).items()}

    return write


@cache
def _writable(kind: Any) -> Encoder:  # noqa: ANN401 - one line per kind of type
    """What makes of a value of this type something that JSON's own writer can take apart further."""
    if issubclass(kind, (*_PLAIN, tuple, list)):
        return lambda value: value
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, datetime):
        return _instant
    parts = _parts(kind)
    if parts is not None:
        return parts
    if issubclass(kind, (frozenset, set)):
        return lambda value: sorted(map(encode, value), key=str)
    if issubclass(kind, bytes):
        return lambda value: base64.b64encode(value).decode("ascii")
    if issubclass(kind, Mapping):
        return dict
    message = f"no encoding for {kind.__name__}"
    raise EncodingError(message)


@cache
def _parts(kind: Any) -> Callable[[Any], dict[str, Any]] | None:  # noqa: ANN401 - a type
    """What takes a dataclass apart, a field each, its name before them; None: the type is none."""
    title = {"type": kind.__name__}
    if not dataclasses.is_dataclass(kind):
        return None
    names = [item.name for item in dataclasses.fields(kind)]
    if len(names) < 2:  # noqa: PLR2004 - a getter of one name gives no tuple
        return lambda value: title | {name: getattr(value, name) for name in names}
    values = attrgetter(*names)
    return lambda value: title | dict(zip(names, values(value), strict=True))


def _instant(value: datetime) -> str:
    at = value if value.tzinfo is UTC else value.astimezone(UTC)
    return f"{at.isoformat(timespec='microseconds')[:-6]}Z"  # without +00:00


def _key(key: object) -> str:
    return str(key.value if isinstance(key, Enum) else key)


def _written(value: Any) -> Any:  # noqa: ANN401 - a value that JSON has not, one that it has
    kind: Any = type(value)
    return _writable(kind)(value)


_WRITER: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_written)
"""JSON's own writer, which is quick with all but what only we know; frozen values have no circles."""


@cache
def _decoder(kind: Any) -> Decoder:  # noqa: ANN401, C901, PLR0911 - one line per kind of type
    if kind is Any or kind is object:
        return lambda data: data
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _tuple(args)
    if origin is frozenset:
        item = _decoder(args[0])
        return lambda data: frozenset(item(part) for part in data)
    if origin is not None and issubclass(origin, Mapping):
        key, item = _decoder(args[0]), _decoder(args[1])
        read_key = int if args[0] is int else key
        return lambda data: {read_key(name): item(part) for name, part in data.items()}
    if kind is datetime:
        return _datetime
    if kind is bytes:
        return lambda data: base64.b64decode(data, validate=True)
    if kind is float:
        return _float
    if kind in (int, str, bool):
        return _exact(kind)
    if kind is type(None):
        return _exact(type(None))
    if issubclass(kind, Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    message = f"no decoding for {kind!r}"
    raise EncodingError(message)


def _datetime(data: str) -> datetime:
    at = datetime.fromisoformat(data)
    if at.tzinfo is None:
        message = f"a time without zone: {data!r}"
        raise EncodingError(message)
    return at.astimezone(UTC)


def _enum(kind: type[Enum]) -> Decoder:
    return kind


def _float(data: float) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        message = f"not a number: {data!r}"
        raise EncodingError(message)
    return float(data)


def _exact(kind: type) -> Decoder:
    def read(data: Any) -> Any:  # noqa: ANN401 - JSON data
        if type(data) is not kind:
            message = f"expected {kind.__name__}, got {data!r}"
            raise EncodingError(message)
        return data

    return read


def _tuple(args: tuple[Any, ...]) -> Decoder:
    if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
        item = _decoder(args[0])
        return lambda data: tuple(item(part) for part in data)
    items = [_decoder(arg) for arg in args]
    return lambda data: tuple(read(part) for read, part in zip(items, data, strict=True))


def _union(args: tuple[Any, ...]) -> Decoder:
    optional = type(None) in args
    rest = [arg for arg in args if arg is not type(None)]
    by_name: dict[str, Any] = {
        arg.__name__: arg for arg in rest if isinstance(arg, type) and dataclasses.is_dataclass(arg)
    }
    single = _decoder(rest[0]) if len(rest) == 1 else None

    def read(data: Any) -> Any:  # noqa: ANN401 - JSON data
        if data is None and optional:
            return None
        if single is not None:
            return single(data)
        name = data.get("type") if isinstance(data, dict) else None
        if name not in by_name:
            message = f"expected one of {sorted(by_name)}, got {name!r}"
            raise EncodingError(message)
        return _decoder(by_name[name])(data)

    return read


def _dataclass(kind: Any) -> Decoder:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(kind)
    fields = {item.name: item for item in dataclasses.fields(kind) if item.init}
    readers: dict[str, Decoder] = {}

    def read(data: Any) -> Any:  # noqa: ANN401 - JSON data
        if not isinstance(data, dict):
            message = f"expected an object for {kind.__name__}, got {data!r}"
            raise EncodingError(message)
        if not readers:  # built at first use, so that types may refer to themselves
            readers.update({name: _decoder(hints[name]) for name in fields})
        return kind(**{name: reader(data[name]) for name, reader in readers.items() if name in data})

    return read
