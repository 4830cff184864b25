"""Fills the slots of a sentence with a hero, a friend and facts, with the right articles, pronouns and capitals."""

import random
import re
from dataclasses import dataclass

FORMS = {
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
}


@dataclass(frozen=True)
class Hero:
    kind: str
    name: str
    pronoun: str
    group: str

    @property
    def noun(self) -> str:
        return self.kind.replace("-", " ")


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    is_vowel = noun[0] in "aeiou" and not noun.startswith("uni")
    return f"{'an' if is_vowel else 'a'} {noun}"


def fill(sentence: str, hero: Hero, friend: Hero, facts: dict[str, str], rng: random.Random) -> str:
    """Slots: {N} {K} the hero's name and kind, {he} {him} {his} {himself}; {F} {FK} {fhe} {fhim} {fhis} the friend's; facts.

    {aK} and {aFK} bring the article, {alook} and {atrait} too; [x|y] is a choice; the first letter of a sentence is raised.
    """
    while "[" in sentence:
        sentence = re.sub(r"\[([^\[\]]*)\]", lambda match: rng.choice(match[1].split("|")), sentence)
    slots = {
        **facts,
        **FORMS[hero.pronoun],
        **{f"f{key}": value for key, value in FORMS[friend.pronoun].items()},
        "N": hero.name,
        "K": hero.noun,
        "aK": a(hero.noun),
        "F": friend.name,
        "FK": friend.noun,
        "aFK": a(friend.noun),
        "alook": a(facts["look"]),
        "atrait": a(facts["trait"]),
        "aweather": a(facts["weather"]),
        "ashade": a(facts["shade"]),
        "thetreasure": re.sub(r"^(an?|some) ", "the ", facts["treasure"]),
        "thefood": re.sub(r"^(an?|some) ", "the ", facts["food"]),
    }
    text = sentence.format(**slots)
    return re.sub(r'(^"?|[.!?] "?|\." "?)([a-z])', lambda match: match[1] + match[2].upper(), text)
