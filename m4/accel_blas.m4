# SPDX-License-Identifier: Apache-2.0
# ACCEL_BLAS: what only the example gpt uses: BLAS for products of matrices, threads by OpenMP, PCRE2 for words.
AC_DEFUN([ACCEL_BLAS], [
    AC_ARG_WITH([blas],
        [AS_HELP_STRING([--with-blas=auto|yes|no],
            [products of matrices in examples/gpt by a BLAS, such as OpenBLAS @<:@auto: if found@:>@])],
        [], [with_blas=auto])
    BLAS_LIBS= BLAS_CPPFLAGS= blas_found=no blas_state="no (--with-blas=no)"
    AS_CASE([$with_blas],
        [auto|yes], [
            AC_CHECK_HEADER([cblas.h], [
                saved_LIBS=$LIBS LIBS=
                AC_SEARCH_LIBS([cblas_sgemm], [openblas blas cblas], [blas_found=yes BLAS_LIBS=$LIBS], [], [-lm])
                LIBS="$BLAS_LIBS $saved_LIBS"
                AC_CHECK_FUNC([openblas_set_num_threads], [BLAS_CPPFLAGS=-DWITH_OPENBLAS])
                LIBS=$saved_LIBS])
            AS_IF([test "x$blas_found" = xyes], [blas_state="yes ($BLAS_LIBS)" BLAS_CPPFLAGS="-DWITH_BLAS $BLAS_CPPFLAGS"],
                [AS_IF([test "x$with_blas" = xyes],
                    [AC_MSG_ERROR([--with-blas=yes, but cblas_sgemm was not found: install libopenblas-dev])])
                 blas_state="no (cblas.h not found; libopenblas-dev)"])],
        [no], [],
        [AC_MSG_ERROR([invalid --with-blas=$with_blas: expected auto, yes or no])])
    AC_SUBST([BLAS_CPPFLAGS])
    AC_SUBST([BLAS_LIBS])
    AC_OPENMP
    PKG_CHECK_MODULES([PCRE2], [libpcre2-8 >= 10.30], [pcre2_found=yes], [pcre2_found=no])
    AM_CONDITIONAL([WITH_PCRE2], [test "x$pcre2_found" = xyes])
])
