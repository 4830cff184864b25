"""Makes the goldens of mixtures of experts: tiny random models and the logits that Hugging Face transformers computes.

    python tools/goldens/mixtures.py test/fixtures/goldens [name ...]

writes a folder for each model and its entry in manifest.json. Needs torch, transformers 5 and safetensors.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

SEED = 20261
COMMON = dict(
    vocab_size=48,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
DEEPSEEK = dict(
    intermediate_size=40,
    moe_intermediate_size=16,
    n_routed_experts=8,
    num_experts_per_tok=3,
    n_group=4,
    first_k_dense_replace=1,
    num_key_value_heads=4,
    kv_lora_rank=20,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=10,
)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
GPT_OSS = dict(
    intermediate_size=32,
    num_local_experts=4,
    num_experts_per_tok=2,
    head_dim=8,
    sliding_window=8,
    rope_parameters={**YARN, "rope_theta": 150000.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
)

CASES = {
    "mixtral": ("mixtral", dict(intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, sliding_window=12)),
    "qwen2-moe": (
        "qwen2_moe",
        dict(
            num_hidden_layers=4,
            intermediate_size=40,
            moe_intermediate_size=12,
            shared_expert_intermediate_size=28,
            num_experts=5,
            num_experts_per_tok=3,
            decoder_sparse_step=2,
            norm_topk_prob=False,
        ),
    ),
    "qwen3-moe": (
        "qwen3_moe",
        dict(
            num_hidden_layers=3,
            intermediate_size=40,
            moe_intermediate_size=12,
            num_experts=6,
            num_experts_per_tok=2,
            head_dim=8,
            norm_topk_prob=True,
            mlp_only_layers=[1],
        ),
    ),
    "gpt-oss": ("gpt_oss", GPT_OSS),
    "gpt-oss-mxfp4": ("gpt_oss", GPT_OSS),
    "deepseek-v2": (
        "deepseek_v2",
        dict(
            **DEEPSEEK,
            n_shared_experts=2,
            q_lora_rank=None,
            topk_method="group_limited_greedy",
            topk_group=2,
            routed_scaling_factor=1.5,
            norm_topk_prob=False,
            rope_parameters={**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        ),
    ),
    "deepseek-v3": (
        "deepseek_v3",
        dict(
            **DEEPSEEK,
            n_shared_experts=1,
            q_lora_rank=24,
            topk_group=2,
            routed_scaling_factor=2.5,
            norm_topk_prob=True,
            rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
        ),
    ),
}


def randomise(model, generator):
    """Matrices with a deviation of 0.3, biases 0.1, norms around 1; all rounded to bfloat16."""
    tensors = list(model.named_parameters()) + [
        (name, buffer) for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")
    ]
    for name, tensor in tensors:
        is_norm = "norm" in name
        deviation = 0.1 if is_norm or "bias" in name else 0.3
        values = torch.randn(tensor.shape, generator=generator) * deviation + (1.0 if is_norm else 0.0)
        if name.endswith("sinks"):
            values = values * 3
        with torch.no_grad():
            tensor.copy_(values.to(torch.bfloat16).float())


def quantise(model, generator):
    """Random codes in the place of the experts' matrices; returns them under their published names."""
    published = {}
    for index, layer in enumerate(model.model.layers):
        experts = layer.mlp.experts
        for name in ("gate_up_proj", "down_proj"):
            matrix = getattr(experts, name)
            count, inputs, outputs = matrix.shape
            shape = (count, outputs, inputs // 32)
            blocks = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(122, 127, shape, generator=generator, dtype=torch.uint8)
            with torch.no_grad():
                matrix.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16).float())
            key = f"model.layers.{index}.mlp.experts.{name}"
            published.update({f"{key}_blocks": blocks, f"{key}_scales": scales})
    return published


def greedy(model, ids, count):
    """`count` tokens, and the smallest gap between the two best logits on the way."""
    ids, gap = list(ids), float("inf")
    for _ in range(count):
        best = model(torch.tensor([ids])).logits[0, -1].topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    return ids[-count:], gap


def make(name, folder, seed):
    kind, fields = CASES[name]
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    config = AutoConfig.for_model(kind, **{**COMMON, **fields})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomise(model, generator)
    codes = quantise(model, generator) if name.endswith("mxfp4") else {}
    ids = torch.randint(3, 48, (40,), generator=generator).tolist()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float()
        greedy_ids, gap = greedy(model, ids, 12)
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tensors = load_file(folder / "model.safetensors")
    if codes:
        replaced = {key.rsplit("_", 1)[0] for key in codes}
        tensors = {key: value for key, value in tensors.items() if key not in replaced} | codes
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors")
    save_file({"logits": logits.contiguous()}, folder / "golden.safetensors")
    published = json.loads((folder / "config.json").read_text())
    if codes:
        published["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(published, indent=2) + "\n")
    return {"input_ids": ids, "max_model_len": None, "greedy_ids": greedy_ids, "min_top2_gap": round(gap, 5)}


def main(target, names):
    manifest = json.loads((target / "manifest.json").read_text())
    for name in names or CASES:
        manifest["cases"][name] = make(name, target / name, SEED + list(CASES).index(name))
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
