"""Every exception that stride-tool raises on purpose, with the exit code that the command line gives it.

    StrideToolError                      70  (never raised itself)
    ├── UsageError                        2  options that do not fit together, a target that cannot be meant
    ├── InputError                        2  unreadable, damaged, hostile or unsupported input
    ├── UnavailableError                  3  not possible here: no GPU, an extra that is not installed
    ├── ProgramError                      1  the user's own program did not end well
    ├── TensorError         RuntimeError  1  what torch answers with RuntimeError
    │   └── OutOfMemoryError              1  the device has no room; torch.OutOfMemoryError's counterpart
    ├── DimensionError      IndexError    1  a dimension or an index out of range
    ├── ArgumentTypeError   TypeError     1  a wrong type of argument
    ├── ArgumentValueError  ValueError    1  a wrong value of argument
    ├── UnsupportedError    NotImplementedError  1  an operator that this library refuses to be
    │   └── UnsupportedAttributeError  AttributeError  1  the same, asked for by name: hasattr() says no
    └── InterchangeError    BufferError   1  an array that cannot be handed over without a copy

Errors of tensors are also of the class that torch raises, and their first line is torch's own message,
so code written for torch catches them unchanged. The hint is ours and stands on a line of its own.
"""

from __future__ import annotations

from typing import ClassVar


class StrideToolError(Exception):
    """Base of all: a message in the words of the field, and a hint that says what to do."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class UsageError(StrideToolError):
    """Options that do not fit together, or a target that cannot be meant."""

    exit_code = 2


class InputError(StrideToolError):
    """Input that is unreadable, damaged, hostile or of a kind that is not supported."""

    exit_code = 2


class UnavailableError(StrideToolError):
    """Something that this machine or this installation cannot do."""

    exit_code = 3


class ProgramError(StrideToolError):
    """The user's own program did not end well."""

    exit_code = 1


class TensorError(StrideToolError, RuntimeError):
    """What torch answers with RuntimeError."""

    exit_code = 1


class OutOfMemoryError(TensorError):
    """The device has no room for an allocation."""


class DimensionError(StrideToolError, IndexError):
    """A dimension or an index is out of range."""

    exit_code = 1


class ArgumentTypeError(StrideToolError, TypeError):
    """An argument is of a wrong type."""

    exit_code = 1


class ArgumentValueError(StrideToolError, ValueError):
    """An argument has a wrong value."""

    exit_code = 1


class UnsupportedError(StrideToolError, NotImplementedError):
    """An operator that is not here: this library is about memory layout, not about arithmetic."""

    exit_code = 1


class UnsupportedAttributeError(UnsupportedError, AttributeError):
    """An operator that is not here was asked for by name; also an AttributeError, so that hasattr() says no."""


class InterchangeError(StrideToolError, BufferError):
    """An array that cannot be handed to or taken from another library without a copy."""

    exit_code = 1
