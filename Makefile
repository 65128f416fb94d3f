# piano: one non-recursive makefile.
#
#   make              build/piano and build/lib/
#   make demo         set up, build, profile the bundled game, print its reports
#   make demo-rust    the same with the game in Rust
#   make python       build/python/: the package, for PYTHONPATH
#   make test         set up, then run all tests (tests/run)
#   make install      PREFIX=/usr/local, DESTDIR=; `make uninstall` with the same values removes it
#   make SAN=address  the same products under build/san-address/ (address, undefined, thread)
#   make CROSS=aarch64-linux-gnu-   the same products for another machine, under build/aarch64/
#   make CC=clang syntax B=DIR      what a compiler says about all sources, without compiling them; tools/check-clang
#
# Sources are found by wildcard: a new file in a room is built with that room.

CROSS    ?=
ifneq ($(CROSS),)
# Libraries of the other machine: `tools/setup cross` puts them into .sysroot/. Otherwise the compiler's default applies.
SYSROOT  ?= $(wildcard .sysroot/$(CROSS:%-=%))
CC       := $(CROSS)gcc$(if $(SYSROOT), --sysroot=$(SYSROOT))
AR       := $(CROSS)ar
OBJCOPY  := $(CROSS)objcopy
endif
CC       ?= cc
OBJCOPY  ?= objcopy
SAN      ?=
CFLAGS   ?= $(if $(SAN),-O1 -g1,-O2 -g)
PREFIX   ?= /usr/local
VERSION  := $(file <VERSION)
# The directory of clang-c/Index.h: Debian's newest LLVM, or the compiler's search path (Fedora, Arch).
LLVM     ?= $(patsubst %/include/clang-c/Index.h,%,$(lastword $(shell \
              ls -v /usr/lib/llvm-*/include/clang-c/Index.h /usr/lib64/llvm*/include/clang-c/Index.h 2>/dev/null)))
B        := build$(if $(CROSS),/$(firstword $(subst -, ,$(CROSS))))$(if $(SAN),/san-$(SAN))

# One build has both AddressSanitizer and UndefinedBehaviorSanitizer.
SAN_FLAGS_address   := -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_FLAGS_undefined := -fsanitize=undefined -fno-sanitize-recover=all
SAN_FLAGS_thread     = -fsanitize=thread $(if $(IS_CLANG),,-Wno-tsan)
ifneq ($(SAN),)
ifeq ($(SAN_FLAGS_$(SAN)),)
$(error SAN=$(SAN): want address, undefined or thread)
endif
endif

WARN := -Wall -Wextra -Wshadow -Wvla -Wundef -Wformat=2 -Wstrict-prototypes \
        -Wmissing-prototypes -Wcast-qual -Wwrite-strings
# clang lacks some attributes and warnings of gcc, and warns about other things.
IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
WARN += $(if $(IS_CLANG),-Wno-unknown-attributes -Wno-unknown-warning-option -Wno-gnu-variable-sized-type-not-at-end)
# Warnings are errors in CI and in the builds that only tests make.
STRICT := $(if $(filter true,$(CI))$(SAN),-Werror)
BASE   := -std=gnu11 -D_GNU_SOURCE -DPIANO_VERSION='"$(VERSION)"' -Isrc -Iinclude $(WARN) $(STRICT) -MMD -MP

TOOL_FLAGS   := $(BASE) $(LLVM:%=-isystem %/include) -Wa,-Isrc,-Ibuild/viewer -pthread
# No vectors for two neighbouring counters, because each must change with one instruction (target/span/span.c).
# No stack protector, which Ubuntu's compilers enable: it reads its value from thread-local storage, and the watcher
# thread (span/watch.c) has none. No _FORTIFY_SOURCE, because it ends the program with a message.
TARGET_FLAGS := $(BASE) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-stack-protector -U_FORTIFY_SOURCE \
                -fno-omit-frame-pointer -fno-tree-slp-vectorize -fno-math-errno -pthread
# -ldl and -lrt are parts of libc since glibc 2.34.
TOOL_LIBS    := -ldw -lelf -lz -lstdc++ -lm -ldl -lrt -pthread
# Libraries for other programs cannot contain ASan or TSan, because an ASan library refuses to load into
# a plain program. They get UBSan; unit tests check their tables with all three.
LOADED_SAN   := $(if $(filter address undefined,$(SAN)),$(SAN_FLAGS_undefined))

