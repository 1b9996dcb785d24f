# SPDX-License-Identifier: Apache-2.0
# ACCEL_MPI: engine mpi, a module.  The flags are those of MPI's compiler wrapper, so that any MPI will do; the wrapper
# itself is not used, because it may stand for another compiler.
AC_DEFUN([ACCEL_MPI], [
    AC_ARG_VAR([MPICC], [compiler wrapper of MPI, for engine mpi and the comparison in bench/])
    AC_ARG_VAR([MPIRUN], [mpirun of the same MPI, for tests])
    AC_CHECK_PROGS([MPICC], [mpicc], [no])
    AC_CHECK_PROGS([MPIRUN], [`echo "$MPICC" | sed 's/mpicc/mpirun/'` mpirun], [no])
    AC_ARG_WITH([mpi],
        [AS_HELP_STRING([--with-mpi=auto|yes|no], [build engine mpi, a module @<:@auto: if mpicc is found@:>@])],
        [], [with_mpi=auto])
    MPI_CPPFLAGS= MPI_LIBS= mpi_state="no (--with-mpi=no)"
    AS_CASE([$with_mpi], [auto|yes], [ACCEL_MPI_FLAGS], [no], [],
        [AC_MSG_ERROR([invalid --with-mpi=$with_mpi: expected auto, yes or no])])
    AS_IF([test "x$with_mpi" = xyes && test "x$mpi_found" != xyes],
        [AC_MSG_ERROR([--with-mpi=yes, but $mpi_state: install libopenmpi-dev and openmpi-bin, or give MPICC=...])])
    AC_SUBST([MPI_CPPFLAGS])
    AC_SUBST([MPI_LIBS])
    AM_CONDITIONAL([HAVE_MPICC], [test "x$MPICC" != xno])
    AM_CONDITIONAL([WITH_MPI], [test "x$mpi_found" = xyes])
])
# Headers of MPI are not ours to warn about.
AC_DEFUN([ACCEL_MPI_FLAGS], [
    AS_IF([test "x$enable_shared" = xno], [mpi_state="no (a module, but --disable-shared)"],
        [test "x$MPICC" = xno], [mpi_state="no (mpicc not found)"], [
        for word in `$MPICC -show 2>/dev/null`; do
            AS_CASE([$word],
                [-I*], [MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem `echo "$word" | sed 's/^-I//'`"],
                [-D*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $word"],
                [-L*|-l*|-Wl,-rpath*], [MPI_LIBS="$MPI_LIBS $word"])
        done
        AC_MSG_CHECKING([whether programs with MPI can be built])
        accel_saved_cppflags=$CPPFLAGS accel_saved_libs=$LIBS
        CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS" LIBS="$MPI_LIBS $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
            [[MPI_Request request; return MPI_Ibarrier (MPI_COMM_WORLD, &request);]])],
            [mpi_found=yes; mpi_state="yes, a module ($MPICC)"], [mpi_found=no; mpi_state="no ($MPICC does not work)"])
        CPPFLAGS=$accel_saved_cppflags LIBS=$accel_saved_libs
        AC_MSG_RESULT([$mpi_found])
    ])
])
