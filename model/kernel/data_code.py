"""`map_gen_lookup` bodies as JSON: lists whose first element names the node, and back."""

from typing import assert_never

from model.errors import InputError
from model.kernel.release import (
    Apply,
    Const,
    Decline,
    Emit,
    Expr,
    Field,
    If,
    Name,
    Offset,
    Opaque,
    SizeOf,
    Statement,
)


def encode_body(body: tuple[Statement, ...]) -> list[object]:
    return [_encode_statement(statement) for statement in body]


def _encode_statement(statement: Statement) -> list[object]:
    match statement:
        case Emit(macro, arguments, line):
            return ["emit", macro, [encode_expr(argument) for argument in arguments], line]
        case If(condition, then, otherwise):
            return ["if", encode_expr(condition), encode_body(then), encode_body(otherwise)]
        case Decline(errno):
            return ["decline", errno]
        case Opaque(text, line):
            return ["opaque", text, line]
        case _:
            assert_never(statement)


def encode_expr(expr: Expr) -> list[object]:
    match expr:
        case Const(value):
            return ["const", value]
        case Name(name):
            return ["name", name]
        case Field(path, bits, signed):
            return ["field", path, bits, signed]
        case Offset(struct, member):
            return ["offset", struct, member]
        case SizeOf(c):
            return ["sizeof", c]
        case Apply(function, arguments):
            return ["apply", function, [encode_expr(argument) for argument in arguments]]
        case _:
            assert_never(expr)


def decode_body(value: object, file: str, path: str, depth: int) -> tuple[Statement, ...]:
    """Statements; `depth` is how many levels may still follow. InputError with the JSON path."""
    return tuple(
        _decode_statement(item, file, f"{path}[{index}]", depth)
        for index, item in enumerate(_list(value, file, path, depth))
    )


def _decode_statement(value: object, file: str, path: str, depth: int) -> Statement:
    match _list(value, file, path, depth):
        case ["emit", str(macro), list(arguments), int(line)] if _natural(line):
            return Emit(macro, _exprs(arguments, file, f"{path}[2]", depth - 1), line)
        case ["if", condition, then, otherwise]:
            return If(
                decode_expr(condition, file, f"{path}[1]", depth - 1),
                decode_body(then, file, f"{path}[2]", depth - 1),
                decode_body(otherwise, file, f"{path}[3]", depth - 1),
            )
        case ["decline", str(errno)]:
            return Decline(errno)
        case ["opaque", str(text), int(line)] if _natural(line):
            return Opaque(text, line)
    raise InputError(
        file,
        path,
        'expected ["emit", macro, [expr…], line], ["if", expr, […], […]], ["decline", errno] or ["opaque", …]',
    )


def decode_expr(value: object, file: str, path: str, depth: int) -> Expr:
    match _list(value, file, path, depth):
        case ["const", int(number)] if not isinstance(number, bool) and -(1 << 63) <= number < 1 << 64:
            return Const(number)
        case ["name", str(name)]:
            return Name(name)
        case ["field", str(name), int(bits), bool(signed)] if bits in (8, 16, 32, 64):
            return Field(name, bits, signed)
        case ["offset", str(struct), str(member)]:
            return Offset(struct, member)
        case ["sizeof", str(c)]:
            return SizeOf(c)
        case ["apply", str(function), list(arguments)]:
            return Apply(function, _exprs(arguments, file, f"{path}[2]", depth - 1))
    raise InputError(file, path, "expected a const, name, field, offset, sizeof or apply")


def _exprs(values: list[object], file: str, path: str, depth: int) -> tuple[Expr, ...]:
    return tuple(decode_expr(item, file, f"{path}[{index}]", depth) for index, item in enumerate(values))


def _list(value: object, file: str, path: str, depth: int) -> list[object]:
    if depth <= 0:
        raise InputError(file, path, "expected fewer nested levels")
    if not isinstance(value, list):
        raise InputError(file, path, f"expected an array, found {type(value).__name__}")
    return value


def _natural(line: int) -> bool:
    return not isinstance(line, bool) and 0 <= line < 1 << 31
