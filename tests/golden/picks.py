# SPDX-License-Identifier: Apache-2.0
"""The parameters of many cases, from one number; picks.h has the same numbers for the tests."""

PRIME = 1099511628211
MASK = 2**64 - 1


class Picks:
    def __init__(self, key):
        self.state = (key + 1) * 0x9E3779B97F4A7C15 & MASK

    def bits_31(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return self.state >> 33

    def below(self, count):
        return self.bits_31() % count

    def choice(self, values):
        return values[self.below(len(values))]

    def bits_64(self):
        high, middle = self.bits_31(), self.bits_31()
        return high << 33 ^ middle << 16 ^ self.bits_31()

    def real(self):
        return self.bits_31() * 2.0**-31


def checksum(values, total=0):
    """golden_checksum() of golden.h, one value after the other."""
    for value in values:
        total = (total * PRIME + value + 1) & MASK
    return total
