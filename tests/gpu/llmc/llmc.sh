#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# llm.c's GPU trainer on libaccel: apply, and with LLMC=FOLDER, a checkout of llm.c, the trainer itself: nvcc compiles
# and links it without a warning about new lines, and it reads the batches that it read before.
. "${srcdir:-.}/tests/testlib.sh"
llmc=$srcdir/tests/gpu/llmc
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile") cuda=$(sed -n 's/^CUDA_HOME = //p' "$builddir/Makefile")

# ---- apply ----

mkdir -p tree/llmc
seq 9 >tree/train_gpt2.cu
printf 'a\n\nb\n' >tree/llmc/a.h
seq 3 >tree/llmc/b.h
digest () {
    sha256sum "tree/$1" | cut -d ' ' -f 1
}
cat >rows <<END
# A comment.
topic one
file train_gpt2.cu $(digest train_gpt2.cu)
delete 2 3
insert 3
+two

insert 9
+
+ten
topic two
file llmc/a.h $(digest llmc/a.h)
delete 1 3
insert 0
+first
file train_gpt2.cu $(digest train_gpt2.cu)
delete 8 8
file llmc/b.h $(digest llmc/b.h)
remove
create llmc/new.h
+1
+2
END
test_expect_success 'lines are deleted and inserted by their numbers in the original, files removed and created' '
    sh "$llmc/apply" tree changed rows >table && { seq 1; echo two; seq 4 7; seq 9 9; echo; echo ten; } >expected &&
    diff expected changed/train_gpt2.cu && echo first | diff - changed/llmc/a.h && ! test -e changed/llmc/b.h &&
    seq 2 | diff - changed/llmc/new.h'
test_expect_success 'lines that are not blank are counted by topic, and the places of the new ones listed' '
    grep -Fx "| one | 2 | 2 |" table && grep -Fx "| two | 6 | 3 |" table && grep -Fx "| together | 8 | 5 |" table &&
    printf "%s\n" "train_gpt2.cu 2 2" "train_gpt2.cu 8 9" "llmc/a.h 1 1" "llmc/new.h 1 2" | diff - changed/ours'
test_expect_success 'another version is refused, with both digests' '
    sed -i "s/^3/33/" tree/train_gpt2.cu && test_exit 1 sh "$llmc/apply" tree other rows 2>err && ! test -e other &&
    grep "tree/train_gpt2.cu is another version than the edits are for: its SHA-256 is $(digest train_gpt2.cu), expected" err &&
    seq 9 >tree/train_gpt2.cu'
test_expect_success 'so are a folder that exists, one that is not llm.c, and rows that make no sense' '
    test_exit 1 sh "$llmc/apply" tree changed rows 2>err && grep "changed exists" err &&
    test_exit 1 sh "$llmc/apply" changed/llmc other rows 2>err && grep "has no train_gpt2.cu: not a checkout of llm.c" err &&
    for row in "delete 3 2" "replace 1" "+line"; do
        { echo "$row" && cat rows; } >wrong && test_exit 1 sh "$llmc/apply" tree other wrong 2>err &&
            grep "wrong:1: " err && ! test -e other || return 1
    done'

# ---- llm.c ----

skipped=
[ -n "$nvcc" ] || skipped='needs nvcc'
[ -f "$builddir/.libs/libaccel.so" ] || skipped='no shared library in this build'
if is_sanitized; then skipped='nvcc links no sanitizers'; fi
[ -n "${LLMC-}" ] || skipped='LLMC=FOLDER, a checkout of llm.c, runs it'
is_long || skipped='TEST_LONG=yes runs it'
if [ -n "$skipped" ]; then
    skip_rest "$skipped"
fi
LD_LIBRARY_PATH=$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

test_expect_success 'the edits fit, and README.md has their counts' '
    sh "$llmc/apply" "$LLMC" trainer >table && while read -r row; do grep -Fx "$row" "$llmc/README.md" || return 1; done <table'
