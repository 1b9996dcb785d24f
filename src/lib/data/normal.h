/* SPDX-License-Identifier: Apache-2.0 */
/* torch's transform of 16 uniforms into 16 normals, in its two forms for float32. */
#ifndef LIB_DATA_NORMAL_H
#define LIB_DATA_NORMAL_H

/** A form: @p values is [16], first eight u1, then eight u2; becomes eight cosines, then eight sines. */
typedef void normal_16 (float *values, float mean, float std);

/** The form of torch's AVX2 kernels: the same bits on every processor. */
void normal_16_avx2 (float *values, float mean, float std);

/** The same for processors without AVX2: slower. */
void normal_16_avx2_plain (float *values, float mean, float std);

/** The form of torch's portable kernels, with the C library's functions. */
void normal_16_portable (float *values, float mean, float std);

#endif
