"""A change of one place in a source file, as text: planted for a while in this process, or in a copy of the package.

In this process a changed function gets the code of the changed text, so that everyone who has imported it runs that. A
changed constant is replaced in every module that has it under its name, and as a default of functions; any other change
needs a copy.
"""

from __future__ import annotations

import ast
import importlib.resources
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

PACKAGE = importlib.resources.files("tornproof")
"""A folder, or on an executor of Spark a part of an archive."""
NAME_OF_MARK = "_a_planted_fault_is_reached"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
COMMON = (int, float, str, bytes, tuple, type(None))
MISSING = object()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PatchError(Exception):
    """A patch that does not apply, or cannot be planted in this process."""


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """The text `before`, which occurs once in a file of the package, and what takes its place."""

    file: str
    before: str
    after: str

    @property
    def module_name(self) -> str:
        """The name of the changed module."""
        return ".".join(["tornproof", *Path(self.file).with_suffix("").parts])

    def text(self) -> str:
        """Return the changed text of the file; raises PatchError if there is not one such place."""
        source = PACKAGE.joinpath(self.file).read_text()
        count = source.count(self.before)
        if count != 1 or self.before == self.after:
            raise PatchError(f"{self.file}: the text before the change occurs {count} times, and must occur once")
        return source.replace(self.before, self.after)

    def change(self) -> Change:
        """Return what is changed; raises PatchError or SyntaxError."""
        return Change.between(_tree_of(self.file), ast.parse(self.text()))

    @property
    def location(self) -> str:
        """The changed functions, or constants, as `package.module:name`."""
        return _location(self)

    def marked_text(self, mark: str) -> str:
        """Return the changed module; the first call of a changed function executes `mark`, or the module if none is."""
        change = _marked(self)
        body = change.tree.body
        # Only once, because some functions are called millions of times; and in front, because some at import.
        once = f"def {NAME_OF_MARK}():\n    global {NAME_OF_MARK}\n    {NAME_OF_MARK} = int\n    {mark}\n"
        first = next(index for index, node in enumerate(body) if not _comes_first(node))
        body[first:first] = ast.parse(once).body
        return ast.unparse(change.tree) + ("\n" if change.functions else f"\n{NAME_OF_MARK}()\n")

    @contextmanager
    def planted(self, on_reached: Callable[[], None]) -> Iterator[None]:
        """Plant the change in this process while the block runs; raises PatchError if only a copy can have it."""
        change, codes = _compiled(self)
        if change.is_of_more:
            raise PatchError(f"{self.file}: more than functions and constants is changed")
        module = import_module(self.module_name)
        with ExitStack() as stack:
            stack.enter_context(_with_name([module], NAME_OF_MARK, on_reached))
            for name, _ in change.functions:
                stack.enter_context(_with_code(module, name, codes[name]))
            for name, statement in change.constants:
                on_reached()
                stack.enter_context(_with_constant(module, name, statement))
            yield


