"""Writes a checkpoint as a Hugging Face model folder: weights in bfloat16, configurations, tokenizer and template."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from packing import BEGIN, END, PAD, ROLES

# Each message is its role's token, its text and the end token; developer is the newer name of system.
CHAT_TEMPLATE = """{{- bos_token -}}
{%- for message in messages -%}
{%- set role = 'system' if message['role'] == 'developer' else message['role'] -%}
{%- if role not in ['system', 'user', 'assistant'] -%}
{{- raise_exception('this model knows the roles system, user and assistant, not ' + role) -}}
{%- endif -%}
{{- '<|' + role + '|>' + (message['content'] | trim) + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>' -}}
{%- endif -%}"""


def write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def published_name(name: str) -> str:
    return f"model.{name}"


def config_of(sizes: dict, tokenizer: Tokenizer) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **sizes,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "use_cache": True,
        **token_ids(tokenizer),
        "torch_dtype": "bfloat16",
    }


def token_ids(tokenizer: Tokenizer) -> dict:
    names = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD}
    return {key: tokenizer.token_to_id(token) for key, token in names.items()}


def tokenizer_config(length: int) -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": PAD,
        "additional_special_tokens": [f"<|{role}|>" for role in ROLES],
        "clean_up_tokenization_spaces": False,
        "model_max_length": length,
        "chat_template": CHAT_TEMPLATE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=Path("build/chat.pt"))
    parser.add_argument("--tokenizer", type=Path, default=Path("build/tokenizer.json"))
    parser.add_argument("--out", type=Path, default=Path("../../models/svc-chat"))
    parser.add_argument("--temperature", type=float, default=0.5)
    options = parser.parse_args()
    state = torch.load(options.checkpoint, map_location="cpu")
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    options.out.mkdir(parents=True, exist_ok=True)
    weights = {published_name(name): tensor.bfloat16().contiguous() for name, tensor in state["model"].items()}
    save_file(weights, options.out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(options.out / "tokenizer.json"))
    write_json(options.out / "config.json", config_of(state["config"], tokenizer))
    write_json(options.out / "tokenizer_config.json", tokenizer_config(state["config"]["max_position_embeddings"]))
    sampling = {"do_sample": True, "temperature": options.temperature, "top_p": 0.9, "top_k": 40}
    write_json(options.out / "generation_config.json", {**token_ids(tokenizer), **sampling})
    print(f"{options.out}: step {state['step']}, {sum(t.numel() for t in weights.values()) / 1e6:.2f} M parameters")


if __name__ == "__main__":
    main()