# Plain `make` uses all processors. -jN on the command line takes precedence; MAKEFLAGS of the environment or of a
# calling make are checked here.
ifeq ($(MAKELEVEL)$(findstring j,$(shell printf %s "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# MAKEFLAGS without the number of jobs, for scripts that start another make.
alone = MAKEFLAGS='$(filter-out -j% --jobserver-%,$(MAKEFLAGS))'

# `make V=1` shows whole commands, `make -s` nothing, `make PROGRESS=short` one counting line (only the last one in a pipe).
# `step` counts: make expands recipes one by one, also with -j. In an incremental build the total is unknown.
Q      := $(if $(V),,@)
silent  = $(V)$(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say     = @$(if $(silent)$(PROGRESS),:,printf '  %-4s %s\n' $(1))
count   = $(eval STEPS += x)$(words $(STEPS))
of      = $(if $(word $(words $(STEPS)),$(MISSING)),$(1)$(words $(MISSING)))
step    = @$(if $(silent),:,$(if $(PROGRESS),$(call short,$(count)),printf '  [%3s%s] %-4s %s\n' $(count) '$(call of,/)' $(1)))
short   = if [ -t 2 ]; then printf '\r  compiled %s%s files\r' $(1) '$(call of, of )' >&2; \
          elif [ $(1) -eq $(words $(MISSING)) ]; then echo '  compiled $(1) files' >&2; fi

find_c = $(sort $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c))

COMMON_SRC  := $(call find_c,src/common)
EXEC_SRC    := src/tool/build/exec_hook.c src/tool/build/exec_image.c
MAIN_SRC    := src/tool/cli/main.c
TOOL_SRC    := $(filter-out $(EXEC_SRC),$(call find_c,src/tool))
WRAP_SRC    := src/target/preload/wrap.c
STUB_SRC    := src/target/preload/stub.c
TARGET_SRC  := $(filter-out $(WRAP_SRC) $(STUB_SRC),$(call find_c,src/target))
PRELOAD_SRC := $(filter src/target/preload/%,$(TARGET_SRC))
# tests/unit mirrors src: the tests of src/tool/load are in tests/unit/tool/load.
TEST_SRC    := $(sort $(wildcard $(addsuffix /test_*.c,tests/unit tests/unit/* tests/unit/*/*)))

# obj/tool: for the tool. obj/loaded: position-independent, for the libraries. obj/unit: the same
# sources as the libraries, with every sanitizer, for unit tests. PIANO_CHECK: src/target/sys/check.h.
TOOL_OBJ    := $(patsubst src/%.c,$(B)/obj/tool/%.o,$(TOOL_SRC) $(COMMON_SRC))
TARGET_OBJ  := $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(TARGET_SRC) $(COMMON_SRC))
STATIC_OBJ  := $(filter-out $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(PRELOAD_SRC)),$(TARGET_OBJ))
UNIT_OBJ    := $(patsubst src/%.c,$(B)/obj/unit/%.o,$(filter-out $(PRELOAD_SRC),$(TARGET_SRC)))
UNIT_LIB    := $(B)/tests/libunder_test.a
TESTS       := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRC))

# The reader of Rust sources, if there is cargo.
RUST_SRC    := $(wildcard src/rust/Cargo.* src/rust/src/*.rs)
CARGO       := $(if $(CROSS)$(SAN),,$(shell command -v cargo 2>/dev/null))

LIBS := $(B)/lib/libpiano.so $(B)/lib/libpiano.a \
        $(if $(CARGO),$(B)/lib/piano-rust.made) \
        $(if $(wildcard $(WRAP_SRC)),$(B)/lib/piano_wrap.o) \
        $(B)/lib/piano_stub.o \
        $(if $(wildcard $(EXEC_SRC)),$(B)/lib/libpiano_exec.so)
MANS := $(patsubst docs/%.md,$(B)/man/piano-%.1,\
          $(wildcard $(patsubst src/tool/cli/cmd_%.c,docs/%.md,$(wildcard src/tool/cli/cmd_*.c))))

MISSING := $(filter-out $(wildcard $(B)/obj/*/*/*.o $(B)/obj/*/*/*/*.o $(B)/obj/*/*/*/*/*.o),\
             $(TOOL_OBJ) $(TARGET_OBJ) $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(wildcard $(WRAP_SRC) $(STUB_SRC) $(EXEC_SRC))))

.PHONY: all python demo demo-rust test bench install uninstall format lint clean setup unit-tests man
.PHONY: check-layers check-headers check-refs check-orders check-exports check-format check-clang check-install check-demo check-demo-rust
.PHONY: need-libclang viewer-prebuilt syntax
.DELETE_ON_ERROR:
.SECONDARY:

