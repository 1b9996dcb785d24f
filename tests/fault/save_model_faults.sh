#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A save is killed at each call, each call fails once, the power is lost: there is always one whole model.
. "${srcdir:-.}/tests/testlib.sh"

faults=$builddir/tests/fault/save_model_faults every=
! is_long || every=all
test_expect_success 'kills at its calls, from every kind of model to every other, and lost power' '
    timeout $((patience * 4)) "$faults" kills $every >kills && ! grep "^not ok" kills && test "$(grep -c "^ok" kills)" -eq 24
'
test_expect_success 'each call fails once' '
    timeout $((patience * 4)) "$faults" disk >disk && ! grep "^not ok" disk && test "$(grep -c "^ok" disk)" -eq 15
'
nothing_left
test_done
