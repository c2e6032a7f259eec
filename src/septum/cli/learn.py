"""Learn dictionaries from images of one gradient scheme, and certify them.

The model holds the dictionaries, the codes of the patches they were learned from, where these lie, the images'
hashes and the certificate; septum denoise --model, septum certify and septum show read it.
"""

import argparse
from pathlib import Path
from typing import Any

from septum.cli.denoise import sizes
from septum.cli.option import add_image, positive_float, positive_int
from septum.cli.progress import Progress, say

EXAMPLE = "septum learn dwi.nii.gz -o model.npz --patch 5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser, several=True)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL", help="the model, .npz")
    parser.add_argument(
        "--patch",
        type=sizes,
        default=(5, 5, 5),
        metavar="P",
        help="5, 5x5x5, or 12x12 for squares (default: 5)",
    )
    parser.add_argument(
        "--alpha",
        type=alpha,
        metavar="A",
        help="auto (the noise edge), or in units of the noise (default: auto)",
    )
    parser.add_argument("--n-patches", type=positive_int, metavar="N", help="patches to learn from (default: 300)")
    parser.add_argument(
        "--n-atoms", type=sizes_of_two, metavar="R,R", help="at most so many angular and spatial atoms"
    )
    parser.add_argument(
        "--noise", type=positive_float, metavar="S", help="noise's standard deviation (default: estimated)"
    )
    parser.add_argument(
        "--coils",
        type=positive_int,
        default=1,
        metavar="N",
        help="coils joined by sum of squares (default: 1)",
    )


def alpha(text: str) -> float | None:
    return None if text == "auto" else positive_float(text)


def sizes_of_two(text: str) -> tuple[int, int]:
    words = text.replace("x", ",").split(",")
    if len(words) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers such as 64,128")
    return positive_int(words[0]), positive_int(words[1])


def run(args: argparse.Namespace) -> None:
    from septum.dmri.denoise import find_inside, noise_of, visible
    from septum.dmri.gradient import check_same_scheme
    from septum.dmri.image import load
    from septum.dmri.model import N_PATCHES, learn
    from septum.dmri.output import Outputs
    from septum.dmri.sidecar import provenance, sidecar_name, write_beside
    from septum.errors import InvalidInputError

    with Outputs(force=args.force) as outputs:
        outputs.claim(args.output, sidecar_name(args.output))
        images = [load(path, args.bval, args.bvec, mask=args.mask, require_b0=False) for path in args.dwi]
        for image in images[1:]:
            check_same_scheme(images[0].gradients, image.gradients, what=str(args.dwi[0]))
        with Progress("learn", args.verbosity) as report:
            material: list[Any] = []
            for k, image in enumerate(images):
                source = visible(image)
                inside = find_inside(source)
                report(0.1 * k / len(images), "noise")
                noise = noise_of(
                    source, inside, image.gradients, args.noise, n_coils=args.coils, n_jobs=args.n_threads
                )
                material.append((source, inside, noise))
            model = learn(
                material,
                images[0].gradients,
                patch=args.patch,
                n_patches=args.n_patches or N_PATCHES,
                n_atoms=args.n_atoms,
                alpha=args.alpha,
                seed=args.seed,
                n_jobs=args.n_threads,
                callback=lambda fraction, text: report(0.1 + 0.9 * fraction, text),
            )
            if model is None:
                raise InvalidInputError("no patch stands out of the noise: there is nothing to learn from")
            with outputs.stage(args.output) as path:
                model.save(path)
            files = [f for image in images for f in (image.path, image.bval_path, image.bvec_path)]
            record = provenance(
                "learn",
                inputs=[*files, args.mask],
                parameters={
                    "patch": model.patch,
                    "alpha": model.alpha,
                    "n_patches": len(model.origin.positions),
                    "seed": args.seed,
                },
                certificate=model.certificate,
                Dictionaries={"Atoms": model.sizes},
            )
            write_beside(args.output, record, outputs=outputs)
    angular, spatial = model.sizes
    say(
        f"wrote {args.output}: {angular} angular and {spatial} spatial atoms\n{model.certificate}",
        args.verbosity,
    )
