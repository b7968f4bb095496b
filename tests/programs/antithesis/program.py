"""Assertions by Antithesis' SDK for Python. With `wrong`, two of them do not hold."""

import sys

from antithesis import lifecycle
from antithesis.assertions import always, reachable, sometimes, unreachable
from antithesis.random import get_random

lifecycle.setup_complete({"language": "python"})
drawn = [get_random() for _ in range(20)]
for number in drawn:
    always(number >= 0, "numbers are positive", {"number": number})
    sometimes(number % 2 == 0, "some number is even", {"number": number})
reachable("the end is reached", {})
if "wrong" in sys.argv:
    always(drawn[0] < 0, "the first number is negative", {"number": drawn[0]})
    unreachable("the program is wrong", {})
print(drawn[:3])
