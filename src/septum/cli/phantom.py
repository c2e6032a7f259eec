"""Simulate the phantom of the ISBI 2013 challenge: images with and without noise, tissues, fibre directions.

Writes into DIR: dwi_snr-S.nii.gz for each SNR and truth.nii.gz, each with .bval, .bvec and .json;
fraction_wm, fraction_gm, fraction_csf and fraction_background; mask and mask_wm; directions (unit vectors
along the voxel axes, three numbers for each of three directions) and direction_shares.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septum.cli.option import natural, positive_floats, positive_int, slice_range
from septum.cli.progress import Progress, say

if TYPE_CHECKING:
    from septum.dmri.output import Outputs
    from septum.dmri.phantom import Phantom

EXAMPLE = "septum phantom -o phantom --snr 10,30"

_VOLUMES = (
    "fraction_wm",
    "fraction_gm",
    "fraction_csf",
    "fraction_background",
    "mask",
    "mask_wm",
    "directions",
    "direction_shares",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write into"
    )
    parser.add_argument(
        "--snr",
        type=positive_floats,
        default=[10.0, 30.0],
        metavar="S,S",
        help="one or more SNRs (default: 10,30)",
    )
    parser.add_argument(
        "--scheme",
        type=Path,
        metavar="F",
        help="gradients: a .bval or .bvec with its fellow beside it, or a table of x y z b "
        "(default: one b0 and 64 directions at b = 3000)",
    )
    parser.add_argument(
        "--noise",
        choices=("rician", "gaussian", "chi"),
        default="rician",
        help="kind of noise (default: rician)",
    )
    parser.add_argument(
        "--coils", type=positive_int, default=1, metavar="N", help="channels of chi noise (default: 1)"
    )
    parser.add_argument(
        "--size", type=natural, default=50, metavar="N", help="voxels a side of the 100 mm cube (default: 50)"
    )
    parser.add_argument(
        "--slices", type=slice_range, metavar="A:B", help="slices A to B-1 only (default: all)"
    )


def run(args: argparse.Namespace) -> None:
    from septum.dmri.gradient import read_scheme
    from septum.dmri.image import gradient_names, nibabel
    from septum.dmri.output import Outputs
    from septum.dmri.phantom import simulate
    from septum.dmri.sidecar import sidecar_name

    nibabel()  # say now if it is missing, not after the simulation
    scheme = None if args.scheme is None else read_scheme(args.scheme)
    images = {snr: args.output / f"dwi_snr-{snr:g}.nii.gz" for snr in args.snr} | {
        None: args.output / "truth.nii.gz"
    }
    volumes = {name: args.output / f"{name}.nii.gz" for name in _VOLUMES}
    with Outputs(force=args.force) as outputs:
        outputs.folder(args.output)
        for path in (*images.values(), *volumes.values()):
            outputs.claim(path, sidecar_name(path))
        for path in images.values():
            outputs.claim(*gradient_names(path))
        with Progress("phantom", args.verbosity) as report:
            phantom = simulate(
                scheme,
                noise=args.noise,
                n_coils=args.coils,
                seed=args.seed,
                size=args.size,
                slices=args.slices,
                callback=lambda fraction, text: report(0.6 * fraction, text),
            )
            for count, (snr, path) in enumerate(images.items()):
                report(0.6 + 0.4 * count / (len(images) + 1), f"writing {path.name}")
                _write_image(path, phantom.with_noise(snr), args, outputs)
            report(0.95, "writing maps")
            _write_volumes(volumes, phantom, args, outputs)
    say(f"wrote {len(images)} images and {len(volumes)} maps in {args.output}", args.verbosity)


def _write_image(path: Path, phantom: "Phantom", args: argparse.Namespace, outputs: "Outputs") -> None:
    from septum.dmri.image import gradient_names, write

    write(path, phantom.data, phantom.affine, outputs=outputs)
    bval, bvec = gradient_names(path)
    outputs.text(bval, phantom.gradients.bval_text())
    outputs.text(bvec, phantom.gradients.bvec_text())
    noise = (
        {"snr": phantom.snr}
        if phantom.snr is None
        else {"snr": phantom.snr, "noise": args.noise, "n_coils": args.coils}
    )
    _write_sidecar(path, phantom, args, outputs, noise | {"unit": "white matter's signal at b = 0"})


def _write_volumes(
    paths: dict[str, Path], phantom: "Phantom", args: argparse.Namespace, outputs: "Outputs"
) -> None:
    import numpy as np

    from septum.dmri.image import write

    content: dict[str, Any] = {f"fraction_{name}": part for name, part in phantom.fractions.items()}
    content |= {
        "mask": phantom.mask.astype(np.uint8),
        "mask_wm": phantom.white_matter.astype(np.uint8),
        "directions": phantom.directions.reshape(*phantom.directions.shape[:3], -1),
        "direction_shares": phantom.shares,
    }
    for name, path in paths.items():
        write(path, content[name], phantom.affine, outputs=outputs, dtype=content[name].dtype)
        _write_sidecar(path, phantom, args, outputs, {"map": name})


def _write_sidecar(
    path: Path, phantom: "Phantom", args: argparse.Namespace, outputs: "Outputs", more: dict[str, Any]
) -> None:
    from septum.dmri.sidecar import provenance, write_beside

    parameters = {
        "seed": args.seed,
        "size": args.size,
        "slices": args.slices,
        "scheme": phantom.gradients.describe(),
        "scheme_fingerprint": phantom.gradients.fingerprint(),
    } | more
    write_beside(path, provenance("phantom", inputs=[args.scheme], parameters=parameters), outputs=outputs)
