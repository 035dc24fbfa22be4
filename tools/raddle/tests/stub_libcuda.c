/* A CUDA driver without a GPU behind it, for tests: each function succeeds and does nothing, or what FAULT says.
 *
 * NO_DEVICE     cuInit says that there is no GPU.
 * NONE          cuInit succeeds, and there are no GPUs.
 * OLD           the driver does not know the PTX version.
 * OTHER         machine code and PTX are for another architecture.
 * REFUSED       the driver's assembler finds a mistake.
 * CRASHED       the kernel fails.
 * NO_LAUNCH     cuLaunchKernelEx is not there.
 * TALKING       says what it is asked to launch, a line each.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TALKING
#define SAY(...) (printf("stub: " __VA_ARGS__), fflush(stdout))
#else
#define SAY(...) ((void)0)
#endif

typedef int Result;
enum { SUCCESS = 0, NO_DEVICE_CODE = 100, OTHER_CODE = 209, REFUSED_CODE = 218, OLD_CODE = 222, CRASHED_CODE = 700 };

#ifdef NO_DEVICE
Result cuInit(unsigned flags) { (void)flags; return NO_DEVICE_CODE; }
#else
Result cuInit(unsigned flags) { (void)flags; return SUCCESS; }
#endif

Result cuDriverGetVersion(int *version) { *version = 11080; return SUCCESS; }
#ifdef NONE
Result cuDeviceGetCount(int *count) { *count = 0; return SUCCESS; }
#else
Result cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
#endif
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return SUCCESS; }
Result cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    strncpy(name, "Stub", (size_t)length);
    return SUCCESS;
}
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 8 : attribute == 76 ? 0 : 108;
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = malloc(1); return SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return SUCCESS; }
Result cuCtxSetCurrent(void *context) { (void)context; return SUCCESS; }

Result cuModuleLoadDataEx(void **module, const void *image, unsigned count, const int *options, void **values) {
    (void)image;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == 5)
            strcpy(values[i], "ptxas application ptx input, line 7; error : it is a stub");
    *module = malloc(1);
#if defined(OLD)
    return OLD_CODE;
#elif defined(OTHER)
    return OTHER_CODE;
#elif defined(REFUSED)
    return REFUSED_CODE;
#else
    return SUCCESS;
#endif
}
Result cuModuleUnload(void *module) { free(module); return SUCCESS; }
Result cuModuleGetFunction(void **function, void *module, const char *name) { (void)name; *function = module; return SUCCESS; }
Result cuFuncSetAttribute(void *function, int attribute, int value) { (void)function; (void)attribute; (void)value; return SUCCESS; }

Result cuMemAlloc_v2(uint64_t *address, size_t bytes) { *address = (uint64_t)(uintptr_t)malloc(bytes); return SUCCESS; }
Result cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return SUCCESS; }
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { memcpy((void *)(uintptr_t)to, from, bytes); return SUCCESS; }
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { memcpy(to, (void *)(uintptr_t)from, bytes); return SUCCESS; }
Result cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) { memset((void *)(uintptr_t)to, value, bytes); return SUCCESS; }

Result cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return SUCCESS; }
Result cuStreamDestroy_v2(void *stream) { free(stream); return SUCCESS; }
#ifdef CRASHED
Result cuStreamSynchronize(void *stream) { (void)stream; return CRASHED_CODE; }
#else
Result cuStreamSynchronize(void *stream) { (void)stream; return SUCCESS; }
#endif
Result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)stream; (void)event; (void)flags;
    SAY("wait for an event\n");
    return SUCCESS;
}
Result cuStreamBeginCapture_v2(void *stream, int mode) { SAY("capture\n"); (void)stream; (void)mode; return SUCCESS; }
Result cuStreamEndCapture(void *stream, void **graph) { (void)stream; *graph = malloc(1); return SUCCESS; }
Result cuEventCreate(void **event, unsigned flags) { (void)flags; *event = malloc(1); return SUCCESS; }
Result cuEventDestroy_v2(void *event) { free(event); return SUCCESS; }
Result cuEventRecord(void *event, void *stream) { (void)event; (void)stream; return SUCCESS; }
Result cuEventSynchronize(void *event) { (void)event; return SUCCESS; }
Result cuEventElapsedTime(float *milliseconds, void *start, void *end) { (void)start; (void)end; *milliseconds = 1; return SUCCESS; }
#ifndef NO_LAUNCH
/* CUlaunchAttribute and CUlaunchConfig, as far as they matter here. */
typedef struct { int id; char pad[4]; unsigned values[16]; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; void *stream; const Attribute *attributes; unsigned count; } Config;
Result cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    (void)function; (void)parameters; (void)extra; (void)config;
    SAY("launch %ux%ux%u blocks of %ux%ux%u threads, %u bytes, ", config->grid[0], config->grid[1], config->grid[2],
        config->block[0], config->block[1], config->block[2], config->shared);
#ifdef TALKING
    const Attribute *attribute = config->attributes;
    if (config->count == 0)
        printf("no cluster\n");
    else if (config->count == 1 && attribute->id == 4)
        printf("clusters of %ux%ux%u\n", attribute->values[0], attribute->values[1], attribute->values[2]);
    else
        printf("unknown attributes\n");
#endif
    return SUCCESS;
}
#endif
Result cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    (void)graph; (void)flags;
    *executable = malloc(1);
    return SUCCESS;
}
Result cuGraphLaunch(void *executable, void *stream) { SAY("graph launch\n"); (void)executable; (void)stream; return SUCCESS; }
Result cuGraphDestroy(void *graph) { free(graph); return SUCCESS; }
Result cuGraphExecDestroy(void *executable) { free(executable); return SUCCESS; }

Result cuGetErrorName(Result code, const char **name) {
    *name = code == CRASHED_CODE ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return SUCCESS;
}
Result cuGetErrorString(Result code, const char **text) { (void)code; *text = "said the stub"; return SUCCESS; }
