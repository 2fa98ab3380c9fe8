"""The functions that the C files export are those that Python declares, with the same arguments."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from hatch_build import installed_compiler

from heatsketch import compiled
from heatsketch.compiled.library import Function

SOURCES = sorted(Path(compiled.__path__[0]).glob("*.c"))
# Types in C by the letters of declarations.
NAMES = {"f": "type_f", "d": "type_d", "i": "type_i", "l": "type_l", "b": "bool"}
ALIASES = {"float": "type_f", "double": "type_d", "int32_t": "type_i", "int64_t": "type_l", "_Bool": "bool"}
EXPORTED = re.compile(r"__attribute__\(\(visibility\(\"default\"\)\)\) (.+?) (\w+)\(([^()]*)\) \{")
ARGUMENT = re.compile(r"(const )?(\w+) ?(\*?)(?:(?:__)?restrict )? ?(\w+)")


def exported() -> dict[str, list[tuple[str, ...]]]:
    """The arguments of the exported functions: const, type, star and name.

    The preprocessor of the compiler writes out the functions that macros make.
    """
    compiler = installed_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    found = {}
    for source in SOURCES:
        run = subprocess.run([*compiler, "-E", "-P", str(source)], capture_output=True, text=True, check=True)
        for returned, name, arguments in EXPORTED.findall(" ".join(run.stdout.split())):
            if name == "variant":  # called before a library is chosen
                continue
            assert returned == "void", name
            assert name not in found
            parts = [ARGUMENT.fullmatch(part.strip()) for part in arguments.split(",")]
            assert all(parts), arguments
            found[name] = [(m[1] or "", ALIASES.get(m[2], m[2]), m[3], m[4]) for m in parts]
    return found


def functions() -> list[Function]:
    """All functions that Python declares."""
    names = [path.stem for path in Path(compiled.__path__[0]).glob("*.py")]
    modules = [import_module(f"{compiled.__name__}.{name}") for name in names if name != "__init__"]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Function)]


def declared() -> dict[str, list[tuple[str, ...]]]:
    """The same as Python declares them."""
    found = {}
    for function in functions():
        for name, letters in function.instances.items():
            assert name not in found
            arrays = zip(letters, function.arrays, strict=True)
            found[name] = [
                *(("" if star else "const ", NAMES[letter], "*", array) for letter, (_, star, array, _) in arrays),
                *(("", NAMES[letter], "", number) for letter, number, *_ in function.numbers),
            ]
    return found


def test_declarations_are_those_of_the_c_files():
    in_c, in_python = exported(), declared()
    assert in_c.keys() == in_python.keys()
    assert len(in_c) > 40
    assert in_c == in_python


def test_sizes_come_before_other_numbers():
    """Python passes the dimensions of the arrays first, then the numbers that it is given."""
    for function in functions():
        dimensions = set(re.findall(r"[^\W\d]\w*", ", ".join(shape for *_, shape in function.arrays)))
        sizes = [name in dimensions for _, name, *_ in function.numbers]
        assert sizes == sorted(sizes, reverse=True), function.name
