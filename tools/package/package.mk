# Packages. Included by the Makefile; docs/install.md says how to use them.
#
#   make deb        build/package/piano_VERSION-1_ARCH.deb, for this system and later ones
#   make tarball    build/package/piano-VERSION-linux-ARCH.tar.gz, for glibc 2.31 and later
#   make wheel      build/package/piano-VERSION-cp311-abi3-manylinux_2_31_ARCH.whl
#   make packages   all three, for glibc 2.31 and later
#
# IN=base builds in a Debian 11 chroot, which is made once in BASE_ROOT and needs root. IN=here uses the compiler and the
# libraries of this system: the packages then need its glibc. Without IN, `make deb` builds here, the others in the chroot.
# CROSS=aarch64-linux-gnu- makes packages for aarch64, in the chroot only.

PACKAGE_DIR := build/package
BASE_ROOT   ?= $(PACKAGE_DIR)/debian11
PACKAGE      = tools/package/build $(CROSS:%=--cross %) --base $(call quote,$(BASE_ROOT)) --out $(PACKAGE_DIR)
quote        = '$(subst ','\'',$(1))'

.PHONY: deb tarball wheel packages install-cmake
deb: $(VIEWER)
	@$(PACKAGE) --in $(or $(IN),here) deb
tarball: $(VIEWER)
	@$(PACKAGE) --in $(or $(IN),base) tarball
wheel: $(VIEWER)
	@$(PACKAGE) --in $(or $(IN),base) wheel
packages: $(VIEWER)
	@$(PACKAGE) --in $(or $(IN),base) deb tarball wheel

# find_package(piano): the files find the rest of an installed piano from where they are.
install: install-cmake
CMAKE_DIR = $(call quote,$(DESTDIR)$(PREFIX)/lib/cmake/piano)
install-cmake:
	install -d $(CMAKE_DIR)
	install -m 644 tools/cmake/pianoConfig.cmake tools/cmake/PianoProfile.cmake $(CMAKE_DIR)
	sed 's|@VERSION@|$(VERSION)|' tools/cmake/pianoConfigVersion.cmake.in > $(CMAKE_DIR)/pianoConfigVersion.cmake
