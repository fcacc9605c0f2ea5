"""Pickled plain data, read without the pickle module: no code runs, and what is built is counted.

A flight-recorder dump holds dictionaries, lists, tuples, texts and numbers; the thirty operations that make these are
carried out here. All others are refused, among them each that names a class or calls something. Python's own reader
would still allocate whatever a short file asks for (a memo index of two thousand million, a byte array of a terabyte)
and hash tuples nested without end; here a key is a text or a number, and the memo has no more entries than were put.
"""

from __future__ import annotations

import pickle
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from relance.traces.signs import UnreadableTraceError

MAX_PICKLE_BYTES = 64 * 1024 * 1024
"""A dump of 2,000 collectives with stacks has about 10 MiB."""
MAX_OPERATIONS = 8_000_000
MAX_VALUES = 2_000_000
"""Containers, texts and large numbers in a dump: some 250 MB at worst. 2,000 collectives with stacks have 300,000."""
MAX_NUMBER_BYTES = 32
"""The longest whole number; counters and times have eight bytes."""

_REMEDY = "Copy the dump again from the job's own folder; Relance reads dumps of plain data only."
_KEYS = (str, int, float, type(None))
_MARK = object()
_MOST_BUILT_BYTES = 8 * 1024 * 1024
_CONTAINERS = pickle.EMPTY_DICT + pickle.EMPTY_LIST
_REMEMBERED = rb"(?:h.|j.{4})"
_FLAT = rb"\}\((?:" + _REMEMBERED + rb"(?:[hK].|M..|[jJ].{4}|[N\x88\x89])){1,64}+u"
_REPEATED = re.compile(_FLAT + rb"|\]\((?:" + _FLAT + rb"){1,256}+e", re.DOTALL)
"""A dictionary of remembered texts and numbers, such as a frame, or a list of such: PyTorch writes them many times."""


def is_pickle(head: bytes) -> bool:
    """Whether a file begins as a pickle of protocol 2 or later does: two bytes, then a container or a frame."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2:3] in b"}](\x95)"  # noqa: PLR2004 - the pickle format


def read_pickle(data: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    """The plain data in a pickle: dict, list, tuple, str, bytes, int, float, bool, None.

    Raises:
        UnreadableTraceError: The data is too large, damaged, or holds more than plain data.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise UnreadableTraceError(
            f"The dump has {len(data)} bytes and the limit is {MAX_PICKLE_BYTES}. "
            "Write dumps without stacks (TORCH_INCLUDE_STACK_TRACE=0) or with fewer entries."
        )
    try:
        return _Reader(data).read()
    except (IndexError, KeyError, struct.error) as error:
        raise UnreadableTraceError(f"The dump ends in the middle or is damaged. {_REMEDY}") from error
    except (UnicodeDecodeError, OverflowError, TypeError) as error:
        raise UnreadableTraceError(f"The dump is damaged: {error}. {_REMEDY}") from error


