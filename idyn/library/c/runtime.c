/* What kernels need of numba's run time: counted memory blocks, reshaping; and what the library says of itself. */
#include <stdint.h>
#include <stdlib.h>

typedef struct { size_t count; void *destructor, *info, *data; size_t size; void *allocator; } Block;

/* An arena for the arrays of one call of the C interface: blocks one behind the other; freed ones at the end are given back. */
static _Thread_local struct { char *begin, *end, *top; Block *last; int32_t heap; } arena;

void idyn_arena_begin(char *memory, int64_t size) {
    arena.begin = arena.top = memory, arena.end = memory + size, arena.last = NULL, arena.heap = 0;
}
int32_t idyn_arena_end(void) { return arena.begin = arena.top = arena.end = NULL, arena.heap; }

void *NRT_MemInfo_alloc_aligned(size_t size, uint32_t align) {
    size_t whole = (sizeof(Block) + size + align + 15) / 16 * 16;
    Block *block = (Block *)arena.top, *before = arena.last;
    if (whole <= (size_t)(arena.end - arena.top)) arena.last = block, arena.top += whole;
    else if (!(block = malloc(whole))) return NULL;
    else arena.heap += arena.begin != NULL;
    *block = (Block){.count = 1, .info = before, .size = size};
    block->data = (void *)(((uintptr_t)(block + 1) + align - 1) / align * align);
    return block;
}
static void give(Block *block) {
    if ((char *)block < arena.begin || (char *)block >= arena.end) {
        free(block);
        return;
    }
    block->count = 0;
    for (; arena.last && !arena.last->count; arena.last = arena.last->info) arena.top = (char *)arena.last;
}
void *NRT_MemInfo_alloc_safe_aligned(size_t size, uint32_t align) { return NRT_MemInfo_alloc_aligned(size, align); }
int numba_attempt_nocopy_reshape(int64_t nd, const int64_t *dims, const int64_t *strides, int64_t newnd, const int64_t *newdims,
                                 int64_t *newstrides, int64_t size, int fortran) { /* of arrays contiguous in C order */
    int64_t step = size;
    for (int64_t k = nd - 1; k >= 0; step *= dims[k--]) if (strides[k] != step && dims[k] > 1) return 0;
    step = size;
    for (int64_t k = newnd - 1; k >= 0; step *= newdims[k--]) newstrides[k] = step;
    return !fortran;
}
__attribute__((visibility("hidden"))) void idyn_retain(void *block) { ((Block *)block)->count++; }
__attribute__((visibility("protected"))) void idyn_release(void *block) { /* of the library, where kernels call it, too */
    if (block && !--((Block *)block)->count) give(block);
}
int idyn_processor(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}
