"""Text to tokens, with cel-go's (ANTLR's) message where no token can be read.

ANTLR reports the text from the start of the failed token up to and including the character it choked on, and
goes on after it; `_choke` finds that character.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from drakit.cel.source import Issue, Source

__all__ = ["EOF", "Token", "tokenize", "unquote"]

EOF = "<EOF>"
MAX_DEPTH = 300
KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING = "|".join(
    (
        r'[rR]"""(?s:.)*?"""',
        r"[rR]'''(?s:.)*?'''",
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_TOKEN = re.compile(
    rf"""(?P<skip>[\t \r\n\x0c]+|//[^\n]*)
    |(?P<BYTES>[bB](?:{_STRING.replace("#", "[#]")}))
    |(?P<STRING>{_STRING})
    |(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    |(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """`kind` is the operator or keyword itself, or the name of the token's class as ANTLR calls it."""

    kind: str
    text: str
    offset: int


def tokenize(source: Source) -> tuple[list[Token], list[Issue], list[int]]:
    """All tokens, the last of kind EOF; what could not be read; and the offsets of that."""
    text = source.text
    match = _TOKEN.match
    tokens: list[Token] = []
    issues: list[Issue] = []
    unread: list[int] = []
    depth, position, end = 0, 0, len(text)
    while position < end:
        found = match(text, position)
        if found is None:
            stop = _choke(text, position)
            message = f"Syntax error: token recognition error at: '{text[position : stop + 1]}'"
            issues.append(Issue(source.location(position), message))
            unread.extend(range(position, stop + 1))
            position = stop + 1
            continue
        kind = found.lastgroup
        if kind != "skip":
            lexeme = found.group()
            if kind == "op":
                depth += (lexeme in "([{") - (lexeme in ")]}")
                if depth > MAX_DEPTH:
                    break  # the parser gives up long before it comes here
                tokens.append(Token(lexeme, lexeme, position))
            elif kind == "IDENTIFIER" and lexeme in KEYWORDS:
                tokens.append(Token(lexeme, lexeme, position))
            else:
                tokens.append(Token(kind or "", lexeme, position))
        position = found.end()
    tokens.append(Token(EOF, EOF, end))
    return tokens, issues, unread


_PARTIAL_ESCAPE = re.compile(r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?")
_BODY = {quote: re.compile(rf"(?:{_ESCAPE}|[^\\{quote}\n\r])*") for quote in "'\""}
_ESCAPED_NAME = re.compile(r"[A-Za-z0-9_.\-/ ]*")


def _choke(text: str, start: int) -> int:
    """The offset of the character at which reading a token from `start` fails."""
    first = text[start]
    if first in "'\"":
        position = _BODY[first].match(text, start + 1).end()  # type: ignore[union-attr]  # matches the empty string too
        if position < len(text) and text[position] == "\\":
            position = _PARTIAL_ESCAPE.match(text, position).end()  # type: ignore[union-attr]  # begins with a backslash
        return position
    if first == "`":
        return _ESCAPED_NAME.match(text, start + 1).end()  # type: ignore[union-attr]  # matches the empty string too
    if first in "&|=":
        return start + 1
    return start


_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "`": 96, "?": 63}
_ANY_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.S)


def unquote(text: str) -> str:
    """The value of a STRING token; raises ValueError with cel-go's text."""
    body, raw = _strip(text)
    if raw or "\\" not in body:
        return body

    def replace(found: re.Match[str]) -> str:
        x, u, wide, octal, simple = found.groups()
        if simple is not None:
            return chr(_SIMPLE[simple])
        code = int(octal, 8) if octal is not None else int(x or u or wide, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        return chr(code)

    return _ANY_ESCAPE.sub(replace, body)


def unquote_bytes(text: str) -> bytes:
    """The value of a BYTES token: escapes are bytes here, other characters their UTF-8."""
    body, raw = _strip(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out = bytearray()
    position = 0
    for found in _ANY_ESCAPE.finditer(body):
        out += body[position : found.start()].encode("utf-8", "surrogatepass")
        x, u, wide, octal, simple = found.groups()
        if u is not None or wide is not None:
            raise ValueError("unable to unescape string")
        if simple is not None:
            out.append(_SIMPLE[simple])
        else:
            out.append(int(octal, 8) if octal is not None else int(x, 16))
        position = found.end()
    out += body[position:].encode("utf-8", "surrogatepass")
    return bytes(out)


def _strip(text: str) -> tuple[str, bool]:
    """The text between the quotes with line ends normalized, and whether it is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    return text[quotes:-quotes], raw
