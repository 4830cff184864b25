"""Writes test/fixtures/goldens/gguf-blocks.json: random blocks of each quantised GGUF format and the numbers that they mean.

    pip install gguf==0.19.0 numpy
    python tools/goldens/gguf_blocks.py test/fixtures/goldens/gguf-blocks.json

Numbers are those of `gguf.quants.dequantize`. Bytes are random but for the 16-bit scales, which are finite: of every size, subnormal and
negative ones included.
"""

import base64
import json
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

BLOCKS = 6

# Where the f16 numbers of a block are, in bytes.
F16_AT = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
    "TQ1_0": [52],
    "TQ2_0": [64],
}


def random_blocks(random: np.random.Generator, name: str) -> np.ndarray:
    _, size = GGML_QUANT_SIZES[Type[name]]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in F16_AT[name]:
        scales = (random.normal(size=BLOCKS) * 10.0 ** random.uniform(-7, 2, BLOCKS)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
    if name == "MXFP4":
        # Numbers that f32 holds as normal ones.
        blocks[:, 0] = random.integers(4, 250, BLOCKS)
    return blocks


def encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def main() -> None:
    random = np.random.default_rng(13)
    goldens = {}
    for name in F16_AT:
        blocks = random_blocks(random, name)
        numbers = dequantize(blocks, Type[name]).astype(np.float32)
        assert np.isfinite(numbers).all()
        goldens[name.lower()] = {"bytes": encoded(blocks), "numbers": encoded(numbers)}
    with open(sys.argv[1], "w") as file:
        json.dump(goldens, file, indent=1)
        file.write("\n")


main()