all: $(if $(wildcard $(MAIN_SRC)),$(B)/piano) $(LIBS)

# Links ASan statically into the tool, because the library would have to come before those that tests preload.
$(B)/piano: $(TOOL_OBJ)
	$(call say,LINK $@)
	$(Q)$(CC) $(CFLAGS) $(SAN_FLAGS_$(SAN)) $(if $(filter address,$(SAN)),$(if $(IS_CLANG),,-static-libasan)) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

EXPORTS := $(wildcard src/target/exports.map)
$(B)/lib/libpiano.so: $(TARGET_OBJ) $(EXPORTS)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) $(CFLAGS) $(LOADED_SAN) $(LDFLAGS) -shared -Wl,-soname,libpiano.so \
	    -Wl,-z,nodelete -Wl,-z,now -Wl,-Bsymbolic-functions $(EXPORTS:%=-Wl,--version-script=%) -o $@ $(TARGET_OBJ) -ldl -pthread

$(B)/lib/libpiano.a: $(STATIC_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR $@)
	$(Q)$(AR) rcs $@ $^

# Weak, because in a static program with its own malloc these symbols would pull in libc's too. If the
# program calls libc's functions, they are linked anyway.
WEAK_REALS := posix_memalign aligned_alloc memalign valloc pvalloc
$(B)/lib/piano_wrap.o: $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(WRAP_SRC)) Makefile
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) $(WEAK_REALS:%=--weaken-symbol=__real_%) $< $@

$(B)/lib/piano_stub.o: $(B)/obj/loaded/target/preload/stub.o
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(B)/lib/libpiano_exec.so: $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(EXEC_SRC))
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) $(CFLAGS) $(LOADED_SAN) $(LDFLAGS) -shared -Wl,-soname,libpiano_exec.so -o $@ $^ -ldl

# Without the registry and the crates in cargo's cache, piano is built without piano-rust. `piano build` then reports what
# a Cargo project needs.
$(B)/lib/piano-rust.made: $(RUST_SRC)
	@mkdir -p $(@D)
	$(call say,RUST $(B)/lib/piano-rust)
	$(Q)if CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=15 CARGO_TARGET_DIR=$(call quoted,$(CURDIR)/$(B)/rust) $(CARGO) build --quiet --release --locked --manifest-path src/rust/Cargo.toml; \
	then cp $(B)/rust/release/piano-rust $(B)/lib/piano-rust.new && mv $(B)/lib/piano-rust.new $(B)/lib/piano-rust; \
	else echo "piano: piano-rust could not be built, so \`piano build\` will not work in Cargo projects; to try again:" \
	    "rm $@ && make" >&2; fi; touch $@

$(B)/obj/tool/%.o: src/%.c Makefile | need-libclang
	@mkdir -p $(@D)
	$(call step,CC $<)
	$(Q)$(CC) $(CFLAGS) $(SAN_FLAGS_$(SAN)) $(TOOL_FLAGS) $(WRAP_SUMS) -c $< -o $@

$(B)/obj/loaded/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	$(call step,CC $<)
	$(Q)$(CC) $(CFLAGS) $(LOADED_SAN) $(if $(SAN),-DPIANO_CHECK) $(TARGET_FLAGS) $(WRAP_SUMS) -c $< -o $@

$(B)/obj/unit/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS) $(SAN_FLAGS_$(SAN)) -DPIANO_CHECK $(TARGET_FLAGS) $(WRAP_SUMS) -c $< -o $@

# Checks each source with the flags it is compiled with. A stamp per file avoids checking it again.
SYNTAX := $(patsubst $(B)/obj/%.o,$(B)/syntax/%.ok,$(TOOL_OBJ) $(TARGET_OBJ) \
            $(patsubst src/%.c,$(B)/obj/loaded/%.o,$(wildcard $(WRAP_SRC) $(STUB_SRC) $(EXEC_SRC))))
syntax: $(SYNTAX)
define syntax_rule
$(B)/syntax/$(1)/%.ok: src/%.c Makefile
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$($(2)) $$(if $$(IS_CLANG),-Qunused-arguments) -MF $$@.d -MT $$@ -fsyntax-only $$<
	@touch $$@
endef
$(eval $(call syntax_rule,tool,TOOL_FLAGS))
$(eval $(call syntax_rule,loaded,TARGET_FLAGS))

