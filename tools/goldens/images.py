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
from transformers import (
    Gemma3ImageProcessor,
    Gemma3Processor,
    Gemma4AudioFeatureExtractor,
    Gemma4ImageProcessor,
    Gemma4Processor,
    Gemma4VideoProcessor,
    GotOcr2ImageProcessor,
    Idefics3ImageProcessor,
    Idefics3Processor,
    InternVLProcessor,
    InternVLVideoProcessor,
    Lfm2VlImageProcessor,
    Lfm2VlProcessor,
    PixtralImageProcessor,
    PixtralProcessor,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

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
    "qwen2-vl-small": {
        "config": {
            "architectures": ["Qwen2VLForConditionalGeneration"],
            "vision_config": {"patch_size": 4, "spatial_merge_size": 2},
        },
        "processor": {},
        "images": {
            "min_pixels": 700,
            "max_pixels": 1800,
            "patch_size": 4,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "resample": 3,
        },
    },
    "qwen2.5-vl": {
        "config": {
            "architectures": ["Qwen2_5_VLForConditionalGeneration"],
            "vision_config": {"patch_size": 14, "spatial_merge_size": 2},
        },
        "processor": {},
        "images": {
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
        },
    },
    "qwen3-vl": {
        "config": {
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "vision_config": {"patch_size": 16, "spatial_merge_size": 2},
        },
        "processor": {},
        "images": {
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
            "patch_size": 16,
            "temporal_patch_size": 2,
            "merge_size": 2,
        },
    },
    "lfm2-vl-small": {
        "config": {
            "architectures": ["Lfm2VlForConditionalGeneration"],
            "vision_config": {"patch_size": 4},
            "downsample_factor": 2,
        },
        "processor": {},
        "images": {
            "encoder_patch_size": 4,
            "tile_size": 16,
            "min_tiles": 2,
            "max_tiles": 6,
            "min_image_tokens": 2,
            "max_image_tokens": 9,
            "max_pixels_tolerance": 1.5,
        },
    },
    "lfm2-vl-whole": {
        "config": {
            "architectures": ["Lfm2VlForConditionalGeneration"],
            "vision_config": {"patch_size": 4},
            "downsample_factor": 2,
        },
        "processor": {},
        "images": {"encoder_patch_size": 4, "do_image_splitting": False, "min_image_tokens": 4, "max_image_tokens": 16},
    },
    "lfm2-vl": {
        "config": {
            "architectures": ["Lfm2VlForConditionalGeneration"],
            "vision_config": {"patch_size": 16},
            "downsample_factor": 2,
        },
        "processor": {},
        "images": {"resample": 2},
    },
    "internvl-small": {
        "config": {
            "architectures": ["InternVLForConditionalGeneration"],
            "vision_config": {"image_size": [32, 32], "patch_size": [4, 4]},
            "downsample_ratio": 0.5,
        },
        "processor": {"image_seq_length": 16},
        "images": {"size": {"height": 32, "width": 32}, "crop_to_patches": False, "max_patches": 6, "resample": 3},
    },
    "internvl": {
        "config": {
            "architectures": ["InternVLForConditionalGeneration"],
            "vision_config": {"image_size": 448, "patch_size": 14},
            "downsample_ratio": 0.5,
        },
        "processor": {"image_seq_length": 256},
        "images": {"size": {"height": 448, "width": 448}, "min_patches": 1, "max_patches": 12, "resample": 3},
    },
    "gemma3-small": {
        "config": {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "vision_config": {"image_size": 32, "patch_size": 4},
            "mm_tokens_per_image": 4,
        },
        "processor": {"image_seq_length": 4},
        "images": {"size": {"height": 32, "width": 32}, "resample": 2},
    },
    "gemma3": {
        "config": {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "vision_config": {"image_size": 896, "patch_size": 14},
            "mm_tokens_per_image": 256,
        },
        "processor": {"image_seq_length": 256},
        "images": {"size": {"height": 896, "width": 896}, "resample": 2},
    },
    "gemma4-small": {
        "config": {
            "architectures": ["Gemma4ForConditionalGeneration"],
            "vision_config": {"patch_size": 4, "pooling_kernel_size": 2},
            "text_config": {},
        },
        "processor": {},
        "images": {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70, "resample": 3},
    },
    "gemma4": {
        "config": {"architectures": ["Gemma4ForConditionalGeneration"], "vision_config": {"patch_size": 16}, "text_config": {}},
        "processor": {"image_seq_length": 280},
        "images": {"patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280, "do_normalize": False, "resample": 3},
    },
}
CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
NONE = {"image_mean": [0.0, 0.0, 0.0], "image_std": [1.0, 1.0, 1.0]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
NORMALISATION = {"idefics3": HALF, "pixtral": CLIP, "qwen2": CLIP, "qwen3": HALF, "gemma3": HALF, "gemma4": NONE, "lfm2": HALF, "internvl": IMAGENET}
PLACEHOLDERS = {
    "idefics3": "<image>",
    "pixtral": "[IMG]",
    "qwen2": "<|image_pad|>",
    "qwen3": "<|image_pad|>",
    "gemma3": "<image_soft_token>",
    "gemma4": "<|image|>",
    "lfm2": "<image>",
    "internvl": "<IMG_CONTEXT>",
}
# What the architectures of a family begin with, where it is not its name.
FAMILIES = {"smolvlm": "idefics3", "mistral3": "pixtral"}
TOKENS = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
GEMMA_TOKENS = {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"}
GEMMA4_TOKENS = {"boi_token": "<|image>", "image_token": "<|image|>", "eoi_token": "<image|>", "boa_token": "<|audio>", "audio_token": "<|audio|>", "eoa_token": "<audio|>"}
LFM2_TOKENS = ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"]
INTERN_TOKENS = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
QWEN_TOKENS = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]


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


def family_of(setting: dict) -> str:
    name = setting["config"]["architectures"][0].lower()
    prefixes = {**FAMILIES, **{family: family for family in NORMALISATION}}
    return next(family for prefix, family in prefixes.items() if name.startswith(prefix))


def make_tokenizer(tokens: list[str], **named: str) -> PreTrainedTokenizerFast:
    vocabulary = {token: index for index, token in enumerate(["<unk>", *tokens, *named.values()])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        additional_special_tokens=tokens,
        extra_special_tokens=named,
    )


def make_processor(setting: dict):
    """One of `PROCESSORS`, made as its family is in transformers."""
    family, images, text = family_of(setting), setting["images"], setting["processor"]
    if family == "pixtral":
        return PixtralProcessor(PixtralImageProcessor(**images), make_tokenizer(TOKENS), **text)
    if family == "gemma3":
        return Gemma3Processor(Gemma3ImageProcessor(**images), make_tokenizer([], **GEMMA_TOKENS), **text)
    if family == "gemma4":
        tokenizer = make_tokenizer([], **GEMMA4_TOKENS)
        return Gemma4Processor(Gemma4AudioFeatureExtractor(), Gemma4ImageProcessor(**images), tokenizer, Gemma4VideoProcessor(), **text)
    if family == "lfm2":
        return Lfm2VlProcessor(Lfm2VlImageProcessor(**images), make_tokenizer(LFM2_TOKENS))
    if family == "internvl":
        return InternVLProcessor(GotOcr2ImageProcessor(**images), make_tokenizer([], **INTERN_TOKENS), InternVLVideoProcessor(), **text)
    if family == "qwen2":
        return Qwen2VLProcessor(Qwen2VLImageProcessor(**images), make_tokenizer(QWEN_TOKENS), Qwen2VLVideoProcessor())
    if family == "qwen3":
        return Qwen3VLProcessor(Qwen2VLImageProcessor(**images), make_tokenizer(QWEN_TOKENS), Qwen3VLVideoProcessor())
    # The one of SmolVLM differs in what it does with videos only.
    return Idefics3Processor(Idefics3ImageProcessor(**images), make_tokenizer(TOKENS), **text)


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


def from_blocks(values: torch.Tensor, grid: list[int], images: dict) -> torch.Tensor:
    """[3, height, width] of what Qwen-VL's encoder gets: block after block, each patch as two pictures that are the same."""
    patch, merge, copies = images["patch_size"], images["merge_size"], images["temporal_patch_size"]
    _, rows, cols = grid
    cut = values.reshape(rows // merge, cols // merge, merge, merge, 3, copies, patch, patch)
    assert torch.equal(cut[..., 0, :, :], cut[..., 1, :, :])
    return cut[..., 0, :, :].permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * patch, cols * patch)


def from_pixels(values: torch.Tensor, rows: int, cols: int, patch: int) -> torch.Tensor:
    """[3, height, width] of what some encoders get: pixel after pixel of each patch, filled up with others."""
    cut = values[: rows * cols].reshape(rows, cols, patch, patch, 3)
    return cut.permute(4, 0, 2, 1, 3).reshape(3, rows * patch, cols * patch)


def expected(setting: dict, image: Image.Image) -> dict:
    processor, family, images = make_processor(setting), family_of(setting), setting["images"]
    nested = {"return_row_col_info": True} if family in ("idefics3", "lfm2") else {}
    special = {"lfm2": {"use_image_special_tokens": True}, "internvl": {"crop_to_patches": True}}.get(family, {})
    inputs, texts = processor._process_images([[image]] if nested else [image], return_tensors="pt", **nested, **special)
    patch = setting["config"]["vision_config"]["patch_size"]
    patch = patch[0] if isinstance(patch, list) else patch
    values = inputs["pixel_values"]
    if family.startswith("qwen"):
        values = from_blocks(values, inputs["image_grid_thw"][0].tolist(), images)
    if family == "gemma4":
        cols, rows = (inputs["image_position_ids"][0].amax(0) + 1).tolist()
        values = from_pixels(values[0], rows, cols, patch)
    if family == "lfm2":
        parts = [from_pixels(tile, *shape, patch) for tile, shape in zip(values, inputs["spatial_shapes"].tolist())]
    else:
        parts = values.reshape(-1, *values.shape[-3:])
    tiles = [to_bytes(tile, images) for tile in parts]
    patches = hashlib.sha256()
    for pixels in tiles:
        patches.update(to_patches(pixels, patch).tobytes())
    mark = PLACEHOLDERS[family]
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
        setting["images"].update(NORMALISATION[family_of(setting)], rescale_factor=RESCALE)
        # All sizes take the same way through large tiles: two images are enough for what takes long.
        read = ["wide.png", "portrait.jpg"] if processor in ("smolvlm", "gemma3", "gemma4", "internvl") else names
        images = {name: expected(setting, read_image(folder / name)) for name in read}
        goldens[processor] = {**setting, "expected": images}
    (folder / "goldens.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
