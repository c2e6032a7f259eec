"""Files that appear together, whole, or not at all.

A command claims its outputs first (so that a file that exists, or a folder that cannot be written, is
known before the work), then stages each as a hidden temporary file in the folder it is meant for. When
the `with` block ends well all are renamed into place; when it ends in any exception, Ctrl-C and a kill
included, every temporary file and every folder it made is removed, and files that were there before are
as they were.

    with Outputs(force=False) as outputs:
        outputs.claim("a.json", "b.txt")
        outputs.text("b.txt", "...")
        with outputs.stage("a.json") as path: ...
"""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from septum.errors import InvalidInputError

_PREFIX = ".septum-"
_REMEDY = {
    errno.ENOSPC: "the disk is full: free some space, or write elsewhere",
    errno.EDQUOT: "your disk quota is used up: free some space, or write elsewhere",
    errno.EFBIG: "the file would be too large for this system: write elsewhere",
    errno.EACCES: "you may not write there: choose another folder",
    errno.EPERM: "you may not write there: choose another folder",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOENT: "the folder does not exist: make it first, or choose another",
    errno.ENOTDIR: "a part of its path is a file, not a folder: choose another folder",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
}


@contextmanager
def readable_errors(path: str | Path) -> Iterator[None]:
    """Turn an operating system's refusal to write `path` into one clear error."""
    try:
        yield
    except OSError as error:
        reason = _REMEDY.get(error.errno or 0, error.strerror or str(error))
        raise InvalidInputError(f"cannot write {path}: {reason}") from error


class Outputs:
    """A set of files to be written; see the module's description."""

    def __init__(self, *, force: bool = False) -> None:
        self.force = force
        self._claimed: set[Path] = set()
        self._staged: dict[Path, Path] = {}
        self._folders: list[Path] = []

    def __enter__(self) -> "Outputs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def folder(self, path: str | Path) -> Path:
        """Make a folder if it is not there; it goes again if nothing is written."""
        path = Path(path)
        missing = [p for p in (path, *path.parents) if not p.exists()]
        with readable_errors(path):
            for p in reversed(missing):
                p.mkdir()
                self._folders.append(p)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "not a folder")
            self._probe(path)
        return path

    def claim(self, *paths: str | Path) -> None:
        """Say which files will be written; refuse now what would be refused at the end."""
        for path in map(Path, paths):
            key = _key(path)
            if key in self._claimed:
                raise InvalidInputError(f"{path} was asked for twice: give each output its own name")
            with readable_errors(path):
                if path.is_dir():
                    raise InvalidInputError(f"{path} is a folder: give the name of a file")
                if not self.force and path.exists():
                    raise InvalidInputError(
                        f"{path} exists: add --force to overwrite it, or choose another name"
                    )
                self._probe(path.parent)
            self._claimed.add(key)

    @contextmanager
    def stage(self, target: str | Path) -> Iterator[Path]:
        """A temporary path, with the target's ending, to be written inside the block."""
        target = Path(target)
        with readable_errors(target):
            temporary = self.scratch(target)
            yield temporary
            _settle(temporary)

    def scratch(self, target: str | Path) -> Path:
        """An empty temporary file in the target's folder, renamed to it when all is done."""
        target = Path(target)
        if _key(target) not in self._claimed:
            self.claim(target)
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=f"-{target.name}"[-80:], dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        self._drop(self._staged.get(target))
        self._staged[target] = temporary
        return temporary

    def bytes(self, target: str | Path, content: bytes) -> None:
        with self.stage(target) as path:
            path.write_bytes(content)

    def text(self, target: str | Path, content: str) -> None:
        self.bytes(target, content.encode("utf-8"))

    def json(self, target: str | Path, content: Any) -> None:
        self.text(target, json.dumps(content, indent=2, allow_nan=False) + "\n")

    @property
    def written(self) -> list[Path]:
        """The files staged (and, after the block, in place)."""
        return list(self._staged)

    def commit(self) -> None:
        """Rename every staged file into place; on any failure put everything back."""
        saved: dict[Path, Path] = {}
        done: list[Path] = []
        try:
            for target, temporary in self._staged.items():
                with readable_errors(target):
                    temporary.chmod(_mode(target))
                    if self.force and target.exists():
                        saved[target] = _second_name(target)
                    if not self.force and target.exists():
                        raise InvalidInputError(f"{target} appeared meanwhile: add --force to overwrite it")
                    os.replace(temporary, target)
                    done.append(target)
        except BaseException:
            for target in done:
                if target in saved:
                    os.replace(saved.pop(target), target)
                else:
                    self._drop(target)
            self._drop(*saved.values())
            self.discard()
            raise
        self._drop(*saved.values())
        self._folders.clear()

    def discard(self) -> None:
        """Remove every temporary file and every folder made here that is empty."""
        self._drop(*self._staged.values())
        self._staged.clear()
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()
        self._folders.clear()

    @staticmethod
    def _probe(folder: Path) -> None:
        with tempfile.TemporaryFile(prefix=_PREFIX, dir=folder):
            pass

    @staticmethod
    def _drop(*paths: Path | None) -> None:
        for path in paths:
            if path is not None:
                path.unlink(missing_ok=True)


def reserve(stream: IO[bytes], size: int) -> None:
    """Take the room for a file of `size` bytes now, where the system can; elsewhere only set its length."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        stream.truncate(size)


def _key(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _settle(path: Path) -> None:
    """Ask the system to store the file now: a full disk is known before anything is renamed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode(target: Path) -> int:
    """The permissions a plain `open` would give, or those of the file that is replaced."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _second_name(target: Path) -> Path:
    """Another name for a file that exists, so that it can be put back."""
    handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=".old", dir=target.parent)
    os.close(handle)
    second = Path(name)
    second.unlink()
    try:
        os.link(target, second)
    except OSError:
        second.write_bytes(target.read_bytes())
    return second
