#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine nccl on the stand-ins for NCCL and the CUDA runtime: each rank has a GPU.  device.c (of tests/engines/) compares
# calls and training with those on the host, gpu.c learns digits on both, nccl_ranks.c meets errors and ends of ranks,
# and planted_nccl.c makes mistakes that the stand-in has to find.
. "${srcdir:-.}/tests/testlib.sh"
subject='engine nccl'
. "$srcdir/tests/standin/module.sh"
cp "$standin/.libs/accel_engine_nccl.so" engines
STANDIN_DEVICES=4
export STANDIN_DEVICES
# With the thread sanitizer, each thread of a kernel has a clock for all others: training takes minutes, and has no other
# threads of ours than calls.
calls=
if grep -q '^SAN_CFLAGS = .*thread' "$builddir/Makefile"; then calls=calls; fi
# training NAME SCRIPT: a test that trains, or runs many kernels
training () { [ -n "$calls" ] || test_expect_success "$@"; }

# ---- the stand-in itself ----

test_expect_success 'planted: nothing is found where there is nothing' '
    timeout $patience "$standin/planted_nccl" none >out && grep "none: right" out'
# found MISTAKE WORDS
found () {
    status=0
    timeout $patience "$standin/planted_nccl" "$1" >out 2>error || status=$?
    test "$status" -eq 134 && grep "^standin: .*$2" error && { test $# = 3 || grep "^standin:   before: " error; }
}
test_expect_success 'planted: ranks that differ in counts, types, operations, roots and calls' '
    found counts "ncclAllReduce of rank .: count \(2999\|3000\), type 7, .* but rank .: kind 0, count" &&
    found types "type \(2\|7\)" && found operations "operation \(0\|2\)" && found roots "ncclBroadcast of rank .*root" &&
    found message "ncclRecv of rank 1: count 9, type 7, but rank 0 sends count 10" && found kinds "but rank .: kind"'
test_expect_success 'planted: memory that is too small, of the host, or not ordered by an event' '
    found beyond "12004 bytes from byte 0 of an allocation of 12000" &&
    found host "ncclAllReduce gets .*, which is not an address of the device" no-place &&
    found no-event "ncclAllReduce uses memory that another stream writes, without an event"'
test_expect_success 'planted: a communicator that is at work, or destroyed, or has a buffer' '
    found busy "on a communicator on which something else is in progress" &&
    found destroyed "ncclCommGetAsyncError: the communicator was destroyed" &&
    found registered "a communicator ends with a registered buffer"'
test_expect_success 'planted: launches on two communicators that are in no order, on the GPU or between ranks' '
    found unordered "nothing orders ncclAllReduce on the device after ncclAllReduce of another communicator" &&
    found opposite "ranks launch in different orders: rank [01] launched number [15] of communicator [0-9a-f]* before number [15] of communicator [0-9a-f]*, rank [01] after it"'
test_expect_success 'planted: GroupEnd without GroupStart, and calls of a group that use the same memory' '
    found group "ncclGroupEnd() without ncclGroupStart()" no-place &&
    found apart "ncclSend and ncclRecv of one group use the same memory, one of them writing"'
test_expect_success 'planted: a configuration that was not initialised is refused' '
    test_exit 2 timeout $patience "$standin/planted_nccl" magic 2>error && grep "result: 4" error'

# ---- conformance and training ----

conforms () { timeout $patience "$standin/device" "$@" >out || { grep -v "^ok" out; return 1; }; }
test_expect_success '2 ranks: calls and training give the bits of the host' 'conforms 2 $calls'
test_expect_success '3 ranks: calls give the bits of the host' 'conforms 3 calls'
# ordered RANKS PART ORDERS: calls or training with that many ranks, in that many orders of streams
ordered () {
    timeout $patience "$standin/device" "$@" >"out-$1-$2" || { grep -v "^ok" "out-$1-$2" && return 1; }
    test "$(grep -c ^ok "out-$1-$2")" -ge "$3"
}
if is_long || [ -n "${SCHEDULES-}" ]; then
    for part in calls training; do
        test_expect_success "$part of 1 to 4 ranks in ${SCHEDULES:=6} orders of streams each" '
            begun= && for count in 1 2 3 4; do ordered $count $part $SCHEDULES & begun="$begun $!"; done &&
            for one in $begun; do wait $one || return 1; done'
    done
fi
# A wait that is missing is reported, or results are wrong.
forgotten () { test_exit 1 env STANDIN_SKIP="$1" timeout $patience "$standin/device" 2 training 3 >out 2>error; }
training 'planted: nothing waits for events, on a stream or on the host' '
    forgotten cudaStreamWaitEvent && grep "^standin: .*another stream .*, without an event between them" error &&
    forgotten cudaEventSynchronize'
port=$(free_port)
learn () { by_hand "$1" "$port" timeout $patience "$standin/gpu" >out && ! grep "^not ok" out && test "$(grep -c "^ok .*on a GPU" out)" = $((3 * $1)); }
training 'digits are learnt on 2 GPUs with the losses and the bits of the CPUs' 'learn 2'
is_long && test_expect_success 'digits are learnt on 3 and 4 GPUs' 'learn 3 && learn 4'
places () { by_hand "$1" "$port" timeout $patience "$standin/place" >out && test "$(grep -c "^ok" out)" = $((2 * $1)); }
training 'models go to 2 GPUs and back with the bits of the CPUs' 'places 2'
is_long && test_expect_success '... in any order of streams' '
    for seed in 1 2; do STANDIN_SEED=$seed places 2 || return 1; done'
test_expect_success 'ranks of which one leaves its model on the host: the difference is named' '
    by_hand 2 "$port" timeout $patience "$standin/place" options >out && test "$(grep -c "^ok" out)" = 2'
test_expect_success 'too little memory on the GPU of one rank: both get the error, and the models are as before' '
    by_hand 2 "$port" timeout $patience "$standin/place" full >out && test "$(grep -c "^ok" out)" = 2'
# digits N: examples/digits on as many GPUs
digits () {
    by_hand "$1" "$port" timeout $patience "$builddir/examples/digits" --epochs 2 --output_dir cpus >cpus.out &&
        by_hand "$1" "$port" timeout $patience "$standin/digits_gpu" --epochs 2 --output_dir gpus >gpus.out &&
        grep ^epoch cpus.out >cpus.lines && grep ^epoch gpus.out | cmp cpus.lines - && cmp cpus/model.safetensors gpus/model.safetensors
}
training 'examples/digits learns on 2 GPUs, with no line for them' 'digits 2'
is_long && test_expect_success 'examples/digits learns on 3 and 4 GPUs' 'places 3 && places 4 && digits 4'
test_expect_success 'two ranks on one GPU: the reason, and everything works on CPUs' '
    STANDIN_DEVICES=1 timeout $patience "$standin/device" shared >out 2>error && grep "^ok 1" out &&
    grep "WARNING.*this program computes on CPUs: NCCL needs a GPU for each rank, but ranks 0 and 1 have the same one" error'

# ---- time ----

test_expect_success 'each operation costs what STANDIN_COSTS says' '
    timeout $patience "$standin/costs" >out && test "$(grep -c ^ok out)" -eq 19 &&
    for words in nothing=3 copy=-3 copy:x=3 copy=3x kernel:=3 copy; do
        test_exit 134 timeout $patience "$standin/costs" "$words" 2>error && grep "^standin: STANDIN_COSTS: .*${words}" error || return 1
    done'
# timed RANKS CASES [fp16 | sums]
timed () { by_hand "$1" "$port" timeout $patience "$standin/timeline" ${3-} >out && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = $(($2 * $1)); }
training 'a step of 2 ranks takes the time of the order of DDP' 'timed 2 262'
training '... in fp16 that of one more all-reduce, and no host waits' 'timed 2 37 fp16'
training '... with sums over another communicator beside the buckets, where NCCL keeps the order' '
    STANDIN_NCCL_VERSION=22600 NCCL_LAUNCH_ORDER_IMPLICIT=1 timed 2 19 sums'
is_long && test_expect_success '... of 3 ranks, in any order of streams' 'for seed in 1 2; do STANDIN_SEED=$seed timed 3 262 || return 1; done'

test_expect_success 'a program captures streams into CUDA graphs: its own, and the one that libaccel uses' '
    by_hand 2 "$port" timeout $patience "$standin/capture" >out && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = 12'

# grouped N: groups of starts, streams of communicators and wrong pointers, with N ranks
grouped () { by_hand "$1" "$port" timeout $patience "$standin/groups" >out && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = $((21 * $1)); }
test_expect_success 'groups of starts, streams of communicators, and pointers of the wrong kind' 'grouped 2 && grouped 1'
is_long && test_expect_success '... with 3 ranks, in any order of streams' '
    for seed in 1 2 3; do STANDIN_SEED=$seed grouped 3 || return 1; done'
# on_cpus N WORDS [NAME=VALUE...]: calls on a GPU's memory are refused by N ranks that compute on CPUs, with WORDS
on_cpus () {
    count=$1 words=$2
    shift 2
    by_hand "$count" "$port" env STANDIN_LIBCUDA="$scratch/cuda/libcuda.so.1" "$@" timeout $patience "$standin/groups" cpu "$words" >out &&
        ! grep "^not ok" out && test "$(grep -c "^ok" out)" = $((4 * count))
}
test_expect_success '... also where no code for GPUs is loaded: they were not asked for, or it is not installed' '
    mkdir cuda && echo "int standin_pointer_attributes (unsigned, const int *, void **, unsigned long long);
        int cuPointerGetAttributes (unsigned count, const int *attributes, void **values, unsigned long long address)
        { return standin_pointer_attributes (count, attributes, values, address); }" >cuda/driver.c &&
    $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o cuda/libcuda.so.1 cuda/driver.c &&
    on_cpus 1 ACCELERATE_USE_CPU ACCELERATE_USE_CPU=true && on_cpus 2 ACCELERATE_USE_CPU ACCELERATE_USE_CPU=true &&
    on_cpus 1 "accel_device_cuda.so is not installed" ACCEL_ENGINE_PATH="$scratch/nothing" &&
    on_cpus 2 "accel_device_cuda.so is not installed" ACCEL_ENGINE_PATH="$scratch/nothing"'
# in_order N: several communicators of each of N ranks, launched in one order
in_order () { by_hand "$1" "$port" timeout $patience "$standin/order" >out 2>error && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = $((7 * $1)); }
test_expect_success 'several communicators on one GPU: in backward passes, threads, groups, and behind host memory' 'in_order 2 && in_order 4'
is_long && test_expect_success '... in any order of streams' '
    for seed in 1 2 3; do STANDIN_SEED=$seed in_order 3 && STANDIN_SEED=$seed in_order 4 || return 1; done'
# took N [NAME=VALUE...]: two all-reduces on two communicators took the time that they should
took () { count=$1 && shift && by_hand "$count" "$port" env "$@" timeout $patience "$standin/order" time >out && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = "$count"; }
test_expect_success '... one after the other, unless NCCL keeps the order: 2.26 does if it is asked to' '
    took 2 && NCCL_LAUNCH_ORDER_IMPLICIT=1 in_order 2 &&
    STANDIN_NCCL_VERSION=22600 NCCL_LAUNCH_ORDER_IMPLICIT=1 in_order 2 && took 2 STANDIN_NCCL_VERSION=22600 NCCL_LAUNCH_ORDER_IMPLICIT=1'
test_expect_success 'a rank that does not come to a call is named, and what waits behind that call on another communicator goes on' '
    by_hand 3 "$port" timeout $patience "$standin/order" dies >out && ! grep "^not ok" out && test "$(grep -c "^ok" out)" = 4'

# ---- NCCL_COMM_ID ----

# at ADDRESS N [COMMAND...]: N ranks, with rank 0 at the address
at () {
    address=$1 count=$2
    shift 2
    NCCL_COMM_ID=$address by_hand "$count" "$port" timeout $patience "${@:-"$standin/nccl_ranks"}" >out 2>&1
}
test_expect_success 'rank 0 listens where NCCL_COMM_ID says' '
    at "127.0.0.1:$(free_port)" 3 && test "$(grep -c "of 3: done on cuda:" out)" = 3'
test_expect_success 'an NCCL_COMM_ID that is not an address' '
    ! at nonsense 2 && grep "^rank 1: .*nccl: rank 0: ncclGetUniqueId: invalid argument (NCCL_COMM_ID: expected HOST:PORT)" out'
test_expect_success 'an error that is not one of the address does not blame it' '
    ! STANDIN_FAIL=ncclCommInitRankConfig:1:1 at "127.0.0.1:$(free_port)" 2 &&
    grep "^rank 0: .*accel_open: engine nccl: NCCL: ncclCommInitRankConfig: " out && ! grep "NCCL_COMM_ID" out'
test_expect_success 'an NCCL_COMM_ID of another host' '
    test_exit 1 env NCCL_COMM_ID=192.0.2.1:4711 timeout $patience "$standin/nccl_table" >out &&
    grep "^Bail out! .*(NCCL_COMM_ID is 192.0.2.1:4711: it must be a free port of this host)" out'
is_long && test_expect_success '... with 2 ranks' '
    ! at 192.0.2.1:4711 2 && grep "^rank 0: .*(NCCL_COMM_ID is 192.0.2.1:4711: it must be a free port of this host)" out'
# Ranks that are started by hand, each as on a host of its own.
test_expect_success 'without an engine for host memory, NCCL_COMM_ID connects no hosts, which is an error' '
    ! RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        NCCL_COMM_ID=127.0.0.1:$port timeout $patience "$standin/nccl_ranks" >out 2>&1 &&
    grep "NCCL_COMM_ID connects GPUs only, but host tensors and the control .* need an engine for host memory: mpi" out'

# ---- what goes wrong ----

# ranks N [NAME=VALUE...] [ARGUMENT]: N ranks, of which rank 1 gets the variables; what they say, in `out`
ranks () {
    count=$1
    shift
    printf '#!/bin/sh\ntest $RANK != 1 || export "$1"\nshift\nexec "$@"\n' >one && chmod +x one
    case ${1-} in *=*) variable=$1 && shift ;; *) variable=NOTHING= ;; esac
    status=0
    by_hand "$count" "$(free_port)" ./one "$variable" timeout $patience "$standin/nccl_ranks" "$@" >out 2>&1 || status=$?
    cat out && return $status
}
# failing ...: the same where a rank fails
failing () {
    ! ranks "$@"
}
# soon WORDS: every line of `out` with them says that it took less than 5 s
soon () { grep "$1" out >said && cat said && ! grep -E "\(([0-9]{5,}|[5-9][0-9]{3}) ms\)" said; }
test_expect_success '3 ranks do everything, also in groups' 'ranks 3 && test "$(grep -c "of 3: done on cuda:" out)" = 3'
test_expect_success 'a call moves on while the program is elsewhere' '
    rm -f started ended && ranks 2 away && test "$(grep -c "of 2: done on cuda:" out)" = 2'
