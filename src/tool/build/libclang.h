/* libclang, loaded on first use. */
#ifndef PIANO_TOOL_BUILD_LIBCLANG_H
#define PIANO_TOOL_BUILD_LIBCLANG_H

#include <clang-c/Index.h>

/* The functions that piano calls, without the prefix `clang_`. */
#define LIBCLANG_FUNCTIONS(F)                                                                      \
    F(CXXMethod_isDefaulted)                                                                       \
    F(Cursor_isNull)                                                                               \
    F(Location_isInSystemHeader)                                                                   \
    F(createIndex)                                                                                 \
    F(disposeDiagnostic)                                                                           \
    F(disposeIndex)                                                                                \
    F(disposeString)                                                                               \
    F(disposeTranslationUnit)                                                                      \
    F(getCString)                                                                                  \
    F(getClangVersion)                                                                             \
    F(getCursorExtent)                                                                             \
    F(getCursorKind)                                                                               \
    F(getCursorLocation)                                                                           \
    F(getCursorSemanticParent)                                                                     \
    F(getCursorSpelling)                                                                           \
    F(getDiagnostic)                                                                               \
    F(getDiagnosticLocation)                                                                       \
    F(getDiagnosticSeverity)                                                                       \
    F(getDiagnosticSpelling)                                                                       \
    F(getNullCursor)                                                                               \
    F(getNumDiagnostics)                                                                           \
    F(getPresumedLocation)                                                                         \
    F(getRangeEnd)                                                                                 \
    F(getRangeStart)                                                                               \
    F(getSpellingLocation)                                                                         \
    F(getTranslationUnitCursor)                                                                    \
    F(isCursorDefinition)                                                                          \
    F(isInvalid)                                                                                   \
    F(parseTranslationUnit2)                                                                       \
    F(visitChildren)

struct libclang {
#define LIBCLANG_MEMBER(name) __typeof__ (&clang_##name)(name);
    LIBCLANG_FUNCTIONS(LIBCLANG_MEMBER)
#undef LIBCLANG_MEMBER
};

/* NULL: not available, and libclang_error() says why. Not thread-safe. */
const struct libclang *libclang(void);
const char *libclang_error(void);

/* 14 for 14.0.6; 0 when it is not available or has no version. */
int libclang_version(void);

#endif
