#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The committed files that are generated are up to date: from the option table, by `make regen`; from the registers of
# kernels, by `make update-registers`.
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
test_expect_success 'each kernel has one line in src/cuda/registers.txt' '
    sed "/^#/d;s/ .*//" "$srcdir/src/cuda/registers.txt" >kernels && test -s kernels && sort kernels | uniq -d >twice && ! grep . twice'
if command -v python3 >/dev/null; then
    test_expect_success 'bench/gpu/README.md is what src/cuda/registers.txt says; if not, run make update-registers' '
        cp "$srcdir/bench/gpu/README.md" README.md && chmod u+w README.md &&
        python3 "$srcdir/tests/standin/occupancy" "$srcdir/src/cuda/registers.txt" README.md &&
        diff -u "$srcdir/bench/gpu/README.md" README.md'
else
    test_skip 'bench/gpu/README.md is what src/cuda/registers.txt says' 'needs python3'
fi
test_expect_success 'an unknown form is an error' "test_exit 2 '$accelerate' --emit=nonsense"
test_done
