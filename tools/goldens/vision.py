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


def bytes_of_tiles(tiles: int, rows: int, cols: int, patch: int) -> torch.Tensor:
    index = torch.arange(tiles * rows * cols * 3 * patch * patch)
    return ((37 * index + 11 * (index >> 5)) % 256).reshape(tiles, rows, cols, 3, patch, patch)


def pixels(tiles: int, rows: int, cols: int, patch: int) -> torch.Tensor:
    """[tiles, 3, height, width], from patches that come line by line."""
    values = bytes_of_tiles(tiles, rows, cols, patch).to(torch.float32) / 127.5 - 1
    return values.permute(0, 3, 1, 4, 2, 5).reshape(tiles, 3, rows * patch, cols * patch)


def smolvlm(kind: str):
    config = getattr(t, f"{kind}Config")(
        vision_config=SIGLIP, text_config=TEXT | {"model_type": "llama"}, image_token_id=PLACEHOLDER, scale_factor=2, tie_word_embeddings=False, pad_token_id=0
    )
    return getattr(t, f"{kind}ForConditionalGeneration"), config


MODELS = {
    "idefics3": lambda: smolvlm("Idefics3"),
    "smolvlm": lambda: smolvlm("SmolVLM"),
}
"""Tiles of each case, 4 tokens each."""
CASES = {"one": (14, [3]), "several": (45, [2, 20, 31])}


def prompt(length: int, starts: list[int], generator: torch.Generator) -> list[int]:
    ids = torch.randint(6, VOCAB, (length,), generator=generator).tolist()
    for start in starts:
        ids[start : start + 4] = [PLACEHOLDER] * 4
    return ids


def greedy(model: torch.nn.Module, ids: list[int], images: dict) -> tuple[list[int], float]:
    tokens, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        logits = model(torch.tensor([tokens]), use_cache=False, **images).logits[0, -1]
        best = logits.topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens[len(ids) :], gap


@torch.no_grad()
def make_model(folder: Path, name: str) -> None:
    seed = 30270 + list(MODELS).index(name)
    torch.manual_seed(seed)
    kind, config = MODELS[name]()
    model = kind._from_config(config, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random_weights(model, Recipe(config))
    cases, tensors = [], {}
    for case, (length, starts) in CASES.items():
        images = {"pixel_values": pixels(len(starts), 4, 4, 4)[None]}
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            ids = prompt(length, starts, generator)
            continuation, gap = greedy(model, ids, images)
            if gap > CLEAR_GAP and PLACEHOLDER not in continuation:
                break
        else:
            raise RuntimeError("no prompt has a clear continuation")
        output = model(torch.tensor([ids]), use_cache=False, **images)
        features = output.image_hidden_states
        features = getattr(features, "pooler_output", features)
        tensors[f"{case}.rows"] = features.reshape(-1, features.shape[-1]).contiguous()
        tensors[f"{case}.logits"] = output.logits[0, -ROWS:].contiguous()
        cases.append({"id": case, "input_ids": ids, "greedy_ids": continuation, "min_top2_gap": round(gap, 5)})
    folder.mkdir(parents=True, exist_ok=True)
    published = config.to_dict() | {"architectures": [kind.__name__]}
    (folder / "config.json").write_text(json.dumps(published, indent=1, default=str) + "\n")
    made_with = f"transformers {t.__version__}, torch {torch.__version__}, eager attention, float32"
    (folder / "golden.json").write_text(json.dumps({"made_with": made_with, "cases": cases}, separators=(",", ":")) + "\n")
    save_file(tensors, folder / "golden.safetensors")
    state = {key: value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    print(name, [case["min_top2_gap"] for case in cases])


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    for name in names or MODELS:
        make_model(Path(root) / name, name)
