/* libclang, loaded when it is first asked for. */
#ifndef PIANO_TOOL_BUILD_LIBCLANG_H
#define PIANO_TOOL_BUILD_LIBCLANG_H

#include <clang-c/Index.h>

/* What piano calls, without the `clang_` in front. */
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

/* NULL: it is not here, and libclang_error() says why. Not for two threads at once. */
const struct libclang *libclang(void);
const char *libclang_error(void);

/* 14 of 14.0.6; 0 when it is not here or does not say. */
int libclang_version(void);

#endif