# died CALL: a rank that would be killed in it was
died () { test_exit 137 env RANK=0 "STANDIN_DIE=0:$1:1" timeout $patience "$standin/nccl_table" >out; }
test_expect_success 'one rank without libaccel: its GPU, its memory, its groups' '
    timeout $patience "$standin/nccl_table" >out && test "$(grep -c ^ok out)" -eq 14 &&
    died ncclCommRegister && test "$(grep -c ^ok out)" -eq 6 &&
    test_exit 1 env STANDIN_DEVICES=0 timeout $patience "$standin/nccl_table" >out &&
    grep "^Bail out! .*: finds no GPU: no CUDA-capable device is detected$" out'
test_expect_success '... it makes no context on other GPUs' '
    echo "int standin_context_state (int, unsigned *, int *);
        int cuDevicePrimaryCtxGetState (int device, unsigned *flags, int *active)
        { return standin_context_state (device, flags, active); }" >driver.c &&
    $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 driver.c &&
    STANDIN_LIBCUDA=$scratch/libcuda.so.1 timeout $patience "$standin/nccl_table" contexts >out && test "$(grep -c ^ok out)" -eq 2'
test_expect_success 'what it asks of NCCL, how long it waits, and what it says and leaves after each failure' '
    timeout $patience "$standin/nccl_script" >out && test "$(grep -c ^ok out)" -eq 134 &&
    timeout $patience "$standin/nccl_jobs" >out && test "$(grep -c ^ok out)" -eq 121'
