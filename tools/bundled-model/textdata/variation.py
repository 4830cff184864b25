"""Small changes to what a user writes, so that case, punctuation and typing errors do not matter."""

import random
import string

CONTRACTIONS = {"What is": "What's", "I am": "I'm", "cannot": "can't", "do not": "don't", "Who is": "Who's", "Where is": "Where's"}


def vary(text: str, rng: random.Random) -> str:
    """The text, often as it is; else without its end mark, in lower case, contracted or with one letter wrong."""
    if rng.random() < 0.5:
        return text
    if rng.random() < 0.3:
        for long, short in CONTRACTIONS.items():
            text = text.replace(long, short)
    if rng.random() < 0.5:
        text = text.rstrip(".?!") or text
    if rng.random() < 0.4:
        text = text.lower()
    if rng.random() < 0.15:
        text = rng.choice(
            [f"{text} please", f"Hey, {lower_first(text)}", f"Svc, {lower_first(text)}", f"Hi! {text}", f"Please, {lower_first(text)}"]
        )
    if rng.random() < 0.12:
        text = mistype(text, rng)
    return text


def lower_first(text: str) -> str:
    return text if text.startswith("I ") or text.startswith("I'") else text[:1].lower() + text[1:]


def mistype(text: str, rng: random.Random) -> str:
    """One letter dropped, doubled, swapped with its neighbour or replaced; digits stay."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    i = rng.choice(places)
    changed = [text[i + 1] + text[i], text[i + 1], text[i] * 2 + text[i + 1], rng.choice(string.ascii_lowercase) + text[i + 1]]
    return text[:i] + rng.choice(changed) + text[i + 2 :]
