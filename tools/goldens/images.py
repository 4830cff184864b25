"""Makes images, and what the processors of transformers make of them.

    python images.py ../../test/fixtures/images

writes image files and goldens.json: for each processor what its model's files say of images, and for each image the text, the
rows and columns of patches of each tile, and a hash of the bytes of all patches. The same versions give the same files.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer, models
from transformers import Idefics3ImageProcessor, Idefics3Processor, PixtralImageProcessor, PixtralProcessor, PreTrainedTokenizerFast

RESCALE = 1 / 255
SMALL_IDEFICS3 = {
    "config": {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "vision_config": {"image_size": 32, "patch_size": 8},
        "scale_factor": 2,
    },
    "processor": {"image_seq_len": 4},
}
SMALL = {"max_image_size": {"longest_edge": 32}, "size": {"longest_edge": 96}}
# How models are published: what config.json, processor_config.json and preprocessor_config.json say of images.
PROCESSORS = {
    "idefics3-small": {**SMALL_IDEFICS3, "images": {**SMALL, "do_image_splitting": True, "resample": 1}},
    "idefics3-whole": {**SMALL_IDEFICS3, "images": {**SMALL, "do_image_splitting": False, "resample": 3}},
    "idefics3-not-resized": {
        **SMALL_IDEFICS3,
        "images": {**SMALL, "do_image_splitting": True, "do_resize": False, "resample": 2},
    },
    "smolvlm": {
        "config": {
            "architectures": ["SmolVLMForConditionalGeneration"],
            "vision_config": {"image_size": 512, "patch_size": 16},
            "scale_factor": 4,
        },
        "processor": {"image_seq_len": 64},
        "images": {
            "max_image_size": {"longest_edge": 512},
            "size": {"longest_edge": 2048},
            "do_image_splitting": True,
            "resample": 1,
        },
    },
    "pixtral-small": {
        "config": {
            "architectures": ["Mistral3ForConditionalGeneration"],
            "vision_config": {"patch_size": 4},
            "spatial_merge_size": 2,
        },
        "processor": {"patch_size": 4, "spatial_merge_size": 2},
        "images": {"size": {"longest_edge": 40}, "resample": 3},
    },
    "mistral3": {
        "config": {
            "architectures": ["Mistral3ForConditionalGeneration"],
            "vision_config": {"patch_size": 14},
            "spatial_merge_size": 2,
        },
        "processor": {"patch_size": 14, "spatial_merge_size": 2},
        "images": {"size": {"longest_edge": 1540}, "resample": 3},
    },
}
NORMALISATION = {
    "idefics3": {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
    "pixtral": {
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    },
}
TOKENS = ["<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]


def synthetic(width: int, height: int, channels: int = 3) -> np.ndarray:
    """A gradient with an edge and noise, [height, width, channels]."""
    random = np.random.default_rng(width * 1000 + height)
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), 127 + 100 * np.sin((x + y) / 7), 255 - x * 200 / width]
    pixels = np.stack(planes[:channels], -1) + random.normal(0, 12, (height, width, channels))
    pixels[height // 3 : height // 2, width // 4 : width // 2, 0] = 255
    return np.clip(pixels, 0, 255).astype(np.uint8)


def write_images(folder: Path) -> list[str]:
    turned = Image.Exif()
    turned[0x0112] = 6
    files = {
        "wide.png": (synthetic(120, 40), {}),
        "portrait.jpg": (synthetic(50, 90), {"quality": 90}),
        "turned.jpg": (synthetic(70, 40), {"quality": 90, "exif": turned}),
        "transparent.png": (synthetic(40, 33, channels=4), {}),
        "tiny.png": (synthetic(3, 5), {}),
        "tile.png": (synthetic(32, 32), {}),
        "grey.png": (synthetic(45, 20, channels=1)[..., 0], {}),
        "lossy.webp": (synthetic(64, 48), {"quality": 80}),
        "palette.gif": (synthetic(37, 29), {}),
    }
    for name, (pixels, options) in files.items():
        Image.fromarray(pixels).save(folder / name, **options)
    return list(files)


def read_image(path: Path) -> Image.Image:
    """As servers read what people send: turned as it is meant to be, and on white where it is transparent."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode != "RGBA":
        return image.convert("RGB")
    opaque = Image.new("RGB", image.size, (255, 255, 255))
    opaque.paste(image, mask=image.getchannel("A"))
    return opaque


def make_processor(setting: dict):
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(TOKENS)}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", additional_special_tokens=TOKENS[1:])
    if "Mistral3" in setting["config"]["architectures"][0]:
        images = PixtralImageProcessor(**setting["images"])
        return PixtralProcessor(images, tokenizer, **setting["processor"]), "[IMG]"
    # The one of SmolVLM differs in what it does with videos only.
    images = Idefics3ImageProcessor(**setting["images"])
    return Idefics3Processor(images, tokenizer, **setting["processor"]), "<image>"


def to_bytes(values: torch.Tensor, images: dict) -> np.ndarray:
    """[3, height, width]: undoes what was done to the bytes of the pixels."""
    mean = torch.tensor(images["image_mean"], dtype=torch.float64)[:, None, None]
    std = torch.tensor(images["image_std"], dtype=torch.float64)[:, None, None]
    pixels = (values.to(torch.float64) * std + mean) / RESCALE
    rounded = pixels.round()
    assert (pixels - rounded).abs().max() < 0.01
    return rounded.to(torch.uint8).numpy()


def to_patches(pixels: np.ndarray, patch: int) -> np.ndarray:
    """[rows * cols, 3 * patch * patch], each as the weight of a Conv2d sees it."""
    channels, height, width = pixels.shape
    cut = pixels.reshape(channels, height // patch, patch, width // patch, patch)
    return cut.transpose(1, 3, 0, 2, 4).reshape(-1, channels * patch * patch)


def expected(setting: dict, image: Image.Image) -> dict:
    processor, mark = make_processor(setting)
    if mark == "<image>":
        inputs, texts = processor._process_images([[image]], return_tensors="pt", return_row_col_info=True)
    else:
        inputs, texts = processor._process_images([image], return_tensors="pt")
    patch = setting["config"]["vision_config"]["patch_size"]
    values = inputs["pixel_values"]
    tiles = [to_bytes(tile, setting["images"]) for tile in values.reshape(-1, *values.shape[-3:])]
    patches = hashlib.sha256()
    for pixels in tiles:
        patches.update(to_patches(pixels, patch).tobytes())
    return {
        # With each run of placeholders as one and their number.
        "text": re.sub(f"({re.escape(mark)})+", lambda run: f"{mark}*{len(run[0]) // len(mark)}", texts[0]),
        "tiles": [[pixels.shape[1] // patch, pixels.shape[2] // patch] for pixels in tiles],
        "patches": patches.hexdigest(),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = write_images(folder)
    goldens = {}
    for processor, setting in PROCESSORS.items():
        family = "pixtral" if "Mistral3" in setting["config"]["architectures"][0] else "idefics3"
        setting["images"].update(NORMALISATION[family], rescale_factor=RESCALE)
        # All sizes take the same way through large tiles: two images are enough for what takes long.
        read = ["wide.png", "portrait.jpg"] if processor == "smolvlm" else names
        images = {name: expected(setting, read_image(folder / name)) for name in read}
        goldens[processor] = {**setting, "expected": images}
    (folder / "goldens.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
