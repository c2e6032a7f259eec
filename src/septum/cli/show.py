"""Say what a model holds; with -o, draw its atoms.

Writes into DIR: angular_atoms.png (on the sphere), spatial_atoms.png, joint_atoms.png (the pairs used most).
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septum.cli.progress import say

if TYPE_CHECKING:
    from septum.dmri.model import Model

EXAMPLE = "septum show model.npz -o atoms"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model made by septum learn")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for pictures")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from septum.dmri.model import load
    from septum.dmri.output import Outputs
    from septum.dmri.sidecar import plain

    model = load(args.model)
    if args.output is not None:
        with Outputs(force=args.force) as outputs:
            outputs.folder(args.output)
            paths = [args.output / f"{name}_atoms.png" for name in ("angular", "spatial", "joint")]
            outputs.claim(*paths)
            for path, content in zip(paths, _pictures(model), strict=True):
                outputs.bytes(path, content)
    facts = _facts(model)
    if args.json:
        print(json.dumps(plain(facts), indent=2, allow_nan=False))
        return
    for name, value in facts.items():
        if name != "certificate":
            say(f"{name:22s}{value}")
    say(str(model.certificate))


def _facts(model: "Model") -> dict[str, Any]:
    angular, spatial = model.sizes
    codes = model.estimator.codes_
    return {
        "scheme": model.gradients.describe(),
        "patch": " x ".join(map(str, model.patch)),
        "angular atoms": angular,
        "spatial atoms": spatial,
        "alpha (noise = 1)": round(model.alpha, 4),
        "patches learned from": len(model.origin.positions),
        "images learned from": len(model.origin.hashes),
        "codes per patch": round(codes.nnz / max(1, codes.shape[0]), 2),
        "centred": model.centre,
        "certificate": model.certificate.to_dict(),
    }


def _pictures(model: "Model") -> list[bytes]:
    from septum.plot import angular_atoms, atoms, joint_atoms, png
    from septum.plot.atom import joint_use

    angular, spatial = model.dictionaries
    use = joint_use(model.estimator.codes_)
    bvecs = model.gradients.bvecs[model.groups.contrasted]
    return [
        png(angular_atoms(angular, bvecs, use=use.sum(axis=1))),
        png(atoms(spatial, model.patch, use=use.sum(axis=0))),
        png(joint_atoms(angular, spatial, use, bvecs=bvecs, shape=model.patch)),
    ]
