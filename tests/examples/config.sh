#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example files that accelerate-config(5) shows: nothing is wrong with them, and launch takes them.
. "${srcdir:-.}/tests/testlib.sh"

touch program.py
for file in "$srcdir"/examples/config/*; do
    name=$(basename "$file")
    test_expect_success "$name: nothing to find fault with" '"$accelerate" config lint "$file" >out && test ! -s out'
    test_expect_success "$name is in the manual" 'grep -F "@<examples/config/$name@" "$srcdir/man/accelerate-config.5.in"'
    # mpirun may not be here, and launch_sagemaker.sh is about jobs on SageMaker
    case $name in
    mpirun.yaml | sagemaker.yaml) continue ;;
    esac
    test_expect_success "$name: launch takes it" '
        "$accelerate" launch --config_file "$file" --dry_run program.py >out && grep program.py out'
done
# Each mode of the table has one: what chooses it in a file is in one of them.
"$accelerate" --emit=man-keys >keys || exit 99
sed -n '/^These keys take effect/{n; s/^\.Ql \(.*\) \.$/\1/p;}' keys >modes
while read -r mode; do
    test_expect_success "an example for $mode" 'grep -q -F -- "$mode" "$srcdir"/examples/config/*.yaml'
done <modes
test_expect_success 'these are all modes' 'test "$(wc -l <modes)" -ge 7'
test_done
