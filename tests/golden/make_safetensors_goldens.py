#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/safetensors/*.safetensors with the format's own writer (pip install safetensors==0.8.0).

test_safetensors_writer.c writes the same tensors and compares all bytes.  Byte i of tensor k is (7 i + 13 k) mod 251.
"""
import ctypes
import pathlib

import safetensors

# Python's package cannot write F4 and F6_*.
NAMES = dict(BOOL="bool", U8="uint8", I8="int8", F8_E5M2="float8_e5m2", F8_E4M3="float8_e4m3fn", F8_E8M0="float8_e8m0fnu",
             F8_E4M3FNUZ="float8_e4m3fnuz", F8_E5M2FNUZ="float8_e5m2fnuz", I16="int16", U16="uint16", F16="float16",
             BF16="bfloat16", I32="int32", U32="uint32", F32="float32", C64="complex64", F64="float64", I64="int64",
             U64="uint64")
WIDTHS = dict(BOOL=8, U8=8, I8=8, F8_E5M2=8, F8_E4M3=8, F8_E8M0=8, F8_E4M3FNUZ=8, F8_E5M2FNUZ=8,
              I16=16, U16=16, F16=16, BF16=16, I32=32, U32=32, F32=32, C64=64, F64=64, I64=64, U64=64)
FILES = {
    "empty": ([], None),
    "one": ([("attn.0", "F32", [1, 2, 3])], None),
    "metadata": ([("attn0", "F32", [1, 1, 2, 3])], {"format": "pt"}),
    "escapes": ([("a\"\\/\b\f\n\r\t\x01\x1f\x7f", "U8", [3]), ("\u00e4\u20ac\U0001f600", "BF16", [2]), ("", "F64", [])],
                {"k\"\n": "\u00e4\x02"}),
    "empty_tensors": ([("b", "F32", [0]), ("a", "F32", [2, 0, 3]), ("c", "I8", [0]), ("d", "I8", [5]), ("e", "U64", [0])],
                      None),
    "all_types": ([(f"t{i:02}", name, [4, 2]) for i, name in enumerate(WIDTHS)]
                  + [(f"s{i:02}", name, [4]) for i, name in enumerate(WIDTHS)], {"format": "pt"}),
}


def tensor(k, dtype, shape):
    """@return what the package wants, and the memory that it points to"""
    count = 1
    for size in shape:
        count *= size
    length = count * WIDTHS[dtype] // 8
    data = (ctypes.c_ubyte * max(1, length))(*((7 * i + 13 * k) % 251 for i in range(length)))
    return safetensors.TensorSpec(dtype=NAMES[dtype], shape=shape, data_ptr=ctypes.addressof(data), data_len=length), data


folder = pathlib.Path(__file__).parent / "safetensors"
for file, (tensors, metadata) in FILES.items():
    kept = {name: tensor(k, dtype, shape) for k, (name, dtype, shape) in enumerate(tensors)}
    (folder / f"{file}.safetensors").write_bytes(
        safetensors.serialize({name: spec for name, (spec, _) in kept.items()}, metadata))