@dataclass(slots=True)
class Change:
    """The changed module, of which these functions and constants, by their qualified names, are changed."""

    tree: ast.Module
    functions: list[tuple[str, Function]] = field(default_factory=list)
    constants: list[tuple[str, ast.stmt]] = field(default_factory=list)
    is_of_more: bool = False

    @classmethod
    def between(cls, old: ast.Module, new: ast.Module) -> Change:
        """Compare two modules, without regard to comments and lines."""
        change = cls(new)
        change._compare(old, new, "")
        return change

    def _compare(self, old: ast.Module | ast.ClassDef, new: ast.Module | ast.ClassDef, prefix: str) -> None:
        before = _by_name(old.body)
        for key, node in _by_name(new.body).items():
            same = before.pop(key, None)
            if same is not None and _is_same(same, node):
                continue
            name = f"{prefix}{key}"
            if isinstance(node, FUNCTIONS) and isinstance(same, FUNCTIONS):
                self.functions.append((name, node))
                self.is_of_more |= _signature(same) != _signature(node)
            elif isinstance(node, ast.ClassDef) and isinstance(same, ast.ClassDef):
                self.is_of_more |= ast.dump(_without_body(same)) != ast.dump(_without_body(node))
                self._compare(same, node, f"{name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and same is not None and not prefix:
                self.constants.append((name, node))
            else:
                self.is_of_more = True
        self.is_of_more |= bool(before)


@lru_cache(maxsize=64)
def _tree_of(file: str) -> ast.Module:
    return ast.parse(PACKAGE.joinpath(file).read_text())


@cache
def _location(patch: SourcePatch) -> str:
    change = patch.change()
    names = [*(name for name, _ in change.functions), *(name for name, _ in change.constants)]
    return f"{patch.module_name}:{', '.join(names) or 'the module'}"


@lru_cache(maxsize=64)
def _compiled(patch: SourcePatch) -> tuple[Change, dict[str, CodeType]]:
    """Return a change and the codes of the changed module, whose changed functions call the mark."""
    change = _marked(patch)
    return change, _codes(compile(ast.fix_missing_locations(change.tree), patch.file, "exec", dont_inherit=True))


def _marked(patch: SourcePatch) -> Change:
    change = patch.change()
    for _, function in change.functions:
        index = 1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0
        function.body[index:index] = ast.parse(f"{NAME_OF_MARK}()").body
    return change


def _comes_first(node: ast.stmt) -> bool:
    """Whether a statement is the docstring of a module, or an import from the future."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _by_name(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return statements by the name that they define, else by their text; repeated ones are numbered."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                key = name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                key = name
            case _:
                key = ast.unparse(node)
        found[key if key not in found else f"{key} #{len(found)}"] = node
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two syntax trees, or values in them, have the same `ast.dump`, which takes much longer."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, ast.AST):
        return all(_is_same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
    return repr(one) == repr(other)


def _signature(function: Function) -> str:
    return ast.dump(function.args) + "".join(map(ast.dump, function.decorator_list))


def _without_body(node: ast.ClassDef) -> ast.ClassDef:
    return ast.ClassDef(
        name=node.name, bases=node.bases, keywords=node.keywords, body=[], decorator_list=node.decorator_list
    )


def _codes(code: CodeType, prefix: str = "") -> dict[str, CodeType]:
    """Return the codes of all functions of a module and of its classes, by qualified name."""
    found: dict[str, CodeType] = {}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            name = f"{prefix}{each.co_name}"
            found |= {name: each, **_codes(each, f"{name}.")}
    return found


@contextmanager
def _with_code(module: ModuleType, name: str, code: CodeType) -> Iterator[None]:
    function, clears = _function(module, name)
    if function.__code__.co_freevars != code.co_freevars:
        raise PatchError(f"{module.__name__}:{name}: it uses other names of the functions around it")
    original = function.__code__
    function.__code__ = code
    for clear in clears:
        clear()
    try:
        yield
    finally:
        function.__code__ = original
        for clear in clears:
            clear()


def _function(module: ModuleType, name: str) -> tuple[FunctionType, list[Callable[[], object]]]:
    """Return the function below decorators, and what forgets its remembered answers."""
    holder: Any = module
    *classes, last = name.split(".")
    for each in classes:
        holder = getattr(holder, each)
    found, clears = vars(holder)[last], []
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        if hasattr(found, "cache_clear"):
            clears.append(found.cache_clear)
        inner = next(
            (getattr(found, each) for each in ("__wrapped__", "__func__", "fget", "func") if hasattr(found, each)), None
        )
        if inner is None:
            raise PatchError(f"{module.__name__}:{name}: it is no function, but {type(found).__name__}")
        found = inner
    return found, clears


@contextmanager
def _with_constant(module: ModuleType, name: str, statement: ast.stmt) -> Iterator[None]:
    names = dict(vars(module))
    original = names[name]
    exec(compile(ast.Module([statement], []), module.__name__, "exec", dont_inherit=True), names)
    modules = [each for key, each in list(sys.modules.items()) if key.startswith("tornproof.")]
    having = [each for each in modules if vars(each).get(name) is original]
    with _with_name(having, name, names[name]), _with_default(modules, original, names[name]):
        yield


@contextmanager
def _with_name(modules: Sequence[ModuleType], name: str, value: object) -> Iterator[None]:
    before = [(each, vars(each).get(name, MISSING)) for each in modules]
    for each in modules:
        setattr(each, name, value)
    try:
        yield
    finally:
        for each, old in before:
            if old is MISSING:
                delattr(each, name)
            else:
                setattr(each, name, old)  # where it stood: the order of a module's names is an answer, too


@contextmanager
def _with_default(modules: Sequence[ModuleType], original: object, value: object) -> Iterator[None]:
    """Replace what functions have as the default of an argument by its name; numbers and the like are too common."""
    settings = [
        (defaults, key)
        for function in ([] if isinstance(original, COMMON) else _functions_in(modules))
        for defaults in [function.__kwdefaults__ or {}]
        for key, default in defaults.items()
        if default is original
    ]
    for defaults, key in settings:
        defaults[key] = value
    try:
        yield
    finally:
        for defaults, key in settings:
            defaults[key] = original


def _functions_in(modules: Sequence[ModuleType]) -> Iterator[FunctionType]:
    """Yield the functions of modules and of their classes, some several times."""
    for module in modules:
        for value in list(vars(module).values()):
            holders = vars(value).values() if isinstance(value, type) else [value]
            yield from (each for each in holders if isinstance(each, FunctionType))
