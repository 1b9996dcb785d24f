#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function keeps rule 1 of base.h: order of arguments, positive names of choices, memory stated."""
import pathlib
import re
import sys

# What rule 1 has to leave out, each with its reason.
MAY = {
    ("accel_load_model", "result"): "an optional second object, which most callers do not want",
    ("accel_load_model", "options"): "the same",
    ("accel_alloc", "memory"): "memory, as an output: it is no object",
    ("accel_reduce_number", "number"): "input and output, as the tensor of accel_reduce()",
    ("accel_find_executable_batch_size", "batch_size"): "input and output",
}
NEGATED = re.compile(r"(no|not|without|keep|dont|disable|disabled|un(?!scale|ique|it|iform|signed|wrap))_\w+|uneven")
SCALAR = r"(bool|size_t|u?int\d*_t|int|float|double|uint8_t|enum \w+|const char \*|void \*)"


def uncomment(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def parameters_of(function, text):
    """The parameters as programs pass them: without the call site and the sizes, which macros add."""
    found = [" ".join(one.split()) for one in re.split(r",(?![^()]*\))", uncomment(text))]
    first = 0
    if function.endswith("_at"):
        first = 2
    while first < len(found) and re.fullmatch(r"size_t \w+_size", found[first]) and re.search("_(at|sized)$", function):
        first += 1
    return [one for one in found[first:] if one != "void"]


def name_of(parameter):
    pointer = re.search(r"\(\*(\w+)\)", parameter)
    return pointer[1] if pointer else re.search(r"(\w+)(\[\w*\])?$", parameter)[1]


def order(name, parameters):
    """What is wrong with the order of the parameters."""
    names = [name_of(one) for one in parameters if one != "..."]
    if "err" in names and names[-1] != "err" and not (parameters[-1] == "..." or name == "accel_logger_log_in_order"):
        yield "err is not last"
    for at, parameter in enumerate(parameters[: len(names)]):
        if (name, names[at]) in MAY:
            continue
        is_new = re.fullmatch(r"struct \w+ \*\*\w+", parameter) or \
            re.fullmatch(r"struct accel_(object_list|tensor) \*\w+", parameter) and "_tensor" not in name
        if is_new and at:
            yield f"{names[at]} is a new object, but not the first argument"
        if re.fullmatch(r"const struct \w+_options \*options", parameter) and names[at + 1:] not in ([], ["err"]):
            yield f"{names[at]} are options, but not the last before err"
        is_output = re.fullmatch(SCALAR + r" ?\*\w+", parameter) and not parameter.startswith("const void")
        if is_output and at and not re.fullmatch(r"(const char|void|const void) \*\w+", parameter):
            rest = [one for one in parameters[at + 1: len(names)] if "_options *" not in one and name_of(one) != "err"]
            is_buffer = rest and re.search(r"count|size|capacity|length", name_of(rest[0]))
            if not is_buffer and any(not re.search(r"\*", one) for one in rest):
                yield f"{names[at]} is an output, but inputs come after it"


def memory(name, parameters, comment, heading):
    """Buffers and tensors say which memory they may be in, at the function or at the top of its header."""
    takes = any(re.match(r"(const )?(void|DLTensor) \*(?!user)", one) and name_of(one) not in ("structs", "context")
                for one in parameters)
    if takes and not re.search(r"\b(host|device|GPU)\b", comment + heading):
        yield "the comment does not say whether the memory is the host's or a device's"


wrong = []
count = 0
for header in sorted((pathlib.Path(sys.argv[1]) / "include" / "accel").glob("*.h")):
    text = header.read_text()
    heading = re.search(r"/\*(?!.*SPDX).*?\*/", text, re.S)[0]
    for comment, function, inner in re.findall(
            r"(/\*\*(?:(?!\*/).)*\*/\n(?:#define[^\n]*(?:\\\n[^\n]*)*\n)?)?^ACCEL_API[^;(]*?\b(accel_\w+) \(([^;]*)\)[^;()]*(?:\([^;()]*\))?;",
            text, re.M | re.S):
        name = re.sub(r"_(sized|at)$", "", function)
        parameters = parameters_of(function, inner)
        count += 1
        for what in [*order(name, parameters), *memory(name, parameters, comment, heading)] if parameters else []:
            wrong.append(f"{header.name}: {name}: {what}")
        wrong += [f"{header.name}: {name}: {one} is negated" for one in map(name_of, parameters)
                  if one != "..." and NEGATED.fullmatch(one)] if parameters and parameters[-1] != "..." else []
    for struct in re.findall(r"^struct \w+ \{\n(.*?)^\};", uncomment(text), re.M | re.S):
        for field in re.findall(r"(\w+)(?:\[\w+\])?;", struct):
            if NEGATED.fullmatch(field):
                wrong.append(f"{header.name}: field {field} is negated")
print("\n".join(wrong))
sys.exit(bool(wrong) or count < 200)
