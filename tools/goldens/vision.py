"""Makes tiny random models that see images, the rows that they make of patches, and their logits with the original implementation.

    python vision.py ../../test/fixtures/vision [name ...]

writes a folder for each model as make.py does. Patches are no picture: byte i of all tiles is (37 i + 11 (i >> 5)) mod 256, brought to -1 to 1.
"""

import json
import sys
from pathlib import Path

import torch
import transformers as t
from safetensors.torch import save_file

from make import CLEAR_GAP, GREEDY, ROWS, VOCAB, random_weights
from models import COMMON, Recipe

PLACEHOLDER = 5
TEXT = COMMON | {"num_hidden_layers": 2}
SIGLIP = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 4}


def pixels(tiles: list[tuple[int, int]], patch: int = 4) -> torch.Tensor:
    """[tiles, 3, height, width] of as many rows and columns of patches, which come line by line; filled up with zeros."""
    height, width = (max(sizes) * patch for sizes in zip(*tiles))
    images = torch.zeros(len(tiles), 3, height, width)
    first = 0
    for image, (rows, cols) in zip(images, tiles):
        index = torch.arange(first, first + rows * cols * 3 * patch * patch)
        first += len(index)
        values = ((37 * index + 11 * (index >> 5)) % 256).reshape(rows, cols, 3, patch, patch).to(torch.float32) / 127.5 - 1
        image[:, : rows * patch, : cols * patch] = values.permute(2, 0, 3, 1, 4).reshape(3, rows * patch, cols * patch)
    return images


def squares(tiles: list[tuple[int, int]]) -> dict:
    return {"pixel_values": pixels(tiles)[None]}


def sized(tiles: list[tuple[int, int]]) -> dict:
    return {"pixel_values": pixels(tiles), "image_sizes": torch.tensor([[rows * 4, cols * 4] for rows, cols in tiles])}


def mistral3():
    vision = SIGLIP | {"model_type": "pixtral", "head_dim": 8, "image_size": 32, "hidden_act": "gelu"}
    config = t.Mistral3Config(
        vision_config=vision, text_config=TEXT | {"model_type": "mistral", "head_dim": 8}, image_token_index=PLACEHOLDER, image_token_id=PLACEHOLDER, spatial_merge_size=2, vision_feature_layer=-1, tie_word_embeddings=False
    )
    return t.Mistral3ForConditionalGeneration, config, sized


def smolvlm(kind: str):
    config = getattr(t, f"{kind}Config")(
        vision_config=SIGLIP, text_config=TEXT | {"model_type": "llama"}, image_token_id=PLACEHOLDER, scale_factor=2, tie_word_embeddings=False, pad_token_id=0
    )
    return getattr(t, f"{kind}ForConditionalGeneration"), config, squares


def gemma3():
    """Windows that an image fits into."""
    text = TEXT | {"model_type": "gemma3_text", "num_hidden_layers": 3, "head_dim": 8, "sliding_window": 20, "query_pre_attn_scalar": 16}
    text |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": True}
    vision = SIGLIP | {"model_type": "siglip_vision_model", "image_size": 32, "vision_use_head": False}
    config = t.Gemma3Config(vision_config=vision, text_config=text, image_token_id=PLACEHOLDER, mm_tokens_per_image=16, pad_token_id=0)
    return t.Gemma3ForConditionalGeneration, config, lambda tiles: {"pixel_values": pixels(tiles)}


MODELS = {
    "idefics3": lambda: smolvlm("Idefics3"),
    "smolvlm": lambda: smolvlm("SmolVLM"),
    "mistral3": mistral3,
    "gemma3": gemma3,
}
RENAMED = {"gemma3": ("vision_tower.", "vision_tower.vision_model.")}
"""To what releases name their tensors."""
SQUARE, LARGE = (4, 4), (8, 8)
"""Tokens of each case, and of its tiles the first token and rows and columns of patches, of which four become a token."""
CASES = {"one": (14, [(3, SQUARE)]), "several": (45, [(2, SQUARE), (20, SQUARE), (31, SQUARE)])}
OTHER_CASES = {"mistral3": {"one": (16, [(3, (4, 6))]), "several": (45, [(2, (2, 8)), (20, (6, 4)), (31, SQUARE)])}}
OTHER_CASES["gemma3"] = {"one": (34, [(9, LARGE)]), "several": (96, [(2, LARGE), (33, LARGE), (52, LARGE)])}


def prompt(length: int, tiles: list, generator: torch.Generator) -> list[int]:
    ids = torch.randint(6, VOCAB, (length,), generator=generator).tolist()
    for start, (rows, cols) in tiles:
        count = rows * cols // 4
        ids[start : start + count] = [PLACEHOLDER] * count
    return ids


def compute(model: torch.nn.Module, ids: list[int], images: dict):
    tokens = torch.tensor([ids])
    # Where tokens of an image see each other.
    types = {"token_type_ids": (tokens == PLACEHOLDER).long()} if isinstance(model, t.Gemma3ForConditionalGeneration) else {}
    output = model(tokens, use_cache=False, **images, **types)
    if types and torch.equal(output.logits, model(tokens, use_cache=False, **images).logits):
        raise RuntimeError("tokens of an image see none after them")
    return output


def greedy(model: torch.nn.Module, ids: list[int], images: dict) -> tuple[list[int], float]:
    tokens, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        logits = compute(model, tokens, images).logits[0, -1]
        best = logits.topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens[len(ids) :], gap


@torch.no_grad()
def make_model(folder: Path, name: str) -> None:
    seed = 30270 + list(MODELS).index(name)
    torch.manual_seed(seed)
    kind, config, inputs_of = MODELS[name]()
    model = kind._from_config(config, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random_weights(model, Recipe(config))
    cases, tensors = [], {}
    for case, (length, tiles) in OTHER_CASES.get(name, CASES).items():
        images = inputs_of([size for _, size in tiles])
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            ids = prompt(length, tiles, generator)
            continuation, gap = greedy(model, ids, images)
            if gap > CLEAR_GAP and PLACEHOLDER not in continuation:
                break
        else:
            raise RuntimeError("no prompt has a clear continuation")
        output = compute(model, ids, images)
        features = output.image_hidden_states
        features = getattr(features, "pooler_output", features)
        features = torch.cat(features) if isinstance(features, (list, tuple)) else features
        tensors[f"{case}.rows"] = features.reshape(-1, features.shape[-1]).contiguous()
        tensors[f"{case}.logits"] = output.logits[0, -ROWS:].contiguous()
        cases.append({"id": case, "tiles": [size for _, size in tiles], "input_ids": ids, "greedy_ids": continuation, "min_top2_gap": round(gap, 5)})
    folder.mkdir(parents=True, exist_ok=True)
    published = config.to_dict() | {"architectures": [kind.__name__]}
    (folder / "config.json").write_text(json.dumps(published, indent=1, default=str) + "\n")
    made_with = f"transformers {t.__version__}, torch {torch.__version__}, eager attention, float32"
    (folder / "golden.json").write_text(json.dumps({"made_with": made_with, "cases": cases}, separators=(",", ":")) + "\n")
    save_file(tensors, folder / "golden.safetensors")
    state = {key.replace(*RENAMED.get(name, ("", ""))): value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    print(name, [case["min_top2_gap"] for case in cases])


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    for name in names or MODELS:
        make_model(Path(root) / name, name)
