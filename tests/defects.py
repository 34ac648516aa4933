"""Defects of a function's meaning, made from its syntax tree: `defective` returns a module's source with one defect.

A defect names a function and an operator, not a text, so it outlives all changes that leave the function's meaning.
`OPERATORS` has the operators. Each has an argument that selects what it changes; if it selects nothing, the defect is
out of date, and `OutdatedError` is raised.
"""

import ast
import copy
from collections.abc import Callable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
"""operators and what `swap` makes of them"""


class OutdatedError(Exception):
    """The function, or what the operator changes in it, is not there."""


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions and methods with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, node
            yield from functions(node, f"{name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from functions(node, prefix)


def mentions(node: ast.AST, name: str) -> bool:
    """Whether a name, an attribute, a word or a number of `node` is `name`; `a.b` is the attribute `b` of `a`."""
    return any(_is_named(one, name) for one in ast.walk(node))


def _is_named(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name or ast.unparse(node) == name
    if isinstance(node, ast.Constant):
        return str(node.value) == name
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.arg) and node.arg == name)


class _Change(ast.NodeTransformer):
    """Replaces the nodes for which `replacement` returns another node (None drops a statement)."""

    def __init__(self, replacement: Callable[[ast.AST], ast.AST | None]) -> None:
        self.replacement = replacement
        self.changes = 0

    def visit(self, node: ast.AST) -> ast.AST | None:
        made = self.replacement(node)
        if made is not node:
            self.changes += 1
            return made
        return self.generic_visit(node)


def _changed(function: Function, replacement: Callable[[ast.AST], ast.AST | None]) -> Function:
    change = _Change(replacement)
    function.body = [made for one in function.body if (made := change.visit(one)) is not None] or [ast.Pass()]  # type: ignore[misc]
    for node in ast.walk(function):
        for block in ("body", "orelse", "finalbody"):
            if getattr(node, block, None) == [] and block == "body":
                setattr(node, block, [ast.Pass()])
    if not change.changes:
        raise OutdatedError("there is nothing that the operator changes")
    return function


def _body(function: Function, *statements: ast.stmt) -> Function:
    if ast.dump(ast.Module(list(statements), [])) == ast.dump(ast.Module(function.body, [])):
        raise OutdatedError("the function does this already")
    function.body = list(statements)
    return function


def _returns(function: Function, value: str) -> Function:
    """The function only returns `value`, an expression of its arguments; without a value it does nothing."""
    return _body(function, ast.parse(f"return {value}").body[0])


def _condition(verdict: Callable[[ast.expr], ast.expr]) -> Callable[[Function, str], Function]:
    def change(function: Function, name: str) -> Function:
        def replacement(node: ast.AST) -> ast.AST:
            if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) and mentions(node.test, name):
                made = copy.copy(node)
                made.test = verdict(node.test)
                return made
            if isinstance(node, ast.comprehension) and any(mentions(one, name) for one in node.ifs):
                tests = [verdict(one) if mentions(one, name) else one for one in node.ifs]
                return ast.comprehension(node.target, node.iter, tests, node.is_async)
            return node

        return _changed(function, replacement)

    return change


def _without(function: Function, name: str) -> Function:
    """Drop each simple statement that mentions `name`; elsewhere a call of it becomes its first argument."""

    def replacement(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Delete | ast.Assert):
            return None if mentions(node, name) else node
        if isinstance(node, ast.Assign) and any(mentions(one, name) for one in node.targets):
            return None
        if isinstance(node, ast.Call) and node.args and _is_named(node.func, name):
            return node.args[0]
        return node

    return _changed(function, replacement)


def _operands(function: Function, name: str) -> Function:
    """Drop from `and`, `or`, sums, products, lists and keyword arguments the operand that mentions `name`."""

    def replacement(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.BoolOp):
            kept = [one for one in node.values if not mentions(one, name)]
            if 0 < len(kept) < len(node.values):
                return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)
        if isinstance(node, ast.BinOp) and mentions(node.left, name) != mentions(node.right, name):
            return node.left if mentions(node.right, name) else node.right
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            kept = [one for one in node.elts if not mentions(one, name)]
            if 0 < len(kept) < len(node.elts):
                made = copy.copy(node)
                made.elts = kept
                return made
        if isinstance(node, ast.Call) and any(one.arg == name for one in node.keywords):
            return ast.Call(node.func, node.args, [one for one in node.keywords if one.arg != name])
        return node

    return _changed(function, replacement)


def _swap(function: Function, name: str) -> Function:
    """Swap the operator of each comparison, sum or product of `name`, or each `and` or `or`."""

    def replacement(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Compare) and mentions(node, name) and type(node.ops[0]) in SWAPPED:
            return ast.Compare(node.left, [SWAPPED.get(type(one), type(one))() for one in node.ops], node.comparators)  # type: ignore[misc]
        if isinstance(node, ast.BinOp) and mentions(node, name) and type(node.op) in SWAPPED:
            inner = mentions(node.left, name) and isinstance(node.left, ast.BinOp)
            return node if inner else ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)  # type: ignore[arg-type]
        if isinstance(node, ast.BoolOp) and name == ("and" if isinstance(node.op, ast.And) else "or"):
            return ast.BoolOp(SWAPPED[type(node.op)](), node.values)  # type: ignore[arg-type]
        return node

    return _changed(function, replacement)


def _instead(function: Function, names: str) -> Function:
    """`NAME -> OTHER`: each name, attribute, argument or constant NAME becomes the expression OTHER."""
    name, other = names.split(" -> ")

    def replacement(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.keyword) and node.arg == name:
            return ast.keyword(name, ast.parse(other, mode="eval").body)
        if (
            isinstance(node, ast.Name | ast.Constant)
            and _is_named(node, name)
            and not isinstance(getattr(node, "ctx", None), ast.Store)
        ):
            return ast.parse(other, mode="eval").body
        if isinstance(node, ast.Attribute) and _is_named(node, name):
            return ast.parse(other, mode="eval").body if "." in name else ast.Attribute(node.value, other, node.ctx)
        return node

    return _changed(function, replacement)


OPERATORS: dict[str, Callable[[Function, str], Function]] = {
    "returns": _returns,
    "never": _condition(lambda test: ast.Constant(False)),
    "always": _condition(lambda test: ast.Constant(True)),
    "negate": _condition(lambda test: ast.UnaryOp(ast.Not(), test)),
    "without": _without,
    "drop": _operands,
    "swap": _swap,
    "instead": _instead,
}


def defective(source: str, function: str, operator: str, of: str) -> str:
    """`source` with one defect in its `function`, a qualified name; raises `OutdatedError` if nothing changes."""
    tree = ast.parse(source)
    found = dict(functions(tree)).get(function)
    if found is None:
        raise OutdatedError(f"there is no function {function}")
    before = ast.dump(found)
    OPERATORS[operator](found, of)
    if ast.dump(found) == before:
        raise OutdatedError(f"'{operator} {of}' changes nothing in {function}")
    return ast.unparse(ast.fix_missing_locations(tree))
