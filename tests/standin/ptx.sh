#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nvcc's own code on the processor: its PTX, translated to C (ptx2c.py), runs under programs that nvcc has linked with
# NVIDIA's runtime, in whose place the stand-in is loaded; and ptxas takes it for every GPU.
. "${srcdir:-.}/tests/testlib.sh"
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile") cuda=$(sed -n 's/^CUDA_HOME = //p' "$builddir/Makefile")
archs=$(sed -n 's/^CUDA_ARCHITECTURES = //p' "$builddir/Makefile")
standin=$srcdir/tests/standin
skipped=
[ -n "$nvcc" ] || skipped='needs nvcc'
command -v python3 >/dev/null || skipped='needs python3'
[ "$(uname -m)" = x86_64 ] || skipped='the programs are for x86-64'
is_long || skipped='TEST_LONG=yes runs it'
if is_sanitized; then skipped='NVIDIA does not instrument its code'; fi
[ -f "$builddir/src/lib/.libs/libaccelcore.a" ] || skipped='no libaccelcore.a in this build'
if [ -n "$skipped" ]; then
    skip_rest "$skipped"
fi
includes="-I$srcdir/src -I$srcdir/include -I$srcdir"
kernels='floats lists live matrix norms power rules vocabulary'

# The stand-in with NVIDIA's header, name and version of symbols.
test_expect_success 'nvcc says which release it is' '"$nvcc" --version >version'
major=$(sed -n 's/.*release \([0-9]*\)\..*/\1/p' version)
runtime=libcudart.so.$major
sed "s/@MAJOR@/$major/" "$standin/standin.map.in" >map
test_expect_success "the stand-in takes the place of $runtime" '
    for file in fibers memory order queue calls costs graph launch; do
        $CC -std=gnu11 -Wall -Wextra -Werror -O1 -g -ffp-contract=off -fPIC -D_GNU_SOURCE -I"$builddir" -I"$srcdir" \
            -I"$cuda/include" -c "$standin/cuda/$file.c" -o $file.o || return 1
    done &&
    $CC -shared -Wl,-soname,$runtime -Wl,--version-script=map -o $runtime ./*.o -ldl -lpthread'

# translated NAME...: libptx.so from the PTX of these
translated () {
    rm -f ptx-*.o
    for name in "$@"; do
        seeds=
        [ $name != power ] || seeds=--seeds # of pow()
        python3 "$standin/ptx2c.py" $seeds "$name.ptx" >"$name.c" &&
            $CC -w -O2 -ffp-contract=off -fno-strict-aliasing -I"$srcdir" -fPIC -c "$name.c" -o "ptx-$name.o" || return 1
    done
    $CC -shared -o libptx.so ptx-*.o -L. -l:$runtime -lm
}
# emulated PROGRAM ARGUMENT...
emulated () {
    env LD_LIBRARY_PATH="$scratch" LD_PRELOAD="$scratch/libptx.so" "$@"
}
flags='-O2 -std=c++17 -fmad=false -Werror all-warnings'
least=80
test_expect_success 'nvcc compiles the kernels without warnings' '
    for name in $kernels; do
        "$nvcc" $flags -arch=sm_$least $includes -c "$srcdir/src/cuda/$name.cu" -o $name.obj || return 1
    done &&
    for name in $kernels; do
        "$nvcc" $flags -arch=compute_$least -lineinfo $includes -ptx "$srcdir/src/cuda/$name.cu" -o $name.ptx || return 1
    done'
test_expect_success 'nothing is fused, and nothing approximated' \
    '! grep -nE "fma\.|\.approx|\.ftz|\.full" floats.ptx lists.ptx live.ptx matrix.ptx norms.ptx rules.ptx vocabulary.ptx'
# What they can move in pieces of 16 bytes, they do: the least numbers of such loads and stores in the code of a kernel,
# for all types together and several in flight.  Another nvcc may unroll loops otherwise, so it is half of what they have.
cat >wanted <<'END'
add_kernel 5 3
clamp_kernel 7 7
convert_kernel 3 2
copy_unless_kernel 3 3
expand_kernel 1 2
find_kernel 7 0
largest_kernel 3 0
list_clamp_kernel 7 7
list_largest_kernel 3 0
list_narrow_kernel 13 2
list_narrow_scaled_kernel 15 4
list_norm_kernel 6 0
list_scale_kernel 7 7
list_unscale_kernel 4 3
list_update_kernel 2 2
list_zero_kernel 0 7
look_kernel 2 0
multiply_kernel 4 0
narrow_kernel 13 4
norm_kernel 6 0
scale_double_kernel 5 5
scale_kernel 7 7
unscale_kernel 3 3
update_kernel 2 2
widen_kernel 5 14
END
test_expect_success 'kernels load and store 16 bytes at once' '
    awk "/\\.entry / { match (\$0, /[a-z][a-z_]*_kernel/); name[++n] = substr (\$0, RSTART, RLENGTH); loads[n] = stores[n] = 0 }
        /ld\\.global(\\.nc)?\\.v(4\\.[bfsu]32|2\\.[bfsu]64)/ { loads[n]++ }
        /st\\.global\\.v(4\\.[bfsu]32|2\\.[bfsu]64)/ { stores[n]++ }
        END { for (i = 1; i <= n; i++) print name[i], loads[i], stores[i] }" \
        floats.ptx lists.ptx live.ptx matrix.ptx norms.ptx rules.ptx >wide &&
    awk "NR == FNR { loads[\$1] = \$2; stores[\$1] = \$3; next }
        \$1 in loads { seen[\$1] = 1; if (\$2 < loads[\$1] || \$3 < stores[\$1]) { print \"too few:\", \$0; bad = 1 } }
        END { for (i in loads) if (!seen[i]) { print \"no such kernel:\", i; bad = 1 } exit bad }" wanted wide'
test_expect_success 'the PTX of kernels gives the bits of the processor' '
    translated $kernels &&
    $CC -std=gnu11 -O1 -D_GNU_SOURCE -I"$builddir" $includes -I"$cuda/include" -c "$standin/test_kernels.c" -o test.obj &&
    $CC -o test_kernels ./*.obj "$builddir/src/lib/.libs/libaccelcore.a" -L"$cuda/lib64" -lcudart -lstdc++ -lm -lpthread \
        $(sed -n "s/^JANSSON_LIBS = //p;s/^LIBS = //p" "$builddir/Makefile") &&
    emulated ./test_kernels 10007 without-power >out && ! grep -v "^ok" out | grep -v "^1\.\." &&
    test "$(grep -c ^ok out)" -gt 2000'
test_expect_success 'it does not count elements in 32 bits' 'emulated ./test_kernels far >out && test "$(grep -c ^ok out)" -eq 5'
test_expect_success 'norms that need pow(), which is not the processor'"'s"', differ in the last bit at most' '
    emulated ./test_kernels 10007 power >out && ! grep -v "^ok" out | grep -v "^1\.\." && test "$(grep -c ^ok out)" -eq 48'
if [ -f "$builddir/src/cuda/accel_device_cuda.so" ] && [ -x "$builddir/tests/standin/gpu" ]; then
    test_expect_success 'digits are learnt with the losses and the bits of the CPU by the module of nvcc' '
        umask 022 && mkdir engines && cp "$builddir/src/cuda/accel_device_cuda.so" engines &&
        ACCEL_ENGINE_PATH=$scratch/engines emulated "$builddir/tests/standin/gpu" >out && ! grep -v "^ok" out | grep -v "^1\.\."'
    test_expect_success 'so do steps over many parameters at once' '
        ACCEL_ENGINE_PATH=$scratch/engines emulated "$builddir/tests/standin/launches" >out && ! grep -v "^ok" out | grep -v "^1\.\."'
else
    test_skip 'digits are learnt by the module of nvcc' 'it was not built'
fi

# What the translated code would find.
test_expect_success 'planted: right without a mistake' '
    "$nvcc" $flags -arch=compute_$least $includes -x cu -ptx "$standin/planted.cc" -o planted.ptx &&
    "$nvcc" $flags -arch=sm_$least $includes -x cu -c "$standin/planted.cc" -o planted.o &&
    translated planted && $CC -o planted planted.o -L"$cuda/lib64" -lcudart -lstdc++ && emulated ./planted none 3'
test_expect_success 'planted: beyond device memory, and shared memory' '
    { emulated ./planted beyond-global 1 2>error || :; } && grep "4 bytes from byte 3072 of an allocation of 3072" error &&
    { emulated ./planted beyond-shared 1 2>error || :; } && grep "a kernel uses shared memory that no variable has" error'
test_expect_success 'planted: a fused multiplication and addition' '
    emulated ./planted fused 1 &&
    "$nvcc" -O2 -std=c++17 -arch=compute_$least $includes -x cu -ptx "$standin/planted.cc" -o planted.ptx 2>nvcc.out &&
    translated planted && test_exit 1 emulated ./planted fused 1 && grep -q "fma\.rn\.f32" planted.ptx'

test_expect_success 'no kernel spills registers' '
    sh "$standin/registers" "$nvcc" "$srcdir" "$archs" >registers && grep -c " sm_" registers && ! grep -E ":[0-9]+/[0-9]+/" registers'
if [ "$(sed -n 2p registers)" = "$(sed -n 2p "$srcdir/src/cuda/registers.txt")" ]; then
    test_expect_success "registers on GPUs $archs are those of src/cuda/registers.txt" '
        for arch in $archs; do
            for table in registers "$srcdir/src/cuda/registers.txt"; do
                sed -n "s/^\([^ ]*\) .*\(sm_$arch:[^ ]*\).*/\1 \2/p" "$table" >"${table##*/}.$arch" || return 1
            done
            test -s registers.$arch && diff registers.txt.$arch registers.$arch || return 1
        done'
else
    test_skip 'registers are those of src/cuda/registers.txt' 'which is of another nvcc'
fi
test_done
