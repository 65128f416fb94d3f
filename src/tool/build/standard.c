/* Language standards by the names that libclang uses. Before version 18 it knows the newer ones
 * only by their working names, and before 13 nothing after C++20. */
#include "tool/build/standard.h"

#include <stddef.h>
#include <string.h>

#include "tool/build/libclang.h"

const char *standard_name(const char *std)
{
    static const char *const names[][3] = {
        {"c++23", "c++2b", "c++20"}, {"gnu++23", "gnu++2b", "gnu++20"},
        {"c++26", "c++2b", "c++20"}, {"gnu++26", "gnu++2b", "gnu++20"},
        {"c++2b", "c++2b", "c++20"}, {"gnu++2b", "gnu++2b", "gnu++20"},
        {"c++2c", "c++2b", "c++20"}, {"gnu++2c", "gnu++2b", "gnu++20"},
        {"c23", "c2x", "c2x"},       {"gnu23", "gnu2x", "gnu2x"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(std, names[i][0]) == 0)
            return names[i][libclang_version() < 13 ? 2 : 1];
    }
    return std;
}

const char *standard_default(bool cxx, bool clang, bool newer)
{
    if (!cxx)
        return newer ? "gnu2x" : "gnu17";
    if (clang)
        return newer ? "gnu++17" : "gnu++14";
    return newer ? "gnu++20" : "gnu++17";
}
