"""The errors septum raises: each says what is wrong and what to do about it.

`SeptumError` is the base. `InvalidInputError` is also a `ValueError` and `InvalidTypeError` a
`TypeError`, so code written for NumPy or scikit-learn catches them as it always did. The command
line turns every `SeptumError` into one line on standard error and exit status 2.
"""


class SeptumError(Exception):
    """Base of every error that septum raises on purpose."""


class InvalidInputError(SeptumError, ValueError):
    """A value, shape or file that cannot be used; the message names it and the remedy."""


class InvalidTypeError(SeptumError, TypeError):
    """An object of a kind that cannot be used (strings, sparse matrices, ...)."""


class MissingExtraError(SeptumError, ImportError):
    """An optional dependency is not installed; the message names the install line."""

    def __init__(self, package: str, extra: str = "dmri") -> None:
        super().__init__(f"this needs the package {package!r}: install it with  pip install 'septum[{extra}]'")
