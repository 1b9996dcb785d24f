#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The script for the first machine with a GPU: it builds what it needs from a tree that was never configured, with few
# tools, and everything passes on the stand-in; what goes wrong is reported.
. "${srcdir:-.}/tests/testlib.sh"
gpu=$srcdir/tests/gpu
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile")

# ---- what it knows of configure ----

test_expect_success 'flags that change code are those of configure' '
    "$gpu/build" --flags >flags && sed -n "s/^ACCEL_CFLAGS = //p" "$builddir/Makefile" | tr " " "\n" | grep -v "^-W" |
        tr "\n" " " >configured && tr "\n" " " <flags | tr -s " " >flat && test "$(cat flat)" = "$(cat configured)"'
test_expect_success 'config.h has what configure finds' '
    "$gpu/build" --config >config.h && grep "^#define [A-Z]*_VERSION" config.h >defines && test -s defines &&
    while read -r line; do grep -Fx "$line" "$builddir/config.h" || return 1; done <defines'
test_expect_success 'nothing else of config.h is used' '
    sed -nE "s,^[/* ]*# *(define|undef) ([A-Za-z0-9_]*).*,\2,p" "$builddir/config.h" | sort -u |
        grep -vx -e PACKAGE_VERSION -e _GNU_SOURCE >others && test "$(grep -c . others)" -gt 20 &&
    for folder in src/util src/files src/lib src/cuda tests/standin tests/conformance bench/gpu; do
        { grep -rnwFf others --include="*.[ch]*" "$srcdir/$folder" || :; }
    done >used && test ! -s used'
