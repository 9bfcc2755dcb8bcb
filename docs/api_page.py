"""The page of the Python API, made from the docstrings of what `tornproof` exports: `python docs/api_page.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tornproof

PAGE = Path(__file__).with_name("api.md")
HEAD = """# The Python API

All of it is imported from `tornproof`; nothing else is promised to stay. This page is made from the docstrings by
`python docs/api_page.py`.

```python
import tornproof, pyarrow as pa, polars

table = tornproof.create("trades", {"ts": "TIMESTAMP", "price": "DOUBLE"}, timestamp="ts")
with table.writer(allow_parquet_last=True) as writer:     # no server inserts into this table
    writer.write(pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "price": [1.5]}))
    writer.commit()                                       # durable when it returns
with table.snapshot() as snapshot:                        # pinned: one version, whatever is committed meanwhile
    print(snapshot.to_arrow(where="price > 1"))
    print(polars.DataFrame(snapshot.scan(["price"])))
print(tornproof.verify("trades").sound, tornproof.check("trades", effort="small").verdict.name)
```

An argument of another type than its own is rejected before anything is done, in a sentence that names it. The error is
UsageError, but for a new table TableRejectedError, for rows RowsRejectedError, for a writer's options one that is also
ValueError, and for `check` ValueError alone. Numbers may be NumPy's, and a list is any collection but a text.

A relative path is looked up once, from the working directory of the call: a table, its snapshots and its writers stay
the same wherever the process goes. Results and messages have the whole path.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, names in groups().items():
        parts.append(f"## {title}\n")
        parts += [section for name in names for section in sections(name, getattr(tornproof, name))]
    return "\n".join(parts)


def groups() -> dict[str, list[str]]:
    """Return the names by what they are."""
    public = {name: getattr(tornproof, name) for name in tornproof.__all__ if not name.startswith("_")}
    errors = [name for name, each in public.items() if inspect.isclass(each) and issubclass(each, Exception)]
    classes = [name for name, each in public.items() if inspect.isclass(each) and name not in errors]
    functions = [name for name in public if name not in (*errors, *classes)]
    return {"Functions": functions, "Classes": classes, "Errors": errors}


def sections(name: str, thing: Any) -> Iterator[str]:
    """Yield what stands of a function, or of a class and each of its public members."""
    if not inspect.isclass(thing):
        yield entry(f"tornproof.{name}{signature(thing)}", thing, "###")
        return
    yield entry(f"tornproof.{name}", thing, "###")
    for member, value in vars(thing).items():
        if member.startswith("_") and member != "__arrow_c_stream__":
            continue
        if isinstance(value, property):
            yield entry(f"{name}.{member}", value, "####")
        elif inspect.isfunction(value):
            yield entry(f"{name}.{member}{signature(value)}", value, "####")


def entry(heading: str, thing: Any, level: str) -> str:
    """Return a heading with a docstring below it."""
    documented = inspect.getdoc(thing)
    assert documented, f"{heading} has no docstring"
    return f"{level} `{heading}`\n\n{documented}\n"


def signature(function: Any) -> str:
    """Return a function's parameters without `self`, as they are written."""
    known = inspect.signature(function)
    parameters = [each for name, each in known.parameters.items() if name != "self"]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(known.replace(parameters=parameters)))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
