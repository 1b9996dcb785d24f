#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate env: facts, the configuration with where it came from, as text and as JSON.
. "${srcdir:-.}/tests/testlib.sh"

test_expect_success 'text' '
    "$accelerate" env >out && grep "^- .Accelerate. version: " out && grep "^- Platform: Linux-" out &&
    grep "^- CPUs: [1-9][0-9]* usable" out && grep "^- System RAM: [0-9.]* GB" out && grep "^- GPUs:" out &&
    grep "^- CPU: ." out && grep "^- NCCL: ." out && grep "^- CUDA runtime: ." out && grep "^- MPI:" out &&
    grep "^	- compiler: ." out && grep "^	- line editing: ." out && grep "^	- sanitizer: ." out'
test_expect_success 'facts are those of the system, and lists are never unknown' '
    ! grep -E "^- (Build|Control group limits|GPUs|MPI): unknown" out && ! grep "location: unknown" out &&
    model=$(sed -n "s/^model name[^:]*: //p" /proc/cpuinfo | head -n 1) && { [ -z "$model" ] || grep -Fx -- "- CPU: $model" out; } &&
    nodes=$(find /sys/devices/system/node -maxdepth 1 -name "node[0-9]*" 2>/dev/null | wc -l) &&
    { [ "$nodes" = 0 ] || grep " $nodes NUMA node" out; } && total=$(sed -n "s/^MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo) &&
    awk -v total="$total" "/^- System RAM:/ { exit !(\$4 * 1048576 > total * 0.99) }" out'
test_expect_success 'control characters of a fact are shown as escapes' '
    folder=v$(printf "\033")e && echo >program.py && mkdir -p "$folder/bin" && ln -s /bin/true "$folder/bin/python3" &&
    VIRTUAL_ENV=$PWD/$folder "$accelerate" env >two && grep -F "v\x1be/bin/python3" two &&
    VIRTUAL_ENV=$PWD/$folder "$accelerate" launch --cpu --dry_run program.py >two && grep -F "v\x1be/bin/python3" two &&
    ! grep "$(printf "\033")" two'
test_expect_success 'no default file' 'grep -F "default config: $HOME/.cache/huggingface/accelerate/default_config.yaml" out && grep "Not found" out'
test_expect_success 'settings with their lines' '
    printf "debug: true\n\nnum_processes: 3\n" >c.yaml && "$accelerate" env --config_file c.yaml >out &&
    grep -F "config passed: c.yaml" out && grep -F "debug: true (c.yaml:1)" out &&
    grep -F "num_processes: 3 (c.yaml:3)" out && ! grep mixed_precision out'
test_expect_success '--config-file=FILE' '"$accelerate" env --config-file=c.yaml >two && cmp out two'
test_expect_success 'JSON' '"$accelerate" env --json --config_file c.yaml >out && grep "\"origin\": \"c.yaml:3\"" out && head -n 1 out | grep -x "{"'
test_expect_success 'a broken file: the facts come all the same, then the error with its line' '
    echo "num_proceses: 3" >broken.yaml && test_exit 1 "$accelerate" env --config_file broken.yaml >out 2>error &&
    grep Platform out && grep -F "accelerate: broken.yaml:1: unknown key '\''num_proceses'\'' (did you mean '\''num_processes'\''?)" error'
test_expect_success 'a missing file' '
    test_exit 1 "$accelerate" env --config_file none.yaml >out 2>error && grep "Not found" out &&
    grep -F "none.yaml: No such file or directory" error'
test_expect_success 'a folder' 'mkdir dir && test_exit 1 "$accelerate" env --config_file dir 2>error && grep "is a directory" error'
test_expect_success 'nothing of the environment is shown' '
    SECRET_TOKEN=hunter2 "$accelerate" env >out && ! grep hunter2 out'
test_expect_success 'no address shows who may use it, no key is shown' '
    printf "main_process_ip: http://me:hunter2@host/x\ndebug: true\n" >url.yaml &&
    "$accelerate" env --config_file url.yaml >out && grep -F "main_process_ip: http://***@host/x (url.yaml:1)" out &&
    "$accelerate" env --json --config_file url.yaml >json && ! grep hunter2 out json'

# Libraries of vendors, faked (tests/unit/command/fakelib.c): good ones, and such as hang, crash, leave, fail and talk.
fake=$builddir/tests/unit/command/.libs/fakelib.so
if [ -f "$fake" ]; then
    mkdir lib
    for name in libnvidia-ml.so.1 libnccl.so.2 libcudart.so libmpi.so; do cp "$fake" "lib/$name"; done
    faked_env () { LD_LIBRARY_PATH=$scratch/lib timeout $patience "$accelerate" env "$@" >out 2>error && cat out error && [ ! -s error ]; }
    test_expect_success 'GPUs, driver, CUDA, NCCL and MPI from their libraries' '
        faked_env && grep "^- GPUs:$" out &&
        grep -F "	- 0: NVIDIA GeForce RTX 4090, 24.00 GB, GPU-8e1f0a2c-0000-1111-2222-333344445555" out &&
        grep -F "	- 2: lost (it has fallen off the bus: see dmesg), 0.00 GB, no UUID" out && grep -Fx -- "- GPU driver: 535.104.05, CUDA up to 12.2" out &&
        grep -Fx -- "- CUDA runtime: 12.4" out && grep -Fx -- "- NCCL: 2.20.5" out &&
        grep -Fx "	- Fake MPI v4.1.4, package: Test" out'
    test_expect_success 'the same as JSON' '
        faked_env --json && grep -F "\"nccl\": \"2.20.5\"" out && grep -F "\"cuda_runtime\": \"12.4\"" out &&
        grep -F "\"0: NVIDIA GeForce RTX 4090, 24.00 GB, GPU-8e1f0a2c-0000-1111-2222-333344445555, 23.00 GB free\"" out'
    while IFS='|' read -r how only said; do
        test_expect_success "a library that does this: $how in $only" "
            FAKE_LIBRARY=$how FAKE_LIBRARY_ONLY=$only faked_env && grep -F -- '$said' out && grep '^- .Accelerate. default' out"
    done <<'EOT'
hang|nccl|- NCCL: libnccl.so.2 did not answer in 2 s
crash|nccl|- NCCL: libnccl.so.2 crashed with signal 11 (Segmentation fault)
exit|cuda|- CUDA runtime: libcudart.so ended the process that called it
fail|cuda|- CUDA runtime: cudaRuntimeGetVersion() failed with 3
abort|MPI|libmpi.so crashed with signal 6 (Aborted)
fail|nvml|libnvidia-ml.so.1: nvmlInit: Driver Not Loaded
hang|nvml|libnvidia-ml.so.1 did not answer in 2 s
old|nccl|- NCCL: 2.8.4
many|nvml|	- and 999936 more
EOT
    test_expect_success 'a library that fails is not asked for in folders' '
        mkdir broken && echo "{ \"cuda\" : { \"version\" : \"11.8.0\" } }" >broken/version.json &&
        CUDA_HOME=$scratch/broken FAKE_LIBRARY=fail FAKE_LIBRARY_ONLY=cuda faked_env &&
        grep -Fx -- "- CUDA runtime: cudaRuntimeGetVersion() failed with 3" out'
    test_expect_success 'libraries that talk are not heard' 'FAKE_LIBRARY=noise faked_env && ! grep NOISE out'
    rm -r lib
else
    test_skip 'libraries of vendors' 'this build has no shared libraries'
fi
# Folders that name a CUDA count where its library is not found.
"$accelerate" env >out || exit 99
if grep -q '^- CUDA runtime: not found' out; then
    test_expect_success 'CUDA by its folder' '
        mkdir cuda && echo "{ \"cuda\" : { \"name\" : \"CUDA SDK\", \"version\" : \"12.4.1\" } }" >cuda/version.json &&
        CUDA_HOME=$scratch/cuda "$accelerate" env >out &&
        grep -Fx -- "- CUDA runtime: 12.4.1 ($scratch/cuda/version.json)" out'
fi
test_expect_success 'no arguments' 'test_exit 2 "$accelerate" env extra 2>error && grep "unexpected argument" error'
touch c.yaml && chmod 0 c.yaml
if as_nobody test -x "$accelerate"; then
    test_expect_success 'an unreadable file' '
        test_exit 1 as_nobody "$accelerate" env --config_file c.yaml 2>error && grep "c.yaml: Permission denied" error'
    test_expect_success 'an unreadable file, for launch' '
        test_exit 1 as_nobody "$accelerate" launch --config_file c.yaml true 2>error && cat error &&
        grep "c.yaml: Permission denied" error'
else
    test_skip 'an unreadable file' 'the build folder is closed to others'
fi
test_done
