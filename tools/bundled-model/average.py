"""Writes the mean of the weights of several checkpoints of one run: steadier than each of them."""

import argparse
from pathlib import Path

import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    states = [torch.load(path, map_location="cpu") for path in options.checkpoints]
    names = states[0]["model"]
    mean = {name: torch.stack([state["model"][name] for state in states]).mean(dim=0) for name in names}
    torch.save({**states[-1], "model": mean}, options.out)


if __name__ == "__main__":
    main()
