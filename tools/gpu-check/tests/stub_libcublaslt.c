/* cuBLASLt without a GPU behind it, for tests: it looks at what it is given and computes nothing.
 *
 * WHOLE         every function succeeds.
 * NO_ALGORITHM  no algorithm is found.
 * NO_MULTIPLY   cublasLtMatmul is not there.
 * FAILING       cublasLtMatmul fails.
 */
#include <stdint.h>
#include <stdlib.h>

typedef int Status;
enum { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };

typedef struct { uint64_t rows, columns; int64_t leading; int element; } Layout;
typedef struct { uint64_t algorithm[8]; size_t workspace; Status state; float waves; int reserved[4]; } Heuristic;

size_t cublasLtGetVersion(void) { return 130400; }
const char *cublasLtGetStatusString(Status status) { (void)status; return "said the stub"; }
Status cublasLtCreate(void **handle) { *handle = malloc(1); return SUCCESS; }
Status cublasLtDestroy(void *handle) { free(handle); return SUCCESS; }

Status cublasLtMatmulDescCreate(int **description, int compute, int scale) {
    if ((compute != 68 && compute != 77) || scale != 0) return INVALID_VALUE;
    *description = calloc(64, sizeof(int));
    return SUCCESS;
}
Status cublasLtMatmulDescDestroy(int *description) { free(description); return SUCCESS; }
Status cublasLtMatmulDescSetAttribute(int *description, int attribute, const void *value, size_t bytes) {
    size_t expected = attribute == 8 || attribute == 11 || attribute == 12 ? 8 : 4;
    if (attribute < 0 || attribute >= 64 || bytes != expected) return INVALID_VALUE;
    description[attribute] = *(const int *)value;
    return SUCCESS;
}
Status cublasLtMatrixLayoutCreate(Layout **layout, int element, uint64_t rows, uint64_t columns, int64_t leading) {
    if (leading < (int64_t)rows) return INVALID_VALUE;
    *layout = malloc(sizeof(Layout));
    **layout = (Layout){rows, columns, leading, element};
    return SUCCESS;
}
Status cublasLtMatrixLayoutDestroy(Layout *layout) { free(layout); return SUCCESS; }
Status cublasLtMatmulPreferenceCreate(void **preference) { *preference = malloc(1); return SUCCESS; }
Status cublasLtMatmulPreferenceDestroy(void *preference) { free(preference); return SUCCESS; }
Status cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
    (void)preference; (void)value;
    return attribute == 1 && bytes == sizeof(size_t) ? SUCCESS : INVALID_VALUE;
}

/* Whether op(A) · op(B) has the extents of D. */
static int fits(const int *description, const Layout *a, const Layout *b, const Layout *d) {
    uint64_t rows = description[3] ? a->columns : a->rows, depth = description[3] ? a->rows : a->columns;
    uint64_t other = description[4] ? b->columns : b->rows, columns = description[4] ? b->rows : b->columns;
    return rows == d->rows && columns == d->columns && depth == other;
}

Status cublasLtMatmulAlgoGetHeuristic(void *handle, const int *description, const Layout *a, const Layout *b, const Layout *c,
                                      const Layout *d, void *preference, int wanted, Heuristic *found, int *count) {
    (void)handle; (void)preference;
    *count = 0;
    if (c != d || wanted < 1 || !fits(description, a, b, d)) return INVALID_VALUE;
#ifndef NO_ALGORITHM
    *count = 1;
    found[0].state = SUCCESS;
    found[0].algorithm[0] = 42;
#else
    (void)found;
#endif
    return SUCCESS;
}

#ifndef NO_MULTIPLY
Status cublasLtMatmul(void *handle, const int *description, const float *alpha, uint64_t pa, const Layout *a, uint64_t pb,
                      const Layout *b, const float *beta, uint64_t pc, const Layout *c, uint64_t pd, const Layout *d,
                      const uint64_t *algorithm, uint64_t workspace, size_t bytes, void *stream) {
    (void)handle;
    int is_sound = *alpha == 1 && (*beta == 0 || *beta == 1) && pa && pb && pd && pc == pd && c == d && algorithm[0] == 42 &&
                   workspace && bytes && stream && fits(description, a, b, d);
#ifdef FAILING
    is_sound = 0;
#endif
    return is_sound ? SUCCESS : EXECUTION_FAILED;
}
#endif
