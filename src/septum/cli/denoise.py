"""Denoise a diffusion image with dictionaries learned from itself, or from --model.

Writes OUT (float32, with .bval, .bvec) and what else is asked for, and beside it a .json with the inputs'
hashes, the settings, the noise level and the certificate of the dictionaries.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septum.cli.option import add_image, load_image, natural, positive_float, positive_int
from septum.cli.progress import Progress, say

if TYPE_CHECKING:
    from septum.dmri.denoise import Denoised, Settings
    from septum.dmri.image import DwiImage
    from septum.dmri.output import Outputs

EXAMPLE = "septum denoise dwi.nii.gz -o denoised.nii.gz --noise-map noise.nii.gz --report report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the denoised image, .nii.gz or .nii"
    )
    parser.add_argument(
        "--bids", type=Path, metavar="DIR", help="write into DIR under BIDS-derivatives names instead of -o"
    )
    parser.add_argument(
        "--model", type=Path, metavar="F", help="dictionaries made by septum learn (default: learn them)"
    )
    parser.add_argument(
        "--no-dictionary", action="store_true", help="use no dictionary: quicker, not as good"
    )
    parser.add_argument("--save-model", type=Path, metavar="OUT", help="keep the dictionaries, .npz")
    parser.add_argument(
        "--noise",
        metavar="IN",
        help="noise's standard deviation: a number or a 3-D NIfTI map (default: estimated)",
    )
    parser.add_argument(
        "--coils",
        type=positive_int,
        default=1,
        metavar="N",
        help="coils joined by sum of squares (default: 1)",
    )
    parser.add_argument(
        "--gaussian", action="store_true", help="the noise is Gaussian: do not correct for a noise floor"
    )
    parser.add_argument(
        "--patch",
        type=sizes,
        default=(5, 5, 5),
        metavar="P",
        help="5, 5x5x5, or 12x12 for squares (default: 5)",
    )
    parser.add_argument(
        "--stride", type=sizes, metavar="S", help="distance of patches (default: from their size)"
    )
    parser.add_argument(
        "--no-centre", dest="centre", action="store_false", help="do not take the shells' means out"
    )
    parser.add_argument(
        "--passes", type=natural, default=5, metavar="N", help="second estimates (default: 5)"
    )
    parser.add_argument("--n-patches", type=positive_int, metavar="N", help="patches to learn from (default: 300)")
    parser.add_argument(
        "--mem",
        type=positive_float,
        metavar="GB",
        help="memory beside the input, in GB (default: twice the input)",
    )
    for name, text in (
        ("noise-map", "the noise's standard deviation, 3-D"),
        ("residuals", "the input less the output, 4-D"),
        ("components", "the number of components kept around each voxel, 3-D"),
        ("variance-removed", "the mean square of the residuals, 3-D"),
    ):
        parser.add_argument(f"--{name}", type=Path, metavar="OUT", help=text)
    parser.add_argument("--report", type=Path, metavar="OUT", help="a report, one HTML file")


def sizes(text: str) -> tuple[int, ...]:
    """5 -> (5, 5, 5); 12x12 -> (12, 12, 1)."""
    values = [positive_int(word) for word in text.lower().replace(",", "x").split("x")]
    if len(values) > 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not one, two or three sizes such as 5 or 12x12")
    return tuple(values * 3 if len(values) == 1 else [*values, 1][:3])


def run(args: argparse.Namespace) -> None:
    from septum.dmri.denoise import make_settings
    from septum.dmri.denoise import run as denoise
    from septum.dmri.image import gradient_names
    from septum.dmri.output import Outputs
    from septum.dmri.sidecar import sidecar_name
    from septum.errors import InvalidInputError

    if (args.output is None) == (args.bids is None):
        raise InvalidInputError("say where the denoised image goes: -o OUT, or --bids DIR")
    if args.save_model is not None and args.no_dictionary:
        raise InvalidInputError("--no-dictionary leaves no model to save: leave one of the two out")
    with Outputs(force=args.force) as outputs:
        _name_by_bids(args, outputs)
        images = _images(args)
        for path in images.values():
            outputs.claim(path, sidecar_name(path))
        outputs.claim(*gradient_names(images["dwi"]), *filter(None, (args.save_model, args.report)))
        image = load_image(args, require_b0=False)
        settings = make_settings(
            patch=args.patch, stride=args.stride, n_coils=args.coils, magnitude=not args.gaussian, centre=args.centre,
            n_passes=args.passes, n_jobs=args.n_threads, seed=args.seed,
            **({} if args.n_patches is None else {"n_patches": args.n_patches}),
        )  # fmt: skip
        with Progress("denoise", args.verbosity) as report:
            found = denoise(
                image,
                image.gradients,
                settings,
                mask=image.mask,
                sigma=_noise(args.noise, image),
                model=args.model if args.model is not None else not args.no_dictionary,
                memory=int(args.mem * 1e9) if args.mem else 2 * image.nbytes,
                callback=lambda fraction, text: report(0.95 * fraction, text),
            )
            report(0.95, "writing")
            _write(images, image, found, args, outputs)
    say(_summary(found, images["dwi"]), args.verbosity)


def _name_by_bids(args: argparse.Namespace, outputs: "Outputs") -> None:
    if args.bids is None:
        return
    from septum.dmri.sidecar import bids_names, dataset_description

    names = bids_names(args.dwi, outputs.folder(args.bids))
    args.output = names["dwi"]
    args.noise_map = args.noise_map or names["noise"]
    args.residuals = args.residuals or names["residual"]
    description = args.bids / "dataset_description.json"
    if not description.exists():
        outputs.json(description, dataset_description())


def _images(args: argparse.Namespace) -> dict[str, Path]:
    """The NIfTI files to write."""
    from septum.errors import InvalidInputError

    asked = {
        "dwi": args.output,
        "noise": args.noise_map,
        "residuals": args.residuals,
        "components": args.components,
        "variance_removed": args.variance_removed,
    }
    found = {name: path for name, path in asked.items() if path is not None}
    for path in found.values():
        if not path.name.lower().endswith((".nii", ".nii.gz")):
            raise InvalidInputError(f"{path} must end in .nii.gz or .nii")
    return found


def _noise(text: str | None, image: "DwiImage") -> Any:
    """A number, or a map from a file; None to estimate."""
    from septum.dmri.image import load_volume
    from septum.errors import InvalidInputError

    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    if not Path(text).exists():
        raise InvalidInputError(f"--noise {text}: neither a number nor a file")
    return load_volume(text, image.shape[:3])


def _write(
    paths: dict[str, Path], image: "DwiImage", found: "Denoised", args: argparse.Namespace, outputs: "Outputs"
) -> None:
    from septum.dmri.image import SlabWriter, write, write_gradients
    from septum.dmri.sidecar import write_beside

    write(paths["dwi"], found.data, image, outputs=outputs)
    write_gradients(paths["dwi"], image, outputs=outputs)
    maps = {
        "noise": found.noise.map(image.shape),
        "components": found.components,
        "variance_removed": found.variance_removed,
    }
    for name, values in maps.items():
        if name in paths:
            write(paths[name], values, image, outputs=outputs)
    if "residuals" in paths:
        with SlabWriter(paths["residuals"], image.shape, image, outputs=outputs) as writer:
            for z in range(image.shape[2]):
                writer.write(z, _residual(image, found, slice(z, z + 1)))
    record = _record(image, found, args)
    for path in paths.values():
        write_beside(path, record, outputs=outputs)
    if args.save_model is not None and found.model is not None:
        with outputs.stage(args.save_model) as path:
            found.model.save(path)
    if args.report is not None:
        _report(image, found, args, record, outputs)


def _residual(image: "DwiImage", found: "Denoised", part: slice) -> Any:
    """The input less the output; zero outside."""
    taken = image.slab(part.start, part.stop) - found.data[:, :, part]
    taken[~found.inside[:, :, part]] = 0.0
    return taken


def _record(image: "DwiImage", found: "Denoised", args: argparse.Namespace) -> dict[str, Any]:
    from septum.dmri.sidecar import provenance

    noise = args.noise if args.noise is not None and Path(args.noise).exists() else None
    return provenance(
        "denoise",
        inputs=[image.path, image.bval_path, image.bvec_path, args.mask, args.model, noise],
        parameters=_parameters(found.settings),
        certificate=None if found.model is None else found.model.certificate,
        Noise={
            "Sigma": found.noise.sigma,
            "Uneven": found.noise.field is not None,
            "Source": found.noise.source,
        },
        Dictionaries=None
        if found.model is None
        else {"Atoms": found.model.sizes, "Alpha": found.model.alpha},
        Scheme=image.gradients.describe(),
    )


def _parameters(settings: "Settings") -> dict[str, Any]:
    """All that the result depends on: not the number of threads."""
    from dataclasses import asdict

    return {name: value for name, value in asdict(settings).items() if name != "n_jobs"}


def _summary(found: "Denoised", path: Path) -> str:
    noise = f"noise {found.noise.sigma:.4g}" + (
        " (median; it is uneven)" if found.noise.field is not None else ""
    )
    if found.model is None:
        return f"wrote {path}: {noise}; no dictionary was used"
    attained = 100 * found.model.certificate.attainment
    angular, spatial = found.model.sizes
    return f"wrote {path}: {noise}; dictionaries of {angular} + {spatial} atoms attain {attained:.1f}% of what any could"


def _report(
    image: "DwiImage", found: "Denoised", args: argparse.Namespace, record: dict[str, Any], outputs: "Outputs"
) -> None:
    from septum.report import denoising_report

    data, model = image.data, found.model
    more: dict[str, Any] = {}
    if model is not None:
        more = {
            "dictionaries": model.dictionaries,
            "atom_bvecs": model.gradients.bvecs[model.groups.contrasted],
            "codes": model.estimator.codes_,
            "patch_shape": model.patch,
            "certificate": model.certificate,
            "history": model.estimator.history_,
            "alpha": model.alpha,
            "centring": "the mean over each shell removed in every voxel"
            if model.centre
            else "nothing removed",
        }
    denoising_report(
        args.report,
        before=data,
        after=found.data,
        residual=data - found.data,
        noise=found.noise.sigma if found.noise.field is None else found.noise.field,
        mask=found.inside,
        affine=image.affine,
        bvals=image.bvals,
        bvecs=image.bvecs,
        parameters=record["Parameters"],
        timings=found.seconds,
        seeds={"seed": args.seed},
        inputs=record["Inputs"],
        outputs=outputs,
        **more,
    )
