"""Puts a name where a template or driver puts a value, without moving any other character.

A hole is written as the letter ʔ and a name, which every SQL dialect takes for an identifier.
"""

from __future__ import annotations

import re

HOLE = "ʔ"
_HOLES = re.compile(HOLE + r"(\w*)")
# Bounded, so that a text full of openings without an end stays linear.
_EXPRESSION = re.compile(r"\{\{(?:[^{}]|\{[^{}]{0,200}\}|\}(?!\})){0,400}\}\}")
_TAG = re.compile(r"\{%[^{%]{0,400}%\}|\{#[^{#]{0,2000}#\}")
_SHELL = re.compile(r"\$\{[^{}\n]{0,200}\}")
_NAMED = re.compile(r"%\((\w+)\)s")
_POSITIONAL = re.compile(r"%s")
_QUESTION = re.compile(r"(?<![\w?>@#|-])\?(?![\w?|&-])")
_COLON = re.compile(r"(?<![:\w\\]):([A-Za-z_]\w*)\b(?!:)")
_BRACES = re.compile(r"\{([A-Za-z_0-9.\[\]'\"]{0,80})(?:![rsa])?(?::[^{}\n]{0,80})?\}")
_PSYCOPG_STYLE = re.compile(r"(?<!\$)\$(\d+)")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def hole(name: str) -> str:
    return HOLE + (re.sub(r"\W+", "_", name).strip("_") or "_")


def mask(text: str, *, templated: bool = True) -> str:
    """The text with every hole named; the result has the same length, so positions stay true."""
    text = _TAG.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = _EXPRESSION.sub(lambda match: _named(match[0], match[0].strip("{} \n-")), text)
    text = _SHELL.sub(lambda match: _named(match[0], match[0][2:-1]), text)
    if templated:
        text = _BRACES.sub(lambda match: _named(match[0], match[1]), text)
    text = _NAMED.sub(lambda match: _named(match[0], match[1]), text)
    counter = iter(range(10_000))
    text = _POSITIONAL.sub(lambda _: HOLE + _DIGITS[min(next(counter), 35)], text)
    text = _QUESTION.sub(HOLE, text)
    text = _PSYCOPG_STYLE.sub(lambda match: _named(match[0], match[1]), text)
    return _COLON.sub(lambda match: _named(match[0], match[1]), text)


def _named(original: str, name: str) -> str:
    token = HOLE + re.sub(r"\W+", "_", name.strip()).strip("_")
    token = token[: len(original)].ljust(len(original), "_")
    # A template over several lines keeps its line breaks, or every later line would be counted wrong.
    breaks = [position for position, char in enumerate(original) if char == "\n"]
    if not breaks:
        return token
    head, tail = token[: breaks[0]], original[breaks[0] :]
    return (head or HOLE) + re.sub(r"[^\n]", " ", tail)


def shown(text: str) -> str:
    """How a masked name is shown to people and compared: ``sales_{ds}``."""
    return _HOLES.sub(lambda match: "{" + match[1].strip("_") + "}", text)


def holes_in(text: str) -> list[str]:
    return [match[1].strip("_") for match in _HOLES.finditer(text)]
