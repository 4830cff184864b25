"""Trains the byte-level BPE tokenizer on the prepared training text and writes tokenizer.json."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from packing import BEGIN, END, PAD, ROLES, read_documents

# Words take the space before them; every digit is a token of its own, so that sums are learnt digit by digit.
SPLIT = r"'(?:s|t|re|ve|m|ll|d)\b| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*\n|\s+(?!\S)|\s+"


# Documents of each file that it is trained on: enough of the made chats, all of the rest.
MOST = 20_000


def texts(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        for document in read_documents(path)[:MOST]:
            yield document.get("text") or "\n".join(message["content"] for message in document["messages"])


def train(paths: list[Path], vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, BEGIN, END, *(f"<|{role}|>" for role in ROLES)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in special],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(paths), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, nargs="+", default=[Path(f"build/data/{name}.jsonl") for name in ("language", "talk", "chat")])
    parser.add_argument("--vocab-size", type=int, default=3072)
    parser.add_argument("--out", type=Path, default=Path("build/tokenizer.json"))
    options = parser.parse_args()
    tokenizer = train(options.text, options.vocab_size)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out))
    print(f"{tokenizer.get_vocab_size()} tokens in {options.out}")


if __name__ == "__main__":
    main()
