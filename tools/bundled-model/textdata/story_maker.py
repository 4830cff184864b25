"""Makes short children's stories from a grammar of plots; chat_maker.py asks for them.

A story keeps its facts (who, where, what) beside its text, so that questions about it can be asked and answered.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from textdata import plots, words
from textdata.grammar import Hero, a, fill


@dataclass(frozen=True)
class Story:
    text: str
    hero: Hero
    friend: Hero
    home: str
    place: str
    love: str
    theme: str
    thing: str
    item: str


LOOKS = {"thing": words.THING_LOOKS, "person": words.PEOPLE_LOOKS}


def hero_of(kind: str, rng: random.Random, is_given: bool = False) -> Hero:
    """`is_given`: the user brings the name."""
    name_for = words.given_name if is_given else words.name_for
    if kind in words.PEOPLE_HE + words.PEOPLE_SHE:
        pronoun = "he" if kind in words.PEOPLE_HE else "she"
        return Hero(kind, name_for(pronoun, rng), pronoun, "person")
    pronoun = rng.choice(["he", "she"])
    group = "thing" if kind in words.THINGS else "water" if kind in words.WATER_ANIMALS else "animal"
    return Hero(kind, name_for(pronoun, rng), pronoun, group)


def random_kind(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(["dog", "cat", "girl", "boy", "rabbit", "bear", "mouse", "dragon", "bird", "robot", "princess", "fox"])
    people = rng.choice([words.PEOPLE_HE, words.PEOPLE_SHE])
    return words.often_first(*rng.choices([(words.ANIMALS, 60), (people, 16), (words.THINGS, 30)], [6, 3, 2])[0], rng)


def habit(kind: str, of: str, options: list[str]) -> str:
    """The same option each time for a kind. Without habits the likeliest story is the same one for every hero."""
    return random.Random(f"{of}: {kind}").choice(options)


def make_story(
    rng: random.Random,
    kind: str | None = None,
    friend_kind: str | None = None,
    theme: str | None = None,
    trait: str | None = None,
    is_named: bool = False,
    is_nameless: bool = False,
    is_opened: bool = False,
) -> Story:
    """What is None is drawn; `is_named`: the user brings the names, `is_nameless`: the hero is "the farmer".

    `is_opened`: another text has brought the hero in. `trait` is named at once.
    """
    hero = hero_of(kind or random_kind(rng), rng, is_named)
    is_water, is_usual = hero.group == "water", rng.random() < 0.5
    if is_usual and not is_named:
        pronoun = hero.pronoun if hero.group == "person" else habit(hero.kind, "pronoun", ["he", "she"])
        first_names = (words.NAMES_HE if pronoun == "he" else words.NAMES_SHE)[:24]
        hero = replace(hero, name=habit(hero.kind, "name", first_names), pronoun=pronoun)
    if is_nameless:
        hero = replace(hero, name=f"the {hero.noun}")
    friend_kinds = [k for k in (sorted(words.WATER_ANIMALS) if is_water else words.ANIMALS) if k != hero.kind]
    usual_friend = habit(hero.kind, "friend", friend_kinds[:40]) if is_usual else words.often_first(friend_kinds, 60, rng)
    friend = hero_of(friend_kind or usual_friend, rng, is_named)
    while friend.name == hero.name:
        friend = hero_of(friend.kind, rng, is_named)
    themes = plots.NAMELESS_THEMES if is_nameless else list(plots.PLOTS)
    theme = theme or (habit(hero.kind, "theme", themes) if is_usual else rng.choice(themes))
    facts = {
        "home": rng.choice(words.WATER_HOMES if is_water else words.HOMES),
        "place": rng.choice(words.WATER_PLACES if is_water else words.PLACES),
        "love": rng.choice(words.THING_LOVES if hero.group == "thing" else words.LOVES),
        "trait": trait or rng.choice(words.TRAITS),
        "look": rng.choice(LOOKS.get(hero.group, words.LOOKS)),
        "treasure": rng.choice(words.TREASURES),
        "food": rng.choice(words.FOODS),
        "skill": rng.choice(words.SKILLS),
        "weather": rng.choice(words.WEATHER),
        "item": rng.choice(words.ITEMS),
        "shade": rng.choice(words.SHADES),
    }
    if is_usual:
        usual = {"home": words.HOMES, "place": words.PLACES, "treasure": words.TREASURES, "skill": words.SKILLS, "food": words.FOODS}
        facts |= {name: habit(hero.kind, name, options) for name, options in usual.items() if not (is_water and name in ("home", "place"))}
    facts["saying"] = rng.choice(plots.SAYINGS).format(place=facts["place"])
    if is_water and facts["love"] not in WATER_LOVES:
        facts["love"] = rng.choice(WATER_LOVES)
    if trait:
        facts["look"] = facts["trait"]
    openings = [] if is_opened else plots.NAMELESS if is_nameless else plots.OPENINGS
    if not is_nameless and not trait and theme in plots.ARRIVALS and rng.random() < 0.25:
        openings = plots.OUTINGS
    text = " ".join(fill(part, hero, friend, facts, rng) for part in parts_of(theme, openings, rng))
    return Story(text, hero, friend, facts["home"], facts["place"], facts["love"], theme, facts["treasure"], facts["item"])


WATER_LOVES = ["splash in the water", "make new friends", "help others", "play hide and seek", "explore new places", "sing songs"]


def parts_of(theme: str, openings: list[str], rng: random.Random) -> list[str]:
    steps = [rng.choice(choices) for choices in plots.PLOTS[theme]]
    if openings is plots.OUTINGS:
        parts = [rng.choice(openings), rng.choice(plots.ARRIVALS[theme]), *steps[1:]]
    elif openings:
        parts = [rng.choice(openings), *([rng.choice(plots.SECOND)] if rng.random() < 0.4 else []), *steps]
    else:
        parts = steps
    if rng.random() < 0.7:
        parts.append(rng.choice(plots.MORALS[theme] + plots.ENDINGS))
    return parts


KINDS = "|".join([*words.ANIMALS, *words.PEOPLE_HE, *words.PEOPLE_SHE])
SOMEONE = re.compile(rf"\b(?:the|an?|my|his|her|our)(?: [a-z]+)? ({KINDS})\b", re.IGNORECASE)


def story_request(rng: random.Random) -> tuple[str, Story]:
    """What a user asks for, and a story that answers it."""
    makers: list[Callable[[random.Random], tuple[str, Story]]] = [
        about_kind,
        about_two,
        about_named,
        about_theme,
        about_trait,
        about_any,
        about_thing,
        about_lost_item,
    ]
    return rng.choices(makers, [10, 4, 6, 2, 4, 3, 2, 1])[0](rng)


def about_kind(rng: random.Random) -> tuple[str, Story]:
    story = make_story(rng)
    return wish(a(story.hero.noun), rng), story


def about_two(rng: random.Random) -> tuple[str, Story]:
    """Of two heroes; one request in three names them."""
    is_named = rng.random() < 0.33
    story = make_story(rng, friend_kind=random_kind(rng), is_named=is_named)
    while story.friend.name not in story.text or story.friend.kind == story.hero.kind:
        story = make_story(rng, friend_kind=random_kind(rng), is_named=is_named)
    heroes = [a(hero.noun) for hero in (story.hero, story.friend)]
    if is_named:
        heroes = [f"{noun} named {hero.name}" for noun, hero in zip(heroes, (story.hero, story.friend), strict=True)]
    return wish(" and ".join(heroes), rng), story


def about_named(rng: random.Random) -> tuple[str, Story]:
    story = make_story(rng, is_named=True)
    named = rng.choice(["named", "called"])
    return wish(f"{a(story.hero.noun)} {named} {story.hero.name}", rng), story


def about_trait(rng: random.Random) -> tuple[str, Story]:
    trait = rng.choice([rng.choice(words.TRAITS), rng.choice(words.WISHED_TRAITS)])
    if rng.random() < 0.4:
        trait = f"{trait} {rng.choice(['little', 'little', 'old', 'young', 'big'])}"
    story = make_story(rng, trait=trait)
    return wish(f"{a(trait)} {story.hero.noun}", rng), story


def about_theme(rng: random.Random) -> tuple[str, Story]:
    theme = rng.choice(list(plots.PLOTS))
    return wish(rng.choice(plots.THEME_NAMES[theme]), rng), make_story(rng, theme=theme)


def about_thing(rng: random.Random) -> tuple[str, Story]:
    story = make_story(rng, theme="finding")
    subject = rng.choice(["{} who found {}", "{} and {}", "{} that finds {}"])
    return wish(subject.format(a(story.hero.noun), story.thing), rng), story


def about_lost_item(rng: random.Random) -> tuple[str, Story]:
    story = make_story(rng, theme="losing")
    his = "his" if story.hero.pronoun == "he" else "her"
    return wish(f"{a(story.hero.noun)} who lost {his} {story.item}", rng), story


def about_any(rng: random.Random) -> tuple[str, Story]:
    asks = [
        "Tell me a story.", "Can you tell me a story?", "Tell me a bedtime story.", "I want to hear a story.",
        "Write a short story.", "Do you know a story?", "Please tell me a short story.", "Tell me something nice.",
        "Read me a story.", "Could you tell me a story, please?", "Make up a story for me.", "Tell me another story.", "Tell me a funny story.",
        "Tell me a nice story.", "Tell me a long story.", "Write me a story.", "Tell me a happy story.", "Tell me a scary story.", "Story please",
    ]  # fmt: skip
    return rng.choice(asks), make_story(rng)


def wish(subject: str, rng: random.Random) -> str:
    asks = [
        "Tell me a story about {}.", "Tell me a story about {}.", "Tell me a story about {}.", "Can you tell me a story about {}?",
        "Please tell me a story about {}.", "Write a story about {}.", "Write a short story about {}.", "Tell me a short story about {}.",
        "I want a story about {}.", "I would like to hear a story about {}.", "Could you tell me a story about {}?",
        "A story about {}, please.", "Make up a story about {}.", "Do you know a story about {}?",
        "Tell a story about {}.", "Tell me a bedtime story about {}.", "Story about {}", "Give me a story about {}.",
        "Let's have a story about {}.", "Now tell me a story about {}.", "Can you write a story about {}?",
    ]  # fmt: skip
    return rng.choice(asks).format(subject)


def continued(sentence: str, rng: random.Random) -> str:
    """A sentence of another text, and a story that goes on from it: of whom it tells, else of someone new."""
    heroes = [kind.lower() for kind in SOMEONE.findall(sentence)]
    if not heroes:
        return f"{sentence} {make_story(rng).text}"
    return f"{sentence} {make_story(rng, kind=rng.choice(heroes), is_nameless=True, is_opened=True).text}"


def questions_about(story: Story, rng: random.Random) -> list[tuple[str, str]]:
    """Questions that the story answers, with their answers."""
    hero, friend = story.hero, story.friend
    pairs = [
        (f"What was the {hero.noun}'s name?", f"The {hero.noun}'s name was {hero.name}."),
        (f"What is the name of the {hero.noun}?", f"The {hero.noun} is called {hero.name}."),
        (f"Where did {hero.name} live?", f"{hero.name} lived {story.home}."),
        ("Who is the story about?", f"It is about {a(hero.noun)} named {hero.name}."),
        ("Who was in the story?", f"It was about {a(hero.noun)} named {hero.name}."),
        ("What was the story about?", f"It was about {a(hero.noun)} named {hero.name}."),
        ("What is the moral?", rng.choice(plots.LESSONS[story.theme])),
        ("What can we learn from it?", rng.choice(plots.LESSONS[story.theme])),
    ]
    if story.love in story.text:
        pairs.append((f"What did {hero.name} love to do?", f"{hero.name} loved to {story.love}."))
    if friend.name in story.text:
        pairs.append((f"Who was {friend.name}?", f"{friend.name} was {a(friend.noun)}."))
    return pairs
