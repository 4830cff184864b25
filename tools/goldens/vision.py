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


GEMMA4_VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
GEMMA4_VISION |= {"patch_size": 4, "pooling_kernel_size": 2, "position_embedding_size": 160}


def gemma4(vision: dict, **text: object):
    inside = TEXT | {"num_hidden_layers": 3, "head_dim": 8, "global_head_dim": 16, "sliding_window": 20, "hidden_size_per_layer_input": 0, "tie_word_embeddings": True}
    inside |= {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]} | text
    ids = {"image_token_id": PLACEHOLDER, "video_token_id": 96, "audio_token_id": 97}
    config = t.Gemma4Config(vision_config=GEMMA4_VISION | vision, text_config=inside, **ids)
    return t.Gemma4ForConditionalGeneration, config, placed


def placed(tiles: list[tuple[int, int]]) -> dict:
    """Patches of numbers from 0 to 1, of each pixel its colours together, with their columns and lines; filled up."""
    most = max(rows * cols for rows, cols in tiles)
    patches, places = torch.zeros(len(tiles), most, 48), torch.full((len(tiles), most, 2), -1)
    for index, (image, (rows, cols)) in enumerate(zip(pixels(tiles), tiles)):
        own = image[:, : rows * 4, : cols * 4].reshape(3, rows, 4, cols, 4).permute(1, 3, 2, 4, 0)
        patches[index, : rows * cols] = (own.reshape(rows * cols, -1) + 1) / 2
        places[index, : rows * cols] = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).flip(1)
    return {"pixel_values": patches, "image_position_ids": places}


def merged(tiles: list[tuple[int, int]]) -> dict:
    """Patches of two equal frames, those that become one row after each other."""
    patches = []
    for image, (rows, cols) in zip(pixels(tiles), tiles):
        own = image[:, : rows * 4, : cols * 4].reshape(3, rows // 2, 2, 4, cols // 2, 2, 4)
        patches.append(own.permute(1, 4, 2, 5, 0, 3, 6).reshape(rows * cols, 3, 1, 16).expand(-1, -1, 2, -1).reshape(rows * cols, -1))
    return {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor([[1, rows, cols] for rows, cols in tiles])}


QWEN = {"depth": 3, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def qwen(kind: str, vision: dict, sections: list[int], **text: object):
    inside = TEXT | {"num_hidden_layers": 3, "rope_parameters": ROPE | {"mrope_section": sections}} | text
    ids = {"image_token_id": PLACEHOLDER, "video_token_id": 6, "vision_start_token_id": 7, "vision_end_token_id": 8}
    config = getattr(t, f"{kind}Config")(vision_config=vision, text_config=inside, tie_word_embeddings=False, **ids)
    return getattr(t, f"{kind}ForConditionalGeneration"), config, merged


GEMMA4_SMALL = {
    "num_hidden_layers": 4,
    "intermediate_size": 20,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": 96,
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "pad_token_id": 3,
}
QWEN3 = QWEN | {"num_position_embeddings": 36}
QWEN35_TEXT = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "full_attention"],
    "head_dim": 16,
    "rope_parameters": ROPE | {"mrope_section": [2, 1, 1], "mrope_interleaved": True, "partial_rotary_factor": 0.5},
}
def by_pixel(tiles: list[tuple[int, int]]) -> dict:
    """Patches pixel after pixel, each with its colours; filled up with zeros."""
    most = max(rows * cols for rows, cols in tiles)
    values, mask = torch.zeros(len(tiles), most, 48), torch.zeros(len(tiles), most, dtype=torch.int32)
    for index, (image, (rows, cols)) in enumerate(zip(pixels(tiles), tiles)):
        own = image[:, : rows * 4, : cols * 4].reshape(3, rows, 4, cols, 4)
        values[index, : rows * cols] = own.permute(1, 3, 2, 4, 0).reshape(rows * cols, 48)
        mask[index, : rows * cols] = 1
    return {"pixel_values": values, "pixel_attention_mask": mask, "spatial_shapes": torch.tensor(tiles)}