test_expect_success 'lists of sources are read' '
    "$gpu/build" --list src/util/Makefile.inc %C%_libutil_la_SOURCES >list && grep -o "src/util/[a-z0-9_]*\.c" list >sources &&
    sort sources >read && (cd "$srcdir" && ls src/util/*.c) >there && diff there read &&
    test_exit 1 "$gpu/build" --list src/util/Makefile.inc no_such_list'
test_expect_success 'headers that may be missing are copied along' '
    "$gpu/build" --headers taken && printf "#define XXH_INLINE_ALL\n#include <xxhash.h>\n#include <dlpack/dlpack.h>\n" >both.c &&
    $CC -Itaken/include -fsyntax-only -H both.c 2>included && grep "^\. taken/include/xxhash.h" included &&
    sed "/^Multiple/,\$d;/^\.* taken/d" included >others && ! grep -e xxh -e dlpack others'

# ---- machines and compilers that are not ours ----

mkdir fakes
cat >fakes/nvcc <<'END'
#!/bin/sh
echo "Cuda compilation tools, release 13.0, V13.0.88"
END
cat >fakes/nvidia-smi <<'END'
#!/bin/sh
[ ! -e "${0%/*}/broken" ] || { echo "No devices were found"; exit 6; }
[ "$1" = -i ] && only=$2 && shift 2 || only=0,1
for card in $(echo "$only" | tr , ' '); do
    case $1$card in
    *compute_cap*0) echo 12.0 ;;
    *compute_cap*1) echo 9.0 ;;
    *name*) echo "Card $card" ;;
    *) echo "value" ;;
    esac
done
END
cat >fakes/cc <<'END'
#!/bin/sh
[ "$1" != --version ] || { echo "cc of a test"; exit 0; }
echo $$ >"${0%/*}/pid.new" && mv "${0%/*}/pid.new" "${0%/*}/pid"
exec sleep 1000
END
chmod +x fakes/*
# fake COMMAND...: with these programs
fake () {
    PATH=$scratch/fakes:$PATH NVCC=nvcc "$@"
}
unset CUDA_VISIBLE_DEVICES CUDA_ARCHITECTURES # those of whoever runs the tests
test_expect_success 'a driver that finds no GPU, and variables that hide them' '
    : >fakes/broken && test_exit 2 fake "$gpu/run" --out none 2>err && rm fakes/broken &&
    grep "nvidia-smi shows no GPU .*: No devices were found$" err &&
    (export CUDA_VISIBLE_DEVICES="" && test_exit 2 fake "$gpu/run" --out none 2>err) && grep "CUDA_VISIBLE_DEVICES is empty" err'
test_expect_success 'when time is up, steps are skipped; where none was run, nothing has passed' '
    test_exit 2 fake "$gpu/run" --minutes 0 --out late >out && grep -x "card: 2 x Card 0, value" out &&
    grep -x "cuda: nvcc V13.0.88, for architectures 90 120" out &&
    grep "^skipped: everything is compiled: no time left of 0 minutes" out && grep "^0 passed, 0 failed, 1 skipped$" out'
test_expect_success 'only GPUs that programs see are counted' '
    export CUDA_VISIBLE_DEVICES=1 && test_exit 2 fake "$gpu/run" --minutes 0 --out late >out &&
    grep -x "card: 1 x Card 1, value" out && grep -x "cuda: nvcc V13.0.88, for architectures 90" out'
test_expect_success 'names of folders that shells would read are refused' '
    test_exit 2 fake "$gpu/run" --out none --build "a b" 2>err && grep "only letters, digits and .*: .*a b" err'
test_expect_success 'a run that is stopped leaves no process' '
    rm -f fakes/pid && {
        PATH=$scratch/fakes:$PATH NVCC=nvcc CC=$scratch/fakes/cc "$gpu/run" --standin --out stopped >out 2>&1 &
        child=$!
    } && await fakes/pid && kill $child && test_exit 130 wait $child && gone "$(cat fakes/pid)"'
if is_long; then
    cat >fakes/cc <<'END'
#!/bin/sh
last=''
for word; do
    case $last in -c) echo "$word" >>"${0%/*}/compiled" ;; -o) : >"$word" ;; esac
    last=$word
done
END
    cp fakes/cc fakes/nvcc
    # compiled: how many C and CUDA sources the call has
    compiled () {
        : >fakes/compiled && CC="$scratch/fakes/cc" fake "$gpu/build" kept &&
            echo "$(grep -c "\.c$" fakes/compiled) $(grep -c "\.cu$" fakes/compiled)"
    }
    test_expect_success 'what is compiled stays, unless the compiler or its flags are others' '
        compiled >first && read -r c cuda <first && test "$c" -gt 80 && test "$cuda" -gt 5 && compiled >again && grep -x "0 0" again &&
        (export CUDA_ARCHITECTURES="80 90" && compiled >later) && grep -x "0 $cuda" later &&
        : >"kept/core/src-util-io.o.command" && compiled >later && grep -x "1 $cuda" later'
fi

# fails COMMAND: what has to fail does so with its words, and nothing else counts
fails () { sh "$gpu/ends" "^rank 0: .*\(ended\|was killed\)" sh -c "$1" >out; }
test_expect_success 'a program that has to fail: its status and its words' '
    fails "echo rank 0: rank 1 was killed; exit 3" && ! fails "echo rank 0: rank 1 was killed" &&
    ! fails "echo rank 1: rank 0 was killed; exit 3" && grep "^status 3, " out'

# ---- a run on the stand-in ----

skipped=
[ -n "$nvcc" ] || skipped='needs nvcc'
command -v python3 >/dev/null || skipped='needs python3'
[ "$(uname -m)" = x86_64 ] || skipped='the programs are for x86-64'
is_long || skipped='TEST_LONG=yes runs it'
if is_sanitized; then skipped='NVIDIA does not instrument its code'; fi
if [ -n "$skipped" ]; then
    skip_rest "$skipped"
fi

# As on a machine on which nothing was prepared: sources, and the tools that are needed.
tools='ar as awk basename c++ cat cc chmod cmp cp cut date dirname env find g++ gcc getconf grep head ld ln ls mkdir mktemp
    mv nm objdump paste ranlib readlink rm sed seq sh sleep sort tail tee timeout tr uname wc xargs'
test_expect_success 'a tree that was never configured, and few tools' '
    mkdir tree bin && (cd "$srcdir" && tar -cf "$scratch/tree.tar" --exclude="*.o" --exclude="config.h*" \
        configure.ac m4/accel_*.m4 include src tests bench/Makefile.inc bench/gpu examples) && tar -xf tree.tar -C tree &&
    PATH=$(echo "$PATH" | sed "s/[^:]*ccache[^:]*:*//g") &&
    for tool in $tools; do ln -s "$(command -v "$tool")" "bin/$tool" || return 1; done &&
    python=$(python3 -c "import sys; print (sys.executable)") && printf "#!/bin/sh\nexec %s \"\$@\"\n" "$python" >bin/python3 &&
    chmod +x bin/python3 && ! test -e tree/Makefile'
# bare COMMAND...: with these tools only
bare () {
    env -i PATH="$scratch/bin" HOME="$HOME" LC_ALL=C TMPDIR="$scratch" NVCC="$nvcc" "$@"
}
run=tree/tests/gpu/run
test_expect_success 'all steps pass on the stand-in' '
    bare STANDIN_DEVICES=2 sh "$run" --standin --minutes 60 --out results --build built >out && ! grep FAILED out &&
    tail -n 1 out >last && grep -E "^[0-9]+ passed, 0 failed, [0-9]+ skipped$" last &&
    test "$(grep -c "^passed: " out)" -ge 15 && grep "^passed: products of PowerSGD by cuBLAS" out &&
    { grep "^nccl: not found" out || test ! -d tree/src/engines/nccl ||
        test "$(grep -c "^passed: .*\(NCCL\|all-reduce\)" out)" -eq 16; } &&
    grep "^passed: a step becomes a CUDA graph" out && grep "^passed: bench: timeline in fp16" out && ! grep "^skipped: [^:]*$" out'
test_expect_success 'the summary names the machine, and has the steps and figures' '
    for word in card driver cuda nccl date commit; do grep "^    $word: ." results/summary.md || return 1; done &&
    grep "0 failed" results/summary.md && grep "say nothing about a GPU" results/summary.md &&
    grep -E "^    adamw .* GB/s" results/summary.md && grep -E "^    step .* [1-9][0-9]* launches" results/summary.md &&
    grep -E "^    step in float16, scaled on the GPU .* 0 waits" results/summary.md &&
    grep -E "^    copies .* GB/s" results/summary.md && grep "^ok 1" results/log.txt'
test_expect_success 'it has four parts, as what is printed: correctness, the timeline of a step, bandwidth, NCCL' '
    printf "%s\n" Correctness "Timeline of a step" "Bandwidth of each kernel" "NCCL against NCCL itself" >parts &&
    grep -xFf parts out | diff parts - && sed -n "s/^## //p" results/summary.md | diff parts - &&
    sed -n "/^## Correctness/,/^## T/p" results/summary.md | grep "skipped: compute-sanitizer memcheck"'
# On the clocks of the stand-in, so to the nanosecond.
without_nccl () {
    grep "^nccl: not found" results/log.txt || ! test -d tree/src/engines/nccl
}
test_expect_success 'the timeline has the times and the overlap of the order of DDP' '
    row="^    \| all is queued at once +\| +" &&
    if without_nccl; then grep -E "$row(160.000 \| +){2}" results/summary.md
    else
        grep -E "$row(180.000 \| +){2}[0-9.]+ \| +87.5, +87.5 % \| +500.000 " results/summary.md &&
            grep -E "^    \| sums over another [^|]*\| +(480.000 \| +){2}" results/summary.md
    fi'
test_expect_success 'each kernel and each collective has a row' '
    test "$(grep -cE "^    \| .*, (float|bfloat)[^|]*\|.* % \|" results/summary.md)" -ge 78 && {
        without_nccl || test "$(grep -cE "^    \| .*(all-|scatter|broadcast)[^|]*\| +[0-9]+ \|.* % \|" results/summary.md)" = 12; }'
# A clock that has gone on by 36 minutes of 60 once everything is compiled.
test_expect_success 'correctness leaves time for figures' '
    mkdir clock && cat >clock/date <<END &&
#!/bin/sh
now=\$("$scratch/bin/date" "\$@")
[ "\$1" = +%s ] && grep -q "^passed: the stand-in is compiled" "$scratch/timed/log.txt" && now=\$((now + 2160))
echo "\$now"
END
    chmod +x clock/date && bare PATH="$scratch/clock:$scratch/bin" sh "$run" --standin --minutes 60 --out timed --build built \
        --only "norms\|timeline, 1\|fp16\|hang\|itself" >out && grep "^passed: bench: timeline, 1 rank" out &&
    grep "^skipped: norms .*: no time left of 60 minutes (--minutes), of which 1440 s are for the parts after this one" out'
test_expect_success 'with one GPU, one rank is measured, and what needs two is skipped with the reason' '
    grep "^passed: bench: timeline in fp16, 1 rank" out && { without_nccl || {
        grep "^skipped: NCCL, several ranks: .*, a death, a hang: needs a GPU for each rank" out &&
        grep "^passed: bench: collectives, NCCL against NCCL itself, 1 rank" out &&
        grep "^skipped: bench: collectives between ranks, NCCL against NCCL itself: needs a GPU for each of 2 ranks" out; }; }'
test_expect_success 'programs need nothing but CUDA and the compiler' '
    for file in built/libaccel.so built/test_kernels built/gpu built/conformance built/engines/accel_device_cuda.so; do
        readelf -d "$file" >needs && { sed -n "s/.*NEEDED.*\[\(.*\)\]/\1/p" needs |
            grep -vE "^(libc|libm|libdl|libpthread|libgcc_s|libstdc\+\+|libcudart|ld-linux.*)\.so" || :; } >others &&
        test ! -s others || return 1; done'
test_expect_success 'sanitizers are run, and what they find is a failure' '
    printf "#!/bin/sh\n[ \$2 = racecheck ] && exit 9\nshift 4\nexec \"\$@\"\n" >sanitizer && chmod +x sanitizer &&
    test_exit 1 bare SANITIZER="$scratch/sanitizer" sh "$run" --standin --minutes 60 --out results --build built \
        --only sanitizer >out && grep "^FAILED: compute-sanitizer racecheck: kernels (status 9)" out &&
    test "$(grep -c "^passed: compute-sanitizer" out)" -eq 6 && grep "^8 passed, 2 failed, 0 skipped" out'
test_expect_success 'without a GPU, an error says what is missing' '
    test_exit 2 bare sh "$run" --out none 2>err && grep "nvidia-smi not found: .* (--standin runs without a GPU)" err'
test_expect_success 'a kernel whose arithmetic differs from the CPU is a failure' '
    sed -i "s/ -fmad=false//" tree/src/cuda/Makefile.inc &&
    test_exit 1 bare sh "$run" --standin --minutes 60 --out results --build built --only kernels >out &&
    grep "^FAILED: kernels have the bits of the CPU" out && grep "not ok .* of float32" out'
test_done