test_expect_success '... it leaves NCCL in good order, and in another one if it lacks memory or gives up' '
    died ncclCommFinalize && died ncclCommDestroy && ! died ncclCommAbort && test "$(grep -c ^ok out)" -eq 14 &&
    timeout $patience "$standin/nccl_table" fails >out && test "$(grep -c ^ok out)" -eq 7'
test_expect_success 'a stream for each thread: calls come after what any thread has queued' '
    ranks 2 threads && test "$(grep -c "of 2: done on cuda:" out)" = 2'
plans='ncclAllReduce:3:2 ncclGroupEnd:1:6 ncclCommSplit:2:2 ncclCommGetAsyncError:9:6 cudaEventQuery:4:700'
if is_long; then
    for call in ncclAllReduce ncclBroadcast ncclAllGather ncclReduceScatter ncclGroupStart ncclGroupEnd ncclSend ncclRecv \
        ncclCommSplit ncclCommGetAsyncError cudaEventQuery cudaEventRecord cudaStreamWaitEvent cudaEventCreateWithFlags; do
        for turn in 1 2 3 5; do
            # The first events are those of the memory that nccl_ranks itself creates.
            # In place of the third wait for an event, which is the program's stream's, the host waits.
            case $call:$turn in cudaStreamWaitEvent:3 | ncclCommSplit:[35] | ncclCommGetAsyncError:[123] | cuda*:1 | cudaEventCreate*:[23]) continue ;; esac
            plans="$plans $call:$turn:6"
        done
    done