def lfm2_vl():
    vision = {"model_type": "siglip2_vision_model", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4, "num_patches": 25, "vision_use_head": False}
    text = TEXT | {"model_type": "lfm2", "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False}
    config = t.Lfm2VlConfig(vision_config=vision, text_config=text, image_token_id=PLACEHOLDER, projector_hidden_size=24, downsample_factor=2, tie_word_embeddings=True)
    return t.Lfm2VlForConditionalGeneration, config, by_pixel


def internvl(vision: dict, **text: object):
    own = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": [16, 16], "patch_size": [4, 4]}
    config = t.InternVLConfig(vision_config=own | vision, text_config=TEXT | text, image_token_id=PLACEHOLDER, image_seq_length=4, tie_word_embeddings=False)
    return t.InternVLForConditionalGeneration, config, lambda tiles: {"pixel_values": pixels(tiles)}


MODELS = {
    "idefics3": lambda: smolvlm("Idefics3"),
    "smolvlm": lambda: smolvlm("SmolVLM"),
    "mistral3": mistral3,
    "qwen2-vl": lambda: qwen("Qwen2VL", QWEN | {"embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2}, [2, 1, 1]),
    "qwen2.5-vl": lambda: qwen("Qwen2_5_VL", QWEN | {"window_size": 16, "fullatt_block_indexes": [1]}, [1, 1, 2]),
    "qwen3-vl": lambda: qwen("Qwen3VL", QWEN3 | {"deepstack_visual_indexes": [0, 2]}, [4, 2, 2], head_dim=16),
    "qwen3.5": lambda: qwen("Qwen3_5", QWEN3, [], **QWEN35_TEXT),
    "gemma3": gemma3,
    "gemma4": lambda: gemma4({"standardize": True}, use_bidirectional_attention="vision", sliding_window=72, num_global_key_value_heads=2, attention_k_eq_v=True),
    "gemma4-small": lambda: gemma4({"use_clipped_linears": True}, **GEMMA4_SMALL),
    "lfm2-vl": lfm2_vl,
    "internvl": lambda: internvl({"attention_bias": True}, model_type="qwen3", head_dim=8),
    "internvl-large": lambda: internvl({"use_qk_norm": True, "norm_type": "rms_norm"}, model_type="qwen2"),
}
RENAMED = {"gemma3": ("vision_tower.", "vision_tower.vision_model.")}
"""To what releases name their tensors."""
SQUARE, LARGE = (4, 4), (8, 8)
"""Tokens of each case, and of its tiles the first token and rows and columns of patches, of which four become a token."""
CASES = {"one": (14, [(3, SQUARE)]), "several": (45, [(2, SQUARE), (20, SQUARE), (31, SQUARE)])}
PLANES = {"one": (20, [(3, (4, 8))]), "several": (52, [(2, (2, 10)), (14, (10, 6)), (34, SQUARE), (40, SQUARE)])}
OTHER_CASES = {name: PLANES for name in MODELS if name.startswith("qwen")} | {"mistral3": {"one": (16, [(3, (4, 6))]), "several": (45, [(2, (2, 8)), (20, (6, 4)), (31, SQUARE)])}}
FORMS = {"one": (34, [(9, (4, 10))]), "several": (96, [(2, (10, 4)), (33, LARGE), (51, (2, 6)), (60, (8, 6))])}
OTHER_CASES |= {"gemma4": FORMS, "gemma4-small": FORMS}
OTHER_CASES["lfm2-vl"] = PLANES
OTHER_CASES["gemma3"] = {"one": (34, [(9, LARGE)]), "several": (96, [(2, LARGE), (33, LARGE), (52, LARGE)])}


def prompt(length: int, tiles: list, generator: torch.Generator) -> list[int]:
    ids = torch.randint(6, VOCAB, (length,), generator=generator).tolist()
    for start, (rows, cols) in tiles:
        count = rows * cols // 4
        ids[start : start + count] = [PLACEHOLDER] * count
    return ids


WHOLE = {t.Gemma3ForConditionalGeneration: "token_type_ids", t.Gemma4ForConditionalGeneration: "mm_token_type_ids"}
"""Models whose tokens of an image see each other, and what tells them which those are."""


def run(model: torch.nn.Module, ids: list[int], images: dict):
    tokens = torch.tensor([ids])
    kinds = {"mm_token_type_ids": (tokens == PLACEHOLDER).int()} if "image_grid_thw" in images else {}
    name = WHOLE.get(type(model))
    if name is None or getattr(model.config.text_config, "use_bidirectional_attention", "vision") != "vision":
        return model(tokens, use_cache=False, **images, **kinds)
    output = model(tokens, use_cache=False, **images, **{name: (tokens == PLACEHOLDER).long()})
    if torch.equal(output.logits, model(tokens, use_cache=False, **images).logits):
        raise RuntimeError("tokens of an image see none after them")
    return output


def rows_of(model: torch.nn.Module, images: dict, output) -> torch.Tensor:
    if "image_grid_thw" in images:
        features = model.model.get_image_features(**images)
        deep = getattr(features, "deepstack_features", None) or []
        return torch.cat([torch.cat(list(one)) for one in (features.pooler_output, *deep)], dim=-1)
    features = output.image_hidden_states
    features = getattr(features, "pooler_output", features)
    features = torch.cat(features) if isinstance(features, (list, tuple)) else features
    return features.reshape(-1, features.shape[-1])


def greedy(model: torch.nn.Module, ids: list[int], images: dict) -> tuple[list[int], float]:
    tokens, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        logits = run(model, tokens, images).logits[0, -1]
        best = logits.topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
        if tokens[-1] == PLACEHOLDER:
            return [], 0.0
    return tokens[len(ids) :], gap


def random_factors(model: torch.nn.Module) -> None:
    """Of what blocks add: as large as if there were none."""
    for name, parameter in model.named_parameters():
        if name.endswith(("lambda_1", "lambda_2")):
            parameter.data = (1 + torch.randn_like(parameter) * 0.3).to(torch.bfloat16).to(torch.float32)


def random_bounds(model: torch.nn.Module) -> None:
    """Of which many numbers are outside."""
    for name, buffer in model.named_buffers():
        if name.endswith(("put_min", "put_max")):
            bound = 0.25 + torch.rand(()) * 0.75
            buffer.data = (-bound if name.endswith("min") else bound).to(torch.bfloat16).to(torch.float32)
        elif name.endswith("std_scale"):
            buffer.data = (1 + torch.randn_like(buffer) * 0.2).to(torch.bfloat16).to(torch.float32)
        elif name.endswith("std_bias"):
            buffer.data = torch.randn_like(buffer).to(torch.bfloat16).to(torch.float32)


@torch.no_grad()
def make_model(folder: Path, name: str) -> None:
    seed = 30270 + list(MODELS).index(name)
    torch.manual_seed(seed)
    kind, config, inputs_of = MODELS[name]()
    model = kind._from_config(config, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random_weights(model, Recipe(config))
    random_bounds(model)
    random_factors(model)
    cases, tensors = [], {}
    for case, (length, tiles) in OTHER_CASES.get(name, CASES).items():
        images = inputs_of([size for _, size in tiles])
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            ids = prompt(length, tiles, generator)
            continuation, gap = greedy(model, ids, images)
            if gap > CLEAR_GAP:
                break
        else:
            raise RuntimeError("no prompt has a clear continuation")
        output = run(model, ids, images)
        tensors[f"{case}.rows"] = rows_of(model, images, output).contiguous()
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
