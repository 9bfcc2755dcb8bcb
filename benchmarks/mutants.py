"""Draw changes of single places of `impl/` that nobody chose, as files of faults: `make mutants`.

Runs in an environment with cosmic-ray, whose operators make the changes. Each is a place and what one of them does
there; places are drawn by a checksum of their names and the seed, so that a draw is the same wherever it is made.
"""

from __future__ import annotations

import argparse
import ast
import json
import zlib
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import ExprStmt, Keyword

IMPLEMENTATION = Path(__file__).parents[1] / "impl"
GENERATED = "parquet3_generated.py"
OPERATORS = (
    *(f"ReplaceBinaryOperator_{each}" for each in ("Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Mod_FloorDiv")),
    *(f"ReplaceBinaryOperator_{each}" for each in ("BitAnd_BitOr", "BitOr_BitAnd", "LShift_RShift", "RShift_LShift")),
    *(f"ReplaceComparisonOperator_{each}" for each in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{each}" for each in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *("AddNot", "ReplaceUnaryOperator_Delete_Not", "ReplaceAndWithOr", "ReplaceOrWithAnd", "NumberReplacer"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    "ZeroIterationForLoop",
)
"""Of the operators of cosmic-ray one for each mistake: any other replacement of the same sign is easier to notice."""


class RemoveCall(Operator):  # type: ignore[misc]  # cosmic-ray is installed in another environment
    """Leaves out a statement that is a call, which cosmic-ray has no operator for."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield the place of the statement if it is one."""
        is_statement = node.parent is not None and node.parent.type == "simple_stmt" and not isinstance(node, ExprStmt)
        if is_statement and node.type == "atom_expr" and node.children[-1].type == "trailer":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Return what takes its place."""
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return none: they are for the command line of cosmic-ray."""
        return ()


class Place(NamedTuple):
    """The occurrence of what an operator changes in a file."""

    file: Path
    operator: str
    occurrence: int

    def rank(self, seed: int) -> int:
        """Return the number by which places are drawn, the smallest first."""
        name = f"{seed} {self.file.relative_to(IMPLEMENTATION)} {self.operator} {self.occurrence}"
        return zlib.crc32(name.encode())


def places() -> Iterator[Place]:
    """Yield every place of every file."""
    for file in sorted(IMPLEMENTATION.rglob("*.py")):
        if file.name != GENERATED:
            nodes = list(ast_nodes(get_ast(file.read_text())))
            for operator in (*OPERATORS, RemoveCall.__name__):
                made = _operator(operator)
                count = sum(1 for node in nodes for _ in made.mutation_positions(node))
                yield from (Place(file, operator, occurrence) for occurrence in range(count))


def fault(place: Place) -> dict[str, str] | None:
    """Return the file of a fault, or None if only an annotation changes or the result is no Python."""
    before = place.file.read_text()
    after = mutate_code(before, _operator(place.operator), place.occurrence)
    try:
        if after is None or _meaning(before) == _meaning(after):
            return None
    except SyntaxError:
        return None
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    changes = [each for each in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if each[0] != "equal"]
    first, last = changes[0][1], changes[-1][2]
    while before.count("".join(old[first:last])) != 1:
        first, last = max(first - 1, 0), min(last + 1, len(old))
    line = before.count("\n", 0, before.index("".join(old[first:last]))) + 1
    path = place.file.relative_to(IMPLEMENTATION.parent)
    return {
        "name": f"{path} {place.operator} {place.occurrence}",
        "story": f"{place.operator} near line {line}",
        "file": str(path),
        "before": "".join(old[first:last]),
        "after": "".join(new[first : len(new) - (len(old) - last)]),
    }


def _operator(name: str) -> Operator:
    return RemoveCall() if name == RemoveCall.__name__ else get_operator(f"core/{name}")()


def _meaning(source: str) -> str:
    """Return a module without annotations, which nothing of the implementation evaluates."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
    return ast.dump(tree)


def main() -> None:
    """Write the files of a draw to a folder that is new."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder for the files")
    parser.add_argument("--count", type=int, required=True, help="how many places are drawn")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    every = sorted(places(), key=lambda place: (place.rank(arguments.seed), place))
    family = arguments.folder / "drawn"
    family.mkdir(parents=True)
    drawn = 0
    for place in every:
        if drawn == arguments.count:
            break
        if document := fault(place):
            drawn += 1
            text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in document.items())
            (family / f"{drawn:04}.toml").write_text(text)
    print(f"{drawn} of {len(every):,} places, seed {arguments.seed}")


if __name__ == "__main__":
    main()