class _Reader:
    """One pickle being read: a stack, the places of its marks, and a memo."""

    __slots__ = ("_built", "_built_bytes", "_ends", "_values", "at", "data", "memo", "stack")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._values = 0
        self._built: dict[bytes, Any] = {}
        self._built_bytes = 0
        self._ends: dict[int, bytes] = {}

    def read(self) -> Any:  # noqa: ANN401 - whatever the file holds
        data, repeated = self.data, _REPEATED.match
        for _ in range(MAX_OPERATIONS):
            code = data[self.at]
            if code in _CONTAINERS:
                found = repeated(data, self.at)
                if found is not None and self._take_again(found[0]):
                    continue
            self.at += 1
            if code == _STOP:
                return self._result()
            step = _STEPS[code]
            if step is None:
                raise UnreadableTraceError(f"The dump holds more than plain data (operation {code:#04x}). {_REMEDY}")
            step(self)
            if self._values > MAX_VALUES:
                break
        raise UnreadableTraceError(
            "The dump holds too many values. Write dumps with fewer entries (TORCH_NCCL_TRACE_BUFFER_SIZE)."
        )

    def _take_again(self, written: bytes) -> bool:
        """Take the container that the same operations built before, if they did.

        The frames of stacks repeat thousands of times. They hold remembered texts and numbers only, so that the same
        operations mean the same as long as nothing is remembered anew.
        """
        built = self._built.get(written)
        if built is None:
            self._ends[self.at + len(written)] = written
            return False
        self.stack.append(built)
        self.at += len(written)
        return True

    def filled(self) -> None:
        """Keep the container on top of the stack, if the operations that built it may come again."""
        written = self._ends.pop(self.at, None)
        if written is not None and self._built_bytes < _MOST_BUILT_BYTES:
            self._built[written] = self.stack[-1]
            self._built_bytes += len(written)

    def _result(self) -> Any:  # noqa: ANN401 - whatever the file holds
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            raise UnreadableTraceError(f"The dump is damaged: it leaves {len(self.stack)} values. {_REMEDY}")
        return self.stack[0]

    def take(self, size: int) -> bytes:
        """The next bytes, all of them."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise IndexError(size)
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def number(self, layout: struct.Struct) -> Any:  # noqa: ANN401 - int or float by the layout
        """The next number of a fixed layout."""
        found = layout.unpack_from(self.data, self.at)[0]
        self.at += layout.size
        return found

    def push(self, value: object) -> None:
        """Put a value that costs memory on the stack."""
        self._values += 1
        self.stack.append(value)

    def pop(self) -> Any:  # noqa: ANN401 - any plain value
        """The last value of the stack."""
        value = self.stack.pop()
        if value is _MARK:
            raise IndexError
        return value

    def top(self, kind: type) -> Any:  # noqa: ANN401 - of the kind asked for
        """The last value of the stack, which must be a container of this kind."""
        if type(self.stack[-1]) is not kind:
            raise TypeError(f"a {kind.__name__} is expected")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        """The values put since the last mark, taken from the stack with the mark."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        values = stack[at + 1 :]
        del stack[at:]
        return values

    def put(self, index: int) -> None:
        """Remember the last value."""
        if self.stack[-1] is _MARK:
            raise IndexError
        if index not in self.memo:
            self._values += 1
        else:
            self._built.clear()
            self._ends.clear()
        self.memo[index] = self.stack[-1]

    def memoize(self) -> None:
        """Remember the last value under the next index."""
        self.put(len(self.memo))

    def get_short(self) -> None:
        """Put a remembered value on the stack again, by an index of one byte."""
        self.stack.append(self.memo[self.data[self.at]])
        self.at += 1

    def get(self) -> None:
        """Put a remembered value on the stack again."""
        self.stack.append(self.memo[self.number(_U4)])

    def number_short(self) -> None:
        """A whole number of one byte."""
        self.stack.append(self.data[self.at])
        self.at += 1

    def mark(self) -> None:
        """Begin the contents of a container."""
        self.stack.append(_MARK)

    def tuple_of(self, size: int) -> None:
        """Make a tuple of the last values."""
        values = [self.pop() for _ in range(size)]
        self.push(tuple(reversed(values)))

    def set_items(self, pairs: list[Any]) -> None:
        """Put pairs into the dictionary on top of the stack."""
        if len(pairs) % 2:
            raise IndexError
        target = self.top(dict)
        for at in range(0, len(pairs), 2):
            if not isinstance(pairs[at], _KEYS):
                raise TypeError("a key is neither text nor number")
            target[pairs[at]] = pairs[at + 1]

    def set_item(self) -> None:
        """Put one pair into the dictionary below it."""
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append(self) -> None:
        """Append the last value to the list below it."""
        value = self.pop()
        self.top(list).append(value)

    def append_all(self) -> None:
        """Append all values since the mark to the list below it."""
        values = self.since_mark()
        self.top(list).extend(values)
        self.filled()

    def set_all(self) -> None:
        """Put all pairs since the mark into the dictionary below it."""
        self.set_items(self.since_mark())
        self.filled()

    def whole(self, size: int) -> None:
        """A whole number of so many bytes."""
        if size > MAX_NUMBER_BYTES:
            raise OverflowError("a number is too long")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def text(self, size: int) -> None:
        """A text of so many bytes."""
        self.push(self.take(size).decode("utf-8", "surrogatepass"))

    def raw(self, size: int) -> None:
        """Bytes, so many."""
        self.push(self.take(size))

    def protocol(self) -> None:
        """The version of the format."""
        if self.take(1)[0] > pickle.HIGHEST_PROTOCOL:
            raise TypeError("its version of the pickle format is unknown")

    def dict_of_mark(self) -> None:
        """A dictionary of the pairs since the mark."""
        pairs = self.since_mark()
        self.push({})
        self.set_items(pairs)