fi
for plan in $plans; do
    test_expect_success "rank 1 gets an error of $plan, and rank 0 hears of it" '
        failing 2 STANDIN_FAIL=$plan && test $status = 3 && soon "^rank 1: .*status [1-9]*: .*\(NCCL: \|cuda:1: \)" &&
        soon "^rank 0: .*rank 1 "'
done
# Each work has the error of the group, which the other rank is told.
test_expect_success 'rank 1 gets an error of a group of calls, and rank 0 hears of it' '
    failing 2 STANDIN_FAIL=ncclGroupEnd:1:6 grouped && test $status = 3 &&
    test "$(grep -c "^rank 1: work [012]: status [1-9]*: .*NCCL: ncclGroupEnd: " out)" = 3 &&
    test "$(grep -c "^rank 0: work [012]: status [1-9]*: .*rank 1 " out)" = 3'
test_expect_success 'an error while ranks connect' '
    failing 2 STANDIN_FAIL=ncclCommInitRankConfig:1:2 && test $status = 3 &&
    soon "^rank 1: .*accel_open: engine nccl: NCCL: ncclCommInitRankConfig: unhandled system error" &&
    soon "^rank 0: .*NCCL does not start on rank 1" &&
    failing 2 STANDIN_FAIL=ncclCommGetAsyncError:1:2 && test $status = 3 &&
    soon "^rank 1: .*accel_open: engine nccl: NCCL: asynchronous error: unhandled system error" &&
    soon "^rank 0: .*NCCL does not start on rank 1" &&
    failing 2 STANDIN_DIE=1:ncclCommGetAsyncError:1 && test $status = 137 && soon "^rank 0: .*accel_open: .*rank 1 "'
