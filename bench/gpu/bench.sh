# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by tests/gpu/run: the measurements.
for name in adamw step copies; do
    # shellcheck disable=SC2086 # $on is a list of words
    step "bench: $name" 120 $on "$build/$name" "$sizes" && figures
done
bench_nccl
if [ "$sizes" = small ]; then
    skip "bench: PyTorch's fused AdamW" 'the stand-in does not run PyTorch'
elif ! python3 -c 'import torch, sys; sys.exit (not torch.cuda.is_available ())' 2>/dev/null; then
    skip "bench: PyTorch's fused AdamW" 'python3 has no PyTorch that sees the GPU'
else
    step "bench: PyTorch's fused AdamW" 120 python3 "$top/bench/gpu/torch_adamw.py" && figures
fi
