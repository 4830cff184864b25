"""Trains the model on prepared documents, on a GPU where there is one; writes a checkpoint every few minutes.

A run goes on from where the checkpoint in --out stands: to continue a stopped one, or with other documents as a further
stage.
"""

import argparse
import json
import math
import random
import time
from collections import ChainMap
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from model import Llama, ModelConfig
from optimiser import build_optimisers
from packing import IGNORED, PAD, Batch, batches, counted_bytes, encode_all, pack, read_documents, to_batch


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--validation", type=Path, nargs="+", required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path("build/tokenizer.json"))
    parser.add_argument("--out", type=Path, required=True, help="checkpoint file")
    parser.add_argument("--weights", type=Path, help="published model.safetensors to begin with; not where --out exists")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--steps", type=int)
    budget.add_argument("--cpu-seconds", type=float, help="processor time of all threads instead of --steps: for fair comparisons")
    parser.add_argument("--decay-from", type=float, default=0.5, help="part of the run after which the rate falls to zero")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[256, 512, 1024], help="tokens of a sequence, for short to long documents"
    )
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--hidden-size", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--intermediate-size", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="half a minute at the start, a third more tokens a second")
    parser.add_argument("--save-every", type=int, default=120, help="seconds")
    return parser.parse_args()


def build_config(options: argparse.Namespace, tokenizer: Tokenizer) -> ModelConfig:
    return ModelConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=options.hidden_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        intermediate_size=options.intermediate_size,
    )


def rate_at(step: int, progress: float, decay_from: float, warm_up: int = 40) -> float:
    """The share of the full learning rate: a short rise, a level stretch, a straight fall to zero as progress reaches one."""
    fall = (1 - progress) / max(1e-9, 1 - decay_from)
    return min(1.0, (step + 1) / warm_up, max(0.0, fall))


class HeldOut:
    """Documents that training never sees, packed into long sequences."""

    def __init__(self, path: Path, tokenizer: Tokenizer, length: int, pad: int):
        documents = read_documents(path)
        rows = list(pack(encode_all(documents, tokenizer), length, random.Random(0)))
        self.name = path.stem
        self.batches = [to_batch(rows[start : start + 4], length, pad) for start in range(0, len(rows), 4)]
        self.bytes = sum(map(counted_bytes, documents))

    @torch.no_grad()
    def losses(self, model: Llama, device: str) -> dict[str, float]:
        """Nats per token, and bits per byte of text, which compare across vocabularies."""
        total, tokens = 0.0, 0
        for batch in self.batches:
            count = int((batch.labels != IGNORED).sum())
            with torch.autocast(device, dtype=torch.bfloat16):
                hidden = model(batch.ids.to(device), batch.documents.to(device))
                total += model.loss(hidden, batch.labels.to(device)).item() * count
            tokens += count
        return {self.name: round(total / tokens, 4), f"{self.name} bits per byte": round(total / math.log(2) / self.bytes, 4)}


class Run:
    """One training run: the model, its optimisers, where it stands, and the file it is kept in."""

    def __init__(self, options: argparse.Namespace):
        torch.manual_seed(options.seed)
        self.options = options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = Tokenizer.from_file(str(options.tokenizer))
        self.pad = self.tokenizer.token_to_id(PAD)
        self.model = Llama(build_config(options, self.tokenizer)).to(self.device)
        self.optimisers = build_optimisers(self.model, options.muon_lr, options.adam_lr)
        self.base_rates = [group["lr"] for optimiser in self.optimisers for group in optimiser.param_groups]
        self.step, self.tokens, self.cpu_seconds, self.history = 0, 0, 0.0, []
        if options.out.exists():
            self.load(options.out)
        elif options.weights:
            self.model.load_state_dict({name.removeprefix("model."): tensor.float() for name, tensor in load_file(options.weights).items()})

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device)
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.tokens, self.cpu_seconds, self.history = (state[key] for key in ("step", "tokens", "cpu_seconds", "history"))

    def progress(self) -> float:
        return self.step / self.options.steps if self.options.steps else self.cpu_seconds / self.options.cpu_seconds

    def save(self) -> None:
        partial = self.options.out.with_suffix(".part")
        partial.parent.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "config": self.model.config.as_dict(),
                "model": self.model.state_dict(),
                "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
                "step": self.step,
                "tokens": self.tokens,
                "cpu_seconds": self.cpu_seconds,
                "history": self.history,
            },
            partial,
        )
        partial.rename(self.options.out)

    def advance(self, body: Callable, batch: Batch) -> float:
        started = time.process_time()
        rate = rate_at(self.step, self.progress(), self.options.decay_from)
        groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        for group, base in zip(groups, self.base_rates, strict=True):
            group["lr"] = base * rate
        with torch.autocast(self.device, dtype=torch.bfloat16):
            hidden = body(batch.ids.to(self.device), batch.documents.to(self.device))
            loss = self.model.loss(hidden, batch.labels.to(self.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += batch.ids.numel()
        self.cpu_seconds += time.process_time() - started
        return loss.item()


def load_rows(paths: list[Path], tokenizer: Tokenizer) -> list:
    return [row for path in paths for row in encode_all(read_documents(path), tokenizer)]


def main() -> None:
    options = parse()
    run = Run(options)
    rows = load_rows(options.train, run.tokenizer)
    held_out = [HeldOut(path, run.tokenizer, options.lengths[-1], run.pad) for path in options.validation]
    size = sum(p.numel() for p in run.model.parameters())
    print(f"{size / 1e6:.2f} M parameters, {sum(len(row.ids) for row in rows) / 1e6:.2f} M tokens, on {run.device}", flush=True)
    body = torch.compile(run.model, dynamic=False) if options.compile else run.model
    stream = batches(rows, options.batch_tokens, options.lengths, run.pad, options.seed + run.step)
    started, saved, mean = time.time(), time.time(), None
    while run.progress() < 1:
        loss = run.advance(body, next(stream))
        mean = loss if mean is None else 0.97 * mean + 0.03 * loss
        if run.step % 20 == 0:
            print(f"step {run.step} loss {mean:.4f} tokens {run.tokens / 1e6:.2f} M, {time.time() - started:.0f} s", flush=True)
        if run.progress() >= 1 or time.time() - saved > options.save_every:
            losses = [part.losses(run.model, run.device) for part in held_out]
            run.history.append(
                {
                    "step": run.step,
                    "tokens": run.tokens,
                    "train": round(mean, 4),
                    "cpu_seconds": round(run.cpu_seconds),
                    **dict(ChainMap(*losses[::-1])),
                }
            )
            run.save()
            saved = time.time()
            print(json.dumps(run.history[-1]), flush=True)


if __name__ == "__main__":
    main()
