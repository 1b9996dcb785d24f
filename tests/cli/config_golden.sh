#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Walks through Accelerate's questionnaire, repeated here: the same questions, and the same file.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    echo '1..0 # SKIP python3 is not here'
    exit
fi
python3 "$srcdir/tests/cli/ask_golden.py" "$accelerate" "$srcdir/tests/golden/ask.json"
