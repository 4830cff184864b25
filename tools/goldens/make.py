"""Makes tiny random models and their logits with the original implementation, Hugging Face transformers.

    python make.py ../../test/fixtures/goldens [name ...]

writes a folder for each model: config.json, model.safetensors (bfloat16 but for `in_float32`), golden.json (prompts, greedy continuations) and
golden.safetensors (logits in float32 of the last rows of each prompt). The same names give the same files.
"""

import json
import math
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from models import MODELS, Recipe

VOCAB = 96
PROMPTS = {"short": 5, "long": 45}
"""Tokens: fewer than any window, and more than any window, block and chunk."""
ROWS = 24
GREEDY = 12
CLEAR_GAP = 2e-3
"""Least difference of the two best logits at each greedy token: rounding must not decide which is taken."""


ZERO_CENTRED = ("Gemma", "Qwen3Next", "Qwen3_5")
"""Implementations whose norms add one to their weights, but for those of what linear attention gives."""


FACTORS = ("layer_scalar", "router.scale", "per_expert_scale", "correct_output_scale")


def random_weights(model: torch.nn.Module, recipe: Recipe) -> None:
    published = ("e_score_correction_bias", "expert_bias", "layer_scalar")
    buffers = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith(published)]
    kind = type(model).__name__
    zero_centred = any(one in kind for one in ZERO_CENTRED) and not kind.startswith(("Gemma3n", "Gemma4"))
    for name, parameter in [*model.named_parameters(), *buffers]:
        is_norm = "norm" in name or ".ln_" in name
        if name.endswith(("conv.weight", "conv1d.weight")):
            values = torch.randn_like(parameter) * 0.5
        elif name.endswith("modality_router.weight"):
            # What it multiplies is divided by the width.
            values = torch.randn_like(parameter) * parameter.shape[1] * 0.2
        elif parameter.dim() > 1:
            is_embedding = recipe.embeddings is not None and "embed_tokens" in name
            values = torch.randn_like(parameter) * (recipe.embeddings if is_embedding else recipe.spread)
        elif name.endswith("A_log"):
            values = log_uniform(parameter, 0.01, 4)
        elif name.endswith("dt_bias"):
            values = torch.randn_like(parameter)
        elif name.endswith(".D"):
            values = 1 + torch.randn_like(parameter) * 0.1
        elif name.endswith(FACTORS):
            values = 1 + torch.randn_like(parameter) * 0.2
        elif is_norm and name.endswith("weight") and (not zero_centred or "linear_attn" in name):
            values = 1 + torch.randn_like(parameter) * 0.1
        else:
            values = torch.randn_like(parameter) * 0.1
        parameter.data = values if name.endswith(recipe.in_float32) else values.to(torch.bfloat16).to(torch.float32)
    model.tie_weights()


def log_uniform(like: torch.Tensor, least: float, most: float) -> torch.Tensor:
    """Logarithms of rates of forgetting, from those that keep all to those that keep next to nothing."""
    return math.log(least) + torch.rand_like(like) * math.log(most / least)


def greedy(model: torch.nn.Module, ids: list[int]) -> tuple[list[int], float]:
    """The continuation, and the smallest gap between the two best logits on the way."""
    tokens, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        best = logits.topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens[len(ids) :], gap


def make_case(model: torch.nn.Module, name: str, length: int, seed: int, vocab: int = VOCAB) -> tuple[dict, torch.Tensor]:
    """Tries prompts until one has a clear continuation."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(200):
        ids = torch.randint(3, vocab, (length,), generator=generator).tolist()
        continuation, gap = greedy(model, ids)
        if gap > CLEAR_GAP:
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -ROWS:]
            return {"id": name, "input_ids": ids, "greedy_ids": continuation, "min_top2_gap": round(gap, 5)}, logits
    raise RuntimeError(f"no prompt of {length} tokens has a clear continuation")


@torch.no_grad()
def make_model(folder: Path, name: str) -> None:
    recipe = MODELS[name]
    seed = 20270 + list(MODELS).index(name)
    torch.manual_seed(seed)
    config = recipe.config
    config._attn_implementation = "eager"
    make = recipe.kind._from_config if recipe.kind else transformers.AutoModelForCausalLM.from_config
    model = make(config, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random_weights(model, recipe)
    codes = recipe.quantise(model)
    cases, logits = [], {}
    for case, length in (PROMPTS | recipe.prompts).items():
        golden, rows = make_case(model, case, length, seed)
        cases.append(golden)
        logits[f"{case}.logits"] = rows.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    published = recipe.published_config(config.to_dict(), type(model).__name__)
    (folder / "config.json").write_text(json.dumps(published, indent=1) + "\n")
    made_with = f"transformers {transformers.__version__}, torch {torch.__version__}, eager attention, float32"
    (folder / "golden.json").write_text(json.dumps({"made_with": made_with, "cases": cases}, separators=(",", ":")) + "\n")
    save_file(logits, folder / "golden.safetensors")
    tied = config.tie_word_embeddings
    state = {
        key: (value if key.endswith(recipe.in_float32) else value.to(torch.bfloat16)).contiguous()
        for key, value in model.state_dict().items()
    }
    if tied:
        state.pop("lm_head.weight", None)
    state = recipe.reshape(state) | codes
    save_file({recipe.rename(key): value for key, value in state.items()}, folder / "model.safetensors")
    print(name, type(model).__name__, [case["min_top2_gap"] for case in cases])


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    for name in names or MODELS:
        make_model(Path(root) / name, name)
