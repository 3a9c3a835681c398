"""Nodes of Python's own syntax tree, made for `codegen`: each carries a position, which Python's compiler insists on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any


class Unsupported(Exception):
    """There is no Python for this expression."""


class _Placed:
    """Python's compiler wants a position in every node; all of ours have the same."""

    lineno = 1
    col_offset = 0


class Name(_Placed, ast.Name): ...


class Call(_Placed, ast.Call): ...


class Subscript(_Placed, ast.Subscript): ...


class Compare(_Placed, ast.Compare): ...


class Lambda(_Placed, ast.Lambda): ...


class List(_Placed, ast.List): ...


class IfExp(_Placed, ast.IfExp): ...


class NamedExpr(_Placed, ast.NamedExpr): ...


class Attribute(_Placed, ast.Attribute): ...


class Dict(_Placed, ast.Dict): ...


class Tuple(_Placed, ast.Tuple): ...


class BoolOp(_Placed, ast.BoolOp): ...


class UnaryOp(_Placed, ast.UnaryOp): ...


class BinOp(_Placed, ast.BinOp): ...


class Constant(_Placed, ast.Constant): ...


class Arg(_Placed, ast.arg): ...


class Assign(_Placed, ast.Assign): ...


class Return(_Placed, ast.Return): ...


class Try(_Placed, ast.Try): ...


class Handler(_Placed, ast.ExceptHandler): ...


class FunctionDef(_Placed, ast.FunctionDef): ...


def name(text: str) -> ast.expr:
    return Name(text, ast.Load())


def call(callee: ast.expr, *args: ast.expr) -> ast.expr:
    return Call(callee, list(args), [])


def constant(value: Any) -> ast.expr:
    return Constant(value)


def assign(target: str, value: ast.expr) -> ast.stmt:
    return Assign([Name(target, ast.Store())], value)


def item(value: ast.expr, key: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant):
        raise Unsupported  # nothing can be selected from it, and Python would warn
    return Subscript(value, key, ast.Load())


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    return Compare(left, [operator], [right])


def function(parameters: Sequence[str], body: ast.expr) -> ast.expr:
    args = ast.arguments([], [Arg(parameter) for parameter in parameters], None, [], [], None, [])
    return Lambda(args, body)
