"""The values of number and string literals, as Python reads them.

Nothing is evaluated: escapes are replaced by a table. Does not know tokens or nodes.
"""

from __future__ import annotations

import re
import unicodedata

MAX_INTEGER_BITS = 4096  # far beyond every dtype; keeps constant arithmetic cheap

_ESCAPE = re.compile(
    r"\\(?:(?P<line>\n)|(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"
    r"|U(?P<U>[0-9a-fA-F]{8})|N\{(?P<name>[^}]+)\}|(?P<bad>[xuUN])|(?P<plain>[\s\S]))"
)
_PLAIN = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_STRING = re.compile(r"(?P<prefix>[a-zA-Z]*)(?P<quote>'''|\"\"\"|'|\")")


class BadLiteral(Exception):
    """A literal that Python refuses too; its text says why."""


def integer_value(text: str) -> int:
    """The value of an integer literal in any base."""
    digits = text.replace("_", "")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2].lower(), 10)
    if base == 10 and digits[0] == "0" and digits.strip("0"):
        raise BadLiteral("a decimal number cannot begin with 0")
    if len(digits) > MAX_INTEGER_BITS:
        raise BadLiteral(f"an integer of {len(digits)} digits, at most {MAX_INTEGER_BITS} bits are read")
    value = int(digits, base)
    if value.bit_length() > MAX_INTEGER_BITS:
        raise BadLiteral(f"an integer of {value.bit_length()} bits, at most {MAX_INTEGER_BITS} are read")
    return value


def split_string(text: str) -> tuple[str, int, int]:
    """The prefix in lower case, and where the body begins and ends in the literal."""
    head = _STRING.match(text)
    assert head is not None, "the scanner found a string"
    return head["prefix"].lower(), head.end(), len(text) - len(head["quote"])


def unescape(body: str) -> str:
    """Replace the escapes of a string that is not raw; unknown ones stay as they are, as in Python."""
    return _ESCAPE.sub(_replace, body) if "\\" in body else body


def _replace(match: re.Match[str]) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind == "line":
        return ""
    if kind == "plain":
        return _PLAIN.get(value, "\\" + value)
    if kind == "bad":
        raise BadLiteral(f"`\\{value}` is no complete escape")
    if kind == "name":
        return _named_character(value)
    code = int(value, 8 if kind == "octal" else 16)
    if code > 0x10FFFF:
        raise BadLiteral(f"`{match.group()}` is beyond the last character, U+10FFFF")
    return chr(code)


def _named_character(name: str) -> str:
    try:
        found = unicodedata.lookup(name)
    except KeyError:
        found = ""
    if len(found) != 1:  # a name may also stand for a sequence, which an escape may not
        raise BadLiteral(f"there is no character named `{name}`")
    return found