# Numbers in a torn or hostile image may overflow when added: -fwrapv makes the sums wrap.
$(B)/obj/tool/common/%.o $(B)/obj/loaded/common/%.o $(B)/obj/unit/common/%.o: WRAP_SUMS := -fwrapv

# Guards exist only for their cleanup, which clang does not count as a use.
$(foreach o,loaded unit,$(B)/obj/$(o)/target/span/calibrate.o) $(B)/syntax/loaded/target/span/calibrate.ok: TARGET_FLAGS += $(if $(IS_CLANG),-Wno-unused-variable)

# The version is only in the file VERSION.
$(foreach o,tool/tool/cli/main tool/tool/view/packer loaded/target/span/public unit/target/span/public,$(B)/obj/$(o).o): VERSION

# probe.h is embedded with .incbin, which -MMD does not see.
$(filter $(B)/obj/tool/tool/build/%,$(TOOL_OBJ)): src/common/probe.h src/common/probe.rs

# The viewer of `piano view`: one script and one style, also embedded with .incbin. esbuild writes the style if the
# script imports it.
VIEWER := build/viewer/viewer.js build/viewer/viewer.css
VIEWER_SRC := $(sort $(wildcard viewer/src/*.ts viewer/src/*.css viewer/src/*/*.ts viewer/src/*/*.css))
$(B)/obj/tool/tool/view/assets.o: $(VIEWER)
$(VIEWER) &: $(VIEWER_SRC) src/tool/view/tables.def Makefile tools/build-viewer
	$(call say,JS build/viewer/viewer.js)
	$(Q)tools/build-viewer build/viewer

# For machines without esbuild. Run and commit it with each change of viewer/src or src/tool/view/tables.def.
viewer-prebuilt:
	tools/build-viewer --prebuilt

# Prints a clear message instead of the compiler's error about a missing header.
need-libclang:
	@echo '#include <clang-c/Index.h>' | $(CC) $(LLVM:%=-isystem %/include) -fsyntax-only -xc - 2>/dev/null || { \
	    echo "piano: the headers of libclang are not installed; type \`make setup\` to install what is missing" >&2; \
	    exit 1; }

# Unit tests link with one archive of the whole tool and of the runtime without its interposers, so a
# test contains only what it uses.
unit-tests: $(TESTS)

$(UNIT_LIB): $(filter-out %/cli/main.o,$(TOOL_OBJ)) $(UNIT_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR $@)
	$(Q)$(AR) rcs $@ $^

$(B)/tests/%: tests/%.c $(UNIT_LIB) Makefile
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS) $(SAN_FLAGS_$(SAN)) -DPIANO_CHECK $(TOOL_FLAGS) -MF $@.d -Itests/unit -o $@ $< $(UNIT_LIB) \
	    -lcmocka $(TOOL_LIBS)

# The Python package for PYTHONPATH=build/python; `pip install ./python` builds the same. Only this target needs Python's
# headers.
PYTHON   ?= $(firstword $(wildcard /usr/bin/python3) python3)
PY_FILES := $(foreach e,py pyi typed,$(wildcard python/piano/*.$(e) python/piano/*/*.$(e)))
python: $(PY_FILES:%=$(B)/%) $(B)/python/piano/_memprof.abi3.so $(B)/python/piano/libpiano.so

$(B)/python/%: python/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(B)/python/piano/libpiano.so: $(B)/lib/libpiano.so
	@mkdir -p $(@D)
	$(Q)cp $< $@.new && mv $@.new $@

$(B)/python/piano/_memprof.abi3.so: python/piano/_memprof.c include/piano.h VERSION Makefile
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)headers=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))') && \
	    { test -e "$$headers/Python.h" || { \
	    echo "piano: the headers of $(PYTHON) are missing: install python3-dev" >&2; exit 1; }; } && \
	    $(CC) $(CFLAGS) -std=gnu11 -fPIC -shared $(WARN) $(STRICT) -Wno-undef -Iinclude -isystem "$$headers" \
	    -DPy_LIMITED_API=0x030b0000 -DPIANO_VERSION='"$(VERSION)"' -o $@ $< -ldl

setup:
	@tools/setup build

demo demo-rust:
	@tools/setup build
	@$(MAKE) --no-print-directory PROGRESS=short all
	@tools/demo$(@:demo%=$(subst -, ,%))

test:
	@tools/setup test
	@$(alone) tests/run $(TESTFLAGS)

bench:
	@if [ -x bench/run ]; then tools/setup bench && $(MAKE) -s all && $(alone) bench/run $(BENCHFLAGS); \
	else echo "piano: there is no bench/run"; fi