_STOP = pickle.STOP[0]
_U1, _U2, _I4, _U4, _U8 = (struct.Struct(layout) for layout in ("<B", "<H", "<i", "<I", "<Q"))
_F8 = struct.Struct(">d")

_BY_CODE: Mapping[int, Callable[[_Reader], object]] = {
    code[0]: step
    for code, step in (
        (pickle.PROTO, _Reader.protocol),
        (pickle.FRAME, lambda reader: reader.number(_U8)),
        (pickle.MARK, _Reader.mark),
        (pickle.POP, lambda reader: reader.pop()),
        (pickle.NONE, lambda reader: reader.stack.append(None)),
        (pickle.NEWTRUE, lambda reader: reader.stack.append(True)),
        (pickle.NEWFALSE, lambda reader: reader.stack.append(False)),
        (pickle.BININT1, _Reader.number_short),
        (pickle.BININT2, lambda reader: reader.stack.append(reader.number(_U2))),
        (pickle.BININT, lambda reader: reader.stack.append(reader.number(_I4))),
        (pickle.LONG1, lambda reader: reader.whole(reader.number(_U1))),
        (pickle.LONG4, lambda reader: reader.whole(reader.number(_I4))),
        (pickle.BINFLOAT, lambda reader: reader.push(reader.number(_F8))),
        (pickle.SHORT_BINUNICODE, lambda reader: reader.text(reader.number(_U1))),
        (pickle.BINUNICODE, lambda reader: reader.text(reader.number(_U4))),
        (pickle.BINUNICODE8, lambda reader: reader.text(reader.number(_U8))),
        (pickle.SHORT_BINBYTES, lambda reader: reader.raw(reader.number(_U1))),
        (pickle.BINBYTES, lambda reader: reader.raw(reader.number(_U4))),
        (pickle.SHORT_BINSTRING, lambda reader: reader.text(reader.number(_U1))),
        (pickle.EMPTY_DICT, lambda reader: reader.push({})),
        (pickle.EMPTY_LIST, lambda reader: reader.push([])),
        (pickle.EMPTY_TUPLE, lambda reader: reader.stack.append(())),
        (pickle.DICT, _Reader.dict_of_mark),
        (pickle.LIST, lambda reader: reader.push(reader.since_mark())),
        (pickle.TUPLE, lambda reader: reader.push(tuple(reader.since_mark()))),
        (pickle.TUPLE1, lambda reader: reader.tuple_of(1)),
        (pickle.TUPLE2, lambda reader: reader.tuple_of(2)),
        (pickle.TUPLE3, lambda reader: reader.tuple_of(3)),
        (pickle.SETITEM, _Reader.set_item),
        (pickle.SETITEMS, _Reader.set_all),
        (pickle.APPEND, _Reader.append),
        (pickle.APPENDS, _Reader.append_all),
        (pickle.BINPUT, lambda reader: reader.put(reader.number(_U1))),
        (pickle.LONG_BINPUT, lambda reader: reader.put(reader.number(_U4))),
        (pickle.BINGET, _Reader.get_short),
        (pickle.LONG_BINGET, _Reader.get),
        (pickle.MEMOIZE, _Reader.memoize),
    )
}
_STEPS = tuple(_BY_CODE.get(code) for code in range(256))
