#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tree.txt: what the original's operations make of random nested structures.

Not run by the tests.  Run as make_goldens.py:  python tests/golden/make_tree_goldens.py tests/golden

Every line is one case: operation, arguments, trees, and the tree that came of it (a number for batch), or "error".
A tree is written without blanks:

    f2x3=1,2,3,4,5,6;   tensor: type (below), sizes joined by x, elements
    'text'              a string
    [TREE TREE...]      list (without the blanks)
    {key:TREE...}       dict
"""

import copy
import random
import sys

import torch
from accelerate.utils import operations

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
TYPES = {
    "d": torch.float64, "f": torch.float32, "e": torch.float16, "h": torch.bfloat16, "b": torch.int8,
    "B": torch.uint8, "i": torch.int32, "l": torch.int64, "?": torch.bool,
}
LETTERS = {dtype: letter for letter, dtype in TYPES.items()}
source = random.Random(6)


def text_of(tree):
    if isinstance(tree, torch.Tensor):
        numbers = tree.to(torch.float64).reshape(-1).tolist()
        return (LETTERS[tree.dtype] + "x".join(map(str, tree.shape)) + "="
                + ",".join(f"{number:g}" for number in numbers) + ";")
    if isinstance(tree, str):
        return f"'{tree}'"
    if isinstance(tree, dict):
        return "{" + "".join(f"{key}:{text_of(item)}" for key, item in tree.items()) + "}"
    return "[" + "".join(text_of(item) for item in tree) + "]"


def tensor(shape, letter=None):
    dtype = TYPES[letter or source.choice("dfehbBil?")]
    count = 1
    for size in shape:
        count *= size
    most = 1 if dtype == torch.bool else 99
    numbers = [source.randint(0, most) for _ in range(count)]
    return torch.tensor(numbers, dtype=torch.float64).to(dtype).reshape(shape)


def structure(leaf, depth=0):
    """A random nest of what leaf() makes."""
    kind = source.random()
    if depth == 3 or kind < 0.3 + 0.1 * depth:
        return leaf()
    count = source.choice((0, 1, 2, 2, 3)) if depth else source.randint(1, 3)
    items = [structure(leaf, depth + 1) for _ in range(count)]
    if kind < 0.65:
        return items
    return dict(zip(source.sample(("a", "b", "ids", "mask", "y"), count), items))


def leaf(rows=None, strings=0.08, scalars=0.05, letters="dfehbBil?"):
    def make():
        kind = source.random()
        if kind < strings:
            return source.choice(("", "x", "text"))
        if kind < strings + scalars:
            return tensor((), source.choice(letters))
        rest = [source.randint(1, 3) for _ in range(source.choice((0, 0, 1, 1, 2)))]
        return tensor([source.randint(0, 5) if rows is None else rows] + rest, source.choice(letters))
    return make


def result(function, *args, **kwargs):
    try:
        made = function(*args, **kwargs)
    except (TypeError, ValueError, IndexError, KeyError, RuntimeError):
        return "error"
    return str(made) if isinstance(made, int) else text_of(made)


def batches():
    for _ in range(30):
        tree = structure(leaf())
        yield f"batch {text_of(tree)} {result(operations.find_batch_size, tree)}"


def slices():
    for _ in range(40):
        tree = structure(leaf(scalars=0.02))
        begin, end = source.randint(0, 5), source.randint(0, 6)
        yield f"slice {begin} {end} {text_of(tree)} {result(operations.slice_tensors, tree, slice(begin, end))}"


def resized(tree, dim):
    """The same with other numbers, and another size of DIM."""
    if isinstance(tree, dict):
        items = [(key, resized(item, dim)) for key, item in tree.items()]
        source.shuffle(items)
        return dict(items)
    if isinstance(tree, list):
        return [resized(item, dim) for item in tree]
    if isinstance(tree, str):
        return tree
    shape = list(tree.shape)
    if -len(shape) <= dim < len(shape):
        shape[dim] = source.randint(0, 3)
    elif source.random() < 0.9:
        return copy.deepcopy(tree)
    return tensor(shape, LETTERS[tree.dtype])


def joins():
    for number in range(60):
        first = structure(leaf(strings=0.03, scalars=0.01))
        dim = source.choice((0, 0, 0, 1, -1, -2))
        trees = [first] + [resized(first, dim) for _ in range(source.randint(0, 3))]
        if number % 6 == 5:  # another structure, or sizes
            trees.append(structure(leaf()))
        if number % 10 == 9 and isinstance(trees[-1], dict) and len(trees) > 1:
            trees[-1].popitem()
        if any(more(trees[0], tree) for tree in trees[1:]):
            continue
        texts = " ".join(text_of(tree) for tree in trees)
        yield f"concatenate {dim} {len(trees)} {texts} {result(operations.concatenate, trees, dim=dim)}"
    for shapes in (((0,), (2, 3)), ((2, 3), (0,), (1, 3)), ((0,), (0,)), ((0,), (2,)), ((1, 0), (1, 2)), ((0, 2), (2, 2))):
        for dim in (0, 1):
            trees = [tensor(shape, "f") for shape in shapes]
            texts = " ".join(text_of(tree) for tree in trees)
            yield f"concatenate {dim} {len(trees)} {texts} {result(operations.concatenate, trees, dim=dim)}"


def more(first, other):
    """Whether OTHER has what is lost in the original, or another type of tensors; there we differ."""
    if isinstance(first, dict) and isinstance(other, dict):
        return set(other) - set(first) or any(more(first[key], other[key]) for key in other)
    if isinstance(first, list) and isinstance(other, list):
        return len(other) > len(first) or any(map(more, first, other))
    return type(first) is not type(other) or isinstance(first, torch.Tensor) and first.dtype != other.dtype


def pads():
    for _ in range(50):
        tree = structure(leaf(strings=0.02, letters="dfehil"))
        dim = source.choice((0, 0, 1, 1, -1, 2))
        size, index, first = source.randint(5, 7), source.choice((0, 0, -100, 7)), source.randint(0, 1)

        def gather(sizes):
            """As if another process had SIZE."""
            other = sizes.clone()
            other[0][dim] = size
            return torch.cat([sizes, other])

        operations.gather = gather
        made = result(operations.pad_across_processes, tree, dim=dim, pad_index=index, pad_first=bool(first))
        yield f"pad {dim} {size} {index} {first} {text_of(tree)} {made}"


def inputs():
    for number in range(60):
        rows, processes = source.randint(0, 20), source.randint(1, 6)
        tree = structure(leaf(None if number % 10 == 9 else rows, strings=0.01, scalars=0.01))
        made = result(operations.pad_input_tensors, tree, rows, processes)
        yield f"inputs {rows} {processes} {text_of(tree)} {made}"


with open(f"{FOLDER}/tree.txt", "w", encoding="ascii") as file:
    file.write("# Made by make_tree_goldens.py, which says how a case is written.\n")
    for make in (batches, slices, joins, pads, inputs):
        file.writelines(line + "\n" for line in make())
