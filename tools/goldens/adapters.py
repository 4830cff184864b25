"""Makes tiny LoRA adapters of the tiny random models, and the logits that PEFT computes with them.

    python adapters.py ../../test/fixtures/goldens ../../test/fixtures/adapters [name ...]

writes a folder for each adapter: adapter_config.json and adapter_model.safetensors (bfloat16) as PEFT saves them, golden.json
(the model, prompts, greedy continuations) and golden.safetensors (logits in float32 of the last rows of each prompt). The
same names give the same files.
"""

import json
import sys
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from make import make_case

PROMPTS = {"short": 5, "long": 30}
ROWS = 6
SPREAD = 0.2
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

ADAPTERS = {
    "qwen3-patterns": (
        "qwen3",
        {
            "r": 4,
            "lora_alpha": 6,
            "target_modules": ALL,
            "rank_pattern": {"down_proj": 8, r"layers\.0\.self_attn\.[qk]_proj": 2},
            "alpha_pattern": {"up_proj": 16, "model.layers.1.mlp.gate_proj": 1},
        },
    ),
    "qwen3-rslora": ("qwen3", {"r": 6, "lora_alpha": 4, "use_rslora": True, "target_modules": r".*\.(q|v|gate)_proj"}),
    "qwen3-layer": ("qwen3", {"r": 20, "lora_alpha": 20, "target_modules": ["k_proj", "o_proj", "up_proj"], "layers_to_transform": [1]}),
    "phi3-fused": ("phi3", {"r": 5, "lora_alpha": 10, "target_modules": "all-linear"}),
    "gpt2-transposed": ("gpt2", {"r": 4, "lora_alpha": 4, "target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "gpt-neox-heads": ("gpt-neox", {"r": 3, "lora_alpha": 6, "target_modules": ["query_key_value", "dense", "dense_h_to_4h"]}),
    "gemma2-tied": ("gemma2", {"r": 4, "lora_alpha": 8, "target_modules": ALL}),
    "deepseek-attention": ("deepseek-v3", {"r": 4, "lora_alpha": 8, "target_modules": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"]}),
    "qwen3-moe-attention": ("qwen3-moe", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "o_proj"]}),
}


@torch.no_grad()
def make_adapter(models: Path, folder: Path, name: str) -> None:
    base, options = ADAPTERS[name]
    seed = 41000 + list(ADAPTERS).index(name)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(models / base, dtype=torch.float32, attn_implementation="eager")
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    for parameter_name, parameter in adapted.named_parameters():
        if "lora_" in parameter_name:
            parameter.data = (torch.randn_like(parameter) * SPREAD).to(torch.bfloat16).to(torch.float32)
    cases, logits = [], {}
    for case, length in PROMPTS.items():
        golden, rows = make_case(adapted, case, length, seed, model.config.vocab_size)
        cases.append(golden)
        logits[f"{case}.logits"] = rows[-ROWS:].contiguous()
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    weights = load_file(folder / "adapter_model.safetensors")
    save_file({key: value.to(torch.bfloat16).contiguous() for key, value in weights.items()}, folder / "adapter_model.safetensors")
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    made_with = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, eager attention, float32"
    golden = {"made_with": made_with, "base": base, "cases": cases}
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    save_file(logits, folder / "golden.safetensors")
    print(name, len(weights), [case["min_top2_gap"] for case in cases])


if __name__ == "__main__":
    models, root, *names = sys.argv[1:]
    for name in names or ADAPTERS:
        make_adapter(Path(models), Path(root) / name, name)
