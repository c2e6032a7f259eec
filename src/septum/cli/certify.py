"""Recompute a model's certificate on an image, from the arrays alone.

On the image that the model was learned from, its saved codes are certified on the patches they belong to; on any
other image of the scheme, fresh codes of as many patches chosen there. The answer says which.
"""

import argparse
import json
from pathlib import Path

from septum.cli.option import positive_float, positive_int

EXAMPLE = "septum certify model.npz dwi.nii.gz --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model made by septum learn")
    parser.add_argument("dwi", metavar="DWI", type=Path, help="diffusion image, 4-D NIfTI")
    parser.add_argument("--bval", type=Path, metavar="F", help="b-values (default: found beside the image)")
    parser.add_argument("--bvec", type=Path, metavar="F", help="directions (default: found beside the image)")
    parser.add_argument("--mask", type=Path, metavar="F", help="the mask that was used in learning, if any")
    parser.add_argument(
        "--noise", type=positive_float, metavar="S", help="noise of another image (default: estimated)"
    )
    parser.add_argument(
        "--coils",
        type=positive_int,
        default=1,
        metavar="N",
        help="coils joined by sum of squares (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from septum.cli.option import load_image
    from septum.dmri.denoise import find_inside, noise_of, visible
    from septum.dmri.model import load, recertify
    from septum.dmri.sidecar import plain

    model = load(args.model)
    image = load_image(args, require_b0=False)
    model.check(image.gradients)
    source = visible(image)
    inside = find_inside(source)
    certificate, own = recertify(
        model,
        source,
        inside,
        lambda: noise_of(
            source, inside, image.gradients, args.noise, n_coils=args.coils, n_jobs=args.n_threads
        ),
        seed=args.seed,
        n_jobs=args.n_threads,
    )
    codes = "saved" if own else "fresh"
    if args.json:
        print(json.dumps(plain(certificate.to_dict() | {"codes": codes}), indent=2, allow_nan=False))
        return
    what = (
        "the saved codes, on the model's own image"
        if own
        else "fresh codes, on patches of this image (not the model's own)"
    )
    print(f"certified: {what}\n{certificate}")
