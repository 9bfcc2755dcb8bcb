"""Conditions in SQL's syntax, such as `price > 10 AND sym IN ('A', 'B')`, as predicates over a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from tornproof.impl.query.comparison import compare, is_in
from tornproof.impl.query.predicate import And, IsNull, Not, Operator, Or, Predicate
from tornproof.impl.query.predicate_literal import DIALECT, PredicateError, value_of_literal
from tornproof.impl.table.columns import SnapshotColumn

TEXT_CHARACTERS_MAX: Final = 1 << 15
SHOWN_CHARACTERS_MAX: Final = 60
SUPPORTED: Final = "conditions compare columns with literals by =, !=, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT"

_OPERATORS: Final[dict[type[exp.Expression], Operator]] = {
    exp.EQ: Operator.EQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_OR_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_OR_EQUAL,
}
_MIRRORED: Final = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}


def parse_predicate(text: str, columns: Sequence[SnapshotColumn]) -> Predicate:
    """Return the predicate that a condition in SQL's syntax means for these columns.

    Raises PredicateError, in one sentence, for a syntax error, unsupported SQL, an unknown column, or a comparison of a
    column with a literal of another kind.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise PredicateError(f"the condition is longer than {TEXT_CHARACTERS_MAX} characters")
    try:
        return _Parser(columns).predicate(sqlglot.parse_one(text, read=DIALECT, into=exp.Condition))
    except ParseError as error:
        raise PredicateError(f"the condition cannot be read{_near(error)}; {SUPPORTED}") from error
    except SqlglotError as error:
        raise PredicateError(f"the condition cannot be read: a quote or a comment does not end; {SUPPORTED}") from error
    except RecursionError as error:
        raise PredicateError("the condition is nested too deeply") from error


class _Parser:
    """Turns a syntax tree into a predicate, node by node."""

    def __init__(self, columns: Sequence[SnapshotColumn]) -> None:
        self._columns = columns

    def predicate(self, node: Any) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return And(parts=tuple(self.predicate(part) for part in node.flatten()))
            case exp.Or():
                return Or(parts=tuple(self.predicate(part) for part in node.flatten()))
            case exp.Not():
                return Not(part=self.predicate(node.this))
            case exp.Column():
                return self._flag(node)
            case exp.Is():
                return self._is_null(node)
            case exp.Between() if not node.args.get("symmetric"):
                column = self._column(node.this)
                low = compare(column, Operator.GREATER_OR_EQUAL, self._value(column, node.args["low"]))
                return And(parts=(low, compare(column, Operator.LESS_OR_EQUAL, self._value(column, node.args["high"]))))
            case exp.In() if node.expressions:
                column = self._column(node.this)
                return is_in(column, [self._value(column, value) for value in node.expressions])
            case exp.NEQ():
                return Not(part=self._comparison(node, Operator.EQUAL))
            case _ if type(node) in _OPERATORS:
                return self._comparison(node, _OPERATORS[type(node)])
            case _:
                raise _unsupported(node)

    def _comparison(self, node: Any, operator: Operator) -> Predicate:
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _MIRRORED[operator]
        if not isinstance(left, exp.Column) or isinstance(right, exp.Column):
            raise _unsupported(node)
        column = self._column(left)
        return compare(column, operator, self._value(column, right))

    def _flag(self, node: Any) -> Predicate:
        """Return a condition that consists of a column: that it is true."""
        column = self._column(node)
        return compare(column, Operator.EQUAL, value_of_literal(column, exp.true()))

    def _is_null(self, node: Any) -> Predicate:
        if not isinstance(node.expression, exp.Null):
            raise _unsupported(node)
        found = IsNull(column=self._column(node.this))
        return Not(part=found) if node.args.get("negate") else found

    def _value(self, column: SnapshotColumn, node: Any) -> Any:
        match node:
            case exp.Literal() | exp.HexString() | exp.Boolean() | exp.Neg(this=exp.Literal(is_string=False)):
                return value_of_literal(column, node)
            case exp.Null():
                raise PredicateError("nothing is equal to NULL or beside it; ask IS NULL or IS NOT NULL")
            case _:
                raise _unsupported(node)

    def _column(self, node: Any) -> SnapshotColumn:
        if not isinstance(node, exp.Column) or node.table or not isinstance(node.this, exp.Identifier):
            raise _unsupported(node)
        same = [column for column in self._columns if column.name == node.name]
        same = same or [column for column in self._columns if column.name.lower() == node.name.lower()]
        if len(same) != 1:
            names = ", ".join(column.name for column in self._columns)
            raise PredicateError(f"there is no column {node.name!r}; the table has {names}")
        return same[0]


def _unsupported(node: Any) -> PredicateError:
    text = node.sql(dialect=DIALECT) if isinstance(node, exp.Expression) else str(node)
    shown = text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."
    return PredicateError(f"{shown!r} is not supported; {SUPPORTED}")


def _near(error: ParseError) -> str:
    """Say near which word the syntax error is; SQL keywords must be quoted as column names."""
    for found in error.errors:
        if word := found.get("highlight"):
            return f" at {word!r} (a column of that name needs double quotes)" if word.isalpha() else f" at {word!r}"
    return ""
