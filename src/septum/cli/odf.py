"""Orientation distribution functions of an image: spherical harmonics, constant solid angle.

Writes into DIR: odf_sh.nii.gz (coefficients in DIPY's default basis, descoteaux07), gfa.nii.gz (generalized
fractional anisotropy), peaks.nii.gz (three directions, each three numbers, in the frame of the .bvec file),
peak_values.nii.gz, and pictures of slices with one glyph a voxel, coloured by direction
(where there is an object, when no mask is given). Each has a .json.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septum.cli.option import add_image, load_image, natural, positive_float
from septum.cli.progress import Progress, say

if TYPE_CHECKING:
    from septum.dmri.odf import OdfField

EXAMPLE = "septum odf dwi.nii.gz -o odf --mask mask.nii.gz --slice 30"

_PEAKS = 3
_MANY_VOXELS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write into"
    )
    parser.add_argument(
        "--order", type=natural, default=8, metavar="L", help="harmonic order, even (default: 8)"
    )
    parser.add_argument(
        "--shell",
        type=positive_float,
        metavar="B",
        help="b-value of the shell to use (default: the highest that will do)",
    )
    parser.add_argument(
        "--slice",
        type=natural,
        action="append",
        dest="slices",
        metavar="K",
        help="slice to picture; may be given again (default: the middle one)",
    )
    parser.add_argument(
        "--axis",
        choices=("x", "y", "z"),
        default="z",
        help="which axis is at right angles to the slices (default: z)",
    )


def run(args: argparse.Namespace) -> None:
    from septum.dmri.image import write
    from septum.dmri.mask import foreground
    from septum.dmri.odf import choose_shell, constant_solid_angle, peaks
    from septum.dmri.output import Outputs
    from septum.dmri.sidecar import provenance, sidecar_name, write_beside

    image = load_image(args)
    shell = choose_shell(image.gradients, args.order, args.shell)
    axis = "xyz".index(args.axis)
    slices = sorted(set(args.slices or [image.shape[axis] // 2]))
    maps = {name: args.output / f"{name}.nii.gz" for name in ("odf_sh", "gfa", "peaks", "peak_values")}
    pictures = {k: args.output / f"odf_{args.axis}{k}.png" for k in slices}
    record = provenance(
        "odf",
        inputs=[image.path, image.bval_path, image.bvec_path, args.mask],
        parameters={"order": args.order, "shell": shell.bvalue, "axis": args.axis, "slices": slices},
        Basis="descoteaux07, legacy signs (DIPY's default)",
    )
    with Outputs(force=args.force) as outputs:
        outputs.folder(args.output)
        for path in (*maps.values(), *pictures.values()):
            outputs.claim(path, sidecar_name(path))
        with Progress("odf", args.verbosity) as report:
            field = constant_solid_angle(
                image, order=args.order, shell=args.shell, callback=lambda f, text: report(0.3 * f, text)
            )
            found = peaks(field, n_peaks=_PEAKS, callback=lambda f, text: report(0.3 + 0.4 * f, text))
            anisotropy = field.generalized_anisotropy()
            content = {
                "odf_sh": field.coefficients,
                "gfa": anisotropy,
                "peaks": found.directions.reshape(*image.shape[:3], -1),
                "peak_values": found.values,
            }
            for name, path in maps.items():
                write(path, content[name], image, outputs=outputs)
            visible = foreground(image) if args.mask is None else field.mask
            for count, (k, path) in enumerate(pictures.items()):
                report(0.8 + 0.2 * count / len(pictures), f"picture of slice {k}")
                outputs.bytes(path, _picture(field, anisotropy, visible, axis, k))
            for path in (*maps.values(), *pictures.values()):
                write_beside(path, record, outputs=outputs)
    say(f"wrote {len(maps)} maps and {len(pictures)} pictures in {args.output}", args.verbosity)


def _picture(field: "OdfField", background: Any, visible: Any, axis: int, index: int) -> bytes:
    from septum.plot import odf_field, png

    fine = max(field.mask.shape) > _MANY_VOXELS
    figure = odf_field(field, background=background, mask=visible, axis=axis, index=index)
    return png(figure, dpi=300 if fine else 150)
