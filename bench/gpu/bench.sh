# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by tests/gpu/run: the measurements.  $ranks is how many GPUs NCCL can connect.

# measured NAME SECONDS COMMAND...: a step whose figures count
measured () {
    bench_name="bench: $1"
    shift
    step "$bench_name" "$@" && figures
}

# shellcheck disable=SC2086 # $on is a list of words
bench_timeline () {
    if [ "$ranks" -gt 1 ]; then
        measured "timeline, $ranks ranks" 150 $by_hand "$ranks" "$(port)" $on "$build/timeline" "$sizes"
        measured "timeline in fp16, $ranks ranks" 60 $by_hand "$ranks" "$(port)" $on "$build/timeline" "$sizes" fp16
    else
        measured 'timeline, 1 rank' 90 $on "$build/timeline" "$sizes"
        measured 'timeline in fp16, 1 rank' 60 $on "$build/timeline" "$sizes" fp16
        skip 'bench: timeline with all-reduces, overlap' "$no_ranks"
    fi
    measured 'step' 60 $on "$build/step" "$sizes"
}

# shellcheck disable=SC2086
bench_bandwidth () {
    measured 'kernels' 120 $on "$build/kernels" "$sizes"
    measured 'adamw' 60 $on "$build/adamw" "$sizes"
    measured 'copies' 60 $on "$build/copies" "$sizes"
}

# shellcheck disable=SC2086
bench_nccl () {
    if [ "$ranks" -gt 1 ]; then
        measured "collectives, NCCL against NCCL itself, $ranks ranks" 150 \
            $by_hand "$ranks" "$(port)" $on "$build/collectives" "$sizes"
        return
    fi
    if [ -f "$build/engines/accel_engine_nccl.so" ]; then
        measured 'collectives, NCCL against NCCL itself, 1 rank' 90 env ACCEL_ENGINE=cpu:self,cuda:nccl \
            $by_hand 1 "$(port)" $on "$build/collectives" "$sizes"
    fi
    skip 'bench: collectives between ranks, NCCL against NCCL itself' "$no_ranks"
}

bench_pytorch () {
    if [ "$sizes" = small ]; then
        skip "bench: PyTorch's fused AdamW" 'the stand-in does not run PyTorch'
    elif ! python3 -c 'import torch, sys; sys.exit (not torch.cuda.is_available ())' 2>/dev/null; then
        skip "bench: PyTorch's fused AdamW" 'python3 has no PyTorch that sees the GPU'
    else
        measured "PyTorch's fused AdamW" 60 python3 "$top/bench/gpu/torch_adamw.py"
    fi
}