test_expect_success 'too little memory for a stream: ACCEL_ERR_NOMEM, when a job is opened or divided' '
    for turn in 1 2; do
        failing 2 STANDIN_FAIL=cudaStreamCreateWithFlags:$turn:2 && test $status = 3 && ! grep "but the error has code" out &&
            grep "^rank 1: .*status 2: .*cuda:1: cudaStreamCreateWithFlags: out of memory" out || return 1
    done'
# The first stream is the engine's.  The fifth wait for an event is that of the first bucket for the program's stream, the
# fifteenth that of the program's stream for both buckets.
test_expect_success 'an error of the stream beside the one of the program, which PowerSGD needs' '
    failing 2 STANDIN_FAIL=cudaStreamCreateWithFlags:2:2 ahead power && test $status = 3 &&
    grep "^rank 1: accel_prepare .*status 2: cuda:1: cudaStreamCreateWithFlags: out of memory" out &&
    for turn in 5 15; do
        failing 2 STANDIN_FAIL=cudaStreamWaitEvent:$turn:700 ahead power && test $status = 3 &&
            grep "^rank 1: accel_backward .*status 3: cuda:1: the stream cannot be used: an illegal" out &&
            grep "^rank 0: .*rank 1 " out || return 1
    done'
test_expect_success 'memory that NCCL does not register or give is used all the same' '
    for call in ncclCommRegister ncclMemAlloc; do ranks 2 STANDIN_FAIL=$call:1:3 || return 1; done'
