/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the libraries of NVML, NCCL, the CUDA runtime and MPI in the tests: copied under each one's name.
 *
 * FAKE_LIBRARY=hang|crash|abort|exit|fail|noise makes it do that when it is first called; FAKE_LIBRARY=load-hang when
 * it is loaded.  FAKE_LIBRARY_ONLY=NAME restricts that to calls that begin with NAME.  FAKE_LIBRARY=many has a million
 * GPUs, =old an NCCL of old, and =limits tells the limit of core files for a GPU's name. */
#include <config.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXPORT __attribute__ ((visibility ("default")))

static void
hang (void)
{
    for (;;)
        pause ();
}

static bool
is_asked_for (const char *wanted)
{
    const char *how = getenv ("FAKE_LIBRARY");
    return how && !strcmp (how, wanted);
}

/* @return 1 where the call is to fail */
static int
misbehave (const char *call)
{
    const char *how = getenv ("FAKE_LIBRARY"), *only = getenv ("FAKE_LIBRARY_ONLY");
    if (!how || (only && strncmp (call, only, strlen (only)) != 0))
        return 0;
    if (!strcmp (how, "hang")) {
        if (!fork ()) /* what it started must end with it, and may hold its descriptors */
            hang ();
        hang ();
    }
    if (!strcmp (how, "crash"))
        raise (SIGSEGV);
    if (!strcmp (how, "abort"))
        abort ();
    if (!strcmp (how, "exit"))
        exit (0);
    if (!strcmp (how, "noise")) {
        puts ("NOISE");
        fputs ("NOISE\n", stderr);
        fflush (stdout);
    }
    return !strcmp (how, "fail");
}

static void __attribute__ ((constructor))
load (void)
{
    const char *how = getenv ("FAKE_LIBRARY");
    if (how && !strcmp (how, "load-hang"))
        hang ();
}

#define CALL(name, ...)            \
    EXPORT int name (__VA_ARGS__); \
    EXPORT int name (__VA_ARGS__)

CALL (nvmlInit_v2, void)
{
    return misbehave ("nvml") ? 9 : 0;
}

EXPORT const char *nvmlErrorString (int result);
EXPORT const char *
nvmlErrorString (int result)
{
    return result == 9 ? "Driver Not Loaded" : "Unknown Error";
}

CALL (nvmlSystemGetDriverVersion, char *text, unsigned int size)
{
    snprintf (text, size, "535.104.05");
    return 0;
}

CALL (nvmlSystemGetCudaDriverVersion, int *version)
{
    *version = 12020;
    return 0;
}

CALL (nvmlDeviceGetCount_v2, unsigned int *count)
{
    *count = is_asked_for ("many") ? 1000000 : 3;
    return 0;
}

/* GPU 2 has fallen off the bus. */
CALL (nvmlDeviceGetHandleByIndex_v2, unsigned int index, void **device)
{
    static char devices[2];
    if (index > 1)
        return 15;
    *device = &devices[index];
    return 0;
}

CALL (nvmlDeviceGetName, void *device, char *text, unsigned int size)
{
    (void) device;
    struct rlimit core = { 1, 1 };
    if (is_asked_for ("limits") && !getrlimit (RLIMIT_CORE, &core))
        snprintf (text, size, "core files of %d bytes", (int) core.rlim_max);
    else
        snprintf (text, size, "NVIDIA GeForce RTX 4090");
    return 0;
}

CALL (nvmlDeviceGetUUID, void *device, char *text, unsigned int size)
{
    (void) device;
    snprintf (text, size, "GPU-8e1f0a2c-0000-1111-2222-333344445555");
    return 0;
}

CALL (nvmlDeviceGetMemoryInfo, void *device, unsigned long long *memory)
{
    (void) device;
    memory[0] = 24ULL << 30;
    memory[1] = 23ULL << 30;
    memory[2] = 1ULL << 30;
    return 0;
}

CALL (ncclGetVersion, int *version)
{
    *version = is_asked_for ("old") ? 2804 : 22005;
    return misbehave ("nccl") ? 3 : 0;
}

CALL (cudaRuntimeGetVersion, int *version)
{
    *version = 12040;
    return misbehave ("cuda") ? 3 : 0;
}

CALL (MPI_Get_library_version, char *text, int *length)
{
    misbehave ("MPI");
    *length = snprintf (text, 8192, "Fake MPI v4.1.4, package: Test\nsecond line");
    return 0;
}
