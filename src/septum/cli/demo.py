"""See what septum does in a minute: simulate a slab of the ISBI 2013 phantom, learn, denoise, report.

Writes into DIR: dwi.nii.gz, truth.nii.gz and denoised.nii.gz, each with .bval and .bvec, model.npz, record.json and
report.html, which opens in any browser.
"""

import argparse
from pathlib import Path
from typing import Any

from septum.cli.progress import Progress, say

EXAMPLE = "septum demo -o demo-output"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("septum-demo"), metavar="DIR", help="folder (default: septum-demo)"
    )


def run(args: argparse.Namespace) -> None:
    from septum.dmri.output import Outputs
    from septum.experiment import demo

    folder: Path = args.output
    with Outputs(force=args.force) as outputs:
        outputs.folder(folder)
        names = [folder / name for name in ("report.html", "record.json", "model.npz")]
        outputs.claim(*names)
        with Progress("demo", args.verbosity) as report:
            shown = demo.run(seed=args.seed, n_threads=args.n_threads, report=report)
            report(0.78, "pictures of fibre directions")
            pictures, scores = demo.closeups(shown), shown.scores
            report(0.95, "writing")
            _write_images(shown, folder, outputs)
            _write_report(shown, pictures, scores, args, outputs)
    for name, (before, after) in scores.items():
        unit = "degrees" if "direction" in name else "dB"
        say(f"{name}: {before:.1f} -> {after:.1f} {unit}", args.verbosity)
    if shown.denoised.model is not None:
        certificate = shown.denoised.model.certificate
        say(f"dictionary: attainment {100 * certificate.attainment:.1f}%, {certificate.verdict}", args.verbosity)
    say(f"open {folder / 'report.html'}", args.verbosity)


def _write_images(shown: Any, folder: Path, outputs: Any) -> None:
    from septum.dmri.image import DwiImage, write, write_gradients
    from septum.dmri.sidecar import provenance, write_beside

    images = {"dwi": shown.phantom.data, "truth": shown.phantom.truth, "denoised": shown.denoised.data}
    for name, data in images.items():
        path = folder / f"{name}.nii.gz"
        like = DwiImage.from_arrays(data, shown.phantom.gradients, shown.phantom.affine)
        write(path, data, like, outputs=outputs)
        write_gradients(path, like, outputs=outputs)
        model = shown.denoised.model if name == "denoised" else None
        certificate = None if model is None else model.certificate
        parameters = {"seed": shown.phantom.seed, "snr": shown.phantom.snr}
        write_beside(path, provenance("septum demo", parameters=parameters, certificate=certificate), outputs=outputs)
    if shown.denoised.model is not None:
        with outputs.stage(folder / "model.npz") as path:
            shown.denoised.model.save(path)


def _write_report(
    shown: Any,
    pictures: list[tuple[str, Any]],
    scores: dict[str, tuple[float, float]],
    args: argparse.Namespace,
    outputs: Any,
) -> None:
    from septum.report import denoising_report
    from septum.report.record import Column, Number, Table

    phantom, denoised, model = shown.phantom, shown.denoised, shown.denoised.model
    learnt: dict[str, Any] = {}
    if model is not None:
        learnt = {
            "dictionaries": model.dictionaries,
            "atom_bvecs": phantom.gradients.bvecs[model.groups.contrasted],
            "codes": model.estimator.codes_,
            "patch_shape": model.patch,
            "certificate": model.certificate,
            "history": model.estimator.history_,
            "alpha": model.alpha,
            "centring": "each voxel's mean over the directions removed",
        }
    inside_before, inside_after = scores["PSNR, inside the phantom"]
    columns = (Column("measure"), Column("before", digits=2), Column("after", digits=2))
    rows = tuple((name, before, after) for name, (before, after) in scores.items())
    denoising_report(
        args.output / "report.html",
        before=phantom.data,
        after=denoised.data,
        residual=phantom.data - denoised.data,
        noise=denoised.noise.sigma,
        truth=phantom.truth,
        mask=phantom.mask,
        affine=phantom.affine,
        bvals=phantom.gradients.bvals,
        bvecs=phantom.gradients.bvecs,
        title="A phantom, denoised",
        summary=(
            f"A slab of the ISBI 2013 phantom at SNR {phantom.snr:g}, denoised with dictionaries learnt from the noisy "
            "slab itself and scored against the truth."
        ),
        command=f"septum demo -o {args.output} --seed {args.seed}",
        numbers=[
            Number("PSNR before", inside_before, "dB", "inside the phantom", 1),
            Number("PSNR after", inside_after, "dB", "inside the phantom", 1),
        ],
        timings=shown.seconds | denoised.seconds,
        seeds={"noise and patches": args.seed},
        parameters={"patch": denoised.settings.patch, "SNR": phantom.snr},
        closeups=pictures,
        tables=[Table("Against the truth", columns, rows)],
        record_path=args.output / "record.json",
        outputs=outputs,
        **learnt,
    )
