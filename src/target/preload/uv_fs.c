/* The common file functions of libuv. With a callback they are requests like any other (uv.c).
 * Without one, the calling thread executes them at once. */
#include "target/preload/uv.h"

typedef void on_fs(void *request);

static void our_fs(void *request)
{
    struct piano__callback c = piano__callbacks_take(request, PIANO_CALLBACK_FS);
    if (c.function)
        UV_CALL(c, request, ((on_fs *)c.function)(request));
}

UV_HOOK(int, uv_fs_open, void *loop, void *request, const char *path, int flags, int mode,
        on_fs *cb)
{
    UV_NEXT(uv_fs_open, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(loop, request, path, flags, mode, UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_close, void *loop, void *request, int file, on_fs *cb)
{
    UV_NEXT(uv_fs_close, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, file, UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_read, void *loop, void *request, int file, const void *buffers, unsigned count,
        int64_t offset, on_fs *cb)
{
    UV_NEXT(uv_fs_read, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, file, buffers, count, offset,
                                      UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_write, void *loop, void *request, int file, const void *buffers, unsigned count,
        int64_t offset, on_fs *cb)
{
    UV_NEXT(uv_fs_write, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, file, buffers, count, offset,
                                      UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_stat, void *loop, void *request, const char *path, on_fs *cb)
{
    UV_NEXT(uv_fs_stat, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, path, UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_lstat, void *loop, void *request, const char *path, on_fs *cb)
{
    UV_NEXT(uv_fs_lstat, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, path, UV_SWAP(&s, request, FS, cb, our_fs)));
}

UV_HOOK(int, uv_fs_fstat, void *loop, void *request, int file, on_fs *cb)
{
    UV_NEXT(uv_fs_fstat, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, request, file, UV_SWAP(&s, request, FS, cb, our_fs)));
}
