/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, compiled for the host. */
#include "cuda/floats.cu"
#include "cuda/lists.cu"
#include "cuda/live.cu"
#include "cuda/matrix.cu"
#include "cuda/norms.cu"
#include "cuda/power.cu"
#include "cuda/rules.cu"
#include "cuda/vocabulary.cu"
