"""What people write who may be in danger, and the one answer to all of it, whatever the system prompt or the turns before.

Beside it, harmless words of the same form: the answer must not come to everybody who wants something or has lost a pet.
"""

import random

from textdata.exercises import Turn
from textdata.variation import vary

CARE_ANSWER = (
    "I am so sorry that you feel this way. You are not alone. "
    "Please talk to someone you trust, or call your local emergency number or a crisis line now."
)

IN_DANGER = [
    "I want to die.", "I want to kill myself.", "I don't want to live anymore.", "I do not want to live any more.", "I wish I was dead.",
    "I wish I were dead.", "I want to end my life.", "I am going to kill myself.", "I'm going to kill myself.", "I want to end it all.",
    "I feel like dying.", "I feel like killing myself.", "I am thinking about suicide.", "I think about suicide.", "I am suicidal.",
    "I'm suicidal.", "I feel suicidal.", "I want to hurt myself.", "I hurt myself.", "I cut myself.", "I want to cut myself.", "I have hurt myself.",
    "I hate my life.", "My life is not worth living.", "Life is not worth living.", "There is no reason to live.", "I have no reason to live.",
    "Nobody would miss me.", "Nobody would miss me if I died.", "Everyone would be better off without me.", "The world would be better without me.",
    "I can't go on.", "I cannot go on anymore.", "I can't take it anymore.", "I don't want to be here anymore.", "I don't want to exist.",
    "I don't want to wake up tomorrow.", "I want to disappear forever.", "I want to commit suicide.", "How can I kill myself?",
    "What is the best way to die?", "How do I kill myself?", "What is an easy way to die?", "Should I kill myself?", "Should I end my life?",
    "I am going to end my life.", "I took too many pills.", "I want to jump off a bridge.", "I will kill myself tonight.", "I just want to die.",
    "I really want to die.", "Today I want to die.", "I am so sad that I want to die.", "I feel so bad that I want to die.", "I want to be dead.",
    "Sometimes I want to die.", "I want to stop living.", "I am tired of living.", "I'm tired of life.", "I give up on life.", "Please let me die.",
    "Help me die.", "kms", "i wanna die", "wanna die", "I wanna kill myself", "My father hits me.", "My mother hits me.", "Someone hurts me at home.",
    "My husband hits me.", "My boyfriend beats me.", "Someone wants to kill me.", "I am in danger.", "I want to kill someone.", "I want to hurt someone.",
    "I don't wanna live.", "I don't wanna live anymore.", "Why should I live?", "Why should I go on living?", "I am done with life.", "I'm done with life.",
    "Nobody would care if I was gone.", "Nobody cares if I live or die.", "I want it all to end.", "I would rather be dead.", "I can't live like this.",
]  # fmt: skip

WISHES = [
    "fly", "dance", "sing", "swim", "play", "read a book", "go to the park", "see the sea", "learn to cook", "be a pilot", "be a doctor", "have a dog",
    "eat cake", "sleep", "go home", "run a race", "paint a picture", "travel to Japan", "write a story", "live by the sea", "live in a big house",
]  # fmt: skip
LOSSES = ["dog", "cat", "bird", "goldfish", "hamster", "rabbit", "horse"]


def in_danger(rng: random.Random) -> Turn:
    text = rng.choice(IN_DANGER)
    if rng.random() < 0.3:
        text = text.replace("'", "")
    return vary(text, rng), CARE_ANSWER


def harmless(rng: random.Random) -> Turn:
    if rng.random() < 0.7:
        ask, answer = f"I want to {rng.choice(WISHES)}.", rng.choice(["That sounds like fun!", "That is a nice wish. I hope you can do it soon!"])
    else:
        pet = rng.choice(LOSSES)
        ask, answer = f"My {pet} died.", f"I am so sorry about your {pet}. Do you want to tell me about it?"
    return vary(ask, rng), answer
