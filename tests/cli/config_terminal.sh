#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config at a terminal, as a person would type.
. "${srcdir:-.}/tests/testlib.sh"

if ! has_terminals; then
    sed -n '/^TESTS = /,/^]/s/^    ("\([^"]*\)".*/\1/p' "$srcdir/tests/cli/config_terminal.py" >names
    skip_rest "$no_terminals"
    while read -r name; do test_skip "$name" "$skip_reason"; done <names
fi
python3 "$srcdir/tests/cli/config_terminal.py" "$accelerate"