plans='1:ncclAllReduce:4 1:ncclCommSplit:2'
if is_long; then plans="$plans 1:ncclCommGetAsyncError:12 1:ncclGroupEnd:2 1:ncclSend:1 1:ncclRecv:2 1:ncclCommRegister:1 1:ncclBroadcast:3"; fi
for plan in $plans; do
    test_expect_success "rank 1 is killed in $plan, and rank 0 gets an error within a moment" '
        failing 2 STANDIN_DIE=$plan && test $status = 137 && soon "^rank 0: .*status.*rank 1 "'
done
# With DEATHS=20, 20 deaths are timed (bench/README.md has figures); a busy machine decides how long one takes.
test_expect_success "rank 1 is killed while rank 0 waits in NCCL: ${DEATHS:=1} times" '
    for turn in $(seq $DEATHS); do
        failing 2 dies >/dev/null && test $status = 137 &&
            sed -n "s/^rank 0: told \([0-9]*\) ms after the death$/\1/p" out >>told || return 1
    done && test "$(grep -c . told)" = $DEATHS'
test_expect_success 'rank 1 is killed when rank 0 has returned from its call on the GPU: the next call has the error' '
    rm -f returned && failing 2 behind && test $status = 137 && test -f returned && grep "^rank 0: .*&plain.*status.*rank 1 \(ended\|was killed\)" out'
for how in whole unused power unused-power fp16 fp16-unused; do
    test_expect_success "the host waits for nothing in steps with averages ($how) and clipping: rank 0 is 3 steps ahead" '
        rm -f ahead && ranks 2 ahead $how && test "$(grep -c "of 2: done on cuda:" out)" = 2'
done
[ "$DEATHS" = 1 ] || echo "# told after ms: $(sort -n told | tr '\n' ' ')"
test_expect_success 'a job is closed while NCCL still makes a group, and the group after it' '
    STANDIN_NO_SPLIT=yes ranks 2 closes && grep "^rank 0: closed" out &&
    STANDIN_NO_SPLIT=yes timeout $patience "$standin/nccl_table" unborn >out && test "$(grep -c ^ok out)" -eq 4'
export STANDIN_NO_POOLS=yes STANDIN_MALLOC_WAITS=yes
test_expect_success 'rank 1 is killed while threads of rank 0 wait for its GPU' '
    failing 2 pins && test $status = 137 && soon "^rank 0: accel_work_synchronize.*status.*rank 1 "'
