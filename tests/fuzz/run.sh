#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-fuzz: all fuzzers at the same time, for the given seconds; inputs that they find stay in the build folder and are
# named.  FUZZERS="zip pickle" runs only these.
set -u
seconds=${1:-60}
seed=${FUZZ_SEED:-1} # the same inputs each time, in their order; 0: others
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
status=0
jobs=
names='yaml json flags pickle zip safetensors index manifest state hosts peers gguf hub answer aws profiles ignore deepspeed'
for name in ${FUZZERS-$names}; do
    mkdir -p "fuzz-$name" "seeds-$name"
    python3 "$srcdir/tests/fuzz/corpus.py" unpack "$name" "seeds-$name" || exit
    "tests/fuzz/fuzz_$name" -seed="$seed" -max_total_time="$seconds" -timeout=10 -max_len=2048 -print_final_stats=1 \
        -artifact_prefix="fuzz-$name-" "fuzz-$name" "seeds-$name" >"fuzz-$name.log" 2>&1 &
    jobs="$jobs $name:$!"
done
for job in $jobs; do
    name=${job%%:*}
    if wait "${job#*:}"; then
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz-$name.log") inputs in $seconds s, no fault"
    else
        tail -n 40 "fuzz-$name.log"
        echo "$name: a fault, see fuzz-$name.log; its input: $(ls "fuzz-$name-"* 2>/dev/null)"
        status=1
    fi
    rm -rf "fuzz-$name" "seeds-$name"
done
exit $status