test_expect_success 'nothing of NCCL or MPI is left' '
    ! grep -rnE "nccl(Check|Comm|Group|AllReduce|AllGather|_stream)|MPI_|MULTI_GPU" trainer'

# warnings_of_ours LOG: those about lines that trainer/ours lists
warnings_of_ours () {
    awk 'NR == FNR { for (i = $2; i <= $3; i++) ours[$1 ":" i]; next }
        match ($0, /^[^ :(]+[:(][0-9]+/) {
            place = substr ($0, 1, RLENGTH)
            sub (/\(/, ":", place)
            if ($0 ~ /warning|error/ && place in ours)
                print
        }' trainer/ours "$1"
}
# The flags of llm.c's Makefile, and warnings.
flags='--threads=0 --use_fast_math -std=c++17 -O3'
# compiled ARCH PRECISION: an object, without warnings about our lines
compiled () {
    (cd trainer && timeout $patience "$nvcc" $flags -Xcompiler -Wall,-Wextra "-DENABLE_$2" \
        --generate-code "arch=compute_$1,code=[compute_$1,sm_$1]" -I"$srcdir/include" -c train_gpt2.cu -o "$1-$2.o") >log 2>&1 ||
        { cat log && return 1; }
    warnings_of_ours log >warnings && ! grep . warnings
}
for arch in 80 90; do
    test_expect_success "nvcc compiles it for sm_$arch without a warning about our lines" "compiled $arch BF16"
done
test_expect_success '... and for float32 and float16' 'compiled 80 FP32 && compiled 80 FP16'
test_expect_success 'a warning about a line of ours would be found' '
    sed -n "/^train_gpt2.cu/{p;q}" trainer/ours >place && read -r file line rest <place &&
    echo "$file:$line:1: warning: of a test" >log && warnings_of_ours log >warnings && grep "of a test" warnings &&
    echo "$file($line): warning #1-D: of a test" >log && warnings_of_ours log >warnings && grep "of a test" warnings &&
    echo "$file:1:1: warning: of a test" >log && warnings_of_ours log >warnings && ! grep . warnings'
test_expect_success 'it is linked with libaccel, without NCCL or MPI' '
    for arch in 80 90; do
        "$nvcc" trainer/$arch-BF16.o -o trainer/train-$arch -L"$builddir/.libs" -laccel -lcublas -lcublasLt >log 2>&1 &&
            ! grep . log && readelf -d trainer/train-$arch >needs && grep "NEEDED.*libaccel" needs &&
            ! grep -E "NEEDED.*(nccl|libmpi)" needs || return 1
    done'
test_expect_success 'flags that the environment replaces are no longer known' '
    test_exit 1 timeout 60 trainer/train-80 -pn 2 2>usage && grep "^Usage" usage && ! grep -- "  -p" usage'
test_expect_success 'without a GPU, it ends with a sentence' '
    test_exit 1 timeout 60 trainer/train-80 2>err && grep "has no GPU that libaccel can use" err'

# ---- tokens, on the processor ----

test_expect_success 'its DataLoader and that of llm.c are compiled' '
    $CXX -std=c++17 -w -DBEFORE -I"$LLMC" "$llmc/tokens.cc" -o before &&
    $CXX -std=c++17 -w -Itrainer -I"$srcdir/include" "$llmc/tokens.cc" -o after -L"$builddir/.libs" -laccel &&
    for number in 1 2 3; do ./before write tokens_$number.bin $((900 + 130 * number)) $number || return 1; done'
port=$(free_port)
# same_batches RANKS SHUFFLE
same_batches () {
    for rank in $(seq 0 $(($1 - 1))); do
        ./before "tokens_*.bin" "$2" "$rank" "$1" >"before.$rank" || return 1
    done
    by_hand "$1" "$port" timeout $patience sh -c './after "tokens_*.bin" '"$2"' >after.$RANK' &&
        for rank in $(seq 0 $(($1 - 1))); do
            test "$(grep -c : "after.$rank")" -ge 70 && cmp "before.$rank" "after.$rank" || return 1
        done
}
for ranks in 1 2 3; do
    test_expect_success "$ranks ranks: the batches of several epochs are those of llm.c, shuffled or not" "
        same_batches $ranks 0 && same_batches $ranks 1"
done

# ---- what ranks do together, on the stand-in ----

standin=$builddir/tests/standin/.libs
skipped=
[ -f "$standin/accel_engine_nccl.so" ] || skipped='no stand-in in this build'
command -v python3 >/dev/null || skipped='needs python3'
[ "$(uname -m)" = x86_64 ] || skipped='the program is for x86-64'
if [ -n "$skipped" ]; then
    skip_rest "$skipped"
fi
umask 022
mkdir engines && cp "$standin/accel_device_cuda.so" "$standin/accel_engine_nccl.so" engines
cat >kernels.cu <<'END'
#include "llmc/cuda_common.h"
#include "llmc/cuda_utils.cuh"
#include "llmc/adamw.cuh"
const void *launched[] = { (void *) adamw_kernel3<float, float>, (void *) copy_and_cast_kernel<float, float> };
END
test_expect_success 'ranks.cu is linked with the stand-in, and the kernels that it launches are translated' '
    "$nvcc" -std=c++17 -O1 -w -DENABLE_FP32 -arch=sm_80 -Itrainer -I"$srcdir/include" -c "$llmc/ranks.cu" -o ranks.o &&
    $CXX -rdynamic ranks.o -o ranks -L"$standin" -lstandin_cudart -L"$builddir/.libs" -laccel \
        -Wl,--unresolved-symbols=ignore-all &&
    "$nvcc" -std=c++17 -O2 -w -fmad=false -DENABLE_FP32 -arch=compute_80 -Itrainer -ptx kernels.cu -o kernels.ptx &&
    python3 "$srcdir/tests/standin/ptx2c.py" kernels.ptx >kernels.c &&
    $CC -w -O2 -ffp-contract=off -fno-strict-aliasing -I"$srcdir" -fPIC -shared kernels.c -o libptx.so -L"$standin" \
        -lstandin_cudart -lm'
# The update of a tensor runs beside the gathers of those before it, in the same allocation.
STANDIN_APART=$(sed -n 's/.*\.entry \([A-Za-z0-9_]*\).*/\1/p' kernels.ptx | tr '\n' ' ')
LD_LIBRARY_PATH=$standin:$LD_LIBRARY_PATH ACCEL_ENGINE_PATH=$scratch/engines STANDIN_DEVICES=4
export STANDIN_APART LD_LIBRARY_PATH ACCEL_ENGINE_PATH STANDIN_DEVICES
# same_bits RANKS FOLDER ZERO_STAGE [WORD]: all end with the parameters of one rank
same_bits () {
    ranks=$1 name=$2
    shift 2
    mkdir -p "$name" && (cd "$name" && by_hand "$ranks" "$port" timeout $patience \
        env LD_PRELOAD="$scratch/libptx.so" "$scratch/ranks" params "$@" >out) &&
        for rank in $(seq 0 $((ranks - 1))); do cmp one/params.0 "$name/params.$rank" || return 1; done
}
test_expect_success 'one rank' 'same_bits 1 one 0 && test "$(grep -c "^step" one/out)" = 6'
for stage in 0 1; do
    for ranks in 2 4; do
        test_expect_success "$ranks ranks with ZeRO stage $stage end with its bits, in any order of streams" '
            for seed in 1 2 3 4 5; do
                STANDIN_SEED=$seed same_bits $ranks run-$ranks-$stage $stage && grep ^step one/out >norms &&
                    grep ^step run-$ranks-$stage/out | diff norms - || return 1
            done'
    done
    test_expect_success "... also from a checkpoint (stage $stage)" '
        same_bits 2 saved-$stage $stage save && rm saved-$stage/params.* && same_bits 2 saved-$stage $stage load &&
            test "$(grep -c ^step saved-$stage/out)" = 3 && ls saved-$stage/DONE_00000003/rank_1.safetensors'
done
test_done
