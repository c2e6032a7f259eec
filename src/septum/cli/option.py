"""Options that commands share, and the types of their values. Nothing heavy is imported here."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from septum import __version__

if TYPE_CHECKING:
    from septum.dmri.image import DwiImage

T = TypeVar("T", int, float)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """What every command has: -q, -v, --version, --n-threads, --seed, --force."""
    group = parser.add_argument_group("options of every command")
    group.add_argument(
        "-q",
        "--quiet",
        dest="verbosity",
        action="store_const",
        const=-1,
        default=0,
        help="say nothing but errors",
    )
    group.add_argument("-v", "--verbose", dest="verbosity", action="count", help="say more")
    group.add_argument("--version", action="version", version=f"septum {__version__}")
    group.add_argument(
        "--n-threads",
        type=positive_int,
        default=usable_cpus(),
        metavar="N",
        help="threads to use (default: all; the result does not depend on it)",
    )
    group.add_argument("--seed", type=natural, default=0, metavar="N", help="random seed (default: 0)")
    group.add_argument("--force", action="store_true", help="overwrite files that exist")


def add_image(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """The image and what belongs to it: DWI, --bval, --bvec, --mask."""
    if several:
        parser.add_argument("dwi", metavar="DWI", type=Path, nargs="+", help="diffusion images, 4-D NIfTI")
    else:
        parser.add_argument("dwi", metavar="DWI", type=Path, help="diffusion image, 4-D NIfTI")
    parser.add_argument(
        "--bval", type=Path, metavar="F", help="b-values, FSL text (default: found beside the image)"
    )
    parser.add_argument(
        "--bvec", type=Path, metavar="F", help="directions, FSL text (default: found beside the image)"
    )
    parser.add_argument(
        "--mask", type=Path, metavar="F", help="3-D NIfTI, not zero = inside (default: everywhere)"
    )


def load_image(args: argparse.Namespace, *, require_b0: bool = True) -> "DwiImage":
    """The image that `add_image` asked for."""
    from septum.dmri.image import load

    return load(args.dwi, args.bval, args.bvec, mask=args.mask, require_b0=require_b0)


def usable_cpus() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def positive_int(text: str) -> int:
    return _number(text, int, lambda v: v > 0, "a whole number of at least 1")


def natural(text: str) -> int:
    return _number(text, int, lambda v: v >= 0, "a whole number of at least 0")


def positive_float(text: str) -> float:
    return _number(text, float, lambda v: 0 < v < float("inf"), "a positive number")


def positive_floats(text: str) -> list[float]:
    """10,30 -> [10.0, 30.0]"""
    return [positive_float(word) for word in text.split(",")]


def slice_range(text: str) -> tuple[int, int]:
    """20:26 -> (20, 26): slices 20 to 25."""
    first, colon, stop = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not first:last, such as 20:26")
    return natural(first), natural(stop)


def _number(text: str, kind: Callable[[str], T], holds: Callable[[T], bool], what: str) -> T:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not holds(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
