"""Exercises in looking back at what the user wrote: to say it again, or who has what; chat_maker.py draws from them."""

import random

from textdata import words
from textdata.fact_tables import CAPITALS
from textdata.grammar import a

Turn = tuple[str, str]

ECHO_WORDS = [
    *words.ANIMALS,
    *words.NAMES_HE,
    *words.NAMES_SHE,
    *words.TRAITS,
    *CAPITALS,
    *words.POSSESSIONS,
    "banana",
    "the",
    "a",
    "and",
    "is",
    "was",
]


def any_name(rng: random.Random) -> str:
    return words.given_name(rng.choice(["he", "she"]), rng)


def echo(sentences: list[str], rng: random.Random) -> Turn:
    """One of the sentences, or words in any order, to say again."""
    phrase = rng.choice(sentences) if rng.random() < 0.4 else " ".join(rng.choices(ECHO_WORDS, k=rng.randint(1, 6)))
    ask, answer = rng.choice(
        [
            ("Repeat after me: {}", "{}"),
            ("Repeat: {}", "{}"),
            ("Say this: {}", "{}"),
            ("Please say {}", "{}"),
            ("Say {}", "{}"),
            ("Write: {}", "{}"),
            ("Can you repeat this? {}", "{}"),
            ("What did I say? {}", "You said: {}"),
            ("I like {}. What do I like?", "You like {}."),
        ]
    )
    return ask.format(phrase), answer.format(phrase)


def greeting_for(rng: random.Random) -> Turn:
    name = any_name(rng)
    ask, answer = rng.choice(
        [
            ("Say hello to {}.", "Hello, {}!"),
            ("Please greet {}.", "Hello, {}!"),
            ("This is my friend {}.", "Hello, {}! Nice to meet you."),
            ("Wish {} a happy birthday.", "Happy birthday, {}!"),
            ("Say goodbye to {}.", "Goodbye, {}!"),
            ("My dog is called {}.", "{} is a nice name for a dog."),
            ("I have a cat named {}.", "{} is a nice name for a cat."),
            ("My friend's name is {}.", "{} is a nice name. What do you like to do together?"),
        ]
    )
    return ask.format(name), answer.format(name)


def who_has_what(rng: random.Random) -> Turn:
    """Two or three owners with their things, or heroes with their kinds, and a question about one of them."""
    count = rng.choice([2, 2, 2, 3])
    names = rng.sample(sorted({any_name(rng) for _ in range(9)}), count)
    if rng.random() < 0.4:
        kinds = rng.sample(words.ANIMALS, count)
        told = [f"{name} is {a(kind)}." for name, kind in zip(names, kinds, strict=True)]
        place = rng.randrange(count)
        ask, answer = rng.choice([("Who is {name}?", "{name} is {kind}."), ("What is {name}?", "{name} is {kind}.")])
        slots = {"name": names[place], "kind": a(kinds[place])}
    else:
        is_shaded = rng.random() < 0.6
        nouns = rng.sample(words.POSSESSIONS, count)
        things = [a(f"{rng.choice(words.SHADES)} {noun}" if is_shaded else noun) for noun in nouns]
        told = [f"{name} has {thing}." for name, thing in zip(names, things, strict=True)]
        place = rng.randrange(count)
        ask, answer = rng.choice([("What does {name} have?", "{name} has {thing}."), ("Who has {thing}?", "{name} has {thing}.")])
        slots = {"name": names[place], "thing": things[place]}
    return f"{' '.join(told)} {ask.format(**slots)}", answer.format(**slots)
