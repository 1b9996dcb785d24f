#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ^C at a terminal was reported as a failure of whichever rank's end was seen before the signal itself.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive

if ! "$drive" -p -- true >/dev/null; then
    skip_rest 'no pseudo-terminals here'
fi
for i in 1 2 3 4 5 6 7 8; do
    test_expect_success "^C is reported as such, try $i" '
        test_exit 130 "$drive" -p -n 3 -c 3 -- "$accelerate" launch --label yes --cpu --num_processes 3 \
            sh -c "echo ready; exec sleep 300" >out &&
        grep "accelerate: ended by SIGINT" out && ! grep "was killed" out'
done
test_done
