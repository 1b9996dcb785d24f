#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config schema: it accepts the example files and other valid files, and rejects those that `config lint` rejects.
. "${srcdir:-.}/tests/testlib.sh"

if ! python3 -c 'import yaml; from jsonschema import Draft202012Validator' 2>/dev/null; then
    skip_rest 'python3-jsonschema (4.0 or newer) or python3-yaml is not here'
fi
"$accelerate" config schema >schema.json || exit 99
python3 "$srcdir/tests/cli/config_schema.py" "$accelerate" schema.json "$srcdir"/examples/config/*
