/* Which functions belong to the allocator and which to the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tool/report/heap.h"

static void allocator_functions_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *function, *module;
        bool is;
    } cases[] = {
        {"malloc", "prog", true},
        {"strdup", "libc.so.6", true},
        {"anything", "libstdc++.so.6", true},
        {"operator new(unsigned long)", "prog", true},
        {"operator new[](unsigned long, std::align_val_t)", "prog", true},
        {"std::vector<int, std::allocator<int> >::push_back(int const&)", "prog", true},
        {"void std::vector<T<int>, A>::_M_realloc_insert<int>(int*, int&&)", "prog", true},
        {"std::string* std::__do_uninit_copy<char const*>(char const*)", "prog", true},
        {"__gnu_cxx::new_allocator<int>::allocate(unsigned long)", "prog", true},
        {"Cache<std::string>::grow(int)", "prog", false},
        {"std::string load(std::string const&)", "prog", false},
        {"(anonymous namespace)::fill(std::vector<int>&)", "prog", false},
        {"Arena::operator new(unsigned long)", "prog", false},
        {"xmalloc", "prog", false},
        {"my_std::make()", "prog", false},
        {"stdlib_load", "prog", false},
        {"malloc_hook", "prog", false},
        {"main", "prog", false},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct symbol_frame f = {.function = cases[k].function, .module = cases[k].module};
        if (profile_is_plumbing(&f) != cases[k].is)
            fail_msg("%s in %s", cases[k].function, cases[k].module);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocator_functions_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
