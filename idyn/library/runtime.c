/* What kernels need of numba's run time: counted memory blocks, reshaping; and what the library says of itself. */
#include <stdint.h>
#include <stdlib.h>

typedef struct { size_t count; void *destructor, *info, *data; size_t size; void *allocator; } Block;

void *NRT_MemInfo_alloc_aligned(size_t size, uint32_t align) {
    Block *block = malloc(sizeof(Block) + size + align);
    if (!block) return NULL;
    *block = (Block){.count = 1, .size = size};
    block->data = (void *)(((uintptr_t)(block + 1) + align - 1) / align * align);
    return block;
}
void *NRT_MemInfo_alloc_safe_aligned(size_t size, uint32_t align) { return NRT_MemInfo_alloc_aligned(size, align); }
void NRT_MemInfo_call_dtor(void *block) { free(block); }
int numba_attempt_nocopy_reshape(int64_t nd, const int64_t *dims, const int64_t *strides, int64_t newnd, const int64_t *newdims,
                                 int64_t *newstrides, int64_t size, int fortran) { /* of arrays contiguous in C order */
    int64_t step = size;
    for (int64_t k = nd - 1; k >= 0; step *= dims[k--]) if (strides[k] != step && dims[k] > 1) return 0;
    step = size;
    for (int64_t k = newnd - 1; k >= 0; step *= newdims[k--]) newstrides[k] = step;
    return !fortran;
}
void idyn_release(void *block) {
    if (block && !--((Block *)block)->count) free(block);
}
int idyn_processor(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}
