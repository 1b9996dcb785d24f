#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Walks through Accelerate's questionnaire, repeated here: the same questions, and the same file.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'python3 is not here'
fi
python3 "$srcdir/tests/cli/ask_golden.py" "$accelerate" "$srcdir/tests/golden/command/ask.json"