C_FILES := $(shell find src include tests bench examples -name '*.[ch]' -not -path '*/.piano/*' \
             -not -path '*/work/*' -not -path src/common/probe.h)
format:
	clang-format-14 -i $(C_FILES)

# One stamp per file, so that only changed files are checked again. The analyzer stays within a
# function (shallow): across functions it takes four times as long, and clang 14 sometimes crashes.
SHALLOW := $(addprefix --extra-arg=,-Xclang -analyzer-config -Xclang mode=shallow)
LINT_SRC := $(COMMON_SRC) $(TOOL_SRC) $(TARGET_SRC) $(wildcard $(EXEC_SRC) $(WRAP_SRC) $(STUB_SRC)) $(TEST_SRC)
lint: $(LINT_SRC:%.c=build/lint/%.ok)
build/lint/%.ok: %.c $(filter %.h,$(C_FILES)) .clang-tidy tests/.clang-tidy
	@mkdir -p $(@D)
	$(call say,LINT $<)
	$(Q)clang-tidy-14 --quiet $(SHALLOW) $< -- -std=gnu11 -D_GNU_SOURCE -DPIANO_CHECK -Isrc -Iinclude -Itests/unit \
	    $(LLVM:%=-isystem %/include) -DPIANO_VERSION='""' >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@

check-layers check-headers check-refs check-orders check-exports check-format check-clang check-install check-demo check-demo-rust:
	@$(alone) tools/$@

man: $(MANS) $(B)/man/piano.1

$(B)/man/piano-%.1: docs/%.md tools/md2man VERSION
	@mkdir -p $(@D)
	$(Q)tools/md2man piano-$* $(VERSION) < $< > $@

$(B)/man/piano.1: docs/piano.md tools/md2man VERSION
	@mkdir -p $(@D)
	$(Q)tools/md2man piano $(VERSION) < $< > $@

# Quotes a value as one word for the shell, such as PREFIX="/opt/my tools". make requires $ to be doubled.
quoted = '$(subst ','\'',$(1))'
D = $(call quoted,$(DESTDIR)$(PREFIX))
install: all man
	install -d $(D)/bin $(D)/lib/piano $(D)/lib/pkgconfig $(D)/include $(D)/share/man/man1 \
	    $(D)/share/bash-completion/completions $(D)/share/zsh/site-functions \
	    $(D)/share/fish/vendor_completions.d $(D)/share/doc/piano/images
	install -m 755 $(B)/piano $(D)/bin/piano
	install -m 755 $(filter %.so,$(LIBS)) $(D)/lib/piano
	install -m 644 $(filter-out %.so %.made,$(LIBS)) $(D)/lib/piano
	if [ -e $(B)/lib/piano-rust ]; then install -m 755 $(B)/lib/piano-rust $(D)/lib/piano; fi
	install -m 644 include/piano.h $(D)/include/piano.h
	tools/fill-pc $(call quoted,$(PREFIX)) $(VERSION) < tools/piano.pc.in > $(D)/lib/pkgconfig/piano.pc
	install -m 644 $(B)/man/*.1 $(D)/share/man/man1
	install -m 644 tools/completion/piano.bash $(D)/share/bash-completion/completions/piano
	install -m 644 tools/completion/_piano $(D)/share/zsh/site-functions/_piano
	install -m 644 tools/completion/piano.fish $(D)/share/fish/vendor_completions.d/piano.fish
	install -m 644 docs/*.md LICENSE $(D)/share/doc/piano
	install -m 644 docs/images/*.png $(D)/share/doc/piano/images
	$(if $(findstring :,$(PREFIX)),$(COLON_NOTE))

# The tool makes links for the programs that it builds and runs. A run path in piano.pc cannot name one.
COLON_NOTE = @echo 'note: PREFIX has a colon in it, at which the loader splits paths. piano works there, but programs that are' \
    'linked with libpiano.so through pkg-config or CMake will not find it. Choose another PREFIX for them.' >&2

# Removes exactly the files of `make install`.
uninstall: all man
	@tools/uninstall $(call quoted,$(DESTDIR)) $(call quoted,$(PREFIX))

clean:
	rm -rf build

include tools/package/package.mk

-include $(patsubst %.o,%.d,$(TOOL_OBJ) $(TARGET_OBJ) $(UNIT_OBJ)) $(addsuffix .d,$(TESTS) $(SYNTAX)) \
    $(patsubst src/%.c,$(B)/obj/loaded/%.d,$(WRAP_SRC) $(STUB_SRC) $(EXEC_SRC))
