/* Before glibc 2.34, a static program contains only the functions of libpthread that are referenced.
 * libgcc and libstdc++ take a program with pthread_key_create for one with threads, and then call
 * these functions by weak references, which would be NULL. */
#include "target/sys/key.h"

#include <features.h>

#if defined __GLIBC__ && !__GLIBC_PREREQ(2, 34)
typedef void function(void);

__attribute__((used)) static function *const needed[] = {
    (function *)pthread_once,
    (function *)pthread_getspecific,
    (function *)pthread_setspecific,
    (function *)pthread_key_delete,
    (function *)pthread_self,
    (function *)pthread_equal,
    (function *)pthread_mutex_init,
    (function *)pthread_mutex_destroy,
    (function *)pthread_mutex_lock,
    (function *)pthread_mutex_trylock,
    (function *)pthread_mutex_unlock,
    (function *)pthread_mutexattr_init,
    (function *)pthread_mutexattr_settype,
    (function *)pthread_mutexattr_destroy,
    (function *)pthread_cond_init,
    (function *)pthread_cond_destroy,
    (function *)pthread_cond_wait,
    (function *)pthread_cond_signal,
    (function *)pthread_cond_broadcast,
};
#endif

bool piano__key_create(pthread_key_t *key, void (*at_end)(void *))
{
    return pthread_key_create(key, at_end) == 0;
}
