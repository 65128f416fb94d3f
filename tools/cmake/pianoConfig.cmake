# find_package(piano) gives:
#   piano::piano                    the library and piano.h, for programs that call piano themselves
#   piano_profile(TARGET ...)       builds a target with chosen functions instrumented
#   PIANO_EXECUTABLE                the tool
# All paths are relative to this file, so that an installed piano can be moved.
get_filename_component(_piano_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
set(PIANO_EXECUTABLE "${_piano_prefix}/bin/piano")
set(PIANO_LIBRARY_DIR "${_piano_prefix}/lib/piano")
foreach(_piano_file IN ITEMS "${PIANO_EXECUTABLE}" "${PIANO_LIBRARY_DIR}/libpiano.so" "${_piano_prefix}/include/piano.h")
  if(NOT EXISTS "${_piano_file}")
    set(piano_FOUND FALSE)
    set(piano_NOT_FOUND_MESSAGE "${_piano_file} is missing: install piano again")
    return()
  endif()
endforeach()

# The loader splits run paths at colons. piano_profile() links through another path, as `piano build` does.
if(PIANO_LIBRARY_DIR MATCHES ":")
  message(WARNING "programs that are linked with piano::piano will not find libpiano.so, because the path of piano has a "
    "colon in it: ${PIANO_LIBRARY_DIR}. Install piano to a directory without one, or set LD_PRELOAD to a link to the library.")
endif()

if(NOT TARGET piano::piano)
  add_library(piano::piano SHARED IMPORTED)
  set_target_properties(piano::piano PROPERTIES
    IMPORTED_LOCATION "${PIANO_LIBRARY_DIR}/libpiano.so"
    IMPORTED_SONAME libpiano.so
    INTERFACE_INCLUDE_DIRECTORIES "${_piano_prefix}/include")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/PianoProfile.cmake")
