"""The cases of a campaign, by number."""

from __future__ import annotations

from tests.fuzz.grammar import Inputs, random_case, random_case_of_sizes
from tests.fuzz.numbers import random_case_of_numbers


def case_of(number: int) -> tuple[str, list[list[Inputs]]]:
    """A program, and rounds of calls, each in a new namespace. Every program is called with at least four sizes for
    each way to compile it (`grammar.SIZES`); of four programs, one computes with numbers, and two are also called with
    other types and structures."""
    if number % 4 == 3:
        return random_case_of_numbers(number)
    source, rounds = random_case_of_sizes(number)
    if number % 2 == 0:
        rounds.append(random_case(number)[1])  # the same program
    return source, rounds
