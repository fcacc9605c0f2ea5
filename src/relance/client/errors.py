"""What an exchange with the server may come to when it comes to nothing."""

from __future__ import annotations


class ClientError(Exception):
    """The server could not be asked; `remedy` says what a person can do."""

    def __init__(self, message: str, remedy: str = "") -> None:
        """Take the sentence and the remedy."""
        super().__init__(message)
        self.remedy = remedy


class ServerUnreachableError(ClientError):
    """No answer, or one that is not from a Relance server, or the server is not able to answer now."""


class ServerRefusedError(ClientError):
    """The server answered with an error of its own."""

    def __init__(self, status: int, code: str, message: str, remedy: str) -> None:
        """Take the status and the parts of the error."""
        super().__init__(message, remedy)
        self.status = status
        self.code = code
