# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of programs on GPUs, after testlib.sh: the module for the stand-in, where programs find it.
# $subject is what is skipped without it.
standin=$builddir/tests/standin
module=$standin/.libs/accel_device_cuda.so
if [ ! -f "$module" ]; then
    skip_rest 'needs a C++ compiler and shared libraries'
fi
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE_PATH=$scratch/engines
LD_LIBRARY_PATH=$(cd "$standin/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export ACCEL_ENGINE_PATH LD_LIBRARY_PATH
