#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports what the installed headers declare with ACCEL_API, no more and no less.
. "${srcdir:-.}/tests/testlib.sh"

library=$(find "$builddir/.libs" -name 'libaccel.so.*.*' 2>/dev/null | head -n 1)
if [ -z "$library" ]; then
    skip_rest 'no shared library in this build'
fi
# A declaration may span lines: join from ACCEL_API to ';', then take the name before the first '(' that is ours.
awk '/^ACCEL_API/ { text = "" ; open = 1 }
     open { text = text " " $0 }
     open && /;/ { open = 0; if (match (text, /accel_[a-z0-9_]+ \(/)) print substr (text, RSTART, RLENGTH - 2) }' \
    "$srcdir"/include/accel/*.h >names
sed -n 's/^    X (\(accel_[a-z0-9_]*\), .*/\1/p' "$srcdir/include/accel/plain.h" | cat - names | sort >declared
nm -D --defined-only "$library" | awk '$2 ~ /[TDBRW]/ { sub (/@.*/, "", $3); print $3 }' |
    grep -vE '^(__(asan|ubsan|tsan|gcov|llvm|sanitizer).*|ACCEL_[0-9.]+|_init|_fini)$' | sort >exported
test_expect_success 'declarations were found' 'test "$(wc -l <declared)" -gt 30'
test_expect_success 'exports equal declarations' 'diff declared exported'
test_expect_success 'every declaration has a comment' \
    "! awk '/^ACCEL_API/ && last !~ /\*\/\$/ && last !~ /^#define / { print FILENAME \": \" \$0 }
            NF { if (!more) last = \$0; more = /[\\\\]\$/ }' \
        '$srcdir'/include/accel/*.h | grep ."
# Other flags than the default ones give other sizes, clang unrolls more, and instrumented code is larger.  What programs pay for beyond this
# are the engines that were chosen at configure time.  It was 700 KiB before checkpoints read and wrote tensors on GPUs, and programs chose streams;
# 740 KiB before a run could be resumed with other numbers of passes and processes; 760 KiB before checkpoints of Hugging Face Accelerate were
# loaded; 820 KiB before Adagrad and RMSprop; 840 KiB before GPUs counted steps, and collectives were started in groups; 848 KiB before trackers;
# 878 KiB before stacks, requests to save or stop, and checkpoints in memory; 938 KiB before sharding, names in model files, and best checkpoints;
# 966 KiB before sharded checkpoints; 998 KiB before arguments, classes drawn by logits, and lines of steps; 1,010 KiB before gradients and
# parameters were divided; 1,032 KiB before segments that are computed again, and PowerSGD in the order of the device; 1,040 KiB
# before tensors were; 1,068 KiB before states were divided on GPUs; 1,072 KiB before a GPU's memory was known without code for GPUs;
# 1,080 KiB before gradients and parameters were divided on GPUs; 1,100 KiB before each host kept models for a restart, and states of
# models on GPUs were offloaded; 1,116 KiB before parts of tensors were divided, too, and parameters of models on GPUs were offloaded;
# 1,124 KiB before DeepSpeed's file was followed, and embeddings and losses of vocabularies that are divided.
engines=$(find "$builddir/src/lib/engines" -path "*/.libs/*.o" -exec size {} + | awk "{ sum += \$1 + \$2 } END { print sum + 0 }")
# gcc 13 and later make 4 % more of the same sources than gcc 12.
case $($CC -dumpversion) in 12 | 12.*) most=1136 ;; *) most=1188 ;; esac
limit=$((most * 1024 + engines))
flags=$(sed -n 's/^CFLAGS = //p' "$builddir/Makefile") extra=$(sed -n 's/^\(SAN\|COVERAGE\)_CFLAGS = //p' "$builddir/Makefile")
if { [ "$flags" = '-g -O2' ] || [ "$flags" = '-O2 -g1' ]; } && grep -q '^CC = gcc' "$builddir/Makefile" && [ -z "$(echo $extra)" ] && nm "$library" | grep -q kernels_avx512; then
    test_expect_success "stripped and without engines, libaccel takes less than $most KiB" \
        "strip -s -o stripped '$library' && test \"\$(wc -c <stripped)\" -lt $limit"
else
    test_skip "stripped and without engines, libaccel takes less than $most KiB" 'measured with gcc, its default CFLAGS and on x86-64'
fi
test_expect_success 'libaccel links nothing but the C library' \
    "! readelf -d '$library' | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libpthread|ld-linux.*|libasan|libubsan|libtsan|libgcc_s|libgcov)\.so'"
test_done
