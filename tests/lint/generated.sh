#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The committed files that are generated from the option table are up to date; `make regen` rewrites them.
. "${srcdir:-.}/tests/testlib.sh"

for source in "$srcdir"/man/*.[157].in; do
    page=$(basename "$source" .in)
    test_expect_success "man/$page is what the tables of options and commands say; if not, run make regen" \
        "sh '$srcdir/man/expand.sh' '$accelerate' <'$source' >'$page' && diff -u '$srcdir/man/$page' '$page'"
done
for shell in bash fish zsh; do
    test_expect_success "completions/accelerate.$shell is what the tables say; if not, run make regen" \
        "'$accelerate' --emit=$shell >out && diff -u '$srcdir/completions/accelerate.$shell' out"
done
test_expect_success 'accelerate-config(5) has every key' '
    "$accelerate" --emit=json >options.json && "$accelerate" --emit=man-keys >all &&
    sed -n "s/^\.It Ic \([^ ]*\) .*/\1/p" all | sed "s/.-/-/" | sort >keys &&
    awk "/^  {/ { key = file = \"\" } /^    \"key\"/ { key = \$2 } /^    \"file\": true/ { print key }" options.json |
        tr -d "\",," | sort >wanted && test -s wanted && diff wanted keys'
test_expect_success 'an unknown form is an error' "test_exit 2 '$accelerate' --emit=nonsense"
test_done
