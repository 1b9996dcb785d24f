#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Find code that touches elements of tensors past struct memory (src/lib/memory/memory.h).

    memory.py ROOT

looks at the folders ROOT/src/lib/{comm,collectives,train}.  Tensors may be on devices whose memory the processor cannot
read, so these folders may not copy or compute with bytes themselves: no memcpy() or similar, no function of kernels/,
no access to what a `data` points to.  EXCEPTIONS lists the lines that do so with bytes that are not a tensor's.  A line
is named by its file and its beginning.
"""
import pathlib
import re
import sys

ROOMS = ("comm", "collectives", "train")

EXCEPTIONS = [
    # File, the line's beginning, why it is not tensor data.
    ("comm/bootstrap/bootstrap.c", "memcpy (own->blobs[turn], mine, bytes);", "a blob in the job segment"),
    ("comm/bootstrap/bootstrap.c", "memcpy ((char *) all + (size_t) rank * bytes, jobseg_slot", "the same"),
    ("comm/watch/mismatch.c", "if (a.ndim != b.ndim || memcmp (a.shape, b.shape", "shapes in the ledger"),
    ("comm/watch/watch.c", "reduce_run (&reduction, sources, &target, count);", "for engines that reduce in host memory"),
    ("collectives/verify.c", "return a->size_bytes == b->size_bytes &&", "texts"),
    ("collectives/verify.c", "(const char *) item->data);", "texts"),
    ("collectives/verify.c", "memcpy (first, mine", "texts"),
    ("collectives/verify.c", "memcpy (other, mine", "texts"),
    ("collectives/invited.c", "memcpy (", "ids of groups"),
    ("collectives/objects.c", "memcpy (", "objects, which are bytes in host memory"),
    ("train/compare.c", "if (memcmp (&all[r * count + i]", "numbers that ranks compare"),
    ("train/layout.c", "memcpy (&pointer, bytes", "a field of the program's struct"),
    ("train/layout.c", "memcpy (ndim, bytes", "the same"),
    ("train/layout.c", "memcpy (dim_bytes == 4 ?", "the same"),
    ("train/optimizer/masters.c", "master->tensor = *model->parameters[i].data;", "the tensor, not its elements"),
    ("train/optimizer/optimizer.c", "state->tensor = *of->data;", "the tensor, not its elements"),
    ("train/optimizer/optimizer_numbers.c", "memcpy (", "options of a group"),
    ("train/optimizer/optimizer_numbers.c", "memset ((char *) &shown", "options of a group"),
    ("train/prepare.c", "memset (text, 0, DESCRIPTION_SIZE);", "a text"),
    ("train/reducer/reducer.c", "memset (reducer->used,", "marks, one for each parameter"),
    ("train/reducer/reducer.c", "memset (reducer->ready,", "marks"),
    ("train/reducer/unused.c", "memcpy (reducer->used, reducer->mask,", "marks"),
    ("train/reducer/unused.c", "memset (", "marks"),
    ("train/sharding_layers.c", "&& !memcmp (layers->order.indices", "positions of parameters"),
    ("train/reducer/rank_state.c", "memset (model->reducer->used,", "marks"),
]

BYTES = r"mem(?:cpy|set|move|cmp)|memory_(?:copy|create\w*)|tensor_(?:copy|clone|data|allocate)"
KERNELS = (r"reduce_(?:run|copy|scale)|floats_\w+|matrix_(?:multiply\w*|expand|orthogonalise)|kernels_\w+|rules_\w+"
           r"|(?:half|bfloat16|e4m3|e5m2)_(?:from|to)_floats")
NUMBER = r"(?:const )?(?:float|double|char|unsigned char|size_t|u?int(?:8|16|32|64)_t)"
DATA = r"[\w\->.\[\] ]*(?:->|\.)data\b"
FINDINGS = [
    (re.compile(rf"\b(?:{BYTES}) \("), "works on bytes of host memory"),
    (re.compile(rf"\b(?:{KERNELS}) \("), "calls a kernel for host memory"),
    (re.compile(r"(?:->|\.)data\b *\["), "reads or writes an element"),
    (re.compile(rf"(?<![\w)\]] )\*\(?{DATA}(?! *\()"), "reads or writes an element"),
    (re.compile(rf"\({NUMBER} \*\) *\(?{DATA}"), "makes a pointer to elements: use memory_at()"),
    (re.compile(rf"\b(?:float|double|u?int\d+_t) \*(?:const )?\w+ = {DATA}"), "makes a pointer to elements"),
]
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def code_lines(text):
    """The lines without comments and strings."""
    blank = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.S)
    return [STRING.sub('""', line).rstrip() for line in blank.splitlines()]


def main():
    library = pathlib.Path(sys.argv[1]) / "src/lib"
    found, used = [], set()
    for room in ROOMS:
        for path in sorted((library / room).rglob("*.[ch]")):
            name = path.relative_to(library).as_posix()
            for number, line in enumerate(code_lines(path.read_text()), 1):
                reason = next((why for pattern, why in FINDINGS if pattern.search(line)), None)
                # A function's own name at the beginning of a line is its definition.
                if not reason or re.match(r"\w", line):
                    continue
                excuse = next((row for row in EXCEPTIONS if row[0] == name and line.strip().startswith(row[1])), None)
                if excuse:
                    used.add(excuse)
                else:
                    found.append(f"src/lib/{name}:{number}: {reason}: {line.strip()}")
    if library.joinpath("memory/memory.h").exists():
        found += [f"{row[0]}: no such line any more: {row[1]}" for row in EXCEPTIONS if row not in used]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
