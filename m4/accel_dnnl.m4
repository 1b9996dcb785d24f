# SPDX-License-Identifier: Apache-2.0
# ACCEL_DNNL: what only the example gpt uses: oneDNN for products of matrices.
AC_DEFUN([ACCEL_DNNL], [
    AC_ARG_WITH([dnnl],
        [AS_HELP_STRING([--with-dnnl=auto|yes|no],
            [products of matrices in examples/gpt by oneDNN, also in bfloat16 @<:@auto: if found@:>@])],
        [], [with_dnnl=auto])
    DNNL_CPPFLAGS= DNNL_LIBS= dnnl_state="no (--with-dnnl=no)"
    AS_CASE([$with_dnnl],
        [auto|yes], [
            AC_CHECK_HEADER([dnnl.h], [AC_CHECK_LIB([dnnl], [dnnl_gemm_bf16bf16f32],
                [DNNL_CPPFLAGS=-DWITH_DNNL DNNL_LIBS=-ldnnl dnnl_state="yes ($DNNL_LIBS)"])])
            AS_IF([test -z "$DNNL_LIBS"],
                [AS_IF([test "x$with_dnnl" = xyes],
                    [AC_MSG_ERROR([--with-dnnl=yes, but oneDNN was not found: install libdnnl-dev])])
                 dnnl_state="no (oneDNN not found; libdnnl-dev)"])],
        [no], [],
        [AC_MSG_ERROR([invalid --with-dnnl=$with_dnnl: expected auto, yes or no])])
    AC_SUBST([DNNL_CPPFLAGS])
    AC_SUBST([DNNL_LIBS])
])