unset STANDIN_NO_POOLS STANDIN_MALLOC_WAITS
test_expect_success 'a rank that does not come is named, with its place' '
    failing 2 late && grep "^rank 0: .*status.*timed out after 1000 ms in accel_comm_all_reduce at .*:4711, waiting for rank 1 " out'
test_expect_success 'an error of the network names the rank that was killed before' '
    failing 2 STANDIN_FAIL=ncclAllReduce:1:6 killed && test $status = 137 &&
    grep "^rank 1: .*status 5: rank 0 .*; rank 1 is waiting for it in accel_comm_all_reduce" out'
test_expect_success '... also if a group of theirs does not exist yet, before and after a call of it' '
    for what in started group; do
        failing 2 STANDIN_NO_SPLIT=yes $what && test $status = 137 && grep "^rank 1: .*status 5: rank 0 .*; rank 1 is waiting for it in accel_comm_all_reduce" out || return 1
    done'
# The program sets a variable that the stand-in reads on another thread.
is_thread_sanitized || test_expect_success '... and if the group is one of such a group' '
    STANDIN_NO_SPLIT=yes failing 2 nested && test $status = 3 &&
    for rank in 0 1; do
        grep "^rank $rank: comm_all_reduce: status .*: .*NCCL: asynchronous error: internal error" out || return 1
    done'
test_expect_success 'a rank that leaves is named' 'failing 2 leaves && soon "^rank 0: .*rank 1 .*nccl_ranks.c:4711"'
test_expect_success 'a tensor on the GPU of another rank' '
    failing 2 other-gpu && grep "^rank 0: .*the tensor is on cuda:1, but rank 0 computes on cuda:0, which accel_device() returns" out'
# without WORDS: with the libnccl.so.2 in `without`, GPUs are not used
without () {
    LD_LIBRARY_PATH=$scratch/without:$LD_LIBRARY_PATH
    status=0
    ranks 2 || status=$?
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH#*:}
    test $status = 4 && grep "^rank 0: no GPU" out && grep "WARNING.*this program computes on CPUs: no engine can connect this job: nccl $1" out
}
mkdir without && : >without/libnccl.so.2
test_expect_success 'no NCCL: GPUs are not used, and a warning says why' 'without "finds no NCCL: .*libnccl.so.2: "'
test_expect_success 'something else called NCCL' '
    echo "int ncclGetUniqueId (void) { return 0; }" >nothing.c && $CC -w -shared -fPIC -o without/libnccl.so.2 nothing.c &&
    without "cannot use libnccl.so.2: it lacks ncclGetVersion()"'
test_expect_success 'an NCCL that is too old' '
    STANDIN_NCCL_VERSION=21706 failing 2 && grep "^rank 1: no GPU" out &&
    grep "nccl needs NCCL 2.18 or newer, but libnccl.so.2 is version 21706" out'
test_expect_success 'an engine that was named must be there' '
    STANDIN_DEVICES=1 ACCEL_ENGINE=cuda:nccl failing 2 && grep "NCCL needs a GPU for each rank" out | grep status'

# ---- several hosts ----

# across COMMAND...: 2 ranks, each as on a host of its own, with the GPU of its number
printf '#!/bin/sh\nRANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 CUDA_VISIBLE_DEVICES=$RANK
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE CUDA_VISIBLE_DEVICES\nexec "$@"\n' >host && chmod +x host
across () {
    (allow_mpirun && HWLOC_COMPONENTS=-gl exec timeout -k 10 $patience "$mpirun" -n 2 ./host "$@" >out 2>&1)
}
mpi=$builddir/src/engines/mpi/.libs/accel_engine_mpi.so
mpirun=$(sed -n 's/^MPIRUN = //p' "$builddir/Makefile")
if [ -f "$mpi" ] && ! is_sanitized && across true; then
    cp "$mpi" engines
    test_expect_success 'on two hosts, ranks meet over engine mpi' '
        across "$standin/nccl_ranks" && test "$(grep -c "^rank . of 2: done on cuda:0" out)" = 2'
    is_long && test_expect_success '... also where NCCL_COMM_ID says' '
        NCCL_COMM_ID=127.0.0.1:$(free_port) across "$standin/nccl_ranks" &&
        test "$(grep -c "^rank . of 2: done on cuda:0" out)" = 2'
    test_expect_success 'on two hosts, of which one has no GPU: engines differ' '
        ! across sh -c "test \$RANK = 0 || export STANDIN_DEVICES=0; exec \"\$0\"" "$standin/nccl_ranks" &&
        grep "engines differ: rank 0 has cpu:mpi,cuda:nccl, but rank 1 has cpu:mpi" out'
