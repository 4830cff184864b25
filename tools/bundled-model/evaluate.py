"""Judges an exported folder with transformers: losses on held-out text, samples as Markdown, greedy goldens as JSON."""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from packing import IGNORED, encode_all, read_documents, to_batch
from prompts import CHATS, COMPLETIONS, CONVERSATIONS, WITH_SYSTEM

LIMIT = 220
# A gap of logits that another order of additions could turn round.
NEAR_TIE = 0.005


class Judge:
    def __init__(self, folder: Path):
        self.folder = folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def prompt(self, messages: list[dict]) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def generate(self, ids: list[int], do_sample: bool) -> tuple[str, bool]:
        """The text after `ids`, and whether the end token ended it."""
        settings = {"do_sample": True} if do_sample else {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        inputs = torch.tensor([ids])
        out = self.model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=LIMIT, **settings)[0, len(ids) :].tolist()
        return self.tokenizer.decode(out, skip_special_tokens=True), out[-1] == self.tokenizer.eos_token_id

    @torch.no_grad()
    def loss(self, path: Path) -> float:
        """Nats per token, each document alone."""
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        total, tokens = 0.0, 0
        for row in encode_all(read_documents(path), tokenizer):
            batch = to_batch([row], len(row.ids) - 1, self.tokenizer.pad_token_id)
            logits = self.model(batch.ids).logits[0]
            total += torch.nn.functional.cross_entropy(logits, batch.labels[0], reduction="sum").item()
            tokens += int((batch.labels != IGNORED).sum())
        return total / tokens

    @torch.no_grad()
    def golden(self, name: str, ids: list[int], steps: int) -> dict:
        """Greedy ids after `ids`, up to the end token, `steps` or a step at which two tokens are as good as equal."""
        greedy, gaps = [], []
        while len(greedy) < steps and self.tokenizer.eos_token_id not in greedy:
            best = self.model(torch.tensor([ids + greedy])).logits[0, -1].topk(2)
            gap = float(best.values[0] - best.values[1])
            if gap < NEAR_TIE:
                break
            greedy.append(int(best.indices[0]))
            gaps.append(round(gap, 4))
        text = self.tokenizer.decode(greedy, skip_special_tokens=True)
        return {"name": name, "input_ids": ids, "greedy_ids": greedy, "top2_gaps": gaps, "text": text}


def samples(judge: Judge) -> str:
    lines: list[str] = []

    def show(label: str, ids: list[int]) -> str:
        answers = [judge.generate(ids, do_sample) for do_sample in (False, True)]
        marks = ["" if ended else " **(did not end)**" for _, ended in answers]
        lines.append(f"- {label}\n  - greedy: {answers[0][0]}{marks[0]}\n  - sampled: {answers[1][0]}{marks[1]}")
        return answers[0][0]

    for question in CHATS:
        show(question, judge.prompt([{"role": "user", "content": question}]))
    for system, question in WITH_SYSTEM:
        show(f"[{system}] {question}", judge.prompt([{"role": "system", "content": system}, {"role": "user", "content": question}]))
    for turns in CONVERSATIONS:
        messages: list[dict] = []
        for turn in turns:
            messages.append({"role": "user", "content": turn})
            messages.append({"role": "assistant", "content": show(f"({len(messages) // 2 + 1}) {turn}", judge.prompt(messages))})
    for text in COMPLETIONS:
        show(f"completion: {text}", judge.tokenizer(text)["input_ids"])
    return "\n".join(line.replace("\n", " / ").replace(" /   - ", "\n  - ") for line in lines)


def goldens(judge: Judge, steps: int) -> dict:
    chosen = [CHATS[0], CHATS[1], CHATS[2], "What is the capital of France?"]
    cases = [judge.golden(question, judge.prompt([{"role": "user", "content": question}]), steps) for question in chosen]
    cases += [judge.golden(text, judge.tokenizer(text)["input_ids"], steps) for text in COMPLETIONS[:2]]
    return {"made_with": f"torch {torch.__version__}, float32", "weights": "bfloat16, computed in float32", "cases": cases}


def dump(content: dict) -> str:
    """Indented JSON with lists of numbers on one line."""
    cases = ",\n".join(f"    {json.dumps(case)}" for case in content["cases"])
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in content.items() if key != "cases")
    return f'{{\n{head}  "cases": [\n{cases}\n  ]\n}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("../../models/svc-chat"))
    parser.add_argument(
        "--validation", type=Path, nargs="*", default=[Path("build/data/chat-val.jsonl"), Path("build/data/stories-val.jsonl")]
    )
    parser.add_argument("--samples", type=Path, help="Markdown file to write the samples to")
    parser.add_argument("--goldens", type=Path, help="JSON file to write greedy goldens to")
    parser.add_argument("--steps", type=int, default=64, help="tokens of a golden")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    judge = Judge(options.model)
    for path in options.validation:
        print(f"{path.stem}: loss {judge.loss(path):.4f}")
    if options.samples:
        options.samples.write_text(samples(judge) + "\n")
    if options.goldens:
        options.goldens.write_text(dump(goldens(judge, options.steps)))


if __name__ == "__main__":
    main()
