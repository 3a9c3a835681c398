"""CEL, the Common Expression Language, in Kubernetes' dialect.

    from drakit import cel
    env = cel.base().extend(variables={"name": cel.types.STRING})
    cel.compile("name.startsWith('gpu-')", env).evaluate({"name": "gpu-0"})

`cel.device` and `cel.admission` hold the environments of device selectors and admission policies.
Reading order: source, lexer, parser, macros, types, checker, cost, planner, plan, codegen, program.
"""

from drakit.cel import types
from drakit.cel.environment import Environment, StructType, base, kubernetes_base
from drakit.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Interrupted, ProgramError
from drakit.cel.functions import Function, function, overload
from drakit.cel.program import Limits, Program, Result, compile

__all__ = [
    "CelError",
    "CompileError",
    "CostExceeded",
    "Environment",
    "EvaluationError",
    "Function",
    "Interrupted",
    "Limits",
    "Program",
    "ProgramError",
    "Result",
    "StructType",
    "base",
    "compile",
    "function",
    "kubernetes_base",
    "overload",
    "types",
]