fi
test_expect_success 'no rank leaves anything behind' nothing_left
[ -z "$calls" ] || test_done

# ---- products by cuBLAS ----

# products N WORDS [ARGUMENT...]: N lines of standard error have the words
products () {
    lines=$1 words=$2
    shift 2
    timeout $patience "$standin/products" "$@" >out 2>error && grep "^ok 1" out &&
        { grep -c "$words" error || :; } | grep -x "$lines"
}
test_expect_success 'PowerSGD by cuBLAS: within a tolerance of libaccel, and the same bits in each run and on each rank' '
    products 0 WARNING'
if is_long; then
    test_expect_success '... in 50 orders of streams' '
        for seed in $(seq 50); do STANDIN_SEED=$seed products 0 WARNING || return 1; done'
fi
test_expect_success 'products by cuBLAS are those of libaccel within a tolerance' '
    timeout $patience "$standin/products" one >out && test "$(grep -c ^ok out)" -eq 6'
test_expect_success 'also on two GPUs of one process' '
    timeout $patience "$standin/products" two >out && test "$(grep -c "^ok .* cuda:1: " out)" -eq 6'
for call in cublasCreate_v2 cublasSetMathMode cublasSetAtomicsMode; do
    test_expect_success "cuBLAS cannot be used, because of $call: a warning, and libaccel multiplies" '
        STANDIN_FAIL=$call:1:3 products 1 \
            "WARNING.* PowerSGD multiplies by .* kernels: cuda:0: cannot use cuBLAS: $call: CUBLAS_STATUS_ALLOC_FAILED$" plain'
done
for call in cublasSetStream_v2 cublasSetWorkspace_v2 cublasSgemm_v2; do
    test_expect_success "an error of $call comes back" '
        test_exit 1 env STANDIN_FAIL=$call:1:13 timeout $patience "$standin/products" >out &&
        grep "rank [01] .*: cuda:[01]: $call: CUBLAS_STATUS_EXECUTION_FAILED\$" out'
done
test_expect_success 'cuBLAS makes both products of 2 matrices in 3 passes of 2 models' '
    test_exit 1 env STANDIN_FAIL=cublasSgemm_v2:24:13 timeout $patience "$standin/products" >out &&
    STANDIN_FAIL=cublasSgemm_v2:25:13 products 0 WARNING'
mkdir no_blas && cp "$standin"/.libs/libnccl.so.2* "$standin"/.libs/libstandin_cudart.so no_blas
test_expect_success 'a cuBLAS without these functions: a warning, and libaccel multiplies' '
    : >empty.c && $CC -shared -fPIC -o no_blas/libcublas.so.13 empty.c && cp no_blas/libcublas.so.13 no_blas/libcublas.so.12 &&
    LD_LIBRARY_PATH=$scratch/no_blas products 1 \
        "WARNING.*PowerSGD multiplies by .* kernels: cuda:0: cannot use cuBLAS: .*cublasCreate_v2" plain'
cuda=$(sed -n 's/^CUDA_HOME = //p' "$builddir/Makefile")
if [ -f "$cuda/include/cublas_v2.h" ]; then
    test_expect_success 'the functions are those of the header of cuBLAS' \
        '$CC -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I"$srcdir/src" -isystem "$cuda/include" "$srcdir/tests/standin/cublas_types.c"'
else
    test_skip 'the functions are those of the header of cuBLAS' 'needs its header'
fi
test_done
