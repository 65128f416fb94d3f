/* Which frame of a stack is the one to blame for an allocation: the same rule as the tables of
 * `piano report --heap` have (docs/heap.md). Frames in the C library and its like, in namespace std, and of
 * malloc's family are plumbing; so are wrappers that are known by name. Beneath them is the site.
 */

const MODULES = ["libc.so", "libc-", "libc.musl", "ld-linux", "ld-musl", "libstdc++.so", "libc++.so",
  "libc++abi", "libgcc_s", "libpthread", "libpiano.so", "libjemalloc", "libtcmalloc", "libmimalloc", "libdl",
  "libsupc++"];

const FUNCTIONS = new Set(["malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc",
  "memalign", "valloc", "pvalloc", "strdup", "strndup", "__strdup", "__strndup", "wcsdup", "asprintf",
  "vasprintf", "__asprintf", "__vasprintf", "__libc_malloc", "getdelim", "getline", "__getdelim",
  "open_memstream", "realpath", "mmap", "mmap64", "__mmap", "__libc_calloc", "__libc_realloc", "_start"]);

const PREFIXES = ["std::", "__gnu_cxx::", "__cxxabiv1::", "operator new"];

const WRAPPERS = ["xmalloc", "xcalloc", "xzalloc", "xrealloc", "xreallocarray", "xnmalloc", "xnrealloc",
  "x2realloc", "x2nrealloc", "xpalloc", "xmemdup*", "xstrdup", "xstrndup", "xcharalloc", "ximalloc",
  "xirealloc", "ximemdup*", "xasprintf", "xvasprintf", "g_malloc*", "g_try_malloc*", "g_realloc*",
  "g_try_realloc*", "g_slice_alloc*", "g_strdup*", "g_strndup", "g_memdup*", "sqlite3Malloc*",
  "sqlite3_malloc*", "sqlite3MemMalloc", "sqlite3MemRealloc", "sqlite3Realloc*", "sqlite3_realloc*",
  "sqlite3DbMalloc*", "sqlite3DbRealloc*", "sqlite3DbStr*Dup", "mallocWithAlarm", "dbMallocRawFinish",
  "dbReallocFinish", "jv_mem_*", "CRYPTO_malloc", "CRYPTO_zalloc", "CRYPTO_calloc", "CRYPTO_realloc*",
  "CRYPTO_clear_realloc", "CRYPTO_strdup", "CRYPTO_strndup", "CRYPTO_memdup", "PyMem_*", "_PyMem_*",
  "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc",
  "_PyObject_Realloc", "pymalloc_alloc", "zmalloc*", "zcalloc*", "zrealloc*", "ztrymalloc*", "ztrycalloc*",
  "ztryrealloc*", "uv__malloc", "uv__calloc", "uv__realloc*", "uv__strdup", "ngx_alloc", "ngx_calloc",
  "ngx_memalign", "av_malloc*", "av_realloc*", "objspace_xmalloc*", "ruby_xmalloc*", "ruby_xrealloc*"];

const WRAPPER = new RegExp(`^(?:${WRAPPERS.map((name) => name.replace(/\*/g, ".*")).join("|")})$`, "s");

/** A demangled name is looked at no further than this. */
const LONGEST = 1000;

/** The name without the return type that instances of templates have before it. */
function qualified(name: string): string {
  let start = 0, depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    if (depth === 0 && c === "o" && name.startsWith("operator", i)) break;
    if (c === "<" || c === "{") depth++;
    else if ((c === ">" || c === "}") && depth > 0) depth--;
    else if (c === "(" && depth === 0 && !name.startsWith("(anonymous", i)) break;
    else if (c === " " && depth === 0 && !name.startsWith(" namespace)", i)) start = i + 1;
  }
  while (name[start] === "*" || name[start] === "&") start++;
  return name.slice(start);
}

export function isPlumbing(name: string, module: string): boolean {
  if (MODULES.some((prefix) => module.startsWith(prefix))) return true;
  if (FUNCTIONS.has(name)) return true;
  const own = qualified(name.slice(0, LONGEST));
  return PREFIXES.some((prefix) => own.startsWith(prefix));
}

export function isWrapper(name: string): boolean {
  return name.length < LONGEST && WRAPPER.test(name);
}

/** 0: counts, 1: a wrapper, 2: plumbing. */
export type Role = 0 | 1 | 2;

export function roleOf(name: string, module: string): Role {
  return isPlumbing(name, module) ? 2 : isWrapper(name) ? 1 : 0;
}

/** The site and its caller in a stack, innermost frame first: indices; caller -1 when there is none.
 * SAME tells whether two frames are of one function. */
export function siteOf(roles: readonly Role[], same: (a: number, b: number) => boolean):
  { site: number; caller: number } {
  let site = roles.indexOf(0);
  if (site < 0) site = roles.indexOf(1);
  if (site < 0) site = 0;
  let caller = site + 1;
  while (caller < roles.length && (roles[caller] !== 0 || same(caller, site))) caller++;
  return { site, caller: caller < roles.length ? caller : -1 };
}
