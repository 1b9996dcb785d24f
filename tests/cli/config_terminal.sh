#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config at a terminal, as a person would type.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null || ! python3 -c 'import pty; pty.openpty ()' 2>/dev/null; then
    echo '1..0 # SKIP needs python3, and a terminal of its own'
    exit
fi
python3 "$srcdir/tests/cli/config_terminal.py" "$accelerate"
